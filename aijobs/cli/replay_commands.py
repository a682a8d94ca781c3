"""`aijobs deadletter replay|replays|abort`: bring dead letters back, carefully."""

import os
import socket
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any

import typer

from aijobs.cli.command import notes
from aijobs.cli.context import Context, context_of
from aijobs.cli.deadletter_commands import All, Jobs, chosen, select_all
from aijobs.cli.filters import ErrorClassFilter
from aijobs.cli.options import (
    MOST,
    Actor,
    Preview,
    Probe,
    Reason,
    Since,
    TypeFilter,
    Until,
    UserFilter,
    Yes,
    check_reason,
)
from aijobs.cli.probes import ask
from aijobs.cli.progress import Progress
from aijobs.cli.replay_plan import plan_shape, print_plan
from aijobs.cli.stopping import stoppable
from aijobs.core.durations import Rate, parse_rate
from aijobs.core.errors import Conflict, StoreError, UsageError
from aijobs.core.replaying import ReplayOptions
from aijobs.services.replay import Outcome, Plan, Planner, Runner, RunReport
from aijobs.store import replays
from aijobs.store.dead_letters import DeadLetterFilter

_FINISHED = ("succeeded", "failed", "skipped")

Limit = Annotated[
    int | None,
    typer.Option("--limit", metavar="N", min=1, max=MOST, help="At most so many, those that died first."),
]
OptionalReason = Annotated[
    str | None,
    typer.Option(
        "--reason", metavar="TEXT", help="Why; kept with every job that is replayed.", callback=check_reason
    ),
]


PlanId = Annotated[str | None, typer.Option("--plan", metavar="ID", help="Run exactly this plan.")]
Resume = Annotated[
    str | None, typer.Option("--resume", metavar="ID", help="Go on with an interrupted or stopped replay.")
]
BatchSize = Annotated[
    int | None, typer.Option("--batch-size", metavar="N", min=1, max=10_000, help="Jobs in a batch (10).")
]
AtRate = Annotated[
    str | None, typer.Option("--rate", metavar="RATE", help="Jobs over time: 30/m, 5/s (1/s).")
]
Canary = Annotated[
    int | None, typer.Option("--canary", metavar="N", min=0, help="Jobs that go first, alone (1).")
]
Ramp = Annotated[bool, typer.Option("--ramp", help="Double the batches from the canary on.")]
Ratio = Annotated[
    float | None,
    typer.Option("--max-failure-ratio", metavar="F", min=0, max=1, help="Stop above this share (0.2)."),
]
Force = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Go on although a provider is unwell (its breaker stays) or nothing changed; needs --reason.",
    ),
]


@notes(
    "aijobs deadletter replay --type summarize --error-class unavailable --preview",
    "aijobs deadletter replay --all --preview --probe",
    "aijobs deadletter replay --plan 019b7d6e-… --reason 'INC-1234 is over'",
    "aijobs deadletter replay --resume 019b7d6e-… --rate 10/m",
    exits={
        0: "everything that was planned has succeeded; a preview found nothing in the way",
        1: "finished with failures, or stopped; a preview found blockers; you said no",
        3: "no such plan or job",
        4: "the plan is stale, has ended, or is being carried out by somebody else",
        5: "the store cannot be reached",
    },
)
def replay(
    ctx: typer.Context, job_ids: Jobs = None, type_name: TypeFilter = None,
    error_class: ErrorClassFilter = None, user: UserFilter = None, since: Since = None, until: Until = None,
    limit: Limit = None, everything: All = False, preview: Preview = False,
    probe: Probe = False, plan_id: PlanId = None, resume: Resume = None, batch_size: BatchSize = None,
    rate: AtRate = None, canary: Canary = None, ramp: Ramp = False, max_failure_ratio: Ratio = None,
    force: Force = False, reason: OptionalReason = None, yes: Yes = False, actor: Actor = None,
) -> int:  # fmt: skip
    """Run dead letters again: a canary first, then batches, each after the one before has settled.

    --preview stores a plan and shows what it would do, and why not the rest; --plan runs exactly that. It
    stops by itself when the failures come back or a provider is unwell. Ctrl-C leaves it resumable.

    With --plan and --resume, the options of pace and caution that are given change the plan's from now on.
    """
    context = context_of(ctx)
    if force and not (reason and reason.strip()):
        raise UsageError("--force needs --reason: it is written down with every job")
    changes = _changes(batch_size, rate, canary, max_failure_ratio, ramp=ramp, force=force)
    if resume is not None or plan_id is not None:
        which = (job_ids or None, preview or None, everything or None, probe or None)
        if (resume is not None and plan_id is not None) or any(
            one is not None for one in (*which, type_name, error_class, user, since, until, limit)
        ):
            raise UsageError("--plan and --resume stand alone: the plan says which jobs")
        if not (plan_id or resume or "").strip():
            raise UsageError("the id of the plan is empty", hint="'aijobs deadletter replays' lists them")
        run = _Run(plan_id or resume or "", fresh=plan_id is not None, changes=changes, reason=reason)
        return _carry_out(context, run, context.actor(actor), yes=yes)
    wanted = chosen(
        context, job_ids, type_name=type_name, error_class=error_class, user=user, since=since, until=until
    )
    plan = _plan(
        context, wanted, ReplayOptions(**changes), everything=everything, limit=limit, probe=probe,
        actor=actor, reason=reason,
    )  # fmt: skip
    if preview or plan.replayable == 0:
        context.printer.emit(plan_shape(plan), lambda: print_plan(context.printer, plan))
        return 1 if plan.blocked else 0
    if not context.json:
        print_plan(context.printer, plan)
    return _carry_out(context, _Run(plan.id, fresh=True), context.actor(actor), yes=yes)


