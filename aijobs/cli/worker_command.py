"""`aijobs worker`: claim jobs and carry them out."""

from collections.abc import Callable
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from aijobs.cli import early_signals
from aijobs.cli.command import notes
from aijobs.cli.context import Context, context_of
from aijobs.cli.logs import LogFormat, LogLines, line_log
from aijobs.cli.words import duration, positive_duration
from aijobs.core.durations import format_duration
from aijobs.core.errors import Interrupted, UsageError
from aijobs.services.surroundings import allow_many_files

if TYPE_CHECKING:
    from aijobs.core.settings import Settings
    from aijobs.services.worker import WorkerOptions, WorkerReport


Concurrency = Annotated[
    int | None,
    typer.Option(
        "--concurrency", metavar="N", min=1, max=10_000, help="Calls at once (worker.concurrency: 10)."
    ),
]
Types = Annotated[
    list[str] | None,
    typer.Option("--type", metavar="TYPE", help="Only these, and their lost attempts; may be repeated."),
]
Lease = Annotated[
    str | None, typer.Option("--lease", metavar="D", help="After this silence its jobs are taken over (60s).")
]
Drain = Annotated[
    bool, typer.Option("--drain", help="End when nothing is left that could run, retries included.")
]
MaxJobs = Annotated[
    int | None, typer.Option("--max-jobs", metavar="N", min=1, help="End after so many claims.")
]
Grace = Annotated[
    str | None,
    typer.Option("--grace", metavar="D", help="At shutdown, how long running jobs may go on (30s)."),
]
Name = Annotated[
    str | None, typer.Option("--name", metavar="S", help="Its name; default: host, pid and a random end.")
]
MetricsPort = Annotated[
    int,
    typer.Option("--metrics-port", metavar="P", min=0, max=65535, help="Serve /metrics there; 0: do not."),
]
MetricsHost = Annotated[
    str, typer.Option("--metrics-host", metavar="HOST", help="For that; 127.0.0.1: this machine only.")
]


@notes(
    "aijobs worker --concurrency 50",
    "aijobs worker --type summarize --drain --json",
    exits={
        0: "stopped when asked to; with --drain: nothing is left to do",
        1: "with --drain: a job became a dead letter",
        3: "no such job type",
        5: "the store cannot be reached, did not come back, or was upgraded",
        130: "interrupted: what was running has ended, or is handed back",
    },
)
def worker(
    ctx: typer.Context,
    concurrency: Concurrency = None,
    types: Types = None,
    lease: Lease = None,
    drain: Drain = False,
    max_jobs: MaxJobs = None,
    grace: Grace = None,
    name: Name = None,
    metrics_port: MetricsPort = 0,
    metrics_host: MetricsHost = "127.0.0.1",
    log_format: LogLines = LogFormat.TEXT,
) -> int:
    """Claim jobs and carry them out until told to stop.

    SIGTERM and Ctrl-C: nothing more is claimed, running jobs have the grace to end and are handed back then;
    a second signal hands them back at once. SIGHUP: the configuration is read again, as it is every half
    minute anyway; a faulty one is refused with a line in the log, and the old one stays.

    Events go to stderr, a line each: -v also tells of each job that goes well, -q only of what goes wrong.
    The closing summary goes to stdout.
    """
    from aijobs.services.worker import WorkerOptions

    context = context_of(ctx)
    allow_many_files()
    context.settings = context.load_settings(thorough=True)  # what cannot work is refused before it starts
    options_of = partial(
        WorkerOptions.from_settings,
        concurrency=concurrency,
        types=tuple(dict.fromkeys(types)) if types else None,
        lease=_lease(lease),
        grace=duration(grace, "--grace"),
        drain=drain,
        max_jobs=max_jobs,
        name=name,
    )
    served = (metrics_host, metrics_port) if metrics_port else None
    report = _run(context, options_of, as_json=log_format is LogFormat.JSON, served=served)
    _print(context, report)
    if drain and report.stopped_by is None:
        _say_what_is_left(context)
    if report.stopped_by == "SIGINT":
        return Interrupted.exit_code
    return 1 if drain and report.dead_letter else 0


def _lease(text: str | None) -> timedelta | None:
    """As the configuration has it: with a shorter one, workers would take each other's jobs all day."""
    from aijobs.core.settings.running import SHORTEST_LEASE

    lease = positive_duration(text, "--lease")
    if lease is not None and lease < SHORTEST_LEASE:
        raise UsageError(f"--lease: must be at least {format_duration(SHORTEST_LEASE)}")
    return lease


def _run(
    context: Context,
    options_of: "Callable[[Settings], WorkerOptions]",
    *,
    as_json: bool,
    served: tuple[str, int] | None,
) -> "WorkerReport":
    from aijobs.cli.metrics_command import metrics_served
    from aijobs.cli.simulators import simulators
    from aijobs.providers.registry import Providers
    from aijobs.services.coordinator import Coordinator
    from aijobs.services.worker import Worker

    options = options_of(context.settings)
    store = context.create_store()
    for warning in store.warnings:
        context.printer.warn(warning)
    log = line_log(context.printer, clock=context.clock, as_json=as_json)
    with simulators(context) as complete:
        settings = complete(context.settings)
        worker = Worker(
            store,
            Coordinator(store, settings, chance=context.chance, tracing=context.tracing(log)),
            settings,
            Providers(settings, clock=context.clock),
            options=options,
            options_of=options_of,
            source=lambda: complete(context.load_settings(thorough=True)),
            chance=context.chance,
            log=log,
        )
        with metrics_served(context, store, lambda: worker.settings, at=served):
            try:
                return worker.run()
            finally:
                early_signals.over()


def _say_what_is_left(context: Context) -> None:
    """After a drain: what it could not run, or ran in vain, and where to look."""
    from aijobs.services.statistics import Statistics

    overview = Statistics(context.store, context.settings).overview()
    waiting, held, dead = overview.total.waiting, overview.total.held, sum(overview.dead_letters.values())
    if waiting:
        context.printer.say(f"still waiting: {waiting}; why: aijobs diagnose")
    if held:
        context.printer.say(f"held for a person: {held}; see aijobs inspect --held")
    if dead:
        context.printer.say(f"open dead letters: {dead}; see aijobs deadletter list")


def _print(context: Context, report: "WorkerReport") -> None:
    document = asdict(report)
    context.printer.emit(document, lambda: context.printer.fields(document.items()))
