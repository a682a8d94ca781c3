"""`aijobs simulate`: the provider simulator as a server of its own."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from aijobs.cli.command import notes
from aijobs.cli.context import Context, context_of
from aijobs.cli.options import Host, Port
from aijobs.cli.words import duration
from aijobs.core import faults as catalogue
from aijobs.core.errors import Interrupted, UsageError
from aijobs.services.surroundings import allow_many_files

if TYPE_CHECKING:
    from aijobs.http.simulator import RunningSimulator

SECRET_VARIABLE = "SIMULATOR_WEBHOOK_SECRET"

PollAfter = Annotated[
    str | None,
    typer.Option("--poll-after", metavar="D", help="Hint with unfinished work when to ask again, as 500ms."),
]
WebhookUrl = Annotated[
    str | None,
    typer.Option(
        "--webhook-url", metavar="URL", help=f"Send webhooks there, signed with {SECRET_VARIABLE} if set."
    ),
]
Fault = Annotated[
    str | None,
    typer.Option("--fault", metavar="SPEC", help="What goes wrong (PROVIDER_FAULT); see --faults."),
]
Latency = Annotated[
    str, typer.Option("--latency", metavar="L", help="How long an answer takes: 0.2, 200ms, 1s-3s.")
]
ShowFaults = Annotated[bool, typer.Option("--faults", help="List the faults and how to write them.")]


@notes(
    "aijobs simulate --port 8787",
    "aijobs simulate --fault 429x2 --latency 200ms-2s",
    "aijobs simulate --fault complete_after_n_polls=2,webhook_duplicate --webhook-url http://127.0.0.1:8080/webhooks/sim",
    "aijobs simulate --faults",
    exits={
        0: "it was stopped by SIGTERM",
        2: "unknown fault, or the port is taken",
        130: "it was stopped by Ctrl-C",
    },
)  # fmt: skip
def simulate(
    ctx: typer.Context,
    host: Host = "127.0.0.1",
    port: Port = 8787,
    fault: Fault = None,
    latency: Latency = "0",
    poll_after: PollAfter = None,
    webhook_url: WebhookUrl = None,
    show_faults: ShowFaults = False,
) -> int:
    """Run a provider that is not there: real HTTP, and whatever goes wrong that you ask for.

    It speaks /v1/responses (background mode and webhooks too), /v1/chat/completions, /v1/messages and
    /v1/echo. A fault is NAME[=NUMBER][:CHANCE][xTIMES]: 429 always, 429=2 with Retry-After: 2, 429:0.3 by
    chance, 429x3 the first three times for each job. Several are separated by commas. A request may ask for
    its own with the header x-simulator-fault. GET /_calls tells what it was asked, POST /_faults changes the
    fault, POST /_reset forgets.
    """
    context = context_of(ctx)
    allow_many_files()
    if show_faults:
        return _list_faults(context)
    wanted = context.environ.get("PROVIDER_FAULT") if fault is None else fault
    with _signals() as stopped:
        simulator = _start(
            context, host=host, port=port, fault=wanted, latency=latency, webhook_url=webhook_url,
            poll_after=duration(poll_after, "--poll-after"),
        )  # fmt: skip
        with simulator:
            _announce(context, simulator, wanted)
            stopped_by = os.read(stopped, 1)[0]
    context.printer.say(f"stopped; calls: {len(simulator.calls())}, billed: {simulator.billed()}")
    return Interrupted.exit_code if stopped_by == signal.SIGINT else 0


def _start(
    context: Context, *, host: str, port: int, fault: str | None, latency: str, webhook_url: str | None,
    poll_after: timedelta | None,
) -> "RunningSimulator":  # fmt: skip
    from aijobs.http.simulator import TEST_SECRET, start_in_thread

    try:
        return start_in_thread(
            host=host, port=port, fault=fault, latency=latency, webhook_url=webhook_url,
            poll_after=poll_after.total_seconds() if poll_after else None,
            webhook_secret=context.environ.get(SECRET_VARIABLE) or TEST_SECRET, chance=context.chance,
        )  # fmt: skip
    except ValueError as error:
        raise UsageError(str(error), hint="aijobs simulate --faults lists what can go wrong") from error
    except OSError as error:
        message = f"cannot listen on {host} port {port}: {error.strerror or error}"
        raise UsageError(message, hint="--port 0 takes a free one") from error


def _announce(context: Context, simulator: "RunningSimulator", fault: str | None) -> None:
    printer = context.printer
    printer.emit_record({"url": simulator.url}, lambda: printer.line(simulator.url))
    printer.flush()
    printer.say(f"simulating a provider (fault: {fault or 'none'}); Ctrl-C stops it")


@contextmanager
def _signals() -> Iterator[int]:
    """A file descriptor from which the number of the signal is read once Ctrl-C or SIGTERM came."""
    reader, writer = os.pipe()
    both = (signal.SIGINT, signal.SIGTERM)

    def note(number: int, _: object) -> None:
        os.write(writer, bytes([number]))

    before = {number: signal.signal(number, note) for number in both}
    try:
        yield reader
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reader)
        os.close(writer)


def _list_faults(context: Context) -> int:
    stages = {"answer": catalogue.REPLIES, "work": catalogue.WORK, "webhook": catalogue.WEBHOOKS}
    rows = [(name, stage, text) for stage, named in stages.items() for name, text in named.items()]
    names = ("name", "stage", "what")
    printer = context.printer
    printer.emit(
        {"faults": [dict(zip(names, row, strict=True)) for row in rows]},
        lambda: printer.table(("NAME", "STAGE", "WHAT GOES WRONG"), rows),
    )
    printer.say("write NAME[=NUMBER][:CHANCE][xTIMES], several with commas; the first that applies wins")
    printer.say("400 to 599 are names too; poll_NAME and cancel_NAME move an answer to those calls")
    return 0
