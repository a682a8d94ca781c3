"""Spans out of real processes, to a collector on a real socket; and what happens without one."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.collector import Collector, collector
from tests.support.command_line import ROOT, CommandLine, command

pytestmark = pytest.mark.e2e

PROMPT, SECRET = "the planted words of a customer", "sk-planted-0123456789abcdef0123"
CONFIG = """\
providers: {p: {kind: python, callable: "traced_work:echo"}}
types: {t: {provider: p}}
"""


@pytest.fixture
def cli(tmp_path: Path, sqlite_url: str) -> CommandLine:
    """Commands over a store and a configuration of this test's own; the function jobs run is beside it."""
    (tmp_path / "aijobs.yaml").write_text(CONFIG)
    (tmp_path / "traced_work.py").write_text("async def echo(given):\n    return given\n")
    return CommandLine(sqlite_url)


@pytest.fixture
def listening() -> Iterator[Collector]:
    with collector() as one:
        yield one


def run(
    cli: CommandLine, folder: Path, *args: str, python: list[str] | None = None, **environ: str
) -> subprocess.CompletedProcess[str]:
    """`aijobs ARGS...`, or other words of *python*, with *environ*."""
    words = python or command("--config", str(folder / "aijobs.yaml"), *args)
    surroundings = cli.process_environ(environ)
    surroundings["PYTHONPATH"] = f"{ROOT}:{folder}"
    return subprocess.run(
        words, env=surroundings, cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )


def test_processes_send_one_tree_to_the_collector(
    cli: CommandLine, tmp_path: Path, listening: Collector
) -> None:
    on = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": listening.url,
        "OTEL_EXPORTER_OTLP_HEADERS": f"authorization={SECRET}",
    }
    text = json.dumps({"prompt": PROMPT})
    caller = f"00-{'a' * 32}-{'b' * 16}-01"

    put_in = run(cli, tmp_path, "enqueue", "t", "--input", text, TRACEPARENT=caller, **on)
    worked = run(cli, tmp_path, "worker", "--drain", "--log-format", "json", "-v", **on)

    assert (put_in.returncode, worked.returncode) == (0, 0), put_in.stderr + worked.stderr
    enqueue, wait, process, call = (
        listening.named(name) for name in ("enqueue t", "wait t", "process t", "submit")
    )
    assert {span.trace_id.hex() for span in listening.spans} == {"a" * 32}
    assert enqueue.parent_span_id.hex() == "b" * 16
    assert wait.parent_span_id == process.parent_span_id == enqueue.span_id
    assert call.parent_span_id == process.span_id
    named = {one.key: one.value.string_value for one in listening.resources[0].resource.attributes}
    assert named["service.name"] == "aijobs"
    assert {one["authorization"] for one in listening.headers} == {SECRET}
    said = (put_in.stdout, put_in.stderr, worked.stdout, worked.stderr, *map(str, listening.bodies))
    assert [one for one in said if PROMPT in one or SECRET in one] == []


def test_a_collector_that_fails_harms_no_job_and_is_named_in_one_line(
    cli: CommandLine, tmp_path: Path, listening: Collector
) -> None:
    listening.status = 400
    on = {"OTEL_EXPORTER_OTLP_ENDPOINT": listening.url, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "2"}
    lines = "\n".join(json.dumps({"type": "t", "input": {"n": n}}) for n in range(20))
    (tmp_path / "jobs.jsonl").write_text(lines)
    run(cli, tmp_path, "enqueue", "--jsonl", "jobs.jsonl")

    worked = run(cli, tmp_path, "worker", "--drain", "--log-format", "json", **on)

    assert worked.returncode == 0
    said = [json.loads(line) for line in worked.stderr.splitlines()]
    assert sum(one["event"] == "tracing_failed" for one in said) == 1
    (stopped,) = [one for one in said if one["event"] == "worker_stopped"]
    assert stopped["succeeded"] == 20


def test_nothing_of_opentelemetry_is_loaded_unless_it_is_asked_for(cli: CommandLine, tmp_path: Path) -> None:
    config = str(tmp_path / "aijobs.yaml")
    code = (
        "import sys\n"
        "from aijobs.cli.program import run\n"
        "from aijobs import Jobs\n"
        f"assert run(['--config', {config!r}, 'enqueue', 't']) == 0\n"
        f"assert run(['--config', {config!r}, 'worker', '--drain']) == 0\n"
        f"Jobs({cli.database!r}).close()\n"
        "import aijobs.http.serve\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')], file=sys.stderr)\n"
    )

    ended = run(cli, tmp_path, python=[sys.executable, "-c", code])

    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.splitlines()[-1] == "[]"


def test_spans_that_are_wanted_without_the_extra_are_missed_in_one_line(
    cli: CommandLine, tmp_path: Path
) -> None:
    code = (
        "import sys\n"
        "sys.modules['opentelemetry'] = None\n"  # as if it were not installed
        "from aijobs.cli.program import run\n"
        "sys.exit(run(['enqueue', 't', '--json']))\n"
    )

    ended = run(
        cli, tmp_path, python=[sys.executable, "-c", code], OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9"
    )

    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["status"] == "pending"
    (line,) = [one for one in ended.stderr.splitlines() if "OTEL" in one]
    assert "OTEL_EXPORTER_OTLP_ENDPOINT is set, but no spans are sent: opentelemetry is not installed" in line
    assert "aijobs[otel]" in line
