"""Factories: jobs, settings and a coordinator with defaults, so that each test shows only what matters."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from aijobs.core.lifecycle import AttemptEnd, Failed, Succeeded
from aijobs.core.model import ErrorClass, Failure, Job, NewJob
from aijobs.core.payload import dump_json, input_hash
from aijobs.core.settings import Settings
from aijobs.services.coordinator import Claim, ClaimRequest, Coordinator, Ended, Finished
from aijobs.store import jobs
from aijobs.store.engine import Store

LEASE = timedelta(seconds=60)
PLAIN: dict[str, Any] = {
    "concurrency": {"global": None, "per_user": None},
    "providers": {"p": {"kind": "python", "callable": "builtins:str"}},
    "types": {"t": {"provider": "p"}},
}


def settings_of(**sections: Any) -> Settings:
    """Settings with one provider `p` and one type `t`, and the given sections instead of the plain ones."""
    return Settings.model_validate(PLAIN | sections)


def new_job(value: object = None, **changes: Any) -> NewJob:
    """A job of type `t`; *value* is its input."""
    given = {"n": 1} if value is None else value
    fields = {"type": "t", "payload": dump_json(given), "input_hash": input_hash(given)} | changes
    return NewJob(**fields)


def claim_some(
    coordinator: Coordinator, slots: int = 1, *, worker: str = "w1", **changes: Any
) -> list[Claim]:
    """What a worker with *slots* free slots gets."""
    return coordinator.claim(ClaimRequest(worker=worker, slots=slots, lease=LEASE, **changes))


def claim_one(coordinator: Coordinator, *, worker: str = "w1") -> Job:
    """The one job there is to claim."""
    (claim,) = claim_some(coordinator, worker=worker)
    return claim.job


def ended(job: Job, end: AttemptEnd, *, at: datetime | None = None, worker: str = "w1") -> Ended:
    """The end of an attempt of *job*."""
    return Ended(job=job, end=end, started_at=at or job.updated_at, worker=worker)


def succeed(coordinator: Coordinator, job: Job, result: str = '"done"') -> Finished:
    """Finish *job* well."""
    (answer,) = coordinator.finish([ended(job, Succeeded(result=result))])
    return answer


def failure(error_class: ErrorClass = ErrorClass.NETWORK, **changes: Any) -> Failure:
    """A failed call."""
    return Failure(**({"error_class": error_class, "code": "test", "message": "it failed"} | changes))


def fail(
    coordinator: Coordinator, job: Job, error_class: ErrorClass = ErrorClass.NETWORK, **changes: Any
) -> Finished:
    """Finish *job* badly."""
    (answer,) = coordinator.finish([ended(job, Failed(failure=failure(error_class, **changes)))])
    return answer


def present(store: Store, job_id: str) -> Job:
    """The job as the store has it now."""
    with store.read() as tx:
        job = jobs.get(tx, job_id)
    assert job is not None
    return job


def history(store: Store, job_id: str) -> list[Mapping[str, Any]]:
    """The attempts of a job, each as {attempt, outcome, ...}."""
    with store.read() as tx:
        return [
            {name: getattr(one, name) for name in one.__dataclass_fields__}
            for one in jobs.executions_of(tx, job_id)
        ]
