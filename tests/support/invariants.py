"""What must hold of a store at every moment, whoever was killed when: `violations` says what does not.

It reads one moment of the store and looks at nothing else, so it may be asked while workers are at work.
Everything follows from the promises: a job that was accepted is there, it has one final state and one result,
its history explains its present, and every total equals what can be counted.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from typing import Any

from sqlalchemy import Connection, select, text

from aijobs.core.settings import Settings
from aijobs.store.engine import Store
from aijobs.store.tables import jobs
from tests.support.invariants_facts import FINAL, Facts, Rows
from tests.support.invariants_totals import wrong_totals


def violations(
    store: Store, *, expected_ids: Collection[str] | None = None, settled: bool = False,
    pruned: bool = False, settings: Settings | None = None,
) -> list[str]:  # fmt: skip
    """Every promise the store breaks now, in words; an empty list is what should come back.

    *expected_ids*: jobs whose enqueueing was acknowledged, all of which must be there. *settled*: workers,
    sweeps and deliveries have had their time, so whatever is not final and waits for no person is stuck.
    *pruned*: retention has removed rows, so totals may be higher than what is left, and what was delivered
    may be gone. *settings*: with them the outbox is held against the targets that the job types name.
    """
    with store.read() as tx:
        facts = Facts.of(tx)
        broken = _broken_file(tx) if store.dialect == "sqlite" else []
    checks: list[Callable[[Facts], Iterable[str]]] = [
        _attempts, _results, _causes, _dead_letters, _events, _outbox, _effects, _replay_items, _deliveries,
        partial(_kept, pruned=pruned), partial(wrong_totals, pruned=pruned),
    ]  # fmt: skip
    if expected_ids is not None:
        checks.append(partial(_lost, expected=expected_ids))
    if settled:
        checks.append(_stuck)
    if settings is not None and not pruned:
        checks.append(partial(_untold, settings=settings))
    return broken + [found for check in checks for found in check(facts)]


def counted(store: Store) -> Counter[str]:
    """How many jobs are in each status, for tables of results."""
    with store.read() as tx:
        return Counter(tx.execute(select(jobs.c.status)).scalars())


def _broken_file(tx: Connection) -> list[str]:
    """What SQLite itself finds wrong: a damaged page, a row whose job is gone."""
    damage = [row[0] for row in tx.execute(text("PRAGMA quick_check")) if row[0] != "ok"]
    adrift = tx.execute(text("PRAGMA foreign_key_check"))
    return damage + [f"a row of {row[0]} without its {row[2]}" for row in adrift]


# --- One job ----------------------------------------------------------------------------------------


def _lost(facts: Facts, *, expected: Collection[str]) -> Iterator[str]:
    for job_id in expected:
        if job_id not in facts.jobs:
            yield f"job {job_id} was accepted and is lost"


def _attempts(facts: Facts) -> Iterator[str]:
    """Each claim has at most one record; the count on the job is the count of its records."""
    for job in facts.jobs.values():
        records = facts.executions.get(job.id, ())
        yield from _rounds(job, records)
        running = job.status == "processing"
        counts = sum(one.counted for one in records if one.round == job.round)
        if job.attempts != counts + running:
            yield f"job {job.id} ({job.status}): {job.attempts} attempts, but {counts} on record"
        granted = len(facts.events_of(job.id, "released", "adopted"))
        if job.attempts > job.max_attempts + granted:
            yield f"job {job.id}: {job.attempts} attempts of {job.max_attempts} allowed ({granted} granted)"
        last = records[-1].fence if records else 0
        if last > job.lock_token or (running and last == job.lock_token):
            yield f"job {job.id} ({job.status}): a record of fence {last}, and the job is at {job.lock_token}"


def _rounds(job: Any, records: Rows) -> Iterator[str]:
    """Counted attempts of every round are numbered 1, 2, 3 in the order of their fences."""
    numbers: dict[int, list[int]] = defaultdict(list)
    for one in records:
        if one.counted:
            numbers[one.round].append(one.attempt)
    for number, found in numbers.items():
        if found != list(range(1, len(found) + 1)):
            yield f"job {job.id}: round {number} has the attempts {found}"
    if [one.round for one in records] != sorted(one.round for one in records):
        yield f"job {job.id}: its attempts go back to an earlier round"
    if records and records[-1].round > job.round:
        yield f"job {job.id}: an attempt of round {records[-1].round}, and the job is in {job.round}"


def _results(facts: Facts) -> Iterator[str]:
    """One effective result: exactly of the one attempt that succeeded, and of no job that did not."""
    for job in facts.jobs.values():
        won = [one for one in facts.executions.get(job.id, ()) if one.outcome == "succeeded"]
        if len(won) != (job.status == "succeeded"):
            yield f"job {job.id} ({job.status}): {len(won)} attempts succeeded"
        elif won and (won[0].fence, won[0].round) != (job.lock_token, job.round):
            yield f"job {job.id}: succeeded under fence {won[0].fence}, and went on to {job.lock_token}"
        result = facts.results.get(job.id)
        if result is not None and [one.fence for one in won] != [result.fence]:
            yield f"job {job.id} ({job.status}): a result of fence {result.fence}"


def _causes(facts: Facts) -> Iterator[str]:
    """The history says why the job is what it is."""
    for job in facts.jobs.values():
        records = [one for one in facts.executions.get(job.id, ()) if one.round == job.round]
        last = records[-1].outcome if records else None
        expired = any(row.at == job.finished_at for row in facts.events_of(job.id, "expired"))
        stopped = bool(facts.events_of(job.id, "cancelled"))
        explained = {
            "pending": True,
            "processing": True,
            "failed": last in ("failed", "lost"),
            "succeeded": last == "succeeded",
            "dead_letter": expired or last in ("failed", "lost"),
            "cancelled": stopped or last == "cancelled",
        }[job.status]
        if not explained:
            yield f"job {job.id} is {job.status}, and its history does not say why (last attempt: {last})"
        if last == "cancelled" and job.status != "cancelled":
            yield f"job {job.id} is {job.status}, and its last attempt was cancelled"


def _dead_letters(facts: Facts) -> Iterator[str]:
    """One dead letter for each round that died; all but the present one replayed."""
    for job in facts.jobs.values():
        rows = {row.round: row.state for row in facts.dead.get(job.id, ())}
        dead = job.status == "dead_letter"
        if sorted(rows) != list(range(1, job.round + dead)):
            yield f"job {job.id} ({job.status}, round {job.round}): dead letters of the rounds {sorted(rows)}"
        for number, state in rows.items():
            if (state == "replayed") != (number < job.round):
                yield f"job {job.id} (round {job.round}): the dead letter of round {number} is {state}"


def _events(facts: Facts) -> Iterator[str]:
    """What people and the system did is written down as often as it happened."""
    for job in facts.jobs.values():
        rounds = len(facts.events_of(job.id, "replayed"))
        if rounds != job.round - 1:
            yield f"job {job.id}: in round {job.round} after {rounds} replays"
        closed = sum(row.state == "closed" for row in facts.dead.get(job.id, ()))
        if len(facts.events_of(job.id, "closed")) != closed:
            yield f"job {job.id}: {closed} dead letters closed, otherwise by its events"
        if job.cancel_requested_at is not None and not facts.events_of(job.id, "cancel_requested"):
            yield f"job {job.id}: asked to be cancelled by nobody"
        stops = len(facts.events_of(job.id, "cancelled"))
        if stops > (job.status == "cancelled"):
            yield f"job {job.id} ({job.status}): cancelled {stops} times by its events"


def _kept(facts: Facts, *, pruned: bool) -> Iterator[str]:
    for job in facts.jobs.values():
        ended_well = job.status in ("succeeded", "cancelled")
        if job.id not in facts.inputs and not (pruned and ended_well):
            yield f"job {job.id} ({job.status}): its input is gone"
        if job.status == "succeeded" and job.id not in facts.results and not pruned:
            yield f"job {job.id} succeeded, and its result is gone"


# --- What follows from jobs -------------------------------------------------------------------------


def _outbox(facts: Facts) -> Iterator[str]:
    """No notification of an end that was none, and each in the state its columns say."""
    for job_id, rows in facts.notes.items():
        job = facts.jobs[job_id]
        for row in rows:
            ended_as = job.status if row.round == job.round else "dead_letter"
            if row.round > job.round or row.event != ended_as or row.event not in FINAL:
                yield (
                    f"job {job_id} ({job.status}, round {job.round}): told {row.event} of round {row.round}"
                )
            if (row.delivered_at is not None) != (row.state == "delivered"):
                yield f"notification {row.id} is {row.state}, delivered at {row.delivered_at}"


def _untold(facts: Facts, *, settings: Settings) -> Iterator[str]:
    """Each target hears of each end exactly once (the table's key refuses a second row)."""
    for job in facts.jobs.values():
        kind = settings.types.get(job.type)
        told = {(row.round, row.target) for row in facts.notes.get(job.id, ())}
        ends = [(number, "dead_letter") for number in range(1, job.round)]
        ends += [(job.round, job.status)] if job.status in FINAL else []
        for number, status in ends:
            for target in kind.notify if kind is not None else ():
                if status in settings.notify[target].on and (number, target) not in told:
                    yield f"job {job.id}: {target} is not told that round {number} ended as {status}"


def _effects(facts: Facts) -> Iterator[str]:
    for row in facts.effects:
        if row.fence > facts.jobs[row.job_id].lock_token:
            yield f"job {row.job_id}: effect {row.name!r} of fence {row.fence}, which was never claimed"
        if (row.state == "done") != (row.done_at is not None):
            yield f"job {row.job_id}: effect {row.name!r} is {row.state}, done at {row.done_at}"


def _replay_items(facts: Facts) -> Iterator[str]:
    """A dead letter is replayed by one plan, once; what a plan says it replayed was replayed."""
    again: Counter[tuple[str, int]] = Counter()
    for row in facts.items:
        if row.state in ("planned", "skipped"):
            continue
        again[row.job_id, row.round] += 1
        if facts.jobs[row.job_id].round <= row.round:
            yield f"replay {row.replay_id}: job {row.job_id} is {row.state} there and was never reopened"
    for (job_id, number), count in again.items():
        if count > 1:
            yield f"job {job_id}: the dead letter of round {number} was replayed {count} times"
    done = {row.id for row in facts.replays if row.state == "done"}
    for row in facts.items:
        if row.replay_id in done and row.state in ("planned", "replayed"):
            yield f"replay {row.replay_id} is done, and job {row.job_id} is {row.state}"


def _deliveries(facts: Facts) -> Iterator[str]:
    for row in facts.deliveries:
        if row.outcome == "accepted" and row.handled_at is None:
            yield f"delivery {row.delivery_id} is accepted and waits to be handled"


# --- Nothing stuck ----------------------------------------------------------------------------------


def _stuck(facts: Facts) -> Iterator[str]:
    """Whatever could have gone on has had its time to."""
    for job in facts.jobs.values():
        if job.status not in FINAL and job.hold_reason is None:
            yield f"job {job.id} is stuck: {job.status}, attempt {job.attempts}, due {job.next_run_at}"
    for job_id, rows in facts.notes.items():
        for row in rows:
            if row.state == "pending":
                yield f"job {job_id}: {row.target} was never told that it ended as {row.event}"
    for row in facts.replays:
        if row.state == "running":
            yield f"replay {row.id} is stuck: it runs for {row.owner}"
    known = {one.provider_job_id for one in facts.all_attempts()}
    known |= {job.provider_job_id for job in facts.jobs.values()}
    for row in facts.deliveries:
        if row.handled_at is None and row.provider_job_id in known:
            yield f"delivery {row.delivery_id} is about a job of ours and was never handled"
