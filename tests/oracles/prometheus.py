"""What Prometheus itself says of our rules, metrics and dashboard, and whether it fires the P1.

`python -m tests.oracles.prometheus` takes promtool and prometheus from the PATH, or else from Debian's
package `prometheus`, unpacked for the run. With them:

1. `promtool check rules` reads what `aijobs alerts rules` prints, `test rules` looks what each rule makes of
   figures, `check metrics` reads what `aijobs metrics` prints of an idle and of a busy store;
2. every expression of the dashboard is read as a rule, and asked of the server below;
3. a Prometheus with these very rules scrapes `aijobs serve` each second. While jobs succeed it is quiet;
   after some have died it fires the P1, and `aijobs alerts` says the same.

The rules are used as they are printed. They have no `for`, so what takes five minutes is only the window, and
that need not be full: the server starts on an empty store and sees all of it.
"""

import contextlib
import json
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.oracles.alert_cases import CASES, promtool_file
from tests.oracles.borrowed import NotToBeHad, debian_programs, run, without
from tests.support.command_line import CommandLine, Result, command
from tests.support.wait import eventually

CONFIG = """\
providers:
  sums: {kind: python, callable: "work:half"}
types:
  halve: {provider: sums}
"""
WORK = '''\
"""Halves even numbers."""


def half(given):
    if given["n"] % 2:
        raise ValueError("odd")
    return given["n"] // 2
'''
SUCCEED, DIE = 30, 10  # above the floor of 20; a quarter of 40 is above 5 %
P1 = "AijobsFailureRate"


@dataclass(frozen=True, slots=True)
class Place:
    """A folder with a configuration and a store, and the programs to judge what comes out of it."""

    folder: Path
    programs: dict[str, str]

    def aijobs(self, *args: str, stdin: bytes = b"") -> Result:
        """Run a command here."""
        line = CommandLine(f"sqlite:///{self.folder / 'jobs.db'}")
        return line.process(*args, stdin=stdin, environ=self.environ)

    @property
    def environ(self) -> dict[str, str]:
        """Where the configuration and the work are."""
        line = CommandLine(f"sqlite:///{self.folder / 'jobs.db'}").process_environ()
        path = f"{line['PYTHONPATH']}:{self.folder}"
        return {**line, "AIJOBS_CONFIG": str(self.folder / "aijobs.yaml"), "PYTHONPATH": path}

    def printed(self, *args: str) -> str:
        """What a command prints that must go well."""
        done = self.aijobs(*args)
        assert done.code == 0, (args, done)
        return done.out

    def promtool(self, *args: str, stdin: str | None = None) -> None:
        """Let promtool judge; RuntimeError with what it says when it finds a fault."""
        run(self.programs["promtool"], *args, cwd=self.folder, stdin=stdin)

    def work(self, *numbers: int) -> None:
        """Have jobs with these inputs done."""
        lines = "".join(f'{{"type": "halve", "input": {{"n": {n}}}}}\n' for n in numbers)
        taken = self.aijobs("enqueue", "--jsonl", "-", stdin=lines.encode())
        assert taken.code == 0, taken
        drained = self.aijobs("worker", "--drain")
        assert drained.code in (0, 1), drained


# --- By promtool -----------------------------------------------------------------------------------


def check_rules(place: Place) -> str:
    """The rules file, and what each rule makes of figures."""
    text = place.printed("alerts", "rules")
    (place.folder / "rules.yaml").write_text(text)
    place.promtool("check", "rules", "--lint=all", "--lint-fatal", "rules.yaml")
    rules = yaml.safe_load(text)["groups"][0]["rules"]
    summaries = {rule["alert"]: rule["annotations"]["summary"] for rule in rules}
    for fires in (True, False):
        staged = {f"Aijobs{case.alert}" for case in CASES if (case.says is not None) == fires}
        assert staged == summaries.keys(), f"no case for {summaries.keys() ^ staged}"
    (place.folder / "cases.json").write_text(json.dumps(promtool_file("rules.yaml", summaries)))
    place.promtool("test", "rules", "cases.json")
    return f"{len(rules)} rules, {len(CASES)} cases"


def check_metrics(place: Place, when: str) -> str:
    """What is exported now."""
    text = place.printed("metrics")
    place.promtool("check", "metrics", stdin=text)
    return f"{text.count('# TYPE')} metrics of {when} store, {len(text.splitlines())} lines"


def expressions(place: Place) -> list[tuple[str, str]]:
    """What the dashboard asks for, as Grafana sends it, each with the title of its panel."""
    board = json.loads(place.printed("dashboard"))
    asked = [(panel["title"], target["expr"]) for panel in board["panels"] for target in panel["targets"]]
    return [(title, expr.replace("$__rate_interval", "1m")) for title, expr in asked]


def check_dashboard(place: Place) -> str:
    """Every expression of the dashboard, as a recording rule."""
    asked = expressions(place)
    rules = [{"record": f"panel:{n}", "expr": expr} for n, (_, expr) in enumerate(asked)]
    document = {"groups": [{"name": "dashboard", "rules": rules}]}
    (place.folder / "dashboard.json").write_text(json.dumps(document))
    place.promtool("check", "rules", "dashboard.json")
    return f"{len(asked)} expressions of the dashboard"


