"""Drill: workers that die, and one that sleeps too long and then wants to have its say."""

import json
from collections.abc import Sequence

from aijobs.core.model import Execution, Job, Outcome, Status
from aijobs.services.drill.ground import Ground
from aijobs.services.drill.processes import Process
from aijobs.services.drill.provider import submits
from aijobs.services.drill.report import Account, Check

_TAKES = {"request": {"metadata": {"simulator": json.dumps({"latency": "4s"})}}}
_UNTIL_KILLED = "50s"
_LOOKS = {"poll_first": "1s", "poll_cap": "1s"}


def lease_recovery(ground: Ground) -> Account:
    """One worker is killed with two jobs at hand, one put to sleep with a third; another takes over."""
    ground.configure(
        {
            "background": {**_TAKES, "background": True, "background_options": _LOOKS},
            "call": {},
            "slept": _TAKES,
        },
        retry={"worker_lost": {"retries": 9, "first": "immediate", "backoff": "fixed", "delay": "0s"}},
    )
    short = ("--lease", "4s")
    doomed = ground.worker("background", "call", args=short)
    sleeper = ground.worker("slept", args=(*short, "--max-jobs", "1"))  # or it might take its job again
    ground.provider.set_latency(_UNTIL_KILLED)
    ground.ready(doomed, sleeper)
    parked, called, slept = (ground.enqueue(what, {"n": 1}) for what in ("background", "call", "slept"))
    ids = [parked.id, called.id, slept.id]
    ground.until(lambda: _under_way(ground, ids))
    doomed.kill()
    ground.put_to_sleep(sleeper, ids)
    ground.provider.set_latency("500ms")
    ground.until(lambda: _expired(ground, ids))
    heir = ground.worker("background", "call", "slept")
    ground.until(lambda: len(submits(ground.provider.calls(), [slept.id])) > 1 or ground.final([slept.id]))
    sleeper.wake()
    ground.until(lambda: ground.final(ids))
    sleeper.stop(patience=5)
    return Account(
        did="a worker process was killed (SIGKILL) with one job at the provider and one in mid-call; another "
        "was stopped (SIGSTOP) until its lease was over and its job taken over, then woken (SIGCONT)",
        checks=(
            _not_paid_twice(ground, parked.id),
            _made_again(ground, called.id),
            _sleeper_changed_nothing(ground, slept.id, sleeper, heir),
            _one_end_each(ground, ground.jobs(ids)),
        ),
    )


def _under_way(ground: Ground, ids: Sequence[str]) -> bool:
    parked, *_ = ground.jobs(ids)
    asked = {call.job for call in submits(ground.provider.calls(), ids)}
    return parked.provider_job_id is not None and asked == set(ids)


def _expired(ground: Ground, ids: Sequence[str]) -> bool:
    """Whether nobody holds any of them any more."""
    now = ground.store.clock.now()
    return all(job.locked_until is None or job.locked_until <= now for job in ground.jobs(ids))


def _not_paid_twice(ground: Ground, job_id: str) -> Check:
    asked, billed = len(submits(ground.provider.calls(), [job_id])), ground.provider.billed(job_id)
    job = ground.job(job_id)
    return Check(
        expected="work that was begun at the provider is asked after, not begun again",
        saw=f"calls for work: {asked}, bills: {billed}; the job is {job.status}",
        ok=(asked, billed, job.status) == (1, 1, Status.SUCCEEDED),
    )


def _made_again(ground: Ground, job_id: str) -> Check:
    attempts = ground.attempts(job_id)
    return Check(
        expected="a call whose worker died is recorded as lost and made again by another",
        saw=_story(attempts, ground.job(job_id)),
        ok=_taken_over(attempts) and attempts[0].worker != attempts[1].worker,
    )


def _sleeper_changed_nothing(ground: Ground, job_id: str, sleeper: Process, heir: Process) -> Check:
    attempts = ground.attempts(job_id)
    first = attempts[0].worker if attempts else None
    last = attempts[-1].worker if attempts else None
    report = sleeper.document()
    by = "the worker that slept" if last == sleeper.name else "the other one" if last == heir.name else last
    return Check(
        expected="what the worker that slept brings, late, changes nothing",
        saw=f"{_story(attempts, ground.job(job_id))}; the last word was that of {by}; the sleeper says: "
        f"{report.get('succeeded', '?')} succeeded, {report.get('lost', '?')} lost",
        ok=_taken_over(attempts)
        and (first, last) == (sleeper.name, heir.name)
        and (report.get("succeeded"), report.get("lost")) == (0, 1),
    )


def _one_end_each(ground: Ground, jobs: Sequence[Job]) -> Check:
    well = sum(job.status is Status.SUCCEEDED for job in jobs)
    results = sum(_outcomes(ground.attempts(job.id)).count(Outcome.SUCCEEDED) for job in jobs)
    told = sum(ground.told(job.id) for job in jobs)
    return Check(
        expected="every job ends once: one result and one notification",
        saw=f"{well} of {len(jobs)} succeeded; results: {results}, notifications: {told}",
        ok=(well, results, told) == (len(jobs), len(jobs), len(jobs)),
    )


def _taken_over(attempts: Sequence[Execution]) -> bool:
    """Whether it succeeded once, after it was lost; more than once, where the machine is very slow."""
    *before, last = _outcomes(attempts) or [Outcome.LOST]
    return last is Outcome.SUCCEEDED and set(before) == {Outcome.LOST}


def _outcomes(attempts: Sequence[Execution]) -> list[Outcome]:
    return [one.outcome for one in attempts]


def _story(attempts: Sequence[Execution], job: Job) -> str:
    told = ", then ".join(one.outcome.value for one in attempts) or "no attempt has ended"
    if not attempts or job.status is not Status.SUCCEEDED:
        return f"{told}; the job is {job.status}"
    seconds = (attempts[-1].started_at - attempts[0].started_at).total_seconds()
    return f"{told}; taken over {seconds:.1f} s after it was first begun"
