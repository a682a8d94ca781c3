"""`db`, `sweep`, `doctor` and `worker`: what operators run, on both databases."""

import json
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import delete

from aijobs.core import breaker
from aijobs.core.clock import Chance
from aijobs.core.model import Status
from aijobs.core.settings import Settings
from aijobs.http.simulator import start_in_thread
from aijobs.services import doctor
from aijobs.services.coordinator import Coordinator
from aijobs.services.coordinator.gates import health_of
from aijobs.services.doctor import Patient, _clock, _disk
from aijobs.store import claims, provider_states, workers
from aijobs.store.condition import Condition
from aijobs.store.engine import Store
from aijobs.store.tables import events
from tests.support.clock import ManualClock
from tests.support.command_line import CommandLine
from tests.support.jobs import claim_one, present

pytestmark = pytest.mark.usefixtures("durable_sqlite")  # the doctor looks at that


@pytest.fixture
def coordinator(store: Store, chance: Chance) -> Coordinator:
    return Coordinator(store, Settings(), chance=chance)


# --- db ---------------------------------------------------------------------------------------------


def test_upgrade_makes_a_store_and_a_second_time_does_nothing(run_fresh: CommandLine) -> None:
    first, second = run_fresh("db", "upgrade", "--json"), run_fresh("db", "upgrade", "--json")

    assert (first.code, second.code) == (0, 0)
    assert (first.json["before"], first.json["changed"]) == (None, True)
    assert (second.json["before"], second.json["changed"]) == (first.json["after"], False)


def test_check_says_that_a_store_is_whole(run_cli: CommandLine) -> None:
    result = run_cli("db", "check", "--json")

    assert result.code == 0
    assert result.json["missing"] == []
    assert "is whole" in run_cli("db", "check").out


def test_check_says_that_there_is_none(run_fresh: CommandLine) -> None:
    result = run_fresh("db", "check", "--json")

    assert result.code == 5
    assert result.json["error"]["kind"] == "store_unreachable"


# --- sweep ------------------------------------------------------------------------------------------


@pytest.fixture
def lost(run_cli: CommandLine, coordinator: Coordinator, clock: ManualClock) -> str:
    """A job whose worker vanished."""
    job_id = run_cli("enqueue", "demo").out.strip()
    claim_one(coordinator)
    clock.advance(timedelta(hours=1))
    return job_id


def test_a_preview_finds_and_changes_nothing(run_cli: CommandLine, lost: str, store: Store) -> None:
    result = run_cli("sweep", "--preview", "--json")

    assert result.code == 0
    assert result.json["expired_leases"] == {"found": 1, "repaired": 0, "ids": [lost]}
    assert present(store, lost).status is Status.PROCESSING


def test_a_sweep_repairs_and_a_second_finds_nothing(run_cli: CommandLine, lost: str, store: Store) -> None:
    first, second = run_cli("sweep", "--json"), run_cli("sweep", "--json")

    assert first.json["expired_leases"] == {"found": 1, "repaired": 1, "ids": [lost]}
    assert second.json["expired_leases"] == {"found": 0, "repaired": 0, "ids": []}
    assert present(store, lost).status is Status.FAILED


def test_a_sweep_is_told_as_a_table(run_cli: CommandLine, lost: str) -> None:
    result = run_cli("sweep", "-v")

    assert [line.split() for line in result.out.splitlines()][:2] == [
        ["WHAT", "FOUND", "REPAIRED"], ["expired", "leases", "1", "1"],
    ]  # fmt: skip
    assert lost in result.err


# --- doctor -----------------------------------------------------------------------------------------


def _checks(document: Any) -> dict[str, Any]:
    found = {one["check"]: one for one in document["checks"]}
    assert len(found) == len(document["checks"])  # each has a name of its own
    return found


def test_a_fresh_store_is_well(run_cli: CommandLine, store: Store) -> None:
    result = run_cli("doctor", "--json")

    checks = _checks(result.json)
    assert (result.code, result.json["ok"]) == (0, True), result.out
    assert {"python", "versions", "configuration", "provider simulator", "store", "schema", "workers"} <= set(
        checks
    )
    assert store.location in checks["store"]["evidence"]
    assert all(one["hint"] is None for one in checks.values())
    if store.dialect == "postgresql":
        assert checks["listener"]["evidence"] == "notifications arrive"
    else:
        assert checks["journal"]["evidence"] == "mode wal, a commit survives a loss of power"


