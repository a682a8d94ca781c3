"""Secrets and a prompt planted in every input, header, error and variable: none of them comes out anywhere.

They may be in inputs and results, which are what jobs are about, and in what a provider is sent.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from aijobs.cli.top_command import picture
from aijobs.core.clock import Chance
from aijobs.core.config import load
from aijobs.core.settings import Settings
from aijobs.http.serve import Secrets
from aijobs.services.log_lines import json_line, text_line
from aijobs.services.notifier import Notifier
from aijobs.services.statistics import Statistics
from aijobs.store.engine import Store
from aijobs.store.tables import metadata
from tests.support.clock import START, ManualClock
from tests.support.collector import collector
from tests.support.command_line import CommandLine, Result
from tests.support.hostile import Peer, canned, hostile
from tests.support.receiver import Receiver, receiver
from tests.support.serving import serving

VARIABLES = {
    "PLANTED_KEY": "sk-planted-0123456789abcdef0123",
    "PLANTED_TENANT": "quiet-plumbum-4711",  # of no vendor's pattern: only who knows it can take it out
    "PLANTED_HOOK": "whsec_cGxhbnRlZC1wbGFudGVkLXBsYW50ZWQtMDEyMw==",
    "PLANTED_WEBHOOK": "whsec_d2ViaG9vay1wbGFudGVkLXBsYW50ZWQtMDEyMw==",
    "CRON_SECRET": "planted-cron-secret-0001",
    "AIJOBS_API_TOKEN": "planted-api-token-0002",
}
COLLECTOR_KEY = "planted-collector-key-0003"
PROMPT = "the planted words of a customer"
PLANTED = (*VARIABLES.values(), COLLECTOR_KEY, PROMPT)
BODIES = {"job_inputs", "job_results"}

CONFIG = """
providers:
  own: {{kind: python, callable: "planted_callables:call"}}
  fine: {{kind: python, callable: "planted_callables:fine"}}
  remote:
    kind: openai-responses
    api_key: "${{PLANTED_KEY}}"
    headers: {{x-tenant: "${{PLANTED_TENANT}}"}}
    webhook_secret: "${{PLANTED_WEBHOOK}}"
    base_url: "{provider}"
types:
  own: {{provider: own, max_attempts: 1, notify: [hook, said]}}
  fine: {{provider: fine, notify: [hook, said]}}
  remote: {{provider: remote, model: m, prompt: "{{{{ prompt }}}}", max_attempts: 1, notify: [hook, said]}}
  later: {{provider: own, max_attempts: 2}}
schedules:
  nightly: {{cron: "0 1 * * *", timezone: UTC, type: own, input: {{prompt: "{prompt}"}}}}
notify:
  hook: {{kind: webhook, url: "{hook}", secret: "${{PLANTED_HOOK}}", allow_private: true, on: {ends}}}
  said: {{kind: log, on: {ends}}}
alerts: {{notify: [hook], rules: {{dead_letters: {{severity: P1}}}}}}
"""
CALLABLES = """
import os

def call(input, *rest, **more):
    raise ValueError("wrong: " + str(input) + str(dict(os.environ)))

def fine(input, *rest, **more):
    return {"echo": input, "environment": dict(os.environ)}
