"""What no single section shows: names between sections, times, templates and schemas."""

from collections.abc import Iterator, Mapping
from typing import Any

from aijobs.core.config.document import Document, Path
from aijobs.core.config.environment import mentions
from aijobs.core.durations import parse_duration
from aijobs.core.settings import with_built_in
from aijobs.core.settings.consistency import inconsistencies
from aijobs.core.settings.url import database_password

_DATABASES = ("sqlite:", "postgresql:", "postgresql+psycopg:", "postgres:")


def look_across(document: Document) -> None:
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


def _check_times(document: Document, path: Path, schedule: Mapping[str, Any]) -> None:
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


def look_closely(document: Document) -> None:
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
