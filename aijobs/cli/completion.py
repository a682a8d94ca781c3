"""What a shell is offered, and how it is taught to ask: a script for it, shown or installed.

Values are names out of the configuration, read only when a shell asks. Which of them are names of what is
told by how the help calls them: a `TYPE` is always a configured type.
"""

import functools
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import typer

from aijobs.core.errors import AijobsError, UsageError

SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")
_INSTALL, _SHOW = "--install-completion", "--show-completion"
_PROGRAM, _VARIABLE = "aijobs", "_AIJOBS_COMPLETE"
_META = "aijobs.shell"

# A file in zsh's path of functions is run when it is first called for: it has to complete then, and at once.
_ZSH_END = """
if [[ $funcstack[1] == _aijobs ]]; then
  _aijobs_completion "$@"
else
  compdef _aijobs_completion aijobs
fi"""


def _drills(context: Any) -> Iterable[str]:  # noqa: ARG001  # as the others are called
    from aijobs.services.drill import NAMES

    return (*NAMES, "all")


_OFFERS: Mapping[str, Callable[[Any], Iterable[str]]] = MappingProxyType(
    {
        "TYPE": lambda context: context.settings.types,
        "PROVIDER": lambda context: context.settings.providers,
        "SCHEDULE": lambda context: context.settings.schedules,
        "DRILL": _drills,
    }
)


def offer_names(params: Iterable[Any]) -> None:
    """Let a shell complete those of *params* (typer's objects) that are names of something configured."""
    for param in params:
        offer = _OFFERS.get(param.metavar)
        if offer is not None:
            vars(param)["_custom_shell_complete"] = functools.partial(_named, offer)


def _named(offer: Callable[[Any], Iterable[str]], ctx: Any, param: Any, incomplete: str) -> list[str]:  # noqa: ARG001  # as typer calls it
    """The names that begin so; none where the configuration has faults: a shell is no place to tell them."""
    try:
        return [name for name in offer(ctx.obj) if name.startswith(incomplete)]
    except AijobsError:
        return []


# --- The script -----------------------------------------------------------------------------------


def teach_shells(params: Iterable[Any]) -> None:
    """Let typer's two options work by what stands below."""
    for param in params:
        if param.opts == [_INSTALL]:
            param.callback, param.help = (
                _install,
                "Teach the shell that runs this to complete, or the one named.",
            )
        elif param.opts == [_SHOW]:
            param.callback, param.help = (
                _show,
                f"Print the script for that instead. Shells: {', '.join(SHELLS)}.",
            )


def take_shell(ctx: Any, args: list[str]) -> list[str]:
    """*args* without the shell that is named behind one of the two options. UsageError for one unknown."""
    for option in (_INSTALL, _SHOW):
        place = args.index(option) + 1 if option in args else len(args)
        if place < len(args) and not args[place].startswith("-"):
            ctx.meta[_META] = _known(args[place])
            return [*args[:place], *args[place + 1 :]]
    return args


def script(shell: str) -> str:
    """What teaches *shell* to complete."""
    from typer._completion_shared import get_completion_script

    made = get_completion_script(prog_name=_PROGRAM, complete_var=_VARIABLE, shell=shell)
    if shell == "zsh":
        made = made.rpartition("\ncompdef ")[0] + _ZSH_END
    return made + "\n"


def _show(ctx: Any, param: Any, value: Any) -> Any:  # noqa: ARG001  # as typer calls it
    if not value or ctx.resilient_parsing:
        return value
    ctx.obj.printer.raw(script(_shell(ctx)))
    raise typer.Exit


def _install(ctx: Any, param: Any, value: Any) -> Any:  # noqa: ARG001  # as typer calls it
    if not value or ctx.resilient_parsing:
        return value
    from typer._completion_shared import install

    shell = _shell(ctx)
    try:
        _, path = install(shell=shell, prog_name=_PROGRAM, complete_var=_VARIABLE)
        if shell == "zsh":
            path.write_text(script(shell))
    except OSError as error:
        raise UsageError(f"cannot write {error.filename}: {error.strerror}") from error
    ctx.obj.printer.say(f"{shell} completes aijobs once you start it anew: {path}")
    raise typer.Exit


def _shell(ctx: Any) -> str:
    """The shell that was named, else the one that runs this."""
    from typer._completion_shared import _get_shell_name

    return ctx.meta.get(_META) or _known(_get_shell_name() or "")


def _known(shell: str) -> str:
    if shell in SHELLS:
        return shell
    what = f"no completion for the shell {shell!r}" if shell else "cannot tell which shell runs this"
    raise UsageError(what, hint=f"name one behind the option: {', '.join(SHELLS)}")
