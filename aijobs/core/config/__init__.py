"""Reading the configuration file: all of its faults at once, each with file, line, column and path.

The order: bytes to text, text to nodes, nodes to data (references to the environment replaced), data to
`Settings`, then what one section says of another. Nothing is opened, connected to or imported on the way.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from aijobs.core.config.document import Document, read
from aijobs.core.config.document import Path as Place
from aijobs.core.config.environment import mentions
from aijobs.core.config.faults import NUMBERS, at, in_file, report
from aijobs.core.config.scalars import EnvironmentText, resolve
from aijobs.core.config.source import LARGEST_SECRET, UnreadableError, read_bytes, read_text
from aijobs.core.durations import parse_duration
from aijobs.core.errors import ConfigError
from aijobs.core.settings import Settings, with_built_in
from aijobs.core.settings.consistency import inconsistencies
from aijobs.core.settings.url import database_password

__all__ = ["load"]

FILE_PREFIX = "file:"
_DATABASES = ("sqlite:", "postgresql:", "postgresql+psycopg:", "postgres:")
_CREDENTIAL = re.compile(
    r"authorization|cookie|(api|access|auth|secret)[-_]?(key|token)|token|secret", re.IGNORECASE
)


def load(
    path: Path | None, *, environ: Mapping[str, str], database: str | None = None, thorough: bool = False
) -> Settings:
    """The settings in the file at *path*; without one, the defaults. *database* goes over what the file says.

    With *thorough* also what is costly to look at is checked: prompt templates and input schemas.
    Raises ConfigError with every fault there is.
    """
    document = _document(path, environ)
    if database is not None:
        document.data["database"] = database
        document.sources.pop(("database",), None)  # what the file says is not used, so it is not judged
    settings = _settings(document, path)
    _look_across(document)
    if thorough:
        _look_closely(document)
    if document.faults or settings is None:
        raise ConfigError(sorted(document.faults, key=lambda fault: (fault.line, fault.column)))
    return settings.read_from(path)


def _document(path: Path | None, environ: Mapping[str, str]) -> Document:
    if path is None:
        return Document(file="")
    try:
        return read(read_text(path), file=str(path), environ=environ)
    except UnreadableError as error:
        raise ConfigError([error.fault]) from None


def _settings(document: Document, path: Path | None) -> Settings | None:
    context = {"source": _Source(path.parent if path else Path())}
    try:
        return Settings.model_validate(document.data, context=context)
    except ValidationError as error:
        numbers = _take_numbers(error, document.data)
        if not numbers:
            report(error, document)
            return None
    try:
        return Settings.model_validate(document.data, context=context)
    except ValidationError as error:
        report(error, document)
        return None


def _take_numbers(error: ValidationError, data: dict[str, Any]) -> bool:
    """Where a number or boolean is needed and the environment's text spells one, put it in its place."""
    taken = False
    for one in error.errors(include_url=False, include_input=False):
        path = in_file(one["loc"], data)
        text = at(path, data)
        if one["type"] in NUMBERS and isinstance(text, EnvironmentText):
            value = resolve(str(text))
            if value is not None and not isinstance(value, str):
                holder: Any = at(path[:-1], data)
                holder[path[-1]] = value
                taken = True
    return taken


class _Source:
    """Tells a secret that was handed in from one that was typed into the file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def secret(self, value: object) -> str:
        """The secret that *value* leads to. ValueError for one that stands in the file itself."""
        if isinstance(value, EnvironmentText):
            return str(value)
        if isinstance(value, str) and value.startswith(FILE_PREFIX):
            return self._read(value.removeprefix(FILE_PREFIX))
        raise ValueError("a secret may only be given as ${NAME} or file:PATH, never in the file itself")

    def header(self, name: object, value: object) -> object:
        """The value of a request header; one that carries a credential is treated as a secret."""
        credential = isinstance(name, str) and bool(_CREDENTIAL.search(name))
        is_path = isinstance(value, str) and value.startswith(FILE_PREFIX)
        if credential or is_path:
            return self.secret(value)
        return str(value) if isinstance(value, str) else value

    def _read(self, name: str) -> str:
        path = Path(name).expanduser()
        try:
            return read_bytes(self.folder / path, most=LARGEST_SECRET).decode("utf-8")
        except UnreadableError as error:
            raise ValueError(f"the secret's file {name}: {error.fault.message}") from None
        except UnicodeDecodeError:
            raise ValueError(f"the secret's file {name}: not UTF-8") from None


# --- What goes over one section -------------------------------------------------------------------


def _look_across(document: Document) -> None:
    """Add what no single section shows, from whatever data there is, to come with the other faults."""
    data = with_built_in(document.data)
    for one in inconsistencies(data):
        document.fault(one.path, one.message, hint=one.hint)
    _check_database(document)
    for name, schedule in _mappings(data, "schedules"):
        _check_times(document, ("schedules", name), schedule)


def _check_database(document: Document) -> None:
    at_database = ("database",)
    source, value = document.sources.get(at_database), document.data.get("database")
    if source is None or not isinstance(value, str):
        return
    if not value.startswith(_DATABASES):
        document.fault(at_database, "must begin with sqlite:/// or postgresql://")
    password = database_password(source)
    if password and not mentions(password):
        hint = "write ${NAME} in its place: postgresql://user:${DB_PASSWORD}@host/name"
        document.fault(
            at_database, "a password may only be given as ${NAME}, never in the file itself", hint=hint
        )


def _check_times(document: Document, path: Place, schedule: Mapping[str, Any]) -> None:
    from aijobs.core.cron import Schedule, validate
    from aijobs.core.wallclock import find_zone

    cron, every, zone = schedule.get("cron"), schedule.get("every"), schedule.get("timezone")
    if isinstance(cron, str):
        for reason in validate(cron, "UTC"):
            document.fault((*path, "cron"), reason)
    try:
        if isinstance(zone, str):
            find_zone(zone)
    except ValueError as error:
        document.fault((*path, "timezone"), str(error))
    try:
        period = parse_duration(every) if isinstance(every, str) else None
    except ValueError:
        return  # said already, with the field
    try:
        if period:
            Schedule.parse(every=period)
    except ValueError as error:
        document.fault((*path, "every"), str(error))


def _look_closely(document: Document) -> None:
    """Add faults in templates and schemas; needs libraries that ordinary commands can do without."""
    from aijobs.core.payload import schema_fault
    from aijobs.core.prompt import check

    for name, job_type in _mappings(document.data, "types"):
        template = job_type.get("prompt")
        if isinstance(template, str):
            fault = check(template)
            if fault:
                document.fault(("types", name, "prompt"), fault)
        for key in ("input_schema", "response_format"):
            fault = schema_fault(job_type[key]) if isinstance(job_type.get(key), dict) else None
            if fault:
                document.fault(("types", name, key), f"not a JSON Schema: {fault}")


def _mappings(data: Mapping[str, Any], section: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    entries = data.get(section)
    for name, entry in entries.items() if isinstance(entries, Mapping) else ():
        if isinstance(entry, Mapping):
            yield name, entry
