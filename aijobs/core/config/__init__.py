"""Reading the configuration file: all of its faults at once, each with file, line, column and path.

The order: bytes to text, text to nodes, nodes to data (references to the environment replaced), data to
`Settings`, then what one section says of another. Nothing is opened, connected to or imported on the way.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

from aijobs.core.config.across import look_across, look_closely
from aijobs.core.config.document import Document, read
from aijobs.core.config.handover import Handover
from aijobs.core.config.source import UnreadableError, read_text
from aijobs.core.errors import ConfigError, ConfigFault
from aijobs.core.payload import clean_text
from aijobs.core.settings import Settings

__all__ = ["load"]

_LONGEST = 1000
_UNSET = "set the variable, or write ${NAME:-default} in the file"


def load(
    path: Path | None, *, environ: Mapping[str, str], database: str | None = None, thorough: bool = False
) -> Settings:
    """The settings in the file at *path*; without one, the defaults. *database* goes over what the file says.

    With *thorough* also what is costly to look at is checked: prompt templates and input schemas.
    Raises ConfigError with every fault there is.
    """
    document = _document(path, environ)
    blank = path is not None and not document.data
    if database is not None:
        document.data["database"] = database
        document.sources.pop(("database",), None)  # what the file says is not used, so it is not judged
    settings = _settings(document, path)
    look_across(document)
    if thorough:
        look_closely(document)
    if document.faults or settings is None:
        faults = sorted(map(_in_one_line, document.faults), key=lambda fault: (fault.line, fault.column))
        raise ConfigError(faults, hint=_UNSET if any(_names_unset(fault) for fault in faults) else None)
    return settings.read_from(path, blank=blank)


def _in_one_line(fault: ConfigFault) -> ConfigFault:
    """*fault*, safe to be shown whatever characters stand in the file that it quotes."""
    hint = clean_text(fault.hint, _LONGEST) if fault.hint else None
    return replace(
        fault, path=clean_text(fault.path, _LONGEST), message=clean_text(fault.message, _LONGEST), hint=hint
    )


def _names_unset(fault: ConfigFault) -> bool:
    return fault.message.startswith("environment variable ")


def _document(path: Path | None, environ: Mapping[str, str]) -> Document:
    if path is None:
        return Document(file="")
    try:
        return read(read_text(path), file=str(path), environ=environ)
    except UnreadableError as error:
        hint = "aijobs config init --output FILE writes one to start from" if not path.exists() else None
        raise ConfigError([error.fault], hint=hint) from None


def _settings(document: Document, path: Path | None) -> Settings | None:
    context = {"source": Handover(path.parent if path else Path())}
    try:
        return Settings.model_validate(document.data, context=context)
    except ValidationError as error:
        from aijobs.core.config.faults import report, take_numbers  # only when something is wrong

        if not take_numbers(error, document.data):
            report(error, document)
            return None
    try:
        return Settings.model_validate(document.data, context=context)
    except ValidationError as error:
        report(error, document)
        return None
