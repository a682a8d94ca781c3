"""Commands that are imported when they are called, and the few habits they share.

On top of typer: global options before and after the command, no silent last-one-wins for a repeated option,
examples and exit codes in each `--help`, a top-level help that imports no command.
"""

import functools
import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from aijobs.cli.completion import offer_names, take_shell
from aijobs.cli.options import global_parameters
from aijobs.core.errors import UsageError

# typer carries its own copy of click, whose types are not public: contexts and formatters are `Any` here.
CommandFunction = Callable[..., int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the command table: what the overview says, and where the function is (`module:function`).

    With *commands* it is a group; with *target* as well, the group does that when it is called by itself.
    """

    help: str
    target: str | None = None
    section: str = ""
    commands: Mapping[str, "Entry"] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Notes:
    examples: tuple[str, ...]
    exits: Mapping[int, str]


EXITS: Mapping[int, str] = {
    0: "done; the answer is good",
    1: "done; the answer is bad",
    3: "no such job, type, provider, plan, ...",
    4: "conflict with how things stand now",
    5: "the store cannot be reached, is locked, or of another version",
}
"""What exit codes mean in general; each command says it more exactly."""

_EVERYWHERE = {2: "usage or configuration error", 130: "interrupted"}


def notes(*examples: str, exits: Mapping[int, str]) -> Callable[[CommandFunction], CommandFunction]:
    """Give a command the *examples* and the meaning of the exit codes that its `--help` ends with.

    2 and 130 mean the same everywhere and are added.
    """

    def attach(function: CommandFunction) -> CommandFunction:
        function.__dict__["notes"] = _Notes(
            examples=examples, exits=dict(sorted((_EVERYWHERE | dict(exits)).items()))
        )
        return function

    return attach


class _Parameters:
    """How both kinds of command treat their options; mixed into typer's classes below."""

    notes: _Notes | None = None

    def get_help_option(self, ctx: Any) -> Any:
        option = super().get_help_option(ctx)  # type: ignore[misc]
        if option is not None:
            spare_conversion([option])
        return option

    def make_parser(self, ctx: Any) -> Any:
        return _Once(super().make_parser(ctx), ctx)  # type: ignore[misc]

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """`JOB...` and `[TYPE]`: what needs no brackets has none."""
        pieces: list[str] = super().collect_usage_pieces(ctx)  # type: ignore[misc]
        return [piece.replace("{", "").replace("}", "") for piece in pieces]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments, the command's own options, then those that every command takes."""
        ours = {id(param) for param in global_parameters()}
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": [], "Global options": []}
        for param in self.get_params(ctx):  # type: ignore[attr-defined]
            record = param.get_help_record(ctx)
            if record is None:
                continue
            if param.param_type_name == "argument":  # typer adds a type, which is always text here
                sections["Arguments"].append((param.metavar, param.help or ""))
            else:
                sections["Global options" if id(param) in ours else "Options"].append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002  # as click calls it
        """Examples and exit codes."""
        if self.notes is None:
            return
        with formatter.section("Examples"):
            for example in self.notes.examples:
                formatter.write(f"{'':>{formatter.current_indent}}{example}\n")
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), meaning) for code, meaning in self.notes.exits.items()])


class Command(_Parameters, TyperCommand):
    """One command."""


