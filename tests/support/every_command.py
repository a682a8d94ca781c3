"""What is typed to see each command at work on the staged store; the walks over all commands share it."""

from collections.abc import Iterator, Mapping

from aijobs.cli.app import COMMANDS
from aijobs.cli.command import Entry
from tests.support.command_line import Result
from tests.support.staged_store import Staged

ASKED: Mapping[str, str] = {
    "enqueue": "enqueue translate --key another",
    "worker": "worker --drain -q",
    "tick": "tick --at 2099-01-05T00:00:00Z",
    "sweep": "sweep",
    "inspect": "inspect",
    "inspect JOB": "inspect DEAD",
    "result": "result --type translate --user ana",
    "prune": "prune --yes",
    "deadletter list": "deadletter list",
    "deadletter show": "deadletter show DEAD",
    "deadletter replay --preview": "deadletter replay --all --preview",
    "deadletter replays": "deadletter replays",
    "pause": "pause translate --reason x",
    "switch list": "switch list",
    "resume": "resume translate --reason x",
    "switch set": "switch set stale-results translate on --reason x",
    "provider list": "provider list",
    "provider show": "provider show openai",
    "provider hold": "provider hold openai --reason x",
    "provider reset": "provider reset openai --reason x",
    "schedule list": "schedule list",
    "schedule preview": "schedule preview nightly",
    "schedule pause": "schedule pause nightly --reason x",
    "schedule resume": "schedule resume nightly --reason x",
    "shadow report": "shadow report translate",
    "stats": "stats",
    "stats --by user": "stats --by user",
    "diagnose": "diagnose",
    "diagnose JOB": "diagnose DEAD",
    "alerts": "alerts",
    "alerts rules": "alerts rules",
    "metrics": "metrics",
    "dashboard": "dashboard",
    "config show": "config show",
    "config schema": "config schema",
    "config check": "config check",
    "config init": "config init --provider simulator --output other.yaml",
    "db upgrade": "db upgrade",
    "db check": "db check",
    "doctor": "doctor",
    "cancel": "cancel WAITING --reason x",
    "cancel --type --preview": "cancel --type translate --reason x --preview",
    "cancel --type": "cancel --type translate --reason x --yes",
    "deadletter abort": "deadletter abort PLAN --reason x",
    "retry": "retry DEAD --reason x",
    "deadletter close": "deadletter close --all --yes --reason x",
}
"""By command, in an order in which none takes away what a later one shows."""

PREVIEWED: Mapping[str, str] = {
    "tick": "tick --at 2099-01-05T00:00:00Z --preview",
    "sweep": "sweep --preview",
    "deadletter replay": "deadletter replay --all --preview",
    "pause": "pause translate --reason x --preview",
    "resume": "resume --below-priority --reason x --preview",
    "switch set": "switch set stale-results translate on --reason x --preview",
    "provider hold": "provider hold openai --reason x --preview",
    "provider reset": "provider reset openai --reason x --preview",
    "cancel": "cancel WAITING --preview --reason x",
    "prune": "prune --preview",
    "deadletter close": "deadletter close --all --preview --reason x",
}
"""The same of previews; to be typed before the others."""

ELSEWHERE: Mapping[str, str] = {
    "deadletter replay": "tests/cli/test_replay.py::test_a_plan_runs_exactly_what_was_shown",
    "demo": "tests/cli/test_demo.py::test_it_goes_as_told",
    "drill": "tests/cli/test_drill.py::test_without_a_name_it_runs_all_of_them",
    "serve": "tests/cli/test_serve.py::test_it_serves_until_it_is_told_to_stop",
    "simulate": "tests/cli/test_simulate.py::test_it_prints_its_url_when_it_is_ready_and_stops_tidily",
    "webhook ingest": "tests/cli/test_webhook.py::test_a_delivery_is_taken_and_its_copy_recognised",
}
"""Commands that run for seconds, listen, need a worker beside them or a signed delivery: the tests in which
their JSON is read."""


def commands(entries: Mapping[str, Entry] = COMMANDS, before: str = "") -> Iterator[str]:
    """The name of every command there is."""
    for name, entry in entries.items():
        if entry.target:
            yield before + name
        yield from commands(entry.commands, f"{before}{name} ")


class Typist:
    """Types lines, with ids of the *staged* store in place of DEAD, WAITING and PLAN."""

    def __init__(self, staged: Staged, *more: str) -> None:
        """*more* is put behind every line."""
        self._run = staged.run
        self._more = more
        self._words = {"DEAD": staged.dead, "WAITING": staged.waiting[0]}

    def __call__(self, line: str) -> Result:
        """Type it; PLAN is the newest plan or replay."""
        words = [self._words.get(word, word) for word in line.split()]
        if "PLAN" in words:
            newest = self._run("deadletter", "replays", "--json").json["replays"][0]["replay"]
            words[words.index("PLAN")] = newest
        return self._run(*words, *self._more)