def test_waiting_jobs_without_a_worker_are_wrong(run_cli: CommandLine) -> None:
    run_cli("enqueue", "demo")

    result = run_cli("doctor", "--json")

    check = _checks(result.json)["workers"]
    assert (result.code, result.json["ok"], check["ok"]) == (1, False, False)
    assert "aijobs worker" in check["hint"]


def _register(store: Store, clock: ManualClock) -> None:
    with store.write() as tx:
        workers.register(
            tx, name="w1", host="h", pid=1, version="0", concurrency=1, types=None, now=clock.now()
        )


def test_a_worker_that_beats_is_alive_and_a_silent_one_is_told_of(
    run_cli: CommandLine, store: Store, clock: ManualClock
) -> None:
    run_cli("enqueue", "demo")
    _register(store, clock)
    alive = run_cli("doctor", "--json")
    clock.advance(timedelta(hours=1))
    silent = run_cli("doctor", "--json")

    assert alive.code == 0
    assert "alive: w1 on h" in _checks(alive.json)["workers"]["evidence"]
    assert silent.code == 1
    assert "silent for 1h: its jobs wait for a worker" in _checks(silent.json)["worker w1"]["evidence"]


def test_the_doctor_tells_what_people_hold_back_and_how_that_ends_and_calls_it_no_fault(
    run_cli: CommandLine, tmp_path: Path
) -> None:
    daily = "{every: 1d, type: report}"
    (tmp_path / "aijobs.yaml").write_text(
        f"types: {{report: {{provider: simulator}}}}\nschedules: {{a: {daily}, b: {daily}, c: {daily}}}\n"
    )
    for line in (
        ("schedule", "pause", "a", "--reason", "first", "--actor", "bo"),
        ("schedule", "pause", "a", "--reason", "month end", "--actor", "ana"),
        ("schedule", "pause", "b", "--for", "1h", "--reason", "tests"),
        ("schedule", "pause", "c", "--reason", "over soon"),
        ("schedule", "resume", "c", "--reason", "over"),
        ("pause", "--below-priority", "5", "--for", "1h", "--reason", "busy", "--actor", "ana"),
    ):
        assert run_cli(*line).code == 0

    result = run_cli("doctor", "--json")

    told = {name: one["evidence"] for name, one in _checks(result.json).items()}
    assert (result.code, result.json["ok"]) == (0, True)
    since, end = (
        "paused since 2026-01-01T00:00:00Z, by ana: month end",
        "aijobs schedule resume a --reason '...'",
    )
    assert told["schedule a"] == f"{since}; `{end}` ends it"
    assert "since 2026-01-01T00:00:00Z, until 2026-01-01T01:00:00Z, by" in told["schedule b"]
    assert "schedule c" not in told
    assert told["pause below-priority"].startswith(
        "on for jobs below priority 5 since 2026-01-01T00:00:00Z, until "
    )
    assert told["pause below-priority"].endswith(
        ", by ana: busy; `aijobs resume --below-priority --reason '...'` ends it"
    )


def test_the_doctor_tells_which_providers_people_hold_and_leaves_out_what_ends_by_itself(
    run_cli: CommandLine, store: Store, clock: ManualClock, tmp_path: Path
) -> None:
    kind = "{kind: simulator}"
    (tmp_path / "aijobs.yaml").write_text(f"providers: {{{', '.join(f'{p}: {kind}' for p in 'abcdef')}}}\n")
    with store.write() as tx:  # what the program itself holds back: d, and e and f before people did
        for state in provider_states.locked(tx, "def", clock.now()).values():
            health = breaker.pause_until(
                health_of(state), clock.now() + timedelta(minutes=1), "rate limited", clock.now()
            ).health
            provider_states.save(tx, replace(state, **asdict(health)), clock.now())
    for name, *how in (
        ("a", "--reason", "first", "--actor", "bo"),
        ("a", "--reason", "a leaked key", "--actor", "ana"),
        ("b", "--for", "1h", "--reason", "their page", "--actor", "ana"),
        ("c", "--for", "1s", "--reason", "over soon"),
        ("e", "--for", "1h", "--reason", "longer", "--actor", "bo"),
        ("f", "--reason", "for good", "--actor", "bo"),
    ):
        assert run_cli("provider", "hold", name, *how).code == 0
    clock.advance(timedelta(seconds=2))

    result = run_cli("doctor", "--json")
    with store.write() as tx:
        tx.execute(delete(events))
    pruned = _checks(run_cli("doctor", "--json").json)["hold a"]["evidence"]

    holds = {name: one["evidence"] for name, one in _checks(result.json).items() if name.startswith("hold ")}
    since = "held since 2026-01-01T00:00:00Z"
    until = f"{since}, until 2026-01-01T01:00:00Z"
    assert (result.code, set(holds)) == (0, {"hold a", "hold b", "hold e", "hold f"})
    assert holds["hold a"] == (
        f"{since}, by ana: a leaked key; `aijobs provider reset a --reason '...'` ends it"
    )
    assert holds["hold b"].startswith(f"{until}, by ana: their page; ")
    assert holds["hold e"].startswith(f"{until}, by bo: longer; ")
    assert holds["hold f"].startswith(f"{since}, by bo: for good; ")
    assert pruned.startswith(f"{since}, who did it is no longer on record: a leaked key; ")


