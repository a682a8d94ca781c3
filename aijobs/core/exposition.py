"""The Prometheus text format 0.0.4, written exactly: one HELP and TYPE a name, escaped labels, no duplicates.

Source: the text format section of the Prometheus documentation ("Exposition formats").
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_HELP_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n"})

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One line. *suffix* is that of a histogram's line: `_bucket`, `_sum`, `_count`."""

    value: float
    labels: tuple[tuple[str, str], ...] = ()
    suffix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """All lines of one metric."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    samples: Sequence[Sample]


def gauge(name: str, text: str, samples: Iterable[tuple[Labels, float | None]]) -> Family:
    """A gauge; a value that is not known is left out, which is not nought."""
    known = [
        Sample(labels=tuple(labels.items()), value=value) for labels, value in samples if value is not None
    ]
    return Family(name=name, kind="gauge", help=text, samples=known)


def counter(name: str, text: str, samples: Iterable[tuple[Labels, float]]) -> Family:
    """A counter."""
    lines = [Sample(labels=tuple(labels.items()), value=value) for labels, value in samples]
    return Family(name=name, kind="counter", help=text, samples=lines)


def histogram(
    name: str, text: str, series: Iterable[tuple[Labels, Mapping[str, float], float]], bounds: Sequence[float]
) -> Family:
    """A histogram; each of *series* is labels, counts by upper bound (each counted once), and the sum."""
    lines: list[Sample] = []
    for labels, counts, total in series:
        own, below = tuple(labels.items()), 0.0
        for bound in (*(f"{bound:g}" for bound in bounds), "+Inf"):
            below += counts.get(bound, 0)
            lines.append(Sample(suffix="_bucket", labels=(*own, ("le", bound)), value=below))
        lines.append(Sample(suffix="_sum", labels=own, value=total))
        lines.append(Sample(suffix="_count", labels=own, value=below))
    return Family(name=name, kind="histogram", help=text, samples=lines)


def render(families: Iterable[Family]) -> str:
    """The text of *families*. ValueError for a metric or label name that is none, or a line given twice."""
    lines: list[str] = []
    seen: set[str] = set()
    for family in families:
        lines.append(f"# HELP {_checked(family.name)} {family.help.translate(_HELP_ESCAPES)}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        for sample in family.samples:
            series = family.name + sample.suffix + _labels(sample.labels)
            if series in seen:
                raise ValueError(f"twice: {series}")
            seen.add(series)
            lines.append(f"{series} {_number(sample.value)}")
    return "\n".join(lines) + "\n"


def _labels(labels: Sequence[tuple[str, str]]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{_checked(name)}="{_value(value)}"' for name, value in labels) + "}"


def _value(text: str) -> str:
    return text.translate(_LABEL_ESCAPES).encode("utf-8", "replace").decode()


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"not a name of a metric or label: {name!r}")
    return name


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if math.isnan(value):
        return "NaN"
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))
