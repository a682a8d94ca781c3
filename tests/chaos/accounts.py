"""The account at the end: what went in, what came out, and every promise that was broken."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import select

from aijobs.core.model import Execution, Outcome
from aijobs.store.engine import Store
from aijobs.store.tables import (
    dead_letters,
    effects,
    events,
    executions,
    job_inputs,
    job_results,
    jobs,
    notifications,
)
from tests.chaos import payments
from tests.chaos.feed import Fed
from tests.chaos.outside import Outside
from tests.chaos.place import Place
from tests.chaos.watch import Seen, Span, overlap
from tests.support.invariants import violations

LONGEST_RESCUE = 12.0
"""Seconds from the end of a lease to its rescue while the store is there: workers look every 5 s."""


@dataclass(kw_only=True)
class Account:
    """One run on one database. *broken* is empty when every promise was kept."""

    database: str
    seed: int
    minutes: float
    jobs_in: int = 0
    duplicates_refused: int = 0
    enqueue_errors: int = 0
    accepted_unseen: int = 0
    out: dict[str, int] = field(default_factory=dict)
    dead_by_class: dict[str, int] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=dict)
    lost: int = 0
    doubled_results: int = 0
    doubled_effects: int = 0
    late_effects_refused: int = 0
    released_by_a_person: int = 0
    longest_rescue: float = 0.0
    longest_rescue_with_store: float = 0.0
    rescues: int = 0
    calls: int = 0
    calls_billed: int = 0
    paid_twice: dict[str, int] = field(default_factory=dict)
    webhooks: dict[str, int] = field(default_factory=dict)
    adopted: int = 0
    late: int = 0
    notices: int = 0
    notices_twice: int = 0
    notices_to_come: int = 0
    longest_pause: float = 0.0
    longest_pause_at_work: float = 0.0
    stalled: int = 0
    blows: dict[str, int] = field(default_factory=dict)
    settled_after: float = 0.0
    broken: list[str] = field(default_factory=list)


@dataclass(kw_only=True)
class Facts:
    """What the store has at the end."""

    jobs: dict[str, Any]
    inputs: dict[str, Any]
    results: dict[str, Any]
    attempts: dict[str, list[Execution]]
    effects: list[Any]
    dead: list[Any]
    events: Counter[str]
    untold: int = 0

    @classmethod
    def of(cls, store: Store) -> "Facts":
        attempts: dict[str, list[Execution]] = defaultdict(list)
        with store.read() as tx:
            for row in tx.execute(select(executions).order_by(executions.c.job_id, executions.c.fence)):
                one = Execution(**row._mapping)
                attempts[one.job_id].append(one)
            return cls(
                jobs={row.id: row for row in tx.execute(select(jobs))},
                inputs={row.job_id: json.loads(row.payload) for row in tx.execute(select(job_inputs))},
                results={row.job_id: row for row in tx.execute(select(job_results))},
                attempts=dict(attempts),
                effects=list(tx.execute(select(effects))),
                dead=list(tx.execute(select(dead_letters))),
                events=Counter(tx.execute(select(events.c.kind)).scalars()),
                untold=len(
                    tx.execute(select(notifications.c.id).where(notifications.c.state == "pending")).all()
                ),
            )


def close_the_books(
    account: Account, place: Place, *, fed: Fed, seen: Seen, outside: Outside, away: Sequence[Span]
) -> None:
    """Fill in *account* from what everybody saw."""
    facts = Facts.of(place.store)
    record = place.calls()
    _count(account, facts, fed, outside)
    _webhooks(account, record)
    _rescues(account, facts, seen, away)
    settled = account.stalled == account.notices_to_come == 0
    account.broken += violations(
        place.store, expected_ids=list(fed.accepted.values()), settled=settled,
        settings=place.settings,
    )  # fmt: skip
    account.broken += [*_lost(account, facts, fed), *_doubled(account, facts, outside), *_wrong(facts)]
    _payments(account, facts, record)
    if account.longest_rescue_with_store > LONGEST_RESCUE:
        account.broken.append(
            f"a lost job waited {account.longest_rescue_with_store} s for its rescue with the store there"
        )


def _count(account: Account, facts: Facts, fed: Fed, outside: Outside) -> None:
    account.jobs_in = len(facts.jobs)
    account.duplicates_refused = fed.repeats
    account.enqueue_errors = fed.errors
    account.out = dict(Counter(job.status for job in facts.jobs.values()))
    account.dead_by_class = dict(Counter(row.error_class for row in facts.dead if row.state == "open"))
    account.attempts = dict(Counter(one.outcome for rows in facts.attempts.values() for one in rows))
    account.adopted, account.late = facts.events["adopted"], facts.events["late_outcome"]
    account.late_effects_refused = outside.refused
    account.notices, account.notices_to_come = len(outside.notices), facts.untold
    account.notices_twice = sum(count - 1 for count in outside.notices.values())


def _webhooks(account: Account, record: Mapping[str, Any]) -> None:
    sent = record["webhooks"]
    copies = Counter(one["id"] for one in sent if one["status"] and 200 <= one["status"] < 300)
    account.webhooks = {
        "sent": len(sent),
        "taken": sum(copies.values()),
        "copies": sum(count - 1 for count in copies.values()),
        "refused": sum(1 for one in sent if one["status"] and one["status"] >= 300),
        "nobody there": sum(1 for one in sent if not one["status"]),
    }


def _lost(account: Account, facts: Facts, fed: Fed) -> list[str]:
    missing = [job_id for job_id in fed.accepted.values() if job_id not in facts.jobs]
    account.lost = len(missing)
    present = {given["n"] for given in facts.inputs.values()}
    account.accepted_unseen = len(fed.unsure & present)
    unknown = present - set(fed.accepted) - fed.unsure - {-1}
    return [f"job for input {n} exists, and nobody enqueued it" for n in unknown]


def _doubled(account: Account, facts: Facts, outside: Outside) -> list[str]:
    broken = []
    for job_id, rows in facts.attempts.items():
        if sum(one.outcome == Outcome.SUCCEEDED for one in rows) > 1:
            account.doubled_results += 1
            broken.append(f"job {job_id}: two effective results")
    inputs = Counter(given["n"] for given in facts.inputs.values() if given["n"] >= 0)
    for n, count in inputs.items():
        if count > 1:
            account.doubled_results += 1
            broken.append(f"input {n} was enqueued by one key and became {count} jobs")
    windows = Counter((job.schedule, job.key) for job in facts.jobs.values() if job.schedule)
    broken += [f"window {key} of a schedule has {count} jobs" for key, count in windows.items() if count > 1]
    for (job_id, name), count in outside.effects.items():
        if count > 1:
            account.doubled_effects += 1
            broken.append(f"job {job_id}: effect {name} happened {count} times")
    return broken


def _wrong(facts: Facts) -> list[str]:
    """Results of somebody else's input, effects that did not happen, deaths by our own fault."""
    broken = []
    done = {row.job_id for row in facts.effects if row.state == "done"}
    for job in facts.jobs.values():
        given = facts.inputs[job.id]
        if job.status == "succeeded" and not re.search(
            rf"\bchaos {given['n']}\b", facts.results[job.id].result
        ):
            broken.append(f"job {job.id}: the result is not that of its input")
        if job.status == "succeeded" and job.type == "order" and job.id not in done:
            broken.append(f"job {job.id}: succeeded without its effect")
        if job.status == "dead_letter" and job.last_error_class == "internal":
            broken.append(
                f"job {job.id}: died of a fault of ours: {job.last_error_code} {job.last_error_message}"
            )
    return broken


