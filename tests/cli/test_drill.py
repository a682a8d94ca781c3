"""`aijobs drill`: what it takes, what it refuses, and how it tells what it saw."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from aijobs.core.clock import Chance, SystemClock
from aijobs.core.errors import StoreUnreachable, UsageError
from aijobs.core.switches import ALL, Switch, SwitchKind
from aijobs.services.coordinator import Coordinator
from aijobs.services.drill import NAMES, Check, DrillReport, Drills, Surroundings, refusal_of
from aijobs.services.drill.ground import ground
from aijobs.services.drill.outage import _gently
from aijobs.services.drill.processes import environ_for
from aijobs.services.drill.provider import most_at_once
from aijobs.store import jobs, switches, workers
from aijobs.store.engine import Store
from tests.support.command_line import CommandLine
from tests.support.jobs import new_job, settings_of

GOOD = Check(expected="a promise", saw="it is kept", ok=True)
BAD = Check(expected="another one", saw="it is not", ok=False)
Play = Callable[..., None]


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Play:
    """Let drills only report; those that are named, that something is not as expected."""

    def played(*bad: str) -> None:
        def run(_: Drills, name: str) -> DrillReport:
            checks = (GOOD, BAD) if name in bad else (GOOD,)
            return DrillReport(name=name, did="this " * 40, checks=checks, seconds=1.25)

        monkeypatch.setattr(Drills, "run", run)

    return played


# --- What it says ---------------------------------------------------------------------------------


def test_without_a_name_it_runs_all_of_them(run_bare: CommandLine, play: Play) -> None:
    play()

    result = run_bare("drill", "--json")

    assert (result.code, result.json["passed"]) == (0, True)
    assert [one["name"] for one in result.json["drills"]] == list(NAMES)
    assert result.json["drills"][0] | {"did": ""} == {
        "name": "rate-limit", "passed": True, "did": "", "expected": ["a promise"], "saw": ["it is kept"],
        "checks": [{"expected": "a promise", "saw": "it is kept", "ok": True}], "seconds": 1.2,
    }  # fmt: skip


def test_one_that_is_not_as_expected_says_what_it_saw_and_fails(run_bare: CommandLine, play: Play) -> None:
    play("outage")

    result = run_bare("drill")
    as_json = run_bare("drill", "outage", "--json")

    assert result.code == 1
    assert "FAILED  outage (1.2 s)\n" in result.out
    assert "  expected  another one\n  BUT SAW   it is not\n" in result.out
    assert result.out.endswith("6 drills in 8 s: FAILED: outage\n")
    assert max(map(len, result.out.splitlines())) <= 79
    assert (as_json.code, as_json.json["passed"]) == (1, False)


# --- What it refuses ------------------------------------------------------------------------------


def test_a_drill_that_is_not_there_is_a_usage_error(run_bare: CommandLine, tmp_path: Path) -> None:
    result = run_bare("drill", "outrage")

    assert result.code == 2
    assert "did you mean 'outage'?" in result.err
    assert list(tmp_path.iterdir()) == []


def test_a_configuration_of_yours_is_not_drilled_with(run_bare: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("")

    assert run_bare("--config", "mine.yaml", "drill").code == 2


@pytest.mark.parametrize("url", ["sqlite:///missing.db", "postgresql://jobs:sk-demo-012345@127.0.0.1:1/jobs"])
def test_a_staging_store_that_is_not_there_is_one_clear_line(
    run_bare: CommandLine, tmp_path: Path, url: str
) -> None:
    result = run_bare("--database", url, "drill", "--json")

    assert result.code == 5
    assert result.json["error"]["kind"] == "store_unreachable"
    assert "sk-demo" not in result.out + result.err
    assert list(tmp_path.iterdir()) == []


def test_a_paused_store_is_not_drilled_in(run_cli: CommandLine, store: Store) -> None:
    pause = Switch(
        kind=SwitchKind.PAUSE, scope=ALL, value="on", actor="ana", reason="r", set_at=store.clock.now(),
        expires_at=None,
    )  # fmt: skip
    with store.write() as tx:
        switches.throw(tx, pause)

    result = run_cli("--database", store.url, "drill")

    assert result.code == 4
    assert "paused" in result.err


def test_what_a_killed_one_left_goes_first_and_what_may_still_run_is_named(
    run_cli: CommandLine, store: Store, chance: Chance, play: Play
) -> None:
    play()
    coordinator = Coordinator(store, settings_of(), chance=chance)
    for drill in ("drill-00000001", "drill-00000002"):
        coordinator.enqueue(new_job(type=f"{drill}-work", user=f"{drill}-ana"), actor="t")
    with store.write() as tx:
        workers.register(
            tx, name="drill-00000002-1", host="h", pid=1, version="1", concurrency=1, types=None,
            now=SystemClock().now(),
        )  # fmt: skip

    result = run_cli("--database", store.url, "drill", "outage")

    assert result.code == 0
    assert "removed what drill-00000001 left, which was killed: 1 job\n" in result.err
    assert "drill-00000002 was heard of" in result.err
    with store.read() as tx:
        assert [job.type for job in jobs.page(tx, jobs.Filter(), 9)] == ["drill-00000002-work"]


@pytest.mark.parametrize(
    ("spec", "shown"),
    [
        ("429", "429x1"),
        (None, "429x1"),
        ("429=2x3", "429=2x3"),
        ("503", "503x1"),
        ("429_ms=800", "429_ms=800x1"),
    ],
)
def test_a_fault_that_passes_and_names_its_wait_is_taken(spec: str | None, shown: str) -> None:
    assert str(refusal_of(spec)) == shown


@pytest.mark.parametrize(
    "spec",
    [
        "400",
        "429_no_hint",
        "429_reset",
        "poll_429",
        "429:0.5",
        "429x9",
        "429x0",
        "429=60",
        "429,500",
        "423x",
        "nonsense",
    ],
)
def test_any_other_fault_is_one_clear_line(spec: str, run_bare: CommandLine) -> None:
    with pytest.raises(UsageError):
        refusal_of(spec)
    result = run_bare("drill", "rate-limit", environ={"PROVIDER_FAULT": spec})

    assert result.code == 2
    assert len(result.err.splitlines()) == 2
    assert "PROVIDER_FAULT" in result.err


def test_the_fault_is_that_of_the_drill_on_rate_limits_alone(run_bare: CommandLine, play: Play) -> None:
    play()

    assert run_bare("drill", "outage", environ={"PROVIDER_FAULT": "nonsense"}).code == 0


# --- What it is made of ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Call:
    """One call to a provider, from and to so many seconds."""

    begin: float
    end: float
    in_flight: int = 1
    status: int = 200
    method: str = "POST"
    job: str = "j"

    @property
    def at(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.begin)

    @property
    def finished_at(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.end)


def test_calls_that_follow_one_another_are_not_at_once() -> None:
    assert most_at_once([]) == 0
    assert most_at_once([Call(0, 2), Call(2, 3), Call(3, 4)]) == 1
    assert most_at_once([Call(0, 3), Call(1, 2), Call(1.5, 4), Call(3, 5)]) == 3


@pytest.mark.parametrize(
    ("in_flight", "ok"), [((1, 1, 1, 2, 4, 1, 2, 3), True), ((1, 2, 1, 1, 1, 1, 1, 1), False)]
)
def test_a_slow_start_that_goes_too_fast_is_seen(in_flight: tuple[int, ...], ok: bool) -> None:
    assert _gently([Call(n, n + 1, in_flight=count) for n, count in enumerate(in_flight)]).ok is ok
    assert not _gently([Call(0, 1)]).ok


def test_its_processes_know_nothing_of_your_settings_and_the_url_is_no_argument() -> None:
    given = {"AIJOBS_CONFIG": "mine.yaml", "PROVIDER_FAULT": "429", "OPENAI_API_KEY": "k", "PATH": "/bin"}

    environ = environ_for(given, "postgresql://u:secret@h/db")

    assert environ["AIJOBS_DATABASE"] == "postgresql://u:secret@h/db"
    assert environ["PATH"] == "/bin"
    assert not {"AIJOBS_CONFIG", "PROVIDER_FAULT"} & environ.keys()


class Nowhere:
    """A provider that nobody calls."""

    url = "http://127.0.0.1:9"


@contextmanager
def nowhere() -> Iterator[object]:
    yield Nowhere()


def test_a_store_that_goes_away_for_good_is_told_with_what_is_left(
    store: Store, tmp_path: Path, chance: Chance, monkeypatch: pytest.MonkeyPatch
) -> None:
    around = Surroundings(
        store=store, url=store.url, folder=tmp_path, environ={}, chance=chance,
        start_provider=nowhere,  # type: ignore[arg-type]
    )  # fmt: skip

    left: list[str] = []

    def gone(*_: object) -> None:
        raise StoreUnreachable("it is gone")

    def drill() -> None:
        with ground(around) as here:
            here.configure({"work": {}})
            left.append(here.enqueue("work", {}).type)
            monkeypatch.setattr("aijobs.store.traces.remove", gone)

    with pytest.raises(StoreUnreachable) as raised:
        drill()

    assert left[0].removesuffix("-work") in (raised.value.hint or "")
