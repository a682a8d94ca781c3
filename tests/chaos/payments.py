"""Calls that the provider did the work for, by its own record, held against the attempts on ours."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from aijobs.core.model import Execution

_SLACK = timedelta(seconds=0.5)

Call = Mapping[str, Any]


@dataclass
class Payments:
    """*twice*: why a job was paid for once more than it needed, and how often. *faults*: what must not be."""

    asked: int = 0
    billed: int = 0
    twice: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


def settle(
    calls: Iterable[Call], attempts: Mapping[str, Sequence[Execution]], careful: frozenset[str]
) -> Payments:
    """Each billed call beyond the one whose answer is the job's result, with its reason.

    *careful*: jobs of types that hold when the outcome is unknown; they never pay for that twice.
    """
    found = Payments()
    billed: dict[str, list[Call]] = defaultdict(list)
    for call in calls:
        if call["method"] != "POST" or call["path"].endswith("/cancel"):
            continue
        found.asked += 1
        if call["billed"]:
            found.billed += 1
            billed[call["job"]].append(call)
    for job_id, paid in billed.items():
        unused = _without_the_one_that_counts(paid, attempts.get(job_id, ()))
        for call in unused if len(paid) > 1 else ():
            why, unknown = _why(call, attempts.get(job_id, ()))
            found.twice[why] += 1
            again = any(other["at"] > call["at"] for other in paid)
            if not why or (unknown and again and job_id in careful):
                found.faults.append(
                    f"job {job_id}: paid {len(paid)} times; {why or 'no attempt explains it'}"
                )
    return found


def _without_the_one_that_counts(paid: Sequence[Call], attempts: Sequence[Execution]) -> list[Call]:
    won = next((one for one in attempts if one.outcome == "succeeded"), None)
    mine = [call for call in paid if won is not None and _is_of(call, won)]
    return [call for call in paid if not mine or call is not mine[-1]]


def _is_of(call: Call, attempt: Execution) -> bool:
    """Whether the call may be of that attempt; one that went under way in time may arrive long after it."""
    if attempt.provider_job_id and attempt.provider_job_id == call["response_id"]:
        return True
    asked = attempt.client_request_id
    named = bool(asked) and str(call["client_request_id"] or "").startswith(str(asked))
    return named and attempt.started_at - _SLACK <= datetime.fromisoformat(call["at"])


def _why(call: Call, attempts: Sequence[Execution]) -> tuple[str, bool]:
    """The reason, and whether it is that nobody knew the outcome; "" when there is none."""
    ours = [one for one in attempts if _is_of(call, one)]
    if not ours:
        return "", False
    one = ours[-1]
    late = datetime.fromisoformat(call["at"]) > one.finished_at + _SLACK
    if one.outcome == "lost" and late:
        return "sent by a worker that slept through its lease", True
    if one.outcome == "lost":
        return "the worker was lost before the answer was saved", True
    if one.outcome == "abandoned":
        return "the worker was told to stop while it waited for the answer", False
    if one.outcome == "failed" and one.error_class in ("network", "network_timeout"):
        return f"the answer did not arrive ({one.error_class})", True
    if one.outcome == "failed":
        return f"the answer was no good ({one.error_class})", False
    return f"another call of the same attempt ({one.outcome})", False
