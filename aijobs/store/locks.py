"""Whether somebody keeps others from writing, as a process that was stopped may for as long as it sleeps."""

import contextlib
from collections.abc import Sequence

from sqlalchemy import bindparam, select

from aijobs.core.errors import StoreLocked
from aijobs.store import claims
from aijobs.store.engine import Store, open_store
from aijobs.store.tables import jobs

_JOBS = select(jobs.c.id).where(jobs.c.id.in_(bindparam("ids", expanding=True))).with_for_update()


def are_free(store: Store, job_ids: Sequence[str], *, wait: float) -> bool:
    """Whether another writer could claim, and change *job_ids*, within *wait* seconds. Raises StoreError."""
    with contextlib.closing(open_store(store.url, lock_wait=wait)) as other:
        try:
            with other.write() as tx:
                if other.dialect == "postgresql":
                    tx.exec_driver_sql(f"SET LOCAL lock_timeout = {int(wait * 1000)}")
                claims.lock(tx)
                tx.execute(_JOBS, {"ids": sorted(job_ids)})
        except StoreLocked:
            return False
    return True
