"""A secret and a prompt planted wherever they can be: nothing that shows how things stand repeats them."""

import pytest
from sqlalchemy import select

from aijobs.store.tables import metadata

SECRET = "sk-planted-0123456789abcdef0123"
HOOK = "whsec_cGxhbnRlZC1wbGFudGVkLXBsYW50ZWQtMDEyMw=="
PROMPT = "the planted words of a customer"

CONFIG = """
providers:
  p: {kind: python, callable: "planted_callables:call"}
  keyed: {kind: openai-responses, api_key: "${PLANTED_KEY}", base_url: "http://127.0.0.1:9"}
types:
  t: {provider: p, max_attempts: 1}
  u: {provider: p, max_attempts: 2}
notify:
  hook:
    kind: webhook
    url: "http://127.0.0.1:9/"
    secret: "${PLANTED_HOOK}"
    allow_private: true
alerts: {notify: [hook], rules: {dead_letters: {severity: P1}}}
"""
CALLABLES = f"""
def call(input, *rest, **more):
    raise ValueError("wrong: {SECRET}: " + str(input))
"""
SEEING = (
    ("stats",), ("stats", "--by", "user"), ("diagnose",), ("alerts",), ("alerts", "rules"), ("metrics",),
    ("dashboard",), ("inspect",), ("deadletter", "list"), ("provider", "list"), ("switch", "list"),
)  # fmt: skip
BODIES = {"job_inputs", "job_results"}


@pytest.fixture
def run(run_cli, tmp_path, monkeypatch):
    (tmp_path / "aijobs.yaml").write_text(CONFIG)
    (tmp_path / "planted_callables.py").write_text(CALLABLES)
    monkeypatch.syspath_prepend(str(tmp_path))

    def planted(*args, **more):
        return run_cli(*args, environ={"PLANTED_KEY": SECRET, "PLANTED_HOOK": HOOK}, **more)

    return planted


def test_nothing_that_shows_how_things_stand_repeats_a_secret_or_a_prompt(run, store):
    text = f'{{"prompt": "{PROMPT}", "key": "{SECRET}"}}'
    ids = [run("enqueue", kind, "--input", text).out.strip() for kind in ("t", "u")]
    said = [run("worker", "--max-jobs", "2", "--log-format", "json", "-v")]
    for args in (*SEEING, *(("diagnose", job) for job in ids), *(("inspect", job) for job in ids)):
        said += [run(*args), run(*args, "--json"), run(*args, "-v")]

    assert "dead_letter: 1" in said[0].out
    assert all(one.code != 2 or "form only" in one.err or "no JSON" in one.err for one in said)
    for one in said:
        assert [word for word in (SECRET, HOOK, PROMPT) if word in one.out + one.err] == []
    with store.read() as tx:
        kept = {
            table.name: str(tx.execute(select(table)).all())
            for table in metadata.sorted_tables
            if table.name not in BODIES
        }
    assert [name for name, rows in kept.items() if SECRET in rows or PROMPT in rows] == []
