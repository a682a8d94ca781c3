"""Waiting for a job to end, by looking at its row."""

import threading
from datetime import timedelta

from aijobs.core.errors import no_job
from aijobs.core.model import Job
from aijobs.store import jobs
from aijobs.store.engine import Store

FIRST_PAUSE = 0.02
LONGEST_PAUSE = 1.0
"""Seconds between two looks: short at first, because many jobs take a moment, then longer and longer."""


def find(store: Store, job_id: str) -> Job:
    """The job of that id as it is now. Raises NotFound."""
    with store.read() as tx:
        job = jobs.get(tx, job_id)
    if job is None:
        raise no_job(job_id)
    return job


def wait_until_final(store: Store, job_id: str, *, timeout: timedelta | None = None) -> Job:
    """The job once nothing happens to it any more. Raises NotFound; TimeoutError after *timeout*."""
    clock = store.clock
    end = None if timeout is None else clock.monotonic() + timeout.total_seconds()
    pause = FIRST_PAUSE
    never = threading.Event()
    while not (job := find(store, job_id)).status.final:
        left = pause if end is None else min(pause, end - clock.monotonic())
        if left <= 0:
            raise TimeoutError(f"job {job_id} is still {job.status}")
        never.wait(left)
        pause = min(pause * 1.5, LONGEST_PAUSE)
    return job
