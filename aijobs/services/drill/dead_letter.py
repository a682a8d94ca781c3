"""Drill: what keeps failing is given up, kept, told of, and replayed by people so often and no more."""

import json
from collections.abc import Iterable, Sequence

from aijobs.core.alerts import evaluate
from aijobs.core.errors import Conflict
from aijobs.core.model import Job, Status
from aijobs.services.drill.at_once import at_once
from aijobs.services.drill.ground import ACTOR, Ground
from aijobs.services.drill.processes import Process
from aijobs.services.drill.provider import submits
from aijobs.services.drill.report import Account, Check
from aijobs.services.statistics import Statistics
from aijobs.store import jobs as rows

_ATTEMPTS = 3
_REPLAYS = 1
_AT_ONCE = 4
_CONFIDENTIAL = "the-words-of-a-customer"
_REFUSED = {"request": {"metadata": {"simulator": json.dumps({"fault": "400"})}}}


def dead_letter(ground: Ground) -> Account:
    """Two jobs fail until they are given up, one is refused; two are replayed, one more than once."""
    kind = {"max_attempts": _ATTEMPTS, "prompt": "{{ text }}"}
    ground.configure(
        {"failing": kind, "refused": kind | _REFUSED | {"max_replays": _REPLAYS}},
        provider={"breaker": {"failures": 1000}},
        retry={"unavailable": {"retries": 99, "backoff": "fixed", "delay": "50ms"}},
    )
    ground.provider.set_fault("500")
    failing = [ground.enqueue("failing", {"text": _CONFIDENTIAL, "n": n}) for n in range(2)]
    refused = ground.enqueue("refused", {"text": _CONFIDENTIAL})
    first = _drained(ground)
    given_up = _given_up(ground, [job.id for job in failing], first)
    not_repeated, silent, alarm = _not_repeated(ground, refused.id), _silent(ground), _alarm(ground)
    ground.provider.set_fault(None)
    revived = failing[0].id
    won = sum(at_once(_AT_ONCE, lambda: _replay(ground, revived)))
    again = [_replay(ground, refused.id)]
    _drained(ground)
    again += [_replay(ground, refused.id) for _ in range(2)]
    return Account(
        did="2 jobs whose provider failed every call and one whose request was refused, at a worker process "
        f"that ran until nothing was left; then one was replayed by {_AT_ONCE} people at once, and one again "
        "and again",
        checks=(given_up, not_repeated, silent, alarm, _once(ground, revived, won), _bounded(again)),
    )


def _drained(ground: Ground) -> Process:
    worker = ground.worker("failing", "refused", args=("--drain",))
    worker.ended(ground.patience)
    return worker


def _given_up(ground: Ground, ids: Sequence[str], worker: Process) -> Check:
    found = ground.jobs(ids)
    calls = {job_id: len(submits(ground.provider.calls(), [job_id])) for job_id in ids}
    dead = sum(job.status is Status.DEAD_LETTER and job.next_run_at is None for job in found)
    ended = (
        "had nothing left to do"
        if worker.code is not None
        else f"was still at it after {ground.patience:g} s"
    )
    return Check(
        expected=f"after {_ATTEMPTS} attempts a job is a dead letter and is called for no more",
        saw=f"{dead} of {len(found)} are, after {_counts(calls.values())} calls each; the worker {ended}",
        ok=dead == len(found) and set(calls.values()) == {_ATTEMPTS} and worker.code is not None,
    )


def _counts(numbers: Iterable[int]) -> str:
    return " or ".join(str(number) for number in sorted(set(numbers)))


def _not_repeated(ground: Ground, job_id: str) -> Check:
    calls, job = len(submits(ground.provider.calls(), [job_id])), ground.job(job_id)
    return Check(
        expected="a request that is refused (HTTP 400) is given up after one call",
        saw=f"calls: {calls}; the job is {job.status} ({job.last_error_class})",
        ok=(calls, job.status) == (1, Status.DEAD_LETTER),
    )


def _silent(ground: Ground) -> Check:
    """Whether anything beside the input itself repeats the input."""
    with ground.store.read() as tx:
        ids = [one.job for one in ground.provider.calls() if one.job]
        kept = [
            (rows.dead_letters_of(tx, i), rows.executions_of(tx, i), rows.events_of(tx, i)) for i in set(ids)
        ]
    letters = sum(len(one[0]) for one in kept)
    said = sum(_CONFIDENTIAL in repr(one) for one in kept)
    return Check(
        expected="dead letters, attempts and events hold no word of the input",
        saw=f"{letters} dead letters; the input turns up in the records of {said} jobs",
        ok=letters > 0 and said == 0,
    )


def _alarm(ground: Ground) -> Check:
    overview = Statistics(ground.store, ground.settings).overview()
    (rule,) = [one for one in evaluate(overview, ground.settings) if one.rule == "dead_letters"]
    return Check(
        expected="the alert on dead letters fires",
        saw=f"it {'fires' if rule.firing else 'does not fire'}: {rule.evidence}",
        ok=rule.firing,
    )


def _replay(ground: Ground, job_id: str) -> bool:
    """Whether a replay of this dead letter is let."""
    try:
        ground.coordinator.retry(job_id, actor=ACTOR, reason="a drill")
    except Conflict:
        return False
    return True


def _once(ground: Ground, job_id: str, won: int) -> Check:
    attempts, job = ground.attempts(job_id), ground.job(job_id)
    rounds = [one.round for one in attempts]
    return Check(
        expected="of people who replay one at the same instant one is let; it succeeds, its history is kept",
        saw=f"{won} of {_AT_ONCE} were let; {_rounds(job, rounds)}",
        ok=won == 1 and rounds == [1] * _ATTEMPTS + [2] and job.status is Status.SUCCEEDED,
    )


def _rounds(job: Job, rounds: Sequence[int]) -> str:
    told = ", ".join(f"{rounds.count(number)} in round {number}" for number in sorted(set(rounds)))
    return f"the job is {job.status}, attempts: {told or 'none'}"


def _bounded(again: Sequence[bool]) -> Check:
    return Check(
        expected=f"a dead letter is replayed {_REPLAYS} time at most, as its type says",
        saw=f"{sum(again)} of {len(again)} replays of the refused job were let",
        ok=list(again) == [True, False, False],
    )
