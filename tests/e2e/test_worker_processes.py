"""Workers as processes: killed, stopped, continued, and told to go."""

import json
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from aijobs.core.model import Status
from aijobs.store import jobs, workers
from tests.support.command_line import command
from tests.support.processes import CONFIG, Site, caught_signals, site
from tests.support.wait import eventually

pytestmark = pytest.mark.e2e


@pytest.fixture
def place(tmp_path: Path, database_url: str) -> Iterator[Site]:
    """Where the workers of this test run."""
    with site(tmp_path, database_url) as one:
        yield one


# --- Killed ---------------------------------------------------------------------------------------


def test_after_kill_9_another_worker_finishes_everything(place: Site) -> None:
    ids = [place.enqueue("held", n) for n in range(6)]
    first = place.worker("--concurrency", "3", "--drain")
    place.until_ran("held", 3)
    second = place.worker("--concurrency", "3", "--drain")
    place.until_ran("held", 6)

    first.send(signal.SIGKILL)
    first.ended()
    eventually(lambda: sum(place.outcomes(job_id) == ["lost"] for job_id in ids) == 3)
    place.go()
    report = second.ended(30)

    assert report.code == 0
    assert report.json["succeeded"] == 6
    assert {place.job(job_id).status for job_id in ids} == {Status.SUCCEEDED}
    assert sorted(place.outcomes(job_id) for job_id in ids) == [
        *[["lost", "succeeded"]] * 3,
        *[["succeeded"]] * 3,
    ]
    assert {place.result(job_id)["by"] for job_id in ids} == {second.pid}


def test_a_killed_worker_leaves_its_job_until_the_lease_is_over_and_one_sweep_finds_it(place: Site) -> None:
    job_id = place.enqueue("held")
    worker = place.worker("--lease", "6s")
    place.until_ran("held")
    now = place.store.clock.now

    worker.send(signal.SIGKILL)
    worker.ended()
    before = place.sweep()
    eventually(lambda: (place.job(job_id).locked_until or now()) <= now())
    found = place.aijobs("sweep", "--json").json["expired_leases"]
    again = place.aijobs("sweep", "--json").json["expired_leases"]

    assert (before, found["ids"], again["found"]) == ((), [job_id], 0)
    assert place.outcomes(job_id) == ["lost"]
    assert place.job(job_id).attempts == 1


def test_a_poison_job_dies_after_its_attempts_and_the_others_run(place: Site) -> None:
    poison = place.enqueue("poison", max_attempts=2)
    others = [place.enqueue("quick", n) for n in range(3)]

    for _ in range(6):  # a supervisor that starts it again and again
        if place.worker("--drain").ended(30).code != 137:
            break
        place.until_free(poison)

    assert len(place.ran("poison")) == 2
    assert place.job(poison).status is Status.DEAD_LETTER
    assert place.outcomes(poison) == ["lost", "lost"]
    assert {place.job(job_id).status for job_id in others} == {Status.SUCCEEDED}


def test_killed_between_the_call_and_its_answer_the_outcome_is_unknown_and_says_so(
    place: Site, slow_provider: "SlowProvider"
) -> None:
    place.configure(slow_provider.config(on_unknown_outcome="hold"))
    job_id = place.enqueue("call")
    worker = place.worker()
    eventually(lambda: slow_provider.keys)

    worker.send(signal.SIGKILL)
    worker.ended()
    eventually(place.sweep)
    slow_provider.answer.set()
    place.worker("--drain").ended()

    assert len(slow_provider.keys) == 1  # not sent again without a person
    assert place.job(job_id).hold_reason
    with place.store.read() as tx:
        (attempt,) = jobs.executions_of(tx, job_id)
    assert attempt.maybe_billed
    assert attempt.client_request_id == f"aijobs-{job_id}-1"


def test_a_call_sent_again_after_a_crash_carries_the_same_idempotency_key(
    place: Site, slow_provider: "SlowProvider"
) -> None:
    place.configure(slow_provider.config(on_unknown_outcome="retry"))
    job_id = place.enqueue("call")
    worker = place.worker()
    eventually(lambda: slow_provider.keys)

    worker.send(signal.SIGKILL)
    worker.ended()
    place.until_free(job_id)
    slow_provider.answer.set()
    place.worker("--drain").ended()

    assert slow_provider.keys == [f"aijobs-{job_id}"] * 2
    assert place.outcomes(job_id) == ["lost", "succeeded"]


