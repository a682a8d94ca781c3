"""`aijobs drill`: the promises, put to the test by force."""

import signal
import tempfile
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aijobs.cli.command import notes
from aijobs.cli.context import Context, context_of
from aijobs.cli.printer import Printer
from aijobs.core.durations import format_duration
from aijobs.core.errors import UsageError
from aijobs.services.surroundings import allow_many_files

if TYPE_CHECKING:
    from aijobs.services.drill import Check, DrillReport, Drills, Leftover, Surroundings

_ALL = "all"
_WIDTH = 79


@notes(
    "aijobs drill",
    "PROVIDER_FAULT=429 aijobs drill rate-limit",
    "aijobs --database postgresql://jobs@staging/jobs drill lease-recovery --json",
    exits={
        0: "everything was as expected",
        1: "something was not; it is said what",
        2: "no such drill, or a PROVIDER_FAULT that is no passing refusal",
        4: "the store is paused",
        5: "the store of --database is not there or cannot be reached",
        130: "interrupted; everything it had made is removed",
    },
)
def drill(
    ctx: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            metavar="DRILL",
            help="rate-limit, idempotency, lease-recovery, dead-letter, webhook-replay, outage, or all.",
        ),
    ] = _ALL,
) -> int:
    """Put the promises to the test by force: killed workers, a failing provider, everything twice.

    Real worker processes call a real HTTP server that plays the provider; no other provider is ever called.
    It runs on a temporary store, or on the one --database names, with job types, users and a provider whose
    names begin with drill-; everything it made there is removed at the end. What a killed drill left there is
    removed by the next one, once it has been silent for 15 minutes. Alerts that are evaluated on that store
    meanwhile may fire: dead letters are part of it.
    """
    from aijobs.services.drill import Drills, refusal_of

    context = context_of(ctx)
    if "config" in context.flags:
        raise UsageError("drill has a configuration of its own", hint="leave --config out")
    names = _names(name)
    refusal = refusal_of(context.environ.get("PROVIDER_FAULT") if "rate-limit" in names else None)
    allow_many_files()
    with _surroundings(context) as around, _stoppable():
        drills = Drills(around, refusal)
        drills.check()
        _clear_up(context.printer, drills)
        reports = [_run(context.printer, drills, one) for one in names]
    passed = [report.passed for report in reports]
    printer = context.printer
    document = {"drills": [_shape(report) for report in reports], "passed": all(passed)}
    printer.emit(document, lambda: printer.line(_verdict(reports)))
    return 0 if all(passed) else 1


def _names(name: str) -> tuple[str, ...]:
    from aijobs.core.settings import closest
    from aijobs.services.drill import NAMES

    if name == _ALL:
        return NAMES
    if name not in NAMES:
        near = closest(name, NAMES)
        hint = f"did you mean {near!r}?" if near else f"there are: {', '.join(NAMES)}, all"
        raise UsageError(f"no drill {name!r}", hint=hint)
    return (name,)


@contextmanager
def _surroundings(context: Context) -> "Iterator[Surroundings]":
    """The store and what else drills need; gone afterwards but for a store that was there."""
    from aijobs.http.simulator import start_in_thread
    from aijobs.services.drill import Surroundings
    from aijobs.store.engine import open_store

    given: str | None = context.flags.get("database")
    with tempfile.TemporaryDirectory(prefix="aijobs-drill-", ignore_cleanup_errors=True) as folder:
        url = given or f"sqlite:///{folder}/drill.db"
        store = open_store(url, create=given is None)
        try:
            _say_where(context, store.location if given else None)
            yield Surroundings(
                store=store, url=url, folder=Path(folder), environ=context.environ, chance=context.chance,
                start_provider=partial(start_in_thread, chance=context.chance),
            )  # fmt: skip
        finally:
            store.close()


def _say_where(context: Context, location: str | None) -> None:
    if location:
        context.printer.say(f"drills in {location}; what they make there is removed again")
    elif context.database:
        context.printer.say("drills in a temporary store; in AIJOBS_DATABASE only where --database names it")


@contextmanager
def _stoppable() -> Iterator[None]:
    """Let SIGTERM end it as Ctrl-C does: by way of clearing up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    kept = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, kept)


def _clear_up(printer: Printer, drills: "Drills") -> None:
    removed, running = drills.clear_up()
    for one in removed:
        printer.say(f"removed what {one.drill} left, which was killed: {_jobs(one)}")
    for one in running:
        silent = format_duration(timedelta(seconds=round(one.silent.total_seconds())))
        printer.say(f"{one.drill} was heard of {silent} ago: it may still run and keeps its {_jobs(one)}")


def _jobs(left: "Leftover") -> str:
    return f"{left.jobs} job{'s' if left.jobs > 1 else ''}"


def _run(printer: Printer, drills: "Drills", name: str) -> "DrillReport":
    printer.say(f"{name} ...")
    report = drills.run(name)
    if not printer.json:
        _tell(printer, report)
    return report


def _tell(printer: Printer, report: "DrillReport") -> None:
    printer.line(f"{'passed' if report.passed else 'FAILED'}  {report.name} ({report.seconds:.1f} s)")
    _paragraph(printer, "did", report.did)
    for check in report.checks:
        _paragraph(printer, "expected", check.expected)
        _paragraph(printer, "saw" if check.ok else "BUT SAW", check.saw)
    printer.line("")
    printer.flush()


def _paragraph(printer: Printer, label: str, text: str) -> None:
    first, rest = f"  {label:<9} ", " " * 12
    for line in textwrap.wrap(
        text, _WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    ):
        printer.line(line)


def _verdict(reports: "list[DrillReport]") -> str:
    failed = [report.name for report in reports if not report.passed]
    seconds = sum(report.seconds for report in reports)
    told = f"FAILED: {', '.join(failed)}" if failed else "all passed"
    return f"{len(reports)} drill{'s' if len(reports) > 1 else ''} in {seconds:.0f} s: {told}"


def _shape(report: "DrillReport") -> dict[str, object]:
    return {
        "name": report.name,
        "passed": report.passed,
        "did": report.did,
        "expected": [check.expected for check in report.checks],
        "saw": [check.saw for check in report.checks],
        "checks": [_check_shape(check) for check in report.checks],
        "seconds": round(report.seconds, 1),
    }


def _check_shape(check: "Check") -> dict[str, object]:
    return {"expected": check.expected, "saw": check.saw, "ok": check.ok}
