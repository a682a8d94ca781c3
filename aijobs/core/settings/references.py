"""Names in one section that must exist in another."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Path = tuple[str | int, ...]

_SECTIONS = {"provider": "providers", "type": "types", "notify": "notify"}


@dataclass(frozen=True, slots=True)
class BrokenReference:
    """A name that leads nowhere; *near* is what may have been meant."""

    path: Path
    message: str
    name: str
    known: tuple[str, ...]


def broken_references(data: Mapping[str, Any]) -> Iterator[BrokenReference]:
    """Every name in *data* (plain dicts and lists, possibly of wrong types) that leads nowhere."""
    names = {section: tuple(_mapping(data.get(section))) for section in _SECTIONS.values()}
    for path, what, name in _references(data):
        known = names[_SECTIONS[what]]
        if isinstance(name, str) and name not in known:
            listed = f"{what} target" if what == "notify" else what
            yield BrokenReference(path, f"no {listed} named {name!r}", name, known)


def _references(data: Mapping[str, Any]) -> Iterator[tuple[Path, str, object]]:
    for name, job_type in _entries(data, "types"):
        at: Path = ("types", name)
        yield (*at, "provider"), "provider", job_type.get("provider")
        for part in ("fallback", "shadow"):
            yield (*at, part, "provider"), "provider", _mapping(job_type.get(part)).get("provider")
        yield from _listed((*at, "notify"), job_type.get("notify"))
    for name, schedule in _entries(data, "schedules"):
        yield ("schedules", name, "type"), "type", schedule.get("type")
    yield from _listed(("alerts", "notify"), _mapping(data.get("alerts")).get("notify"))


def _listed(path: Path, names: object) -> Iterator[tuple[Path, str, object]]:
    if isinstance(names, list | tuple):
        for index, name in enumerate(names):
            yield (*path, index), "notify", name


def _entries(data: Mapping[str, Any], section: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, entry in _mapping(data.get(section)).items():
        yield name, _mapping(entry)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
