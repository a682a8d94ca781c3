"""The demonstration behind `aijobs demo`: a story on a temporary store, with a simulated provider."""

from aijobs.services.demo.setting import MODEL
from aijobs.services.demo.story import Demo, DemoReport, Fate, Provider, Step

__all__ = ["MODEL", "Demo", "DemoReport", "Fate", "Provider", "Step"]
