"""What a replay's plan looks like: as JSON, and for a person."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from aijobs.cli.printer import Printer
from aijobs.core.durations import format_duration
from aijobs.core.replaying import FORCIBLE, Check
from aijobs.services.replay import Plan, PlannedGroup


def plan_shape(plan: Plan) -> dict[str, Any]:
    """A plan as JSON: counts first, the jobs and batches behind them beside."""
    return {
        "plan": plan.id,
        "replayable": plan.replayable,
        "skipped": len(plan.skipped),
        "groups": [_group_shape(group) for group in plan.groups],
        "checks": [_check_shape(check) for check in plan.checks],
        "batches": len(plan.batches),
        "estimated_seconds": plan.estimated.total_seconds(),
        "batch_sizes": list(plan.batches),
        "skipped_jobs": [{"job_id": one.job_id, "reason": one.reason} for one in plan.skipped],
        "expires_at": plan.expires_at,
    }


def _group_shape(group: PlannedGroup) -> dict[str, Any]:
    return {
        "type": group.type, "error_class": group.error_class, "count": group.count,
        "replayable": group.replayable, "oldest": group.oldest, "newest": group.newest,
        "verdict": group.verdict, "checks": [_check_shape(check) for check in group.checks],
    }  # fmt: skip


def _check_shape(check: Check) -> dict[str, Any]:
    return {"check": check.check, "ok": check.ok, "evidence": check.evidence}


def print_plan(printer: Printer, plan: Plan) -> None:
    """The plan for a person: what it would do, what it would not and why, and what to type next."""
    printer.table(
        ("TYPE", "ERROR", "COUNT", "REPLAYABLE", "OLDEST", "NEWEST", "VERDICT"),
        [(g.type, g.error_class, g.count, g.replayable, g.oldest, g.newest, g.verdict) for g in plan.groups],
        empty="no open dead letters: nothing to replay",
    )
    if not plan.groups:
        return
    if plan.checks:
        printer.section("checks")
        rows = [(_word(check), check.check, check.evidence) for check in plan.checks]
        printer.table(("", "CHECK", "EVIDENCE"), rows)
    if plan.skipped:
        printer.section("skipped", len(plan.skipped))
        reasons = Counter(one.reason for one in plan.skipped)
        printer.table(("COUNT", "WHY"), [(count, why) for why, count in reasons.most_common(20)])
    printer.section("plan")
    printer.fields(
        [
            ("id", plan.id),
            ("replayable", plan.replayable),
            ("batches", f"{len(plan.batches)} ({_sizes(plan.batches)})" if plan.batches else "none"),
            ("at the rate", format_duration(plan.estimated)),
            ("may be run until", plan.expires_at),
        ]
    )
    _print_hints(printer, plan)


def _print_hints(printer: Printer, plan: Plan) -> None:
    """What to type next."""
    if plan.replayable:
        printer.say(f"to run exactly this: aijobs deadletter replay --plan {plan.id}")
    if any(check.blocks for check in plan.checks):
        printer.say("what to do about what is BAD: aijobs diagnose")
        if any(not check.ok and check.check in FORCIBLE for check in plan.checks):
            printer.say("to go on although a provider is unwell: --force --reason ...")
    elif not plan.replayable:
        printer.say("what each needs first: aijobs diagnose JOB; one as it is, again: aijobs retry JOB")
    _print_unchanged(printer, plan)


def _print_unchanged(printer: Printer, plan: Plan) -> None:
    """What lets those through of which we see no change: one line an error class."""
    unchanged: Counter[str] = Counter()
    for group in plan.groups:
        unchanged[group.error_class] += group.unchanged
    for error_class, count in (+unchanged).items():
        which = f"--error-class {error_class} " if len(unchanged) > 1 else ""
        printer.say(
            f"{count} {error_class} skipped: nothing has changed here. "
            f"If it has elsewhere, the same again with {which}--force --reason ..."
        )


def _word(check: Check) -> str:
    return "BAD" if check.blocks else "ok" if check.ok else "note"


def _sizes(batches: Sequence[int]) -> str:
    shown = ", ".join(map(str, batches[:6]))
    return f"{shown}, ..." if len(batches) > 6 else shown
