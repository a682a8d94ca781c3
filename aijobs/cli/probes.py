"""`--probe`: asking providers, by one free call each, whether they take the credentials."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from aijobs.cli.context import Context

if TYPE_CHECKING:
    from aijobs.core.settings import Settings
    from aijobs.providers.contract import Probed


def ask(context: Context, settings: "Settings", names: Sequence[str]) -> Mapping[str, "Probed"]:
    """Ask the providers *names* of *settings*."""
    from aijobs.providers.probing import probe

    context.printer.say(f"asking {', '.join(names)} ...")
    return probe(settings, names, clock=context.clock)
