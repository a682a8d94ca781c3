"""When a changed configuration is believed: somebody may be writing it."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from aijobs.core.config import load
from aijobs.core.log_events import LogEvent
from aijobs.core.settings import Settings
from aijobs.services.worker.reloading import MOST_READS, Reloading
from tests.support.workers import Heard

WHOLE = """\
providers: {p: {kind: python, callable: "builtins:str"}}
types: {t: {provider: p}}
concurrency: {global: 2}
"""
HALF = WHOLE[: WHOLE.index("concurrency")]
EDITED = WHOLE.replace("global: 2", "global: 3")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "aijobs.yaml"
    path.write_text(WHOLE)
    return path


def looked(
    path: Path, *, found: Callable[[], object], meanwhile: Callable[[], object]
) -> tuple[list[int], Heard]:
    """The limits taken when the file is *found* so, and *meanwhile* happens before the next read."""
    taken: list[int] = []
    log = Heard()

    async def apply(settings: Settings, paths: tuple[str, ...], why: str) -> None:
        taken.append(settings.concurrency.global_ or 0)

    async def sleep(seconds: float) -> None:
        meanwhile()

    def read() -> Settings:
        return load(path if path.exists() else None, environ={})

    reloading = Reloading(read(), read, log=log, apply=apply, sleep=sleep)
    found()
    asyncio.run(reloading.look("SIGHUP"))
    return taken, log


def test_a_change_that_stays_for_a_moment_is_taken(path: Path) -> None:
    taken, log = looked(path, found=lambda: path.write_text(EDITED), meanwhile=lambda: None)

    assert taken == [3]
    assert [event for event, _ in log.said] == [LogEvent.CONFIG_RELOADED]


def test_a_file_that_was_read_while_it_was_written_lifts_no_limit(path: Path) -> None:
    taken, log = looked(path, found=lambda: path.write_text(HALF), meanwhile=lambda: path.write_text(WHOLE))

    assert taken == []
    assert [event for event, _ in log.said] == [LogEvent.CONFIG_UNCHANGED]


def test_a_file_that_changes_all_the_time_is_refused(path: Path) -> None:
    texts = [WHOLE + f"worker: {{concurrency: {n}}}\n" for n in range(20, 21 + MOST_READS)]

    taken, log = looked(
        path,
        found=lambda: path.write_text(texts.pop()),
        meanwhile=lambda: path.write_text(texts.pop()),
    )

    assert taken == []
    assert "changes all the time" in str(log.fields_of(LogEvent.CONFIG_REFUSED)[0]["error"])


@pytest.mark.parametrize(
    ("lose", "said"),
    [
        (lambda path: path.write_text(""), "the file is empty"),
        (lambda path: path.write_text("# nothing\n"), "the file is empty"),
        (lambda path: path.unlink(), "the file is gone"),
    ],
)
def test_a_file_that_is_empty_or_gone_is_refused_and_the_old_one_stays(
    path: Path, lose: Callable[[Path], object], said: str
) -> None:
    taken, log = looked(path, found=lambda: lose(path), meanwhile=lambda: None)

    assert taken == []
    ((event, fields),) = log.said
    assert (event, said in str(fields["error"])) == (LogEvent.CONFIG_REFUSED, True)
