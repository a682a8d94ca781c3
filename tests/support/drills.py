"""Running drills as processes, some at once, and reading what they say."""

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tests.support.breaking import Notice
from tests.support.command_line import CommandLine, Result

_AT_ONCE = 3
_LONGEST = "lease-recovery"
"""It waits for leases to run out, and takes as long as two others one after the other: it goes first."""


@dataclass(frozen=True, eq=False)
class Run:
    """One drill to be run."""

    name: str
    database: str | None = None
    environ: Mapping[str, str] | None = None


def run_side_by_side(runs: Sequence[Run]) -> list[Result]:
    """What each says, in order. Drills mostly wait: a few at once take hardly longer than one."""

    def run(one: Run) -> Result:
        given = ("--database", one.database) if one.database else ()
        return CommandLine(database=None).process(*given, "drill", one.name, "--json", environ=one.environ)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        said = {one: pool.submit(run, one) for one in sorted(runs, key=lambda one: one.name != _LONGEST)}
        return [said[one].result() for one in runs]


def noticed(notice: Notice, result: Result) -> str | None:
    """What the drill saw instead of the promise that is broken; None: it passed, or something else failed."""
    if result.code != 1:
        return None
    (report,) = result.json["drills"]
    missed = {check["expected"]: str(check["saw"]) for check in report["checks"] if not check["ok"]}
    saw = next((saw for expected, saw in missed.items() if notice.promise in expected), "")
    return saw if re.search(notice.seen, saw) else None
