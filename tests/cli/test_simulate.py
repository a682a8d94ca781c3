"""`aijobs simulate`, in this process where it refuses, and as a process of its own where it runs."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from standardwebhooks import Webhook

from aijobs.core.faults import names, parse_faults
from aijobs.http.simulator import RunningSimulator, start_in_thread
from tests.support.asking import response
from tests.support.command_line import CommandLine
from tests.support.receiver import receiver
from tests.support.wait import eventually

SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="


@contextmanager
def simulate(*args: str, **environ: str) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        [sys.executable, "-m", "aijobs", "simulate", "--port", "0", *args],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **environ},
    )  # fmt: skip
    with process:
        try:
            yield process
        finally:
            process.kill()


def first_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.fixture
def taken() -> Iterator[RunningSimulator]:
    with start_in_thread() as running:
        yield running


@pytest.mark.e2e
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_it_prints_its_url_when_it_is_ready_and_stops_tidily(number: signal.Signals, code: int) -> None:
    with simulate("--json") as process:
        url = json.loads(first_line(process))["url"]
        answer = httpx.post(f"{url}/v1/echo", json={}, trust_env=False)

        process.send_signal(number)
        out, err = process.communicate(timeout=10)

    assert answer.status_code == 200
    assert (process.returncode, out) == (code, "")
    assert "stopped; calls: 1, billed: 1" in err
    assert "Traceback" not in err


@pytest.mark.e2e
def test_in_words_it_prints_the_url_alone_on_stdout() -> None:
    with simulate(PROVIDER_FAULT="429x1") as process:
        url = first_line(process)
        with httpx.Client(base_url=url, trust_env=False) as http:
            codes = [response(http).status_code for _ in range(2)]
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=10)

    assert codes == [429, 200]
    assert "fault: 429x1" in err


@pytest.mark.e2e
def test_the_flags_overrule_the_environment_and_webhooks_are_signed_with_the_given_secret() -> None:
    with (
        receiver() as inbox,
        simulate(
            "--webhook-url", inbox.url, "--fault", "webhook_duplicate", "--poll-after", "500ms",
            "--latency", "1ms-5ms", PROVIDER_FAULT="500", SIMULATOR_WEBHOOK_SECRET=SECRET,
        ) as process,
        httpx.Client(base_url=first_line(process), trust_env=False) as http,
    ):  # fmt: skip
        begun = response(http, background=True)
        eventually(lambda: len(inbox.deliveries) == 2)

    assert begun.headers["openai-poll-after-ms"] == "500"
    for delivery in inbox.deliveries:
        Webhook(SECRET).verify(delivery.body, delivery.headers)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--fault", "429s"), "unknown fault '429s'"),
        (("--latency", "soon"), "not a latency"),
        (("--poll-after", "soon"), "--poll-after"),
        (("--webhook-url", "nowhere"), "webhook URL"),
    ],
)
def test_nonsense_is_refused_before_it_starts(
    run_bare: CommandLine, args: tuple[str, ...], said: str
) -> None:
    result = run_bare("simulate", "--port", "0", *args, "--json")

    assert result.code == 2
    assert said in result.json["error"]["message"]


def test_a_fault_in_the_environment_is_refused_too(run_bare: CommandLine) -> None:
    result = run_bare("simulate", "--port", "0", environ={"PROVIDER_FAULT": "nonsense"})

    assert result.code == 2
    assert "unknown fault 'nonsense'" in result.err


def test_a_taken_port_is_an_error_with_a_way_out(run_bare: CommandLine, taken: RunningSimulator) -> None:
    result = run_bare("simulate", "--port", str(taken.port))

    assert result.code == 2
    assert "in use" in result.err
    assert "--port 0" in result.err


def test_the_faults_are_listed_and_can_all_be_written(run_bare: CommandLine) -> None:
    listed = run_bare("simulate", "--faults", "--json").json["faults"]
    table = run_bare("simulate", "--faults")

    assert {fault["name"] for fault in listed} <= set(names())
    assert all(parse_faults(fault["name"]) and fault["what"] for fault in listed)
    assert table.code == 0
    assert "webhook_two_sigs" in table.out
    assert "NAME[=NUMBER][:CHANCE][xTIMES]" in table.err
