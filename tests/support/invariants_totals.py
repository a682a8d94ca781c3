"""Totals against what can be counted: a part of `tests.support.invariants`."""

from collections import Counter
from collections.abc import Iterable, Iterator

from aijobs.core import totals as names
from aijobs.core.totals import SECONDS
from tests.support.invariants_facts import FINAL, Facts

_DIRECTIONS = ("input", "output", "cache_read", "cache_write", "reasoning")


def wrong_totals(facts: Facts, *, pruned: bool) -> Iterator[str]:
    """Every total equals what can be counted; after a pruning it may only be higher.

    What is kept by the minute and by the day is pruned itself, while an open dead letter stays.
    """
    for what, said, found in (*_ends(facts), *_tried(facts), *_used(facts), *_received(facts)):
        if said < found or (said != found and not pruned):
            yield f"total {what}: {said:g}, and {found:g} can be counted"
    if not pruned:
        for what, said, found in (*_lately(facts), *_by_day(facts)):
            if said != found:
                yield f"{what}: {said:g} instead of {found:g}"


Figures = Iterator[tuple[str, float, float]]


def _ends(facts: Facts) -> Figures:
    ended = Counter(
        (job.type, job.status) for job in facts.jobs.values() if job.status in ("succeeded", "cancelled")
    )
    died: Counter[tuple[str, str]] = Counter()
    for rows in facts.dead.values():
        ended.update((row.type, "dead_letter") for row in rows)
        died.update((row.type, row.error_class) for row in rows)
    for kind, status in ended.keys() | _labels(facts, names.FINAL_STATUS, "type", "status"):
        said = facts.total(names.FINAL_STATUS, type=kind, status=status)
        yield f"of {kind} ended as {status}", said, ended[kind, status]
    for kind, error in died.keys() | _labels(facts, names.DEAD_LETTERS, "type", "error_class"):
        said = facts.total(names.DEAD_LETTERS, type=kind, error_class=error)
        yield f"of dead letters {kind} {error}", said, died[kind, error]


def _tried(facts: Facts) -> Figures:
    tried = Counter((one.provider or "none", one.outcome) for one in facts.all_attempts())
    for provider, outcome in tried.keys() | _labels(facts, names.ATTEMPTS, "provider", "outcome"):
        said = facts.total(names.ATTEMPTS, provider=provider, outcome=outcome)
        yield f"of attempts {provider} {outcome}", said, tried[provider, outcome]
    every = sum(tried.values())
    bad = sum(count for (_, outcome), count in tried.items() if outcome in ("failed", "lost"))
    lost = sum(count for (_, outcome), count in tried.items() if outcome == "lost")
    expired = sum(len(facts.events_of(job_id, "expired")) for job_id in facts.jobs)
    yield "of durations", _observed(facts, names.DURATION), every
    yield "of lost leases", facts.total(names.LEASES_LOST), lost
    yield (
        "of failures (retried or given up)",
        facts.total(names.RETRIES) + facts.total(names.DEAD_LETTERS),
        bad + expired,
    )
    yield "of starts (at least)", *_starts(facts, every)


def _starts(facts: Facts, attempts: int) -> tuple[float, float]:
    """A claim that was handed back unstarted leaves no record: the total may be higher, and never lower."""
    running = sum(job.status == "processing" for job in facts.jobs.values())
    adopted = sum(len(facts.events_of(job_id, "adopted")) for job_id in facts.jobs)
    started = _observed(facts, names.QUEUE_WAIT)
    return started, max(started, attempts + running - adopted)


def _used(facts: Facts) -> Figures:
    for direction in _DIRECTIONS:
        ours = _tokens(facts.all_attempts(), direction)
        yield f"of {direction} tokens", facts.total(names.TOKENS, direction=direction), ours


def _by_day(facts: Facts) -> Figures:
    every = [*facts.all_attempts(), *facts.shadows]
    for direction in _DIRECTIONS:
        yield f"by day, {direction} tokens", _tokens(facts.usage, direction), _tokens(every, direction)


def _tokens(rows: Iterable[object], direction: str) -> float:
    return sum(getattr(row, f"{direction}_tokens") or 0 for row in rows)


def _received(facts: Facts) -> Figures:
    said = facts.total(names.DELIVERIES)
    copies = facts.total(names.DELIVERIES, result="duplicate")
    yield "of deliveries", said - copies, len(facts.deliveries)
    yield "of copies of deliveries", copies, sum(row.copies - 1 for row in facts.deliveries)


def _lately(facts: Facts) -> Figures:
    for status in FINAL:
        yield (
            f"by the minute, {status}",
            _minutes(facts, status),
            facts.total(names.FINAL_STATUS, status=status),
        )
    yield "by the minute, attempts", _minutes(facts, "attempts"), facts.total(names.ATTEMPTS)
    yield "by the minute, lost", _minutes(facts, "lost"), facts.total(names.LEASES_LOST)
    started = _observed(facts, names.QUEUE_WAIT)
    yield "by the minute, started", _minutes(facts, "started"), started
    yield "calls for the retry budget", sum(row.first_calls + row.retries for row in facts.calls), started


def _minutes(facts: Facts, name: str) -> float:
    return sum(float(getattr(row, name)) for row in facts.minutes)


def _observed(facts: Facts, metric: str) -> float:
    bounds = [f"{bound:g}" for bound in SECONDS] + ["+Inf"]
    return sum(facts.total(f"{metric}_bucket", le=bound) for bound in bounds)


def _labels(facts: Facts, metric: str, first: str, second: str) -> set[tuple[str, str]]:
    return {(labels[first], labels[second]) for labels, _ in facts.totals.get(metric, ())}