class Group(_Parameters, TyperGroup):
    """Commands under one name, each imported when it is needed and not before."""

    def __init__(self, *, entries: Mapping[str, Entry], **attributes: Any) -> None:
        super().__init__(rich_markup_mode=None, **attributes)
        spare_conversion(self.params)
        self.entries = entries
        self.commands = _Lazy(entries)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Without any argument show the help, as talk: nothing was asked for, so nothing is answered."""
        if not args and not self.invoke_without_command and not ctx.resilient_parsing:
            typer.echo(ctx.get_help() + "\n", err=True)
            raise UsageError("a command is missing", hint=f"{ctx.command_path} --help")
        return super().parse_args(ctx, args if ctx.parent else take_shell(ctx, args))

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002  # as click calls it
        """Names only."""
        return list(self.entries)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Options, then the commands, section by section."""
        super().format_options(ctx, formatter)
        for title in dict.fromkeys(entry.section for entry in self.entries.values()):
            with formatter.section(title or "Commands"):
                lines = [(name, entry.help) for name, entry in self.entries.items() if entry.section == title]
                formatter.write_dl(lines)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """A group that is no command itself has an example of each of its commands, and their exit codes."""
        if self.notes is None:
            commands: Mapping[str, Any] = self.commands
            each = [command.notes for command in commands.values() if command.notes]
            codes = sorted({code for one in each for code in one.exits})
            general = {**EXITS, **_EVERYWHERE}
            self.notes = _Notes(
                examples=tuple(one.examples[0] for one in each), exits={code: general[code] for code in codes}
            )
        super().format_epilog(ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Names with their one-line help, without importing the commands."""
        from typer._click.shell_completion import CompletionItem

        named = [CompletionItem(n, help=e.help) for n, e in self.entries.items() if n.startswith(incomplete)]
        return named + TyperCommand.shell_complete(self, ctx, incomplete)


class _Lazy(MutableMapping[str, Any]):
    """Name to command; the look-up imports it."""

    def __init__(self, entries: Mapping[str, Entry]) -> None:
        self._entries = dict(entries)
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = load(name, self._entries[name])
        return self._loaded[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


_BYTES = frozenset({"FILE", "URL", "JSON"})
"""What names a file may hold any bytes, and JSON is checked with its place; every other value is text."""


class _Once:
    """A parser that refuses a second value for an option that holds one: the last would silently win.

    It refuses bytes that are no text, too: neither database could look them up.
    """

    def __init__(self, parser: Any, ctx: Any) -> None:
        self._parser = parser
        self._ctx = ctx

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parser, name)

    def parse_args(self, args: list[str]) -> tuple[dict[str, Any], list[str], list[Any]]:
        """As typer's, and then the checks."""
        try:
            options, rest, order = self._parser.parse_args(args)
        except typer.TyperException as error:
            if vars(error).get("ctx") is None:
                vars(error)["ctx"] = self._ctx  # it tells whose --help is to be looked at
            raise
        seen: set[int] = set()
        for param in order:
            no_text = None if param.metavar in _BYTES else _no_text(options.get(param.name))
            if no_text:
                name = param.opts[0] if param.param_type_name == "option" else param.metavar
                raise UsageError(f"{name} holds bytes that are not UTF-8 text (U+{ord(no_text):04X})")
            if param.param_type_name != "option" or param.multiple or param.is_flag:
                continue
            if id(param) in seen:
                raise UsageError(f"{param.opts[0]} is given more than once", hint="give it once")
            seen.add(id(param))
        return options, rest, order


def _no_text(value: object) -> str | None:
    """The first character in *value* that stands for a byte which is not UTF-8."""
    parts = value if isinstance(value, list | tuple) else [value]
    text = "".join(part for part in parts if isinstance(part, str))
    return next((char for char in text if "\ud800" <= char <= "\udfff"), None)


class _OnDemand:
    """Stands where typer keeps what converts a value, and lets typer make that only when a value needs it.

    It would make one with pydantic for every option there is, given or not, which takes long.
    """

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """As typer's: text stays text, what is not given is None or empty, the rest is converted by typer."""
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if value is param.default or (param.type_descriptor.annotation is str and isinstance(value, str)):
            return value
        vars(param)["_runtime_param"] = None
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


_ON_DEMAND = _OnDemand()


def spare_conversion(params: Iterable[Any]) -> None:
    """Let *params* be converted only when they are given and are not text."""
    for param in params:
        vars(param)["_runtime_param"] = _ON_DEMAND


def load(name: str, entry: Entry) -> Command | Group:
    """Make *entry* a command by importing its function; a group imports nothing but its own function."""
    own = _command(name, entry) if entry.target else None
    if not entry.commands:
        if own is None:
            raise ValueError(f"command {name} has neither a target nor commands")
        return own
    attributes: dict[str, Any] = {"params": list(global_parameters())}
    if own is not None:
        attributes = {"invoke_without_command": True, "params": own.params, "callback": own.callback}
    group = Group(name=name, entries=entry.commands, help=own.help if own else entry.help, **attributes)
    group.notes = own.notes if own else None
    return group


def _command(name: str, entry: Entry) -> Command:
    module, _, attribute = (entry.target or "").partition(":")
    function: CommandFunction = getattr(importlib.import_module(module), attribute)
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(name, cls=Command)(_unless_subcommand(function) if entry.commands else function)
    command = typer.main.get_command(app)
    assert isinstance(command, Command)
    command.params.extend(global_parameters())
    spare_conversion(command.params)
    offer_names(command.params)
    command.notes = function.__dict__.get("notes")
    return command


def _unless_subcommand(function: CommandFunction) -> CommandFunction:
    @functools.wraps(function)
    def alone(ctx: typer.Context, **options: Any) -> int | None:
        return None if ctx.invoked_subcommand else function(ctx, **options)

    return alone
