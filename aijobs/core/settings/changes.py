"""What differs between two configurations, by the paths of the options: names only, never a value."""

from collections.abc import Iterator, Mapping

from aijobs.core.settings.fields import Section


def changed(before: Section, after: Section) -> tuple[str, ...]:
    """The paths (`types.summarize.per_user`) whose values differ, in order; a whole entry that came or went
    is one path.
    """
    return tuple(sorted(".".join(path) for path in _walk(_fields(before), _fields(after))))


def _walk(before: Mapping[str, object], after: Mapping[str, object]) -> Iterator[tuple[str, ...]]:
    for name in before.keys() | after.keys():
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        inner = _inside(old), _inside(new)
        if inner[0] is None or inner[1] is None:
            yield (str(name),)
            continue
        for path in _walk(inner[0], inner[1]):
            yield (str(name), *path)


def _inside(value: object) -> Mapping[str, object] | None:
    if isinstance(value, Section):
        return _fields(value)
    return value if isinstance(value, Mapping) else None


def _fields(section: Section) -> dict[str, object]:
    return dict(iter(section))  # `dict(section)` would ask for `keys`, which is an option
