"""`aijobs demo`: the whole story in a few seconds."""

import shutil
import tempfile
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aijobs.cli.command import notes
from aijobs.cli.context import Context, context_of
from aijobs.cli.printer import Printer
from aijobs.core.errors import UsageError

if TYPE_CHECKING:
    from aijobs.services.demo import DemoReport, Step

_WIDTH = 78


@notes(
    "aijobs demo",
    "aijobs demo --keep",
    "aijobs demo --json",
    exits={0: "it went as told", 1: "something went otherwise; the differences are printed"},
)
def demo(
    ctx: typer.Context,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the store and the files, and say where.")
    ] = False,
) -> int:
    """Show what aijobs does: jobs that succeed, one that is tried again, one that dies and is revived.

    It takes a few seconds, needs no key and no network, and touches nothing of yours: the store is a
    temporary one, and the model provider is simulated. Everything else is real.
    """
    context = context_of(ctx)
    if {"config", "database"} & context.flags.keys():
        raise UsageError(
            "demo has a store and a configuration of its own", hint="leave --config and --database out"
        )
    with _folder(keep=keep) as folder:
        report = _play(context, folder)
        _print(context, report, folder if keep else None)
    return 1 if report.wrong else 0


@contextmanager
def _folder(*, keep: bool) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="aijobs-demo-"))
    try:
        yield folder
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def _play(context: Context, folder: Path) -> "DemoReport":
    from aijobs.http.simulator import start_in_thread
    from aijobs.services.demo import MODEL, Demo

    number = 0

    def tell(step: "Step") -> None:
        nonlocal number
        number += 1
        _tell(context, step, number)

    with start_in_thread(
        latency="100ms-300ms", poll_after=0.3, models=(MODEL,), chance=context.chance
    ) as simulator:
        return Demo(folder, simulator, chance=context.chance, tell=tell).run()


def _tell(context: Context, step: "Step", number: int) -> None:
    say = context.printer.say
    say(f"{number}. {step.title}")
    for line in textwrap.wrap(step.text, _WIDTH - 3, break_long_words=False, break_on_hyphens=False):
        say(f"   {line}")
    for command in step.commands:
        say(f"   $ {command}")
    say("")


def _print(context: Context, report: "DemoReport", folder: Path | None) -> None:
    from aijobs.services.shapes import job_shape

    printer = context.printer
    rows = [
        (fate.job.id, fate.job.type, fate.job.user, fate.job.status, fate.attempts, fate.story)
        for fate in report.fates
    ]
    document = {
        "steps": [asdict(step) for step in report.steps],
        "jobs": [job_shape(fate.job) | {"story": fate.story} for fate in report.fates],
        "calls": report.calls,
        "billed": report.billed,
        "seconds": round(report.seconds, 1),
        "wrong": list(report.wrong),
        "folder": str(folder) if folder else None,
    }
    printer.emit(document, lambda: _table(printer, rows, folder))
    for difference in report.wrong:
        printer.warn(difference)
    printer.say(f"that took {report.seconds:.1f} s")
    if folder:
        _show_around(printer, folder, port=report.provider_url.rpartition(":")[2])
    else:
        printer.say("the store is gone again; --keep leaves it to look at")


def _table(printer: Printer, rows: Sequence[Sequence[object]], folder: Path | None) -> None:
    printer.table(("ID", "TYPE", "USER", "STATUS", "ATTEMPTS", "WHAT HAPPENED"), rows)
    if folder:
        printer.line(f"kept in {folder}")


def _show_around(printer: Printer, folder: Path, *, port: str) -> None:
    printer.say("to look around, and to go on with it:")
    for command in (f"cd {folder}", "aijobs inspect", f"aijobs simulate --port {port} &", "aijobs worker"):
        printer.say(f"   $ {command}")