class SlowProvider:
    """An HTTP provider that answers when it may, and keeps the idempotency keys it was sent."""

    def __init__(self) -> None:
        self.keys: list[str | None] = []
        self.answer = threading.Event()
        self.url = ""

    def config(self, *, on_unknown_outcome: str) -> str:
        provider = {"kind": "http", "base_url": self.url, "idempotency_header": "Idempotency-Key"}
        kind = {"provider": "slow", "on_unknown_outcome": on_unknown_outcome}
        lost = {"retries": 9, "first": "immediate", "backoff": "fixed", "delay": "0s"}
        return json.dumps(
            {
                "worker": {"lease": "1s", "poll": "50ms"},
                "providers": {"slow": provider},
                "types": {"call": kind},
                "retry": {"worker_lost": lost},
            }
        )


@pytest.fixture
def slow_provider() -> Iterator[SlowProvider]:
    kept = SlowProvider()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            kept.keys.append(self.headers["idempotency-key"])
            kept.answer.wait(30)
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Nothing on stderr."""

        def handle(self) -> None:
            try:
                super().handle()
            except OSError:
                """The worker was killed."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        kept.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield kept
        kept.answer.set()
        server.shutdown()
        thread.join()


# --- Asleep ---------------------------------------------------------------------------------------


def test_a_worker_that_slept_through_its_lease_drops_its_result(place: Site) -> None:
    job_id = place.enqueue("held")
    sleeper = place.worker("--log-format", "json")
    place.until_ran("held")

    place.put_to_sleep(sleeper)
    place.until_free(job_id)
    other = place.worker("--drain")
    place.until_ran("held", 2)
    place.go()
    assert other.ended().code == 0
    sleeper.send(signal.SIGCONT)
    sleeper.send(signal.SIGTERM)
    report = sleeper.ended()

    assert (report.code, report.json["succeeded"], report.json["lost"]) == (0, 0, 1)
    assert '"event": "lease_lost"' in report.err
    assert place.outcomes(job_id) == ["lost", "succeeded"]
    assert place.result(job_id) == {"by": other.pid}


def test_a_worker_that_slept_checks_its_claim_before_the_next_call(place: Site) -> None:
    job_id = place.enqueue("two_calls")
    sleeper = place.worker()
    place.until_ran("held")

    place.put_to_sleep(sleeper)
    place.until_free(job_id)
    other = place.worker("--drain")
    place.until_ran("held", 2)  # the other one has the job now, and holds it
    sleeper.send(signal.SIGCONT)
    eventually(lambda: place.job(job_id).locked_by)
    place.go()
    assert other.ended().code == 0
    sleeper.send(signal.SIGTERM)
    assert sleeper.ended().json["lost"] == 1

    assert place.outcomes(job_id) == ["lost", "succeeded"]
    calls = [(n, pid) for _, n, pid in place.ran("quick")]
    assert calls == [("first", str(sleeper.pid)), ("first", str(other.pid)), ("second", str(other.pid))]


# --- Signals --------------------------------------------------------------------------------------


def test_sigterm_lets_what_runs_end_and_says_how_much_it_was(place: Site) -> None:
    job_id = place.enqueue("held")
    worker = place.worker()
    place.until_ran("held")
    late = place.enqueue("quick")
    eventually(lambda: place.job(late).status is Status.SUCCEEDED)

    worker.send(signal.SIGTERM)
    eventually(lambda: _worker_state(place) == "stopping")
    not_taken = place.enqueue("quick")
    place.go()
    report = worker.ended()

    assert report.code == 0
    assert (report.json["succeeded"], report.json["stopped_by"]) == (2, "SIGTERM")
    assert place.job(job_id).status is Status.SUCCEEDED
    assert place.job(not_taken).status is Status.PENDING
    assert "2 succeeded" in report.err


def _worker_state(place: Site) -> str:
    with place.store.read() as tx:
        return workers.listed(tx)[-1].state.value


@pytest.mark.parametrize("type_name", ["held", "blocking", "hogging"])
def test_after_the_grace_the_job_is_handed_back_whatever_it_does(place: Site, type_name: str) -> None:
    job_id = place.enqueue(type_name)
    worker = place.worker("--grace", "200ms")
    place.until_ran(type_name)

    worker.send(signal.SIGTERM)
    report = worker.ended()

    job = place.job(job_id)
    assert report.code == 0
    assert (job.status, job.attempts, job.locked_by) == (Status.PENDING, 0, None)
    assert place.outcomes(job_id) == ["abandoned"]


