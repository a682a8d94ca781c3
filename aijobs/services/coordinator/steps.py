"""Repairs in steps, each a transaction of its own, so that the work of others goes on beside a large one."""

from collections.abc import Callable

from aijobs.services.coordinator.values import Rescue

STEP = 100
"""Jobs that a repair moves at once: some 25 ms of work, in which nobody else writes to an SQLite store."""


def in_steps(limit: int, repair: Callable[[int], Rescue]) -> Rescue:
    """What *repair* comes to in all, called with at most STEP of *limit* until it finds less than asked for.

    What one call did stays when a later one raises.
    """
    parts: list[Rescue] = []
    for start in range(0, limit, STEP):
        size = min(STEP, limit - start)
        parts.append(repair(size))
        if parts[-1].found < size:
            break
    return Rescue(
        found=sum(part.found for part in parts),
        repaired=sum(part.repaired for part in parts),
        ids=tuple(job_id for part in parts for job_id in part.ids),
    )
