"""What one section says of another: names that must exist there, and what they must be able to do."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from aijobs.core.settings.providers import HAVE_BACKGROUND

Path = tuple[str | int, ...]

_SECTIONS = {"provider": "providers", "type": "types", "notify": "notify"}


@dataclass(frozen=True, slots=True)
class Inconsistency:
    """Two sections that contradict each other; *path* is the one that refers."""

    path: Path
    message: str
    hint: str | None = None


_LONGEST_NAME = 100  # what a name may have, and what is worth comparing


def closest(name: str, names: Iterable[str]) -> str | None:
    """Which of *names* a person who typed *name* may have meant."""
    import difflib  # only when something is wrong

    folded = {known.casefold(): known for known in names}
    found = difflib.get_close_matches(name[:_LONGEST_NAME].casefold(), list(folded), n=1, cutoff=0.6)
    return folded[found[0]] if found else None


def inconsistencies(data: Mapping[str, Any]) -> Iterator[Inconsistency]:
    """All of them in *data*: plain dicts and lists with the built-in entries, possibly of wrong types."""
    for path, what, name in _references(data):
        known = list(_mapping(data.get(_SECTIONS[what])))
        if isinstance(name, str) and name not in known:
            near = closest(name, known)
            hint = f"did you mean {near!r}?" if near else f"there are: {', '.join(sorted(known)) or 'none'}"
            listed = "notification target" if what == "notify" else what
            yield Inconsistency(path, f"no {listed} named {name!r}", hint)
    for name, job_type in _entries(data, "types"):
        yield from _background(name, job_type, data)
        yield from _fallback(name, job_type)


def _background(name: str, job_type: Mapping[str, Any], data: Mapping[str, Any]) -> Iterator[Inconsistency]:
    provider = _mapping(_mapping(data.get("providers")).get(_text(job_type.get("provider"))))
    able = provider.get("supports_background")
    if able is None:
        able = _text(provider.get("kind")) in HAVE_BACKGROUND
    if job_type.get("background") is True and provider and not able:
        message = f"provider {job_type['provider']!r} (kind {provider.get('kind')}) has no background mode"
        yield Inconsistency(("types", name, "background"), message)


def _fallback(name: str, job_type: Mapping[str, Any]) -> Iterator[Inconsistency]:
    fallback = _mapping(job_type.get("fallback"))
    same = all(fallback.get(key) == job_type.get(key) for key in ("provider", "model"))
    if fallback and same:
        yield Inconsistency(("types", name, "fallback"), "falls back to the very same provider and model")


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


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
