"""Where a chaos run happens: the folder, the configuration, and every process with what it said."""

import collections
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import Request, urlopen

from aijobs.core.clock import seeded_chance
from aijobs.core.config import load
from aijobs.http.simulator import TEST_SECRET
from aijobs.services.coordinator import Coordinator
from aijobs.store.engine import Store, open_store
from tests.support.command_line import ROOT
from tests.support.wait import eventually

LEASE = 3.0
"""Seconds; short, so that many leases run out in a run."""
GRACE = 2.0

CONFIG = """\
worker: {{concurrency: 8, lease: 3s, grace: 2s, poll: 250ms}}
providers:
  sim:
    kind: openai-responses
    base_url: "{simulator}/v1"
    api_key: file:key
    webhook_secret: file:secret
    breaker: {{failures: 8, within: 10s, open_for: 2s, trials: 2, ramp: [4, 10, 25]}}
  code: {{kind: python, callable: "tests.chaos.work:order"}}
types:
  plain: &call
    provider: sim
    model: m
    timeout: 5s
    max_attempts: 12
    prompt: "chaos {{{{ n }}}} {{{{ what }}}}"
  told: {{<<: *call, notify: [outside]}}
  careful: {{<<: *call, on_unknown_outcome: hold}}
  slow:
    <<: *call
    background: true
    on_unknown_outcome: hold
    background_options: {{poll_first: 2s, poll_cap: 5s}}
  order: {{provider: code, timeout: 10s, max_attempts: 12}}
retry:
  network: {{retries: 6, first: immediate, backoff: full_jitter, base: 200ms, cap: 2s}}
  network_timeout: {{retries: 6, backoff: full_jitter, base: 200ms, cap: 2s}}
  rate_limited: {{retries: 50, backoff: full_jitter, base: 200ms, cap: 2s}}
  unavailable: {{retries: 6, backoff: full_jitter, base: 500ms, cap: 3s}}
  bad_response: {{retries: 2, backoff: fixed, delay: 500ms}}
  worker_lost: {{retries: 11, first: immediate, backoff: fixed, delay: 0s}}
  budget: {{ratio: 1.0, window: 30s, floor: 100}}
schedules:
  minutely: {{type: plain, every: 1m, input: {{n: -1, what: tick}}, overlap: allow}}
notify:
  outside:
    kind: webhook
    url: "{outside}/notice"
    allow_private: true
    timeout: 3s
    on: [succeeded, dead_letter, cancelled]
"""


@dataclass
class Child:
    """One process of ours and the last lines it said. *told*: whoever ended it meant to."""

    what: str
    process: subprocess.Popen[str]
    said: collections.deque[str] = field(default_factory=lambda: collections.deque(maxlen=400))
    told: str = ""
    asleep: bool = False
    ready: bool = False

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, if it is still there."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)

    def end(self, number: signal.Signals) -> None:
        """The same, meant to end it."""
        self.told = number.name
        self.send(number)


class Place:
    """One store and all that runs on it."""

    def __init__(self, folder: Path, url: str, *, outside: str, workers: int, seed: int) -> None:
        self.folder = folder
        self.url = url
        self.outside = outside
        self.wanted = workers
        self.children: list[Child] = []
        self.simulator = ""
        self.serve_port = _free_port()
        (folder / "secret").write_text(TEST_SECRET)
        (folder / "key").write_text("sk-of-the-chaos-run")
        self._begin_simulator()
        self.config = folder / "aijobs.yaml"
        self.config.write_text(CONFIG.format(simulator=self.simulator, outside=outside))
        self.settings = load(self.config, environ={}, database=url, thorough=True)
        self.store: Store = open_store(url, create=True)
        self.coordinator = Coordinator(self.store, self.settings, chance=seeded_chance(seed))

    def _begin_simulator(self) -> None:
        hook = f"http://127.0.0.1:{self.serve_port}/webhooks/sim"
        words = ["simulate", "--port", "0", "--latency", "50ms-600ms", "--webhook-url", hook, "--json"]
        child = self._run("simulator", *words)
        line = eventually(lambda: next((one for one in child.said if one.startswith("{")), None), 30)
        self.simulator = json.loads(line)["url"]

    # --- Processes ---

    def worker(self) -> Child:
        """One more worker."""
        return self._run("worker", "--config", str(self.config), "worker", "--log-format", "json", "--json")

    def serve(self) -> Child:
        """The server that takes webhooks."""
        return self._run(
            "serve",
            "--config",
            str(self.config),
            "serve",
            "--port",
            str(self.serve_port),
            "--log-format",
            "json",
        )

    def command(self, name: str) -> Child:
        """`aijobs tick` or `aijobs sweep`, once."""
        return self._run(name, "--config", str(self.config), name, "--json")

    def of(self, what: str) -> list[Child]:
        """Those that run."""
        return [one for one in self.children if one.what == what and one.alive]

    def _run(self, what: str, *words: str) -> Child:
        environ = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        environ |= {"PYTHONPATH": str(ROOT), "AIJOBS_DATABASE": self.url, "CHAOS_OUTSIDE": self.outside}
        environ["PYTHONDONTWRITEBYTECODE"] = "1"  # a disk that fills up would leave half a cache of a module
        process = subprocess.Popen(
            [sys.executable, "-m", "aijobs", *words], cwd=self.folder, env=environ, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        child = Child(what, process)
        self.children.append(child)
        threading.Thread(target=_listen, args=(child, self.folder / "said.log"), daemon=True).start()
        return child

    # --- The provider ---

    def set_fault(self, spec: str) -> None:
        """What is wrong with the provider from now on."""
        body = json.dumps({"fault": spec}).encode()
        request = Request(f"{self.simulator}/_faults", data=body, method="POST")
        with urlopen(request, timeout=60):
            pass

    def calls(self) -> dict[str, object]:
        """The provider's own record of everything it was asked."""
        with urlopen(f"{self.simulator}/_calls", timeout=60) as answer:
            record = json.load(answer)
        assert isinstance(record, dict)
        return record

    def close(self) -> None:
        """Kill what still runs."""
        for child in self.children:
            if child.alive:
                child.end(signal.SIGKILL)
            child.process.wait()
        self.store.close()


def _listen(child: Child, path: Path) -> None:
    """Keep what a process says, without a file of its own: one with a full disk cannot write to a file."""
    assert child.process.stdout is not None
    with path.open("a", buffering=1) as log:
        for line in child.process.stdout:
            child.said.append(line.rstrip("\n"))
            child.ready = child.ready or '"worker_started"' in line
            log.write(f"{time.time():.3f} {child.what} {child.process.pid} {line}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
