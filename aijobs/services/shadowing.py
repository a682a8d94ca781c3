"""Writing down what a candidate answered beside the real answer, and summing it up."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from statistics import quantiles

from aijobs.core.lifecycle import AttemptEnd, Failed, Move, Succeeded
from aijobs.core.model import Job, Outcome, Status
from aijobs.core.settings import Settings
from aijobs.core.shadowing import compare
from aijobs.core.usage import cost
from aijobs.services.coordinator import Ended
from aijobs.services.coordinator.counting import usage_rows
from aijobs.services.coordinator.finishing import execution_of, facts_of
from aijobs.store import history, provider_states, shadows, usage_days
from aijobs.store.engine import Store
from aijobs.store.shadows import Comparison, Measure

MOST = 10_000
"""So many of the latest comparisons make a report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two: how long it took (seconds), what it used and what it wrote (means). None: unknown."""

    calls: int
    seconds_p50: float | None
    seconds_p95: float | None
    input_tokens: float | None
    output_tokens: float | None
    cost: float | None
    length: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A candidate beside the real calls of the same jobs, all of which succeeded."""

    provider: str | None
    model: str | None
    jobs: int
    succeeded: int
    errors: dict[str, int]
    real: Side
    shadow: Side  # of the calls that succeeded
    compared_fields: int
    agreed_fields: int
    agreeing_jobs: int  # those with fields to compare of which all agree
    comparable_jobs: int


class Shadowing:
    """Shadow calls in one store. They are nothing to the job: no status, no attempt, no notification."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store = store
        self.settings = settings

    def is_well(self, provider: str) -> bool:
        """Whether *provider* may be bothered with comparisons just now. Raises StoreError."""
        now = self.store.clock.now()
        with self.store.read() as tx:
            state = provider_states.states(tx, [provider])[provider]
        paused = state.paused_until is not None and state.paused_until > now
        return state.breaker == "closed" and not paused and state.held_at is None

    def record(
        self, job: Job, end: Succeeded | Failed, *, real: str, worker: str, started_at: datetime,
        client_request_id: str,
    ) -> None:  # fmt: skip
        """Keep the execution, the comparison and the usage. *job* names the candidate. Raises StoreError."""
        now = self.store.clock.now()
        ended = Ended(
            job=job, end=end, started_at=started_at, worker=worker, client_request_id=client_request_id
        )
        record = execution_of(ended, job, _move(end), now, self.settings.code_version_of(job.type))
        spent = cost(facts_of(ended).usage, self.settings.prices.get(record.model or "", ()), day=now.date())
        record = replace(record, shadow=True, counted=False, cost=spent)
        kind = self.settings.types.get(job.type)
        names = kind.shadow.fields if kind is not None and kind.shadow is not None else ()
        alike = compare(real, end.result if isinstance(end, Succeeded) else None, names)
        row = {
            "job_id": job.id, "fence": job.lock_token, "type": job.type, "at": now, "length": alike.length,
            "real_length": alike.real_length, "compared": alike.compared, "agreed": alike.agreed,
        }  # fmt: skip
        with self.store.write() as tx:
            if not shadows.add(tx, row):
                return
            history.add_executions(tx, [record])
            used = usage_rows([record], {job.id: job}, now)
            if used:
                usage_days.add(tx, used)

    def report(self, type_name: str, since: datetime) -> list[Candidate]:
        """Each candidate of a type, by what was compared since then. Raises NotFound."""
        self.settings.type(type_name)
        with self.store.read() as tx:
            found = shadows.latest(tx, type_name, since, MOST)
        groups: dict[tuple[str | None, str | None], list[Comparison]] = {}
        for one in found:
            groups.setdefault((one.candidate.provider, one.candidate.model), []).append(one)
        return [_candidate(provider, model, group) for (provider, model), group in groups.items()]


def _move(end: AttemptEnd) -> Move:
    if isinstance(end, Failed):
        return Move(
            target=Status.SUCCEEDED, outcome=Outcome.FAILED, reason="shadow", failure=end.failure,
            counted=False,
        )  # fmt: skip
    return Move(target=Status.SUCCEEDED, outcome=Outcome.SUCCEEDED, reason="shadow", counted=False)


def _candidate(provider: str | None, model: str | None, group: Sequence[Comparison]) -> Candidate:
    good = [one for one in group if one.error_class is None]
    comparable = [one for one in good if one.compared]
    return Candidate(
        provider=provider,
        model=model,
        jobs=len(group),
        succeeded=len(good),
        errors=dict(Counter(one.error_class for one in group if one.error_class).most_common()),
        real=_side([one.real for one in group], [one.real_length for one in group]),
        shadow=_side([one.candidate for one in good], [one.length for one in good]),
        compared_fields=sum(one.compared for one in good),
        agreed_fields=sum(one.agreed for one in good),
        agreeing_jobs=sum(one.compared == one.agreed for one in comparable),
        comparable_jobs=len(comparable),
    )


def _side(calls: Sequence[Measure], lengths: Iterable[int | None]) -> Side:
    seconds = sorted(one.seconds for one in calls if one.seconds is not None)
    return Side(
        calls=len(calls),
        seconds_p50=_quantile(seconds, 50),
        seconds_p95=_quantile(seconds, 95),
        input_tokens=_mean(one.input_tokens for one in calls),
        output_tokens=_mean(one.output_tokens for one in calls),
        cost=_mean(one.cost for one in calls),
        length=_mean(lengths),
    )


def _quantile(values: Sequence[float], percent: int) -> float | None:
    if len(values) < 2:
        return values[0] if values else None
    return quantiles(values, n=100, method="inclusive")[percent - 1]


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
