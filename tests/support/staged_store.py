"""A store in which everything that a document shows has something to show."""

from dataclasses import dataclass
from pathlib import Path

from tests.support.command_line import CommandLine

CONFIG = """
providers:
  openai: {kind: simulator, fault: '503'}
  steady: {kind: simulator, webhook_secret: ['${WEBHOOK_SECRET}']}
types:
  summarize: {provider: openai, max_attempts: 1}
  translate:
    provider: steady
    model: small
    stale_results: {allowed: true}
    shadow: {provider: openai, model: large, share: 1.0}
schedules:
  nightly: {type: translate, cron: '30 2 * * *', timezone: Asia/Shanghai}
"""
ENVIRON = {"WEBHOOK_SECRET": "whsec_" + "c3RhZ2VkIHN0b3JlIHNlY3JldCBzZWNyZXQ="}


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """The command line in that folder; *dead* is a dead letter, *waiting* two jobs that wait for an hour."""

    run: CommandLine
    dead: str
    waiting: tuple[str, str]


def stage(folder: Path, *, columns: int | None = None) -> Staged:
    """Make it in *folder*, which has to be the working directory, by a command line *columns* wide."""
    (folder / "aijobs.yaml").write_text(CONFIG, encoding="utf-8")
    run = CommandLine(database=None, environ=ENVIRON, columns=columns)
    dead = _enqueue(run, "summarize", "--user", "ana", "--key", "note-17")
    _enqueue(run, "translate", "--user", "ana", "--key", "note-18")
    run("worker", "--drain", "-q")
    run("provider", "reset", "openai", "--reason", "so that it is asked again")
    run("pause", "--below-priority", "-5", "--reason", "what is not urgent waits")
    waiting = (_enqueue(run, "translate", "--delay", "1h"), _enqueue(run, "translate", "--delay", "1h"))
    run("tick")
    return Staged(run=run, dead=dead, waiting=waiting)


def _enqueue(run: CommandLine, *args: str) -> str:
    return str(run("enqueue", *args, "--json").json["id"])
