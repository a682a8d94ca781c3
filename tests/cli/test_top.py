"""`top`: what it draws fits 80 columns, q leaves it, and where there is no terminal it says what to use."""

import contextlib
import fcntl
import os
import pty
import signal
import struct
import subprocess
import termios
from datetime import timedelta

import pytest

from aijobs.cli.plain import Tone, width
from aijobs.cli.top_picture import picture
from aijobs.core.clock import seeded_chance
from aijobs.core.model import ErrorClass
from aijobs.services.coordinator import Coordinator
from aijobs.services.statistics import Statistics
from aijobs.store import workers
from tests.support.command_line import command
from tests.support.jobs import claim_one, fail, new_job, settings_of
from tests.support.wait import eventually


@pytest.fixture
def busy(store, clock):
    """A store on which something of everything happens."""
    settings = settings_of(types={"t": {"provider": "p"}, "a-type-with-a-very-long-name": {"provider": "p"}})
    coordinator = Coordinator(store, settings, chance=seeded_chance(1))
    coordinator.enqueue_many([new_job(n) for n in range(4)], actor="t")
    fail(coordinator, claim_one(coordinator), ErrorClass.INVALID_REQUEST)
    fail(coordinator, claim_one(coordinator), ErrorClass.NETWORK)
    claim_one(coordinator, worker="a-worker-with-a-long-name")
    with store.write() as tx:
        workers.register(
            tx, name="a-worker-with-a-long-name", host="h", pid=1, version="1", concurrency=5, types=None,
            now=clock.now(),
        )  # fmt: skip
    clock.advance(timedelta(seconds=20))
    return Statistics(store, settings)


def test_the_picture_shows_everything_within_80_columns(busy):
    lines = picture(*busy.close_up(5), store="/a/store.db", height=40)

    text = "\n".join(line.text for line in lines)
    assert max(width(line.text) for line in lines) <= 80, text
    assert "invalid_request" in text
    assert "dead" in text
    assert "network" in text
    assert "40s" in text  # what is left of the lease
    assert "q quits" in text


@pytest.mark.parametrize("height", [24, 20, 19])
def test_where_room_is_short_every_table_keeps_a_line_and_tells_how_many_are_left_out(busy, height):
    more = Coordinator(busy.store, busy.settings, chance=seeded_chance(2))
    more.enqueue_many([new_job(n) for n in range(20)], actor="t")
    for n in range(20):
        claim = claim_one(more)
        if n % 2:
            fail(more, claim, ErrorClass.INVALID_REQUEST)

    lines = picture(*busy.close_up(5), store="/a/store.db", height=height)

    headings = [line.text.split()[0] for line in lines if line.tone is Tone.HEADING]
    assert len(lines) <= height
    assert headings == ["aijobs", "TYPE", "PROVIDER", "WORKER", "RUNNING", "FAILED"]
    assert any(line.text.startswith("and ") and line.text.endswith(" more") for line in lines)


def test_a_job_whose_worker_was_killed_is_seen_at_a_glance(busy, clock):
    clock.advance(timedelta(minutes=5))

    lines = picture(*busy.close_up(5), store="/a/store.db", height=24)

    (row,) = [line for line in lines if "ran out" in line.text]
    assert row.tone is Tone.BAD
    assert any(line.text == "no worker is alive" and line.tone is Tone.BAD for line in lines)


def test_without_a_terminal_it_is_refused_with_what_to_use(run_cli):
    assert run_cli("top").code == 2
    assert "aijobs stats" in run_cli("top", "--json").err


@contextlib.contextmanager
def terminal(run_fresh, *args: str):
    """The command on a terminal of 80 by 24: (process, what it has written so far, press a key)."""
    run_fresh("enqueue", "demo", "--input", "{}")
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environ = run_fresh.process_environ({"TERM": "xterm", "COLUMNS": "80", "LINES": "24"})
    process = subprocess.Popen(
        command(*args), stdin=theirs, stdout=theirs, stderr=theirs, env=environ, start_new_session=True
    )
    os.close(theirs)
    os.set_blocking(ours, False)
    seen = bytearray()

    def written() -> str:
        with contextlib.suppress(BlockingIOError, OSError):
            while chunk := os.read(ours, 65536):
                seen.extend(chunk)
        return seen.decode(errors="replace")

    try:
        yield process, written, lambda key: os.write(ours, key)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def test_q_leaves_it_at_once(run_fresh):
    with terminal(run_fresh, "top", "--every", "1h") as (process, written, press):
        eventually(lambda: "q quits" in written(), timeout=20)
        press(b"q")

        assert eventually(lambda: process.poll() is not None, timeout=20)
        assert process.returncode == 0
        assert "\x1b[?1049l" in written()  # the terminal is as it was


def test_an_interrupt_leaves_it_too(run_fresh):
    with terminal(run_fresh, "top", "--every", "1h") as (process, written, _):
        eventually(lambda: "q quits" in written(), timeout=20)
        process.send_signal(signal.SIGINT)

        assert eventually(lambda: process.poll() is not None, timeout=20)
        assert process.returncode == 130
        assert "\x1b[?1049l" in written()