@notes("aijobs deadletter replays --json", exits={0: "listed", 5: "the store cannot be reached"})
def replay_list(ctx: typer.Context) -> None:
    """List plans and replays, the newest first, with how far they have come."""
    context = context_of(ctx)
    with context.store.read() as tx:
        found = [(one, replays.progress(tx, one.id)) for one in replays.newest(tx, 50)]
    rows = [
        (one.id, one.state, p.planned, p.replayed, p.succeeded, p.failed, p.skipped, one.actor,
         one.created_at, one.stopped_because)
        for one, p in found
    ]  # fmt: skip
    names = ("replay", "state", "planned", "running", "succeeded", "failed", "skipped", "actor", "created_at",
             "stopped_because")  # fmt: skip
    columns = ("REPLAY", "STATE", "PLANNED", "RUNNING", "SUCCEEDED", "FAILED", "SKIPPED", "BY", "MADE",
               "STOPPED BECAUSE")  # fmt: skip
    context.printer.emit(
        {"replays": [dict(zip(names, row, strict=True)) for row in rows]},
        lambda: context.printer.table(columns, rows, empty="no replays"),
    )


@notes(
    "aijobs deadletter abort 019b7d6e-… --reason 'wrong set'",
    exits={0: "aborted", 3: "no such replay", 4: "it has ended already", 5: "the store cannot be reached"},
)
def replay_abort(
    ctx: typer.Context,
    replay_id: Annotated[str, typer.Argument(metavar="ID", help="The id of the replay.")],
    reason: Reason,
    actor: Actor = None,
) -> None:
    """End a replay for good. Jobs that it has replayed go on; the rest stay dead letters."""
    context = context_of(ctx)
    _runner(context, context.actor(actor)).abort(replay_id, reason=reason)
    context.printer.emit(
        {"replay": replay_id, "state": "aborted"}, lambda: context.printer.line(f"aborted {replay_id}")
    )


# --- Planning ---------------------------------------------------------------------------------------


def _plan(
    context: Context, wanted: DeadLetterFilter, options: ReplayOptions, *, everything: bool,
    limit: int | None, probe: bool, actor: str | None, reason: str | None,
) -> Plan:  # fmt: skip
    if wanted.empty and not everything and limit is None:
        raise UsageError(
            "say which: jobs, a filter, --limit, or --all",
            hint="--all --preview shows what it would be; 'aijobs deadletter list' what there is",
        )
    if wanted.job_ids:
        select_all(context, wanted, everything=everything)  # refuses an id that names no open dead letter
    asking = partial(ask, context, context.settings) if probe else None
    planner = Planner(context.store, context.settings, chance=context.chance, probe=asking)
    return planner.plan(wanted, options, limit=limit or MOST, actor=context.actor(actor), reason=reason)


def _changes(
    batch_size: int | None, rate: str | None, canary: int | None, max_failure_ratio: float | None, *,
    ramp: bool, force: bool,
) -> dict[str, Any]:  # fmt: skip
    """The options of pace and caution that were given, by name."""
    given = {
        "batch_size": batch_size, "rate": None if rate is None else _rate(rate), "canary": canary,
        "max_failure_ratio": max_failure_ratio, "ramp": ramp or None, "force": force or None,
    }  # fmt: skip
    return {name: value for name, value in given.items() if value is not None}