def test_a_pause_of_which_the_record_was_pruned_is_told_all_the_same(
    run_cli: CommandLine, store: Store, tmp_path: Path
) -> None:
    (tmp_path / "aijobs.yaml").write_text(
        "types: {report: {provider: simulator}}\nschedules: {a: {every: 1d, type: report}}\n"
    )
    run_cli("schedule", "pause", "a", "--reason", "x")
    with store.write() as tx:
        tx.execute(delete(events))

    told = _checks(run_cli("doctor", "--json").json)["schedule a"]

    assert (told["ok"], told["evidence"].partition(";")[0]) == (True, "paused")


def test_the_doctor_sees_that_somebody_keeps_others_from_writing(
    run_cli: CommandLine, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_WRITE_WAIT", 0.05)
    with store.write() as tx:
        claims.lock(tx)
        locked = run_cli("doctor", "--json")
    free = run_cli("doctor", "--json")

    check = _checks(locked.json)["writing"]
    assert (locked.code, check["ok"], free.code) == (1, False, 0)
    assert "kept us from it for 0.05 s" in check["evidence"]


@pytest.mark.postgres
def test_a_server_that_takes_no_writes_is_a_finding(postgres_url: str, run_bare: CommandLine) -> None:
    run_bare("db", "upgrade", database=postgres_url)

    result = run_bare("doctor", "--json", database=f"{postgres_url}%20-cdefault_transaction_read_only%3Don")

    check = _checks(result.json)["writing"]
    assert (result.code, check["ok"]) == (1, False)
    assert "read-only" in check["evidence"]


def test_with_a_probe_the_doctor_asks_every_provider(run_cli: CommandLine, tmp_path: Path) -> None:
    with start_in_thread(fault="401") as simulator:
        (tmp_path / "aijobs.yaml").write_text(
            f"providers: {{p: {{kind: openai-chat, base_url: '{simulator.url}/v1', api_key: '${{KEY}}'}}}}\n"
        )
        plain = run_cli("doctor", "--json", environ={"KEY": "open-sesame"})
        probed = run_cli("doctor", "--probe", "--json", environ={"KEY": "open-sesame"})
        asked = [call.path for call in simulator.calls()]

    check = _checks(probed.json)["probe p"]
    assert (plain.code, probed.code, check["ok"]) == (0, 1, False)
    assert "refuses the credentials" in check["evidence"]
    assert "open-sesame" not in probed.out
    assert asked == ["/v1/models"]


def test_a_missing_store_is_a_finding_and_not_an_error(run_bare: CommandLine, tmp_path: Path) -> None:
    result = run_bare("doctor", "--json")

    check = _checks(result.json)["store"]
    assert (result.code, check["ok"]) == (1, False)
    assert "no job store" in check["evidence"]
    assert list(tmp_path.iterdir()) == []


def test_a_faulty_configuration_is_a_finding(run_bare: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "aijobs.yaml").write_text("types: {x: {provider: nobody}}\n")

    result = run_bare("doctor", "--json")

    check = _checks(result.json)["configuration"]
    assert (result.code, check["ok"]) == (1, False)
    assert "nobody" in check["evidence"]


def test_a_callable_that_is_not_there_is_a_finding(run_cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "aijobs.yaml").write_text(
        "providers: {mine: {kind: python, callable: 'no.such:thing'}}\ntypes: {x: {provider: mine}}\n"
    )

    result = run_cli("doctor", "--json")

    assert _checks(result.json)["provider mine"]["ok"] is False


@pytest.mark.parametrize(("skew", "ok"), [(0.0, True), (4.9, True), (-6.0, False), (3600.0, False)])
def test_a_clock_that_is_far_off_is_wrong(skew: float, ok: bool) -> None:
    patient = _patient(Condition(version="18", skew_seconds=skew))

    (finding,) = _clock(patient)

    assert finding.ok is ok


@pytest.mark.parametrize(
    ("condition", "wrong"),
    [
        (Condition(version="3", journal_mode="wal", durable=True, free_bytes=1 << 40), set()),
        (Condition(version="3", journal_mode="delete", durable=True, free_bytes=1 << 40), {"journal"}),
        (Condition(version="3", journal_mode="wal", durable=False, free_bytes=1 << 40), {"journal"}),
        (Condition(version="3", journal_mode="wal", durable=True, free_bytes=1 << 20), {"disk space"}),
    ],
)
def test_a_disk_that_endangers_jobs_is_wrong(condition: Condition, wrong: set[str]) -> None:
    findings = list(_disk(_patient(condition)))

    assert {one.check for one in findings if not one.ok} == wrong


def test_a_network_file_system_is_wrong() -> None:
    condition = Condition(version="3", journal_mode="wal", durable=True, free_bytes=1 << 40)

    findings = list(_disk(_patient(condition, warnings=("on a network file system",))))

    assert {one.check for one in findings if not one.ok} == {"file system"}


def _patient(condition: Condition, warnings: tuple[str, ...] = ()) -> Patient:
    store: Any = SimpleNamespace(warnings=warnings)

    def nothing() -> Any:
        raise AssertionError("not asked for")

    return Patient(load=nothing, open=nothing, store=store, condition=condition)


# --- worker -----------------------------------------------------------------------------------------


@pytest.fixture
def running(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """The command line by the real clocks, on a store that has tables."""
    monkeypatch.chdir(tmp_path)
    return CommandLine(database=store.url)


def test_a_worker_drains_what_there_is_and_counts_it(running: CommandLine) -> None:
    ids = [running("enqueue", "demo", "--input", f'{{"n": {n}}}').out.strip() for n in range(3)]

    result = running("worker", "--drain", "--json")

    assert result.code == 0
    expected = {"claimed": 3, "succeeded": 3, "failed": 0, "dead_letter": 0, "cancelled": 0, "lost": 0}
    assert result.json == result.json | expected
    assert {running("inspect", one, "--json").json["job"]["status"] for one in ids} == {"succeeded"}


def test_a_drain_that_makes_a_dead_letter_gives_1(running: CommandLine) -> None:
    running("enqueue", "demo")

    result = running("worker", "--drain", "--json", environ={"PROVIDER_FAULT": "400"})

    assert result.code == 1
    assert result.json["dead_letter"] == 1
    assert "dead letter" in result.err


def test_a_fault_nobody_knows_is_refused_before_anything_is_claimed(running: CommandLine) -> None:
    job_id = running("enqueue", "demo").out.strip()

    result = running("worker", "--drain", environ={"PROVIDER_FAULT": "gremlins"})

    assert result.code == 2
    assert "gremlins" in result.err
    assert running("inspect", job_id, "--json").json["job"]["attempts"] == 0


def test_a_worker_logs_lines_for_people_or_machines(running: CommandLine) -> None:
    running("enqueue", "demo")
    told = running("worker", "--drain", "-v")
    running("enqueue", "demo")
    machines = running("worker", "--drain", "-v", "--log-format", "json")
    running("enqueue", "demo")
    quiet = running("worker", "--drain", "-q")

    assert "succeeded in" in told.err
    events = [json.loads(line)["event"] for line in machines.err.splitlines() if line.startswith("{")]
    assert events[0] == "worker_started"
    assert "job_succeeded" in events
    assert quiet.err == ""


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("--type", "dmeo"), 3, "did you mean 'demo'"),
        (("--concurrency", "0"), 2, "--concurrency"),
        (("--lease", "0s"), 2, "longer than 0s"),
        (("--lease", "999ms"), 2, "--lease: must be at least 1s"),
        (("--lease", "60"), 2, "has no unit"),
        (("--grace", "-1s"), 2, "negative"),
        (("--log-format", "xml"), 2, "--log-format"),
    ],
)
def test_worker_options_that_make_no_sense_are_refused(
    args: tuple[str, ...], code: int, said: str, run_bare: CommandLine, tmp_path: Path
) -> None:
    result = run_bare("worker", "--drain", *args)

    assert result.code == code
    assert said in result.err
    assert list(tmp_path.iterdir()) == []


def test_a_simulator_nobody_uses_is_not_started(running: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "aijobs.yaml").write_text("providers: {spare: {kind: simulator}}\n")
    running("enqueue", "demo")

    result = running("worker", "--drain", "-v")

    assert result.code == 0
    assert result.err.count("is simulated at") == 1