# --- By a server -----------------------------------------------------------------------------------


@contextlib.contextmanager
def running(args: list[str], log: Path, **more: Any) -> Iterator[subprocess.Popen[str]]:
    """A process for as long as the block lasts."""
    with log.open("w") as errors:
        process = subprocess.Popen(args, stderr=errors, text=True, **more)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(timeout=30)


@contextlib.contextmanager
def serving(place: Place) -> Iterator[str]:
    """`aijobs serve`; the host and port that it announces."""
    args = command("serve", "--port", "0")
    log = place.folder / "serve.log"
    with running(args, log, stdout=subprocess.PIPE, env=place.environ) as process:
        assert process.stdout is not None
        yield urllib.parse.urlsplit(process.stdout.readline().strip()).netloc


class Prometheus:
    """A Prometheus at work."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    def get(self, path: str, **query: str) -> Any:
        """The data of an answer of its API; AssertionError while it gives none."""
        asked = f"{self._url}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(asked, timeout=10) as answer:
                return json.load(answer)["data"]
        except OSError as error:
            body = error.read().decode() if isinstance(error, urllib.error.HTTPError) else ""
            raise AssertionError(f"{error} {body}") from error

    def value(self, expr: str) -> float | None:
        """The one value of *expr* now."""
        result = self.get("query", query=expr)["result"]
        return float(result[0]["value"][1]) if result else None

    def firing(self) -> dict[str, Any]:
        """The alerts that fire, by name."""
        alerts = self.get("alerts")["alerts"]
        return {one["labels"]["alertname"]: one for one in alerts if one["state"] == "firing"}

    def check_health(self) -> None:
        """The last scrape and every rule went well."""
        (target,) = self.get("targets")["activeTargets"]
        assert target["health"] == "up", target
        rules = self.get("rules")["groups"][0]["rules"]
        assert all(rule["health"] == "ok" for rule in rules), rules


@contextlib.contextmanager
def scraping(place: Place, target: str) -> Iterator[Prometheus]:
    """A Prometheus that scrapes *target* each second and has the exported rules."""
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yaml"],
        "scrape_configs": [{"job_name": "aijobs", "static_configs": [{"targets": [target]}]}],
    }
    (place.folder / "prometheus.json").write_text(json.dumps(config))
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    args = [
        place.programs["prometheus"], "--config.file=prometheus.json", "--storage.tsdb.path=data",
        f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn",
    ]  # fmt: skip
    with running(args, place.folder / "prometheus.log", cwd=place.folder):
        yield Prometheus(port)


def check_firing(place: Place) -> str:
    """The P1 is quiet while all is well, fires when a quarter dies, and we agree."""
    with serving(place) as target, scraping(place, target) as prometheus:
        ended = 'sum(increase(aijobs_task_final_status_total{type="halve"}[5m]))'
        eventually(lambda: prometheus.value('count_over_time(up{job="aijobs"}[1m]) >= 3'), timeout=30)
        place.work(*range(0, 2 * SUCCEED, 2))
        eventually(lambda: (prometheus.value(ended) or 0) >= SUCCEED, timeout=30)
        assert P1 not in prometheus.firing(), prometheus.firing()
        assert P1 not in _fires_here(place), "aijobs alerts fires before Prometheus may"
        place.work(*range(1, 2 * DIE, 2))
        alert = eventually(lambda: prometheus.firing().get(P1), timeout=30)
        assert alert["labels"]["severity"] == "P1", alert
        assert P1 in _fires_here(place), "Prometheus fires, and aijobs alerts does not"
        prometheus.check_health()
        asked = expressions(place)
        empty = [title for title, expr in asked if not prometheus.get("query", query=expr)["result"]]
    said = alert["annotations"]["description"]
    return f"{P1} fired ({said}); {len(asked) - len(empty)} panels had data, not: {', '.join(empty)}"


def _fires_here(place: Place) -> set[str]:
    found = json.loads(place.aijobs("alerts", "--json").out)["alerts"]
    return {"Aijobs" + one["rule"].title().replace("_", "") for one in found if one["firing"]}


def main() -> int:
    """Check it all; 0 when it holds, or when Prometheus cannot be had."""
    with tempfile.TemporaryDirectory(prefix="aijobs-prometheus-") as name:
        folder = Path(name)
        try:
            programs = debian_programs("prometheus", ("promtool", "prometheus"), folder / "debian")
        except NotToBeHad as why:
            return without("rules, metrics and dashboard by Prometheus", why)
        print(run(programs["prometheus"], "--version").splitlines()[0])
        (folder / "aijobs.yaml").write_text(CONFIG)
        (folder / "work.py").write_text(WORK)
        place = Place(folder, programs)
        place.printed("db", "upgrade")
        print(check_rules(place))
        print(check_metrics(place, "an idle"))
        print(check_dashboard(place))
        print(check_firing(place))
        print(check_metrics(place, "a busy"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
