"""Replaying dead letters: a stored plan, its preview, and a run that is careful and can be stopped."""

from aijobs.services.replay.planner import Plan, PlannedGroup, Planner, Skipped
from aijobs.services.replay.runner import Outcome, Runner, RunReport

__all__ = ["Outcome", "Plan", "PlannedGroup", "Planner", "RunReport", "Runner", "Skipped"]
