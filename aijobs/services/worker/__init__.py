"""The worker: claims jobs in batches, carries out each in its own time, and writes the ends together."""

from aijobs.services.worker.options import WorkerOptions, WorkerReport
from aijobs.services.worker.worker import Worker

__all__ = ["Worker", "WorkerOptions", "WorkerReport"]
