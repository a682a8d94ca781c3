"""Taking jobs in: one job a (user, type, key), whoever asks, how often, and at the same instant."""

from collections.abc import Sequence
from datetime import datetime

from aijobs.core.clock import Chance
from aijobs.core.errors import BacklogFull, KeyConflict, KeyOwnerEnded
from aijobs.core.ids import new_id
from aijobs.core.model import Job, NewJob, Status
from aijobs.services.coordinator.backlog import Backlog
from aijobs.services.coordinator.values import Enqueued
from aijobs.store import claims, history, intake, jobs, moves, wake
from aijobs.store.engine import Tx

Admitted = Enqueued | KeyConflict | KeyOwnerEnded | BacklogFull

MANY = 100
"""From so many jobs on, they are written in bulk."""

_KEYS_AT_ONCE = 500
_Key = tuple[str, str, str]


class RefusedError(Exception):
    """Rolls back a batch of which one job was refused; carries the answers out of the transaction."""

    def __init__(self, answers: list[Admitted]) -> None:
        super().__init__("refused")
        self.answers = answers


def admit_new(
    tx: Tx, wanted: Sequence[NewJob], *, backlog: Backlog, now: datetime, chance: Chance, actor: str
) -> list[Admitted]:
    """Create one job on the guess that its key is new.

    No answer, and nothing written, where `admit` has to look: at more than one job, at a key that is known,
    at a cap on the backlog.
    """
    if len(wanted) != 1 or backlog.capped(wanted):
        return []
    (new,) = wanted
    job = _job(new, now, chance, actor)
    return [Enqueued(job=job)] if intake.create_one(tx, job, new.payload, due=_due(job, now)) else []


def admit(
    tx: Tx, wanted: Sequence[NewJob], *, backlog: Backlog, now: datetime, chance: Chance, actor: str
) -> list[Admitted]:
    """Create what is new, find what is known; one answer a request, in order.

    The unique index decides who is first; this function only makes the loser's answer a good one. A key that
    is known is answered even where the backlog is full.
    """
    if len(wanted) >= MANY and not backlog.capped(wanted):
        answers = _all_new(tx, wanted, now=now, chance=chance, actor=actor)
        if answers is not None:
            return answers
    owners = _owners(tx, [_key(new) for new in wanted if new.key is not None], now)
    refused: dict[int, BacklogFull] = {}
    created: dict[int, Job] = {}
    first: dict[_Key, int] = {}
    for index, new in enumerate(wanted):
        if new.key is not None and (_key(new) in owners or _key(new) in first):
            continue
        if full := backlog.take(new):
            refused[index] = full
            continue
        if new.key is not None:
            first[_key(new)] = index
        created[index] = _job(new, now, chance, actor)
    beaten = _create(tx, [(job, wanted[index]) for index, job in created.items()], now)
    for key in beaten:
        del created[first[key]]
    owners |= beaten
    owners |= {key: created[index] for key, index in first.items() if index in created}
    return [
        Enqueued(job=created[index])
        if index in created
        else refused.get(index) or _known(tx, owners[_key(new)], new)
        for index, new in enumerate(wanted)
    ]


def _all_new(
    tx: Tx, wanted: Sequence[NewJob], *, now: datetime, chance: Chance, actor: str
) -> list[Admitted] | None:
    """Create many jobs at once on the guess that every key is new; None, and nothing written, if not."""
    keys = [_key(new) for new in wanted if new.key is not None]
    if len(set(keys)) < len(keys):
        return None
    turns = claims.Turns(tx)
    made = [_job(new, now, chance, actor) for new in wanted]
    rows = [(job, _turn(job, turns, now), new.payload) for job, new in zip(made, wanted, strict=True)]
    rows.sort(key=lambda row: (row[0].user, row[0].type, row[0].key or ""))
    if not intake.create_all(tx, rows):
        return None
    wake.notify(tx)  # of delayed jobs too: an idle worker must know when to look
    return [Enqueued(job=job) for job in made]


