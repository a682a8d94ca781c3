"""Options that several commands share, each written once."""

import functools
from typing import Annotated, Any

import typer

from aijobs.core.errors import UsageError

# --- Global: taken before and after the command ---------------------------------------------------


def _remember(ctx: typer.Context, param: typer.CallbackParam, value: Any) -> None:
    """Keep a global option where the command's context finds it. What contradicts itself is refused."""
    if value is None or value is False:
        return
    flags, name = ctx.obj.flags, str(param.name)
    if flags.get(name, value) != value:
        raise UsageError(f"{param.opts[0]} is given twice, with different values", hint="give it once")
    flags[name] = value
    if {"verbose", "quiet"} <= flags.keys():
        raise UsageError("-v and -q contradict each other")


def _global(*names: str, text: str, **more: Any) -> Any:
    return typer.Option(*names, help=text, callback=_remember, expose_value=False, show_default=False, **more)


def _taken_everywhere(
    config: Annotated[
        str | None,
        _global("--config", metavar="FILE", text="Configuration file (AIJOBS_CONFIG; ./aijobs.yaml)."),
    ] = None,
    database: Annotated[
        str | None,
        _global("--database", metavar="URL", text="The store (AIJOBS_DATABASE; sqlite:///aijobs.db)."),
    ] = None,
    verbose: Annotated[
        bool, _global("-v", "--verbose", text="Say more; show a traceback for a bug.")
    ] = False,
    quiet: Annotated[bool, _global("-q", "--quiet", text="Say nothing but warnings and errors.")] = False,
    json: Annotated[bool, _global("--json", text="Print data as JSON on stdout.")] = False,
) -> None:
    """Only read for its parameters."""


@functools.cache
def global_parameters() -> tuple[Any, ...]:
    """The parameters of `_taken_everywhere`, as typer's objects; all commands share them."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command()(_taken_everywhere)
    return tuple(typer.main.get_command(app).params)


# --- Shared by some -------------------------------------------------------------------------------

Actor = Annotated[
    str | None, typer.Option("--actor", metavar="NAME", help="Who does this (AIJOBS_ACTOR; the login name).")
]


def check_reason(reason: str | None) -> str | None:
    """The reason, where one is given. Raises UsageError for one that says nothing."""
    from aijobs.core.reasons import checked_reason  # most commands are given none

    return None if reason is None else checked_reason(reason)


Reason = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Why; kept with the change.", callback=check_reason)
]
Yes = Annotated[bool, typer.Option("--yes", help="Don't ask.")]
Preview = Annotated[bool, typer.Option("--preview", help="Show what would happen, and change nothing.")]
Probe = Annotated[
    bool,
    typer.Option("--probe", help="Ask each provider, by one free call, whether it takes the credentials."),
]
MOST = 1_000_000_000
"""The largest `--limit`: more than any store holds, and a number that every database takes."""
Host = Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Where to listen.")]
Port = Annotated[
    int, typer.Option("--port", metavar="P", min=0, max=65535, help="Where to listen; 0 takes a free one.")
]
Limit = Annotated[int, typer.Option("--limit", metavar="N", min=1, max=MOST, help="How many at most.")]
TypeFilter = Annotated[str | None, typer.Option("--type", metavar="TYPE", help="Only jobs of this type.")]
UserFilter = Annotated[str | None, typer.Option("--user", metavar="USER", help="Only jobs of this user.")]
KeyFilter = Annotated[
    str | None, typer.Option("--key", metavar="KEY", help="Only jobs with this idempotency key.")
]
Since = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="TIME", help="Only from this time on: ISO 8601 (UTC if no zone), or 2h ago: 2h."
    ),
]
Until = Annotated[
    str | None, typer.Option("--until", metavar="TIME", help="Only up to this time; written like --since.")
]