@pytest.mark.parametrize("type_name", ["held", "blocking", "hogging"])
def test_a_second_signal_ends_it_at_once_after_handing_back(place: Site, type_name: str) -> None:
    job_id = place.enqueue(type_name)
    worker = place.worker("--grace", "1h")
    place.until_ran(type_name)

    worker.send(signal.SIGINT)
    worker.send(signal.SIGTERM)  # not the same again, which within a moment is one
    report = worker.ended()

    assert report.code == 130
    assert (place.job(job_id).status, place.job(job_id).attempts) == (Status.PENDING, 0)


def test_the_kernel_knows_that_both_signals_are_handled(place: Site) -> None:
    """As PID 1 a process has no default action: a signal without a handler would be ignored."""
    worker = place.worker()
    place.enqueue("quick")
    place.until_ran("quick")

    assert {signal.SIGTERM, signal.SIGINT} <= caught_signals(worker.pid)


def test_under_a_shell_the_worker_itself_hears_the_signal(place: Site) -> None:
    job_id = place.enqueue("held")
    words = command("--config", str(place.folder / "aijobs.yaml"), "worker", "--grace", "100ms")
    shell = place.worker_of(["sh", "-c", f"{shlex.join(words)}; echo ended with $?"])
    ((_, _, pid),) = place.until_ran("held")

    subprocess.run(["kill", "-TERM", pid], check=True)

    assert "ended with 0" in shell.ended().out
    assert place.job(job_id).status is Status.PENDING


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_worker_goes_at_once(place: Site, number: signal.Signals) -> None:
    worker = place.worker("--grace", "1h")
    eventually(lambda: _registered(place), 20)

    worker.send(number)

    assert worker.ended(10).code == (0 if number is signal.SIGTERM else 130)


def _registered(place: Site) -> bool:
    with place.store.read() as tx:
        return bool(workers.listed(tx))


# --- Clocks ---------------------------------------------------------------------------------------


@pytest.mark.postgres
def test_a_machine_whose_clock_is_ahead_steals_nothing(tmp_path: Path, postgres_url: str) -> None:
    ahead = (
        "import datetime, sys, aijobs.core.clock as c\n"
        "real = c.SystemClock.now\n"
        "c.SystemClock.now = lambda self: real(self) + datetime.timedelta(minutes=10)\n"
        "from aijobs.cli.main import main\n"
        "sys.argv = ['aijobs', 'sweep', '--json']\n"
        "main()\n"
    )
    with site(tmp_path, postgres_url) as place:
        job_id = place.enqueue("held")
        worker = place.worker("--lease", "30s")
        place.until_ran("held")

        swept = place.worker_of([sys.executable, "-c", ahead]).ended()
        place.go()
        eventually(lambda: place.job(job_id).status is Status.SUCCEEDED)
        worker.send(signal.SIGTERM)
        worker.ended()

        assert swept.json["expired_leases"]["found"] == 0
        assert place.outcomes(job_id) == ["succeeded"]


def test_sighup_takes_up_a_changed_limit_and_refuses_a_faulty_file(place: Site) -> None:
    place.configure(CONFIG.replace("held: {provider: held,", "held: {provider: held, concurrency: 1,"))
    for n in range(3):
        place.enqueue("held", n)
    worker = place.worker()
    place.until_ran("held", 1)

    place.configure(CONFIG.replace("held: {provider: held,", "held: {provider: held, concurrency: 2,"))
    worker.send(signal.SIGHUP)
    place.until_ran("held", 2)
    place.configure(CONFIG.replace("held: {provider: held,", "held: {provider: held, prompt: '{{ oops',"))
    worker.send(signal.SIGHUP)
    worker.send(signal.SIGTERM)
    place.go()
    report = worker.ended()

    assert report.code == 0
    assert "configuration reloaded (SIGHUP): types.held.concurrency" in report.err
    assert report.err.count("the new configuration is refused, the old one stays (SIGHUP)") == 1
    assert "types.held.prompt" in report.err
    assert place.aijobs("worker", "--drain").code == 2  # refused at the start as well