def _owners(tx: Tx, keys: Sequence[_Key], now: datetime) -> dict[_Key, Job]:
    """The jobs that hold *keys*; keys that have outlived their time are freed on the way."""
    found: dict[_Key, Job] = {}
    for start in range(0, len(keys), _KEYS_AT_ONCE):
        found |= jobs.by_key(tx, keys[start : start + _KEYS_AT_ONCE])
    stale = {key: job for key, job in found.items() if job.key_expires_at and job.key_expires_at <= now}
    if stale:
        moves.release_keys(tx, [job.id for job in stale.values()], now)
    return {key: job for key, job in found.items() if key not in stale}


def _create(tx: Tx, new: Sequence[tuple[Job, NewJob]], now: datetime) -> dict[_Key, Job]:
    """Insert jobs with their inputs; the keys that another transaction took first, with their jobs.

    Keyed jobs go in the order of their keys: two imports of the same lines then wait for one another instead
    of deadlocking.
    """
    if not new:
        return {}
    turns = claims.Turns(tx)
    rows = [_row(job, turns, now) for job, _ in new]
    wake.notify(tx)  # of delayed jobs too: an idle worker must know when to look
    rows.sort(key=lambda row: (row["user"], row["type"], row["key"] or ""))
    beaten: dict[_Key, Job] = {}
    if moves.create(tx, rows) < len(rows):
        keys = [(job.user, job.type, job.key) for job, _ in new if job.key is not None]
        ours = {job.id for job, _ in new}
        beaten = {key: job for key, job in _owners(tx, keys, now).items() if job.id not in ours}
    inputs = [{"job_id": job.id, "payload": asked.payload} for job, asked in new if _key(asked) not in beaten]
    if inputs:
        history.add_inputs(tx, inputs)
    return beaten


def _known(tx: Tx, owner: Job, new: NewJob) -> Admitted:
    if owner.input_hash != new.input_hash:
        return KeyConflict(
            f"key {new.key!r} belongs to job {owner.id} with another input",
            hint="use the key with the same input, or another key for another piece of work",
        )
    if owner.status in (Status.DEAD_LETTER, Status.CANCELLED):
        return KeyOwnerEnded(
            f"key {new.key!r} belongs to job {owner.id}, which is {owner.status}: nothing was enqueued",
            hint=_revive(owner),
        )
    result = jobs.result_of(tx, owner.id) if owner.status is Status.SUCCEEDED else None
    return Enqueued(job=owner, duplicate=True, result=result)


def _revive(owner: Job) -> str:
    if owner.status is Status.CANCELLED:
        return "a cancelled job stays cancelled: use another key"
    return f"see why with 'aijobs inspect {owner.id}', then 'aijobs retry {owner.id} --reason ...'"


def _key(new: NewJob) -> _Key:
    return (new.user, new.type, new.key or "")


def _job(new: NewJob, now: datetime, chance: Chance, actor: str) -> Job:
    return Job(
        id=new_id(now, chance), type=new.type, user=new.user, key=new.key, status=Status.PENDING,
        priority=new.priority, attempts=0, max_attempts=new.max_attempts, round=1, deferrals=0,
        next_run_at=new.run_at or now, locked_until=None, locked_by=None, lock_token=0, claimed_at=None,
        parked_at=None, hold_reason=None, cancel_requested_at=None, provider=None, model=None,
        provider_job_id=None, last_error_class=None, last_error_code=None, last_error_message=None,
        deadline=new.deadline, input_hash=new.input_hash, request_id=new.request_id,
        traceparent=new.traceparent, schedule=new.schedule, key_expires_at=new.key_expires_at,
        code_version=None, created_by=actor, created_at=now, updated_at=now, finished_at=None,
    )  # fmt: skip


def _row(job: Job, turns: claims.Turns, now: datetime) -> dict[str, object]:
    row: dict[str, object] = {column.key: getattr(job, column.key) for column in jobs.COLUMNS}
    row["status"] = job.status.value
    row["turn"] = _turn(job, turns, now)
    return row


def _turn(job: Job, turns: claims.Turns, now: datetime) -> int | None:
    return turns.next(job.type, job.user, job.priority) if _due(job, now) else None


def _due(job: Job, now: datetime) -> bool:
    return job.next_run_at is not None and job.next_run_at <= now
