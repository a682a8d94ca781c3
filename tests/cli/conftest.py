"""Fixtures: the command line in this process, on a store of each database."""

from pathlib import Path

import pytest

from aijobs.store.engine import Store
from tests.support.clock import ManualClock
from tests.support.command_line import CommandLine


@pytest.fixture
def run_cli(store: Store, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """Run `aijobs ARGS...` on `store` (each database in turn), by `clock`, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return CommandLine(database=store.url, clock=clock)


@pytest.fixture
def run_fresh(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """The same on a database that holds no store yet, by the machine's clock."""
    monkeypatch.chdir(tmp_path)
    return CommandLine(database=database_url)


@pytest.fixture
def run_bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """The same without any database named, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return CommandLine(database=None)
