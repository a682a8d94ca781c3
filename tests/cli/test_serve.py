"""`aijobs serve` as a process: it says where it is, what is off, and stops when told."""

import json
import signal
import socket
import subprocess
from collections.abc import Iterator

import httpx
import pytest

from tests.support.command_line import CommandLine, command

SECRETS = {"AIJOBS_API_TOKEN": "token-of-the-test", "CRON_SECRET": "short"}


@pytest.fixture
def server(run_fresh: CommandLine) -> Iterator[subprocess.Popen[str]]:
    words = command("serve", "--port", "0", "--json", "--root-path", "/below/")
    process = subprocess.Popen(
        words,
        env=run_fresh.process_environ(SECRETS),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    yield process
    process.kill()
    process.communicate()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_it_serves_until_it_is_told_to_stop(
    server: subprocess.Popen[str], number: signal.Signals, code: int
) -> None:
    assert server.stdout is not None
    url = json.loads(server.stdout.readline())["url"]
    token = {"authorization": f"Bearer {SECRETS['AIJOBS_API_TOKEN']}"}
    made = httpx.post(f"{url}/jobs", json={"type": "demo"}, headers=token, trust_env=False)

    server.send_signal(number)
    _, err = server.communicate(timeout=15)

    assert url.endswith("/below")
    assert made.status_code == 202
    assert server.returncode == code
    assert "/webhooks is off" in err
    assert "CRON_SECRET is shorter than 16 characters" in err
    assert SECRETS["AIJOBS_API_TOKEN"] not in err


def test_a_port_that_is_taken_is_a_usage_error(run_bare: CommandLine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])

        assert run_bare("serve", "--port", port).code == 2


@pytest.mark.parametrize("prefix", ["below", "/b?x", "/{x}"])
def test_a_prefix_that_is_no_path_is_a_usage_error(run_bare: CommandLine, prefix: str) -> None:
    assert run_bare("serve", "--port", "0", "--root-path", prefix).code == 2
