"""Ending attempts, many at once: decide on the job as it is now, then write, guarded, with all it implies."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache

from aijobs.core.clock import Chance
from aijobs.core.ids import new_id
from aijobs.core.lifecycle import (
    Abandoned,
    Cancelled,
    Failed,
    Lost,
    Move,
    Parked,
    RetryPolicy,
    Succeeded,
    decide,
    is_legal,
)
from aijobs.core.model import NO_CALL, CallFacts, Execution, Job, Outcome, Status
from aijobs.core.retry import Policy
from aijobs.core.retry_budget import OverBudget
from aijobs.core.settings import Settings
from aijobs.core.usage import cost
from aijobs.services.coordinator.counting import count_ends
from aijobs.services.coordinator.gates import Gates
from aijobs.services.coordinator.values import Decided, Ended, Finished
from aijobs.store import deliveries, history, moves, wake
from aijobs.store.deliveries import Work
from aijobs.store.engine import Tx


class Finishing:
    """Writes the ends of attempts, with executions, results, dead letters and notifications beside them."""

    def __init__(self, settings: Settings, policy: Policy, gates: Gates, chance: Chance) -> None:
        self.settings = settings
        self.policy = policy
        self.gates = gates
        self.chance = chance
        self._code_version_of = cache(settings.code_version_of)

    def finish(self, tx: Tx, ends: Sequence[Ended], now: datetime) -> list[Finished]:
        """Write every end whose lease still stands; the others are answered, not applied."""
        policies = self._policies(tx, ends, now)
        present = moves.held(tx, [ended.job for ended in ends])
        decided: list[Decided] = []
        answers: list[Finished] = []
        seen: set[str] = set()
        for ended in ends:
            job = present.get(ended.job.id)
            if job is None or not _still_held(job, ended.job) or job.id in seen:
                status = job.status if job else None
                answers.append(Finished(job_id=ended.job.id, applied=False, status=status))
                continue
            seen.add(job.id)
            move = decide(job, ended.end, policies(job), now, self.chance)
            decided.append((ended, job, move))
            answers.append(Finished(job_id=job.id, applied=True, move=move, status=move.target))
        self.write(tx, decided, now)
        changes = self.gates.told(tx, [(ended, job) for ended, job, _ in decided], now)
        if changes:
            answers = [
                replace(one, breaker=changes.get(one.job_id)) if one.applied else one for one in answers
            ]
        if any(isinstance(ended.end, Abandoned | Lost) for ended, _, _ in decided):
            wake.notify(tx)  # somebody else is to go on with it, and may be idle
        return answers

    def _policies(self, tx: Tx, ends: Sequence[Ended], now: datetime) -> Callable[[Job], RetryPolicy]:
        """Which policy a job falls under; another while its provider is unwell or retried too much."""
        failed = [ended.job for ended in ends if isinstance(ended.end, Failed | Lost)]
        if not failed:
            return lambda _: self.policy
        unwell = self.gates.recovering(tx, failed, now)
        spent = self.gates.spent_budgets(tx, now)
        recovering = self.policy.while_recovering()
        window = self.settings.retry.budget.window

        def policy_of(job: Job) -> RetryPolicy:
            policy = recovering if job.provider in unwell else self.policy
            return OverBudget(policy, window) if job.provider in spent else policy

        return policy_of

    def write(self, tx: Tx, decided: Sequence[Decided], now: datetime) -> None:
        """Perform the moves; every one of them must match its row, or nothing is written at all."""
        for _, job, move in decided:
            if not is_legal(job.status, move.target):
                raise AssertionError(f"illegal move {job.status} -> {move.target}")
        self._move(tx, decided, now)
        self._record(tx, decided, now)

    def _move(self, tx: Tx, decided: Sequence[Decided], now: datetime) -> None:
        succeeded = [(ended, job) for ended, job, move in decided if move.target is Status.SUCCEEDED]
        parked = self._parked(tx, decided, now)
        stopped = [job for _, job, move in decided if _never_began(job, move)]
        others = [
            (job, _move_values(job, move, now))
            for _, job, move in decided
            if move.target not in (Status.SUCCEEDED, Status.PROCESSING) and not _never_began(job, move)
        ]
        matched = 0
        if succeeded:
            matched += moves.succeed(tx, [job for _, job in succeeded], now)
            history.add_results(tx, [(job, _result(ended)) for ended, job in succeeded], now)
        if parked:
            matched += moves.park(tx, parked, now)
        if stopped:
            matched += moves.cancel(tx, stopped, now)
        if others:
            matched += moves.move(tx, others, now)
        if matched != len(decided):
            raise AssertionError(f"{len(decided)} locked jobs were to be moved, {matched} were")

    def _parked(
        self, tx: Tx, decided: Sequence[Decided], now: datetime
    ) -> list[tuple[Job, dict[str, object]]]:
        """What to park, until when: not at all if a webhook came before we knew the provider's id, or while
        the provider was being asked.
        """
        staying = [one for one in decided if one[2].target is Status.PROCESSING]
        # `updated_at`, of the job as it was claimed, is when this look began; the attempt began long ago.
        works = {_work(ended, job): job for ended, job, _ in staying}
        began = {work: job.updated_at for work, job in works.items()}
        news = deliveries.news_of(tx, began) if works else frozenset()
        deliveries.match(tx, {work: works[work].id for work in news}, now)
        return [(job, _park_values(ended, job, move, now, news)) for ended, job, move in staying]

    def _record(self, tx: Tx, decided: Sequence[Decided], now: datetime) -> None:
        records = [
            self._execution(ended, job, move, now) for ended, job, move in decided if move.outcome is not None
        ]
        if records:
            history.add_executions(tx, records)
        count_ends(tx, decided, records, now)
        dead = [_dead_letter(job, move, now) for _, job, move in decided if move.target is Status.DEAD_LETTER]
        if dead:
            history.add_dead_letters(tx, dead)
        self.announce(tx, [(job, move.target) for _, job, move in decided if move.target.final], now)

    def _execution(self, ended: Ended, job: Job, move: Move, now: datetime) -> Execution:
        settings = self.settings
        kind = settings.types.get(job.type)
        facts = facts_of(ended)
        prices = settings.prices.get(facts.model or job.model or "", ())
        return execution_of(
            ended, job, move, now, self._code_version_of(job.type),
            fallback=kind is not None and kind.is_fallback(job.provider, job.model),
            cost=cost(facts.usage, prices, day=now.date()),
        )  # fmt: skip

    def announce(self, tx: Tx, final: Sequence[tuple[Job, Status]], now: datetime) -> None:
        """Put the notifications of final states into the outbox, in the transaction that made them final."""
        rows = [
            {
                "id": new_id(now, self.chance), "job_id": job.id, "round": job.round, "target": target,
                "event": status.value, "next_run_at": now, "created_at": now,
            }
            for job, status in final
            for target in self._targets(job.type, status)
        ]  # fmt: skip
        if rows:
            history.add_notifications(tx, rows)

    def _targets(self, type_name: str, status: Status) -> list[str]:
        kind = self.settings.types.get(type_name)
        if kind is None:
            return []
        return [name for name in kind.notify if status.value in self.settings.notify[name].on]


def execution_of(
    ended: Ended, job: Job, move: Move, now: datetime, code_version: str | None, *,
    fallback: bool = False, cost: float | None = None,
) -> Execution:  # fmt: skip
    """The record of an attempt that ended with *move*."""
    facts = facts_of(ended)
    failure = move.failure
    outcome = move.outcome or Outcome.ABANDONED
    bad = failure if outcome is not Outcome.SUCCEEDED else None
    return Execution(
        job_id=job.id,
        fence=job.lock_token,
        round=job.round,
        attempt=job.attempts,
        counted=move.counted,
        worker=ended.worker,
        provider=facts.provider or job.provider,
        model=facts.model or job.model,
        outcome=outcome,
        error_class=bad.error_class.value if bad else None,
        error_code=bad.code if bad else None,
        http_status=facts.http_status,
        message=(bad.message or None) if bad else _why(ended),
        provider_job_id=facts.provider_job_id or job.provider_job_id,
        provider_request_id=facts.provider_request_id,
        client_request_id=ended.client_request_id or facts.client_request_id,
        started_at=ended.started_at,
        finished_at=now,
        elapsed_seconds=facts.elapsed_seconds,
        phase=facts.phase.value,
        hint_seconds=bad.hint.total_seconds() if bad and bad.hint else None,
        retry_at=move.next_run_at,
        maybe_billed=bad.maybe_billed if bad else facts.phase.maybe_billed,
        input_tokens=facts.usage.input_tokens,
        output_tokens=facts.usage.output_tokens,
        cache_read_tokens=facts.usage.cache_read_tokens,
        cache_write_tokens=facts.usage.cache_write_tokens,
        reasoning_tokens=facts.usage.reasoning_tokens,
        service_tier=facts.usage.service_tier,
        cost=cost,
        usage=facts.usage.raw,
        fallback=fallback,
        code_version=code_version,
    )


def _never_began(job: Job, move: Move) -> bool:
    """Whether a job is cancelled that waits: there may be many, and all change in the same way."""
    return move.target is Status.CANCELLED and job.status is not Status.PROCESSING


def _still_held(present: Job, claimed: Job) -> bool:
    return present.status is Status.PROCESSING and present.lock_token == claimed.lock_token


def facts_of(ended: Ended) -> CallFacts:
    """What the end of an attempt says of its call."""
    match ended.end:
        case Failed(failure=failure):
            return failure.facts
        case Succeeded(facts=facts) | Parked(facts=facts) | Cancelled(facts=facts) | Abandoned(facts=facts):
            return facts
        case _:
            return NO_CALL


def _why(ended: Ended) -> str | None:
    return ended.end.reason if isinstance(ended.end, Abandoned) else None


def _result(ended: Ended) -> str:
    assert isinstance(ended.end, Succeeded)
    return ended.end.result


def _work(ended: Ended, job: Job) -> Work:
    name = ended.end.provider_job_id if isinstance(ended.end, Parked) else job.provider_job_id
    return job.provider or "", name or ""


def _park_values(
    ended: Ended, job: Job, move: Move, now: datetime, news: frozenset[Work]
) -> dict[str, object]:
    work = _work(ended, job)
    until = now if job.cancel_requested_at or work in news else move.locked_until
    return {"new_locked_until": until, "new_provider_job_id": work[1]}


def _move_values(job: Job, move: Move, now: datetime) -> Mapping[str, object]:
    failure = move.failure
    waits = move.target in (Status.PENDING, Status.FAILED)
    deferred = move.target is Status.FAILED and not move.counted
    return {
        "to_status": move.target.value,
        "new_attempts": job.attempts if move.counted else max(0, job.attempts - 1),
        "new_deferrals": job.deferrals + (1 if deferred else 0),
        "new_next_run_at": move.next_run_at,
        "new_hold_reason": move.reason if move.hold else None,
        "new_provider_job_id": None if waits else job.provider_job_id,
        "new_error_class": failure.error_class.value if failure else job.last_error_class,
        "new_error_code": failure.code if failure else job.last_error_code,
        "new_error_message": failure.message if failure else job.last_error_message,
        "new_finished_at": now if move.target.final else None,
    }


def _dead_letter(job: Job, move: Move, now: datetime) -> dict[str, object]:
    failure = move.failure
    return {
        "job_id": job.id,
        "round": job.round,
        "type": job.type,
        "user": job.user,
        "error_class": failure.error_class.value if failure else "internal",
        "error_code": failure.code if failure else None,
        "attempts": job.attempts,
        "at": now,
        "reason": move.reason,
    }
