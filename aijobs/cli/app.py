"""The table of commands.

To add one: a line here, and a function with `notes`, a docstring whose first line is the entry's help, and a
first parameter `ctx: typer.Context`; it returns the exit code (None for 0).
"""

from collections.abc import Mapping
from typing import Annotated

import typer

from aijobs import __version__
from aijobs.cli.command import Entry, Group
from aijobs.cli.options import global_parameters

JOBS = "Jobs"
SETUP = "Set-up and trust"

COMMANDS: Mapping[str, Entry] = {
    "enqueue": Entry(
        help="Accept a job, or many from a file.", target="aijobs.cli.enqueue_command:enqueue", section=JOBS
    ),
    "inspect": Entry(
        help="List jobs, newest first, or show everything about one.",
        target="aijobs.cli.inspect_command:inspect",
        section=JOBS,
    ),
    "cancel": Entry(
        help="Stop jobs, at once or as soon as their worker notices.",
        target="aijobs.cli.cancel_command:cancel",
        section=JOBS,
    ),
    "doctor": Entry(
        help="Check this installation: configuration, store, clocks, workers, credentials.",
        target="aijobs.cli.doctor_command:doctor",
        section=SETUP,
    ),
    "simulate": Entry(
        help="Run a provider that is not there, with the faults you ask for.",
        target="aijobs.cli.simulate_command:simulate",
        section=SETUP,
    ),
}

HELP = "Run AI background jobs that are never lost, never run twice in effect, never “thinking” for ever."


def _show_version(value: bool | None) -> None:
    if value:
        typer.echo(f"aijobs {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Only read for its parameters."""


def build(commands: Mapping[str, Entry] = COMMANDS) -> Group:
    """The whole program as one group; nothing of *commands* is imported yet."""
    app = typer.Typer(add_completion=True, rich_markup_mode=None)
    app.command()(_root)
    own = typer.main.get_command(app).params
    for param in own:
        param.expose_value = False
    return Group(name="aijobs", entries=commands, help=HELP, params=[*own, *global_parameters()])