def _rescues(account: Account, facts: Facts, seen: Seen, away: Sequence[Span]) -> None:
    """From the end of a lease, as it was last seen, to the record that its attempt is lost."""
    for rows in facts.attempts.values():
        for one in rows:
            until = seen.leases.get((one.job_id, one.fence))
            if one.outcome != Outcome.LOST or until is None:
                continue
            found = one.finished_at.timestamp()
            account.rescues += 1
            account.longest_rescue = round(max(account.longest_rescue, found - until), 1)
            there = found - until - overlap(until, found, list(away))
            account.longest_rescue_with_store = round(max(account.longest_rescue_with_store, there), 1)


def _payments(account: Account, facts: Facts, record: Mapping[str, Any]) -> None:
    careful = frozenset(job.id for job in facts.jobs.values() if job.type in ("careful", "slow"))
    found = payments.settle(record["calls"], facts.attempts, careful)
    account.calls, account.calls_billed = found.asked, found.billed
    account.paid_twice = dict(found.twice.most_common())
    account.broken += found.faults
    paid = {call["job"] for call in record["calls"] if call["billed"]}
    account.broken += [
        f"job {job.id}: succeeded, and the provider never worked for it"
        for job in facts.jobs.values()
        if job.status == "succeeded" and job.id not in paid
    ]