def _rate(text: str) -> Rate:
    try:
        return parse_rate(text)
    except ValueError as error:
        raise UsageError(f"--rate: {error}") from None


# --- Running ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Run:
    """Which plan to carry out; *changes* are options instead of its own, *fresh* that nobody has begun it."""

    id: str
    fresh: bool
    changes: Mapping[str, Any] = field(default_factory=dict)
    reason: str | None = None


def _carry_out(context: Context, wanted: _Run, actor: str, *, yes: bool) -> int:
    runner, replay_id = _runner(context, actor), wanted.id
    if wanted.fresh:
        runner.check_fresh(replay_id, wanted.changes)
    else:
        runner.check_resumable(replay_id)
    with context.store.read() as tx:
        before = replays.progress(tx, replay_id)
    left = before.planned + before.replayed
    if wanted.fresh and not left:
        raise Conflict(
            f"plan {replay_id} has no job that can be replayed",
            hint="take the cause away (aijobs diagnose says how), then make a new plan with --preview",
        )
    if not context.printer.confirm(f"Replay {left} dead letters?", yes=yes):
        return 1
    skipped: list[Outcome] = []
    with stoppable() as stop, context.printer.progress("replay", total=left) as progress:
        hear = _Listener(context, progress, skipped)
        try:
            report = runner.run(
                replay_id, hear=hear, stop=stop, changes=wanted.changes, reason=wanted.reason,
                tell=context.printer.say,
            )  # fmt: skip
        except StoreError as error:
            raise _cut_off(error, replay_id, hear.counts, before.planned) from error
    _print_report(context, report, skipped)
    if report.state == "interrupted":
        context.printer.say(f"go on with: aijobs deadletter replay --resume {replay_id}")
        return 130
    if report.state == "stopped":
        context.printer.say(f"once that is mended: aijobs deadletter replay --resume {replay_id}")
    return 0 if report.state == "done" and report.progress.failed == 0 else 1


def _cut_off(error: StoreError, replay_id: str, counts: Counter[str], planned: int) -> StoreError:
    """*error*, with how far this run came: a batch that the store did not take was not replayed at all."""
    done = ", ".join(f"{counts[name]} {name}" for name in ("replayed", "succeeded", "failed", "skipped"))
    left = planned - counts["replayed"] - counts["skipped"]
    hint = f"a minute after, go on with: aijobs deadletter replay --resume {replay_id}"
    return type(error)(f"{error.message}; until then {done}, {left} left", hint=hint)


class _Listener:
    """One line an outcome, and a step of the bar for each job that is done with."""

    def __init__(self, context: Context, progress: Progress, skipped: list[Outcome]) -> None:
        self._context = context
        self._progress = progress
        self._skipped = skipped
        self.counts: Counter[str] = Counter()

    def __call__(self, outcome: Outcome) -> None:
        self.counts[outcome.state] += 1
        if outcome.state == "skipped":
            self._skipped.append(outcome)
        if not self._context.json:
            why = f": {outcome.reason}" if outcome.reason else ""
            self._context.printer.line(f"{outcome.job_id}  {outcome.state}{why}")
        if outcome.state in _FINISHED:
            self._progress.advance()


def _print_report(context: Context, report: RunReport, skipped: Sequence[Outcome]) -> None:
    done = report.progress
    document = {
        "replay": report.replay, "plan": report.replay, "state": report.state,
        "replayed": done.replayed + done.succeeded + done.failed, "succeeded": done.succeeded,
        "failed": done.failed, "skipped": [{"job_id": o.job_id, "reason": o.reason} for o in skipped],
        "stopped_because": report.stopped_because, "left": done.planned, "running": done.replayed,
    }  # fmt: skip
    counts = [(name, document[name]) for name in ("state", "replayed", "succeeded", "failed")]
    counts += [("still running", done.replayed)] if done.replayed else []
    counts += [("skipped", done.skipped), ("left", done.planned), ("stopped because", report.stopped_because)]
    context.printer.emit(document, lambda: context.printer.fields(counts))


def _runner(context: Context, actor: str) -> Runner:
    owner = f"{socket.gethostname()}-{os.getpid()}"
    return Runner(context.store, context.coordinator, owner=owner, actor=actor)
