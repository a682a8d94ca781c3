"""Enqueue from many processes at once, and from processes that are killed."""

import json
import random
from pathlib import Path

import pytest

from aijobs.store import jobs
from aijobs.store.engine import open_store
from tests.support.command_line import CommandLine
from tests.support.forked import Forked, run_aijobs

pytestmark = pytest.mark.e2e


def _start(line: CommandLine, folder: Path, *args: str) -> Forked:
    return Forked(run_aijobs, *args, environ=line.process_environ(), folder=folder)


def test_fifty_processes_with_one_key_make_one_job(run_fresh: CommandLine, tmp_path: Path) -> None:
    args = ("enqueue", "demo", "--key", "order-7781", "--input", '{"n":1}', "--json")

    processes = [_start(run_fresh, tmp_path, *args) for _ in range(50)]
    ended = [process.ended() for process in processes]

    said = [(one.code, one.err) for one in ended]
    assert [code for code, _ in said] == [0] * 50, said
    answers = [one.json for one in ended]
    assert len({answer["id"] for answer in answers}) == 1
    assert sum(answer["duplicate"] for answer in answers) == 49
    assert sum("created the job store" in err for _, err in said) == 1
    assert not any("Traceback" in err or "locked" in err for _, err in said)


def test_a_killed_enqueue_leaves_a_whole_job_or_nothing(run_fresh: CommandLine, tmp_path: Path) -> None:
    run_fresh("db", "upgrade")
    chance = random.Random(7)  # the moments of death; any will do
    keys = [f"key-{n}" for n in range(24)]
    for first in range(0, len(keys), 4):
        group = [
            (
                _start(run_fresh, tmp_path, "enqueue", "demo", "--key", key, "--input", '{"n":1}'),
                chance.uniform(0, 0.15),
            )
            for key in keys[first : first + 4]
        ]
        for process, moment in sorted(group, key=lambda pair: pair[1]):
            process.kill(after=moment)

    assert run_fresh.database is not None
    store = open_store(run_fresh.database)
    with store.read() as tx:
        made = jobs.page(tx, jobs.Filter(), 100)
        inputs = jobs.payloads_of(tx, [job.id for job in made])
    store.close()
    assert len({job.key for job in made}) == len(made)
    assert inputs == {job.id: '{"n":1}' for job in made}
    again = run_fresh(
        "enqueue", "--jsonl", "-", "--json",
        stdin="".join(json.dumps({"type": "demo", "key": key, "input": {"n": 1}}) + "\n" for key in keys),
    )  # fmt: skip
    assert again.records[-1] == {
        "created": len(keys) - len(made), "duplicates": len(made), "conflicts": 0, "invalid": 0,
    }  # fmt: skip


def test_a_killed_import_leaves_all_of_its_jobs_or_none(run_fresh: CommandLine, tmp_path: Path) -> None:
    run_fresh("db", "upgrade")
    file = tmp_path / "jobs.jsonl"
    chance = random.Random(8)
    seen: set[int] = set()
    for attempt in range(6):
        user = f"import-{attempt}"
        lines = (json.dumps({"type": "demo", "user": user, "key": str(n)}) + "\n" for n in range(2000))
        file.write_text("".join(lines))
        _start(run_fresh, tmp_path, "enqueue", "--jsonl", str(file)).kill(after=chance.uniform(0, 0.9))
        seen.add(len(run_fresh("inspect", "--user", user, "--limit", "3000", "--json").json["jobs"]))

    assert seen <= {0, 2000}


def test_the_example_paragraphs_of_many_languages_survive_a_round_trip(run_fresh: CommandLine) -> None:
    text = "“AI 请求超时”经常不是一个问题 🎉 \u0000 \\u202e café"
    line = json.dumps({"type": "demo", "key": "K", "input": {"text": text}}, ensure_ascii=True)

    created = run_fresh.process("enqueue", "--jsonl", "-", "--json", stdin=line.encode())

    assert created.code == 0
    shown = run_fresh.process("inspect", created.records[0]["id"], "--reveal", "--json")
    assert shown.json["input"] == {"text": text}