"""
SEEING = (
    ("stats",), ("stats", "--by", "user"), ("diagnose",), ("alerts",), ("alerts", "rules"), ("metrics",),
    ("dashboard",), ("inspect",), ("deadletter", "list"), ("deadletter", "replays"),
    ("provider", "list"), ("provider", "show", "remote"),
    ("schedule", "list"), ("switch", "list"), ("doctor",), ("config", "show"), ("config", "check"),
    ("sweep",), ("deadletter", "replay", "--all", "--preview"),
)  # fmt: skip


def repeats_everything(peer: Peer) -> None:
    """A provider that refuses, and says what it was sent wherever it can say anything."""
    while (request := peer.read_request()) is not None:
        text = request.decode("latin-1")
        key, tenant = VARIABLES["PLANTED_KEY"], VARIABLES["PLANTED_TENANT"]
        error = {"message": f"refused: {text}", "type": tenant, "code": key, "param": text}
        answer = {"error": error, "id": key, "model": tenant, "metadata": {"aijobs_job_id": PROMPT}}
        headers = (
            f"x-request-id: {key}", f"x-ratelimit-limit-requests: {tenant}", f"retry-after: {PROMPT}",
            f"x-echo: {PROMPT}", f"server: {tenant}",
        )  # fmt: skip
        peer.send(canned(answer, status="400 Bad Request", headers=headers))


@dataclass
class Planted:
    """A store, a configuration full of secrets, and everything that was said, by what said it."""

    cli: CommandLine
    settings: Settings
    hook: Receiver
    environ: dict[str, str] = field(default_factory=VARIABLES.copy)
    said: dict[str, str] = field(default_factory=dict)

    def run(self, *args: str) -> Result:
        """Run a command and keep what it says."""
        result = self.cli(*args, environ=self.environ)
        self.said[" ".join(args)] = result.out + result.err
        return result

    def leaks(self) -> dict[str, list[str]]:
        """What was repeated, and where."""
        found = {
            name: [word for word in PLANTED if word in text and not _is_asked_for(name, word)]
            for name, text in self.said.items()
        }
        return {name: words for name, words in found.items() if words}


def _is_asked_for(said: str, word: str) -> bool:
    """The input of a schedule stands in the configuration, and that is what `config show` shows."""
    return said.startswith("config show") and word == PROMPT


@pytest.fixture
def planted(run_cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Planted]:
    (tmp_path / "planted_callables.py").write_text(CALLABLES)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)  # for whoever looks at the process's own environment
    with hostile(repeats_everything) as provider, receiver() as hook:
        config = CONFIG.format(
            provider=provider.url, hook=hook.url, prompt=PROMPT, ends="[succeeded, dead_letter, cancelled]"
        )
        (tmp_path / "aijobs.yaml").write_text(config)
        settings = load(tmp_path / "aijobs.yaml", environ=VARIABLES, database=run_cli.database)
        yield Planted(run_cli, settings, hook)


def enqueue_everywhere(planted: Planted) -> list[str]:
    """A job of each type, and what is refused; the ids."""
    text = json.dumps({"prompt": PROMPT, "more": " ".join(VARIABLES.values())})
    ids = [planted.run("enqueue", kind, "--input", text).out.strip() for kind in planted.settings.types]
    planted.run("enqueue", "own", "--input", f"{text},", "-v")
    planted.run("enqueue", "nothing", "--input", text, "--json", "-v")
    return ids


def test_nothing_planted_is_in_what_is_said_and_kept(planted: Planted, store: Store, chance: Chance) -> None:
    ids = enqueue_everywhere(planted)
    work = ("worker", "--max-jobs", "5", "-v", "--log-format")

    worked = planted.run(*work, "json")
    Notifier(store, planted.settings, chance=chance).run_once()
    for args in (*SEEING, *((name, job) for job in ids for name in ("diagnose", "inspect"))):
        planted.run(*args)
        planted.run(*args, "--json", "-v")
    planted.run("deadletter", "show", ids[0], "--json")
    seen = Statistics(store, planted.settings).close_up(5)
    planted.said["top"] = "\n".join(line.text for line in picture(*seen, store=store.location, height=100))
    planted.said["notifications"] = str(planted.hook.deliveries)
    with store.read() as tx:
        for table in metadata.sorted_tables:
            if table.name not in BODIES:
                planted.said[f"table {table.name}"] = str(tx.execute(select(table)).all())

    assert "dead_letter: 2" in worked.out, worked.out + worked.err
    assert len(planted.hook.deliveries) == 4  # three ends, and the alert
    assert planted.leaks() == {}


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_nothing_planted_is_in_the_spans(planted: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    with collector() as one:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", one.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"authorization={COLLECTOR_KEY}")
        planted.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = one.url
        enqueue_everywhere(planted)
        planted.run("worker", "--max-jobs", "5", "-v")

        planted.said["spans"] = str(one.spans)
        planted.said["resources"] = str([resource.resource for resource in one.resources])
        names = [span.name for span in one.spans]

    assert {"enqueue own", "wait remote", "process remote", "chat m", "submit"} <= set(names)
    assert planted.leaks() == {}


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_nothing_planted_is_in_what_the_server_answers_and_logs(
    planted: Planted, store: Store, clock: ManualClock
) -> None:
    secrets = Secrets(cron=VARIABLES["CRON_SECRET"], api=VARIABLES["AIJOBS_API_TOKEN"])
    given = {"prompt": PROMPT, "key": VARIABLES["PLANTED_KEY"]}
    everything = " ".join(PLANTED)
    with serving(store, settings=planted.settings, secrets=secrets) as served:
        bearer = {"authorization": f"Bearer {secrets.api}"}
        accepted = served.http.post("/jobs", json={"type": "own", "input": given}, headers=bearer)
        planted.run("worker", "--max-jobs", "1")
        asked: list[Any] = [
            accepted,
            served.http.get(f"/jobs/{accepted.json()['id']}", headers=bearer),
            served.http.post("/jobs", content=json.dumps(given)[:-1], headers=bearer),
            served.http.post("/jobs", json={"type": "own", "input": [everything]}, headers=bearer),
            served.http.post("/jobs", json={}, headers={"authorization": f"Bearer {everything}"}),
            served.http.post("/jobs", json={"type": "own"}, headers=bearer | {"traceparent": everything}),
            served.http.get("/jobs", params={"q": everything}, headers=bearer),
            served.http.post("/webhooks/remote", content=everything, headers={"webhook-id": everything}),
            served.http.get("/tick", headers={"authorization": f"Bearer {secrets.cron}"}),
            served.http.get("/metrics"),
            served.http.get("/openapi.json"),
        ]
        logged = list(served.log.said)

    for answer in asked:
        planted.said[f"{answer.request.method} {answer.url.path} {len(planted.said)}"] = answer.text + str(
            answer.headers
        )
    planted.said["log"] = "\n".join(
        word(event, fields, START) for event, fields in logged for word in (text_line, json_line)
    )
    assert [answer.status_code for answer in asked][:2] == [202, 200]
    assert planted.leaks() == {}
