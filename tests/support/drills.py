"""Running drills as processes, some at once, and reading what they say."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tests.support.command_line import CommandLine, Result

_AT_ONCE = 3


@dataclass(frozen=True)
class Run:
    """One drill to be run."""

    name: str
    database: str | None = None
    environ: Mapping[str, str] | None = None


def run_side_by_side(runs: Sequence[Run]) -> list[Result]:
    """Drills wait for most of their time: a few at once take hardly longer than one."""

    def run(one: Run) -> Result:
        given = ("--database", one.database) if one.database else ()
        return CommandLine(database=None).process(*given, "drill", one.name, "--json", environ=one.environ)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(run, runs))


def missed(result: Result) -> dict[str, str]:
    """What one drill expected and did not see, with what it saw instead."""
    (report,) = result.json["drills"]
    return {check["expected"]: check["saw"] for check in report["checks"] if not check["ok"]}
