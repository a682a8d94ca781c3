"""AI background jobs that are never lost, never run twice in effect, and never stay "thinking" for ever."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aijobs.services.jobs import Jobs

__all__ = ["Jobs", "__version__"]
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Import the API on first use, so that `import aijobs` costs the command line nothing."""
    if name == "Jobs":
        from aijobs.services.jobs import Jobs

        return Jobs
    raise AttributeError(f"module 'aijobs' has no attribute {name!r}")
