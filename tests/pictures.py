"""Pictures of `top` and `stats` for the README, of a staged store and by a clock that stands still.

`python -m tests.pictures` writes them to docs/pictures/. With the same version of rich they come out the same
byte for byte; no test compares them, because another version draws them a little differently.
"""

import io
import os
import tempfile
from datetime import timedelta
from pathlib import Path

import yaml
from rich.console import Console
from rich.text import Text

from aijobs.cli.printer import painted
from aijobs.cli.top_picture import picture
from aijobs.core.clock import seeded_chance
from aijobs.core.lifecycle import Succeeded
from aijobs.core.model import ErrorClass
from aijobs.core.settings import Settings
from aijobs.services.coordinator import Coordinator
from aijobs.services.provider_desk import ProviderDesk
from aijobs.services.statistics import Statistics
from aijobs.services.switching import Switching
from aijobs.store import workers
from aijobs.store.engine import Store, open_store
from tests.support.clock import ManualClock
from tests.support.command_line import ROOT, CommandLine
from tests.support.jobs import claim_some, ended, fail, new_job

FOLDER = ROOT / "docs" / "pictures"
WIDTH, HEIGHT = 80, 30
CELL = 0.602  # of the fonts named below: how wide a letter is for its height
CONFIG = """\
providers:
  anthropic: {kind: simulator}
  openai: {kind: simulator}
types:
  nightly-report: {provider: openai}
  summarize: {provider: openai}
  translate: {provider: anthropic}
"""
WORKERS = ("web-1-4120-k3f9", "web-2-771-p0za")
SHAPE = """\
<svg class="{unique_id}" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: 'DejaVu Sans Mono', Menlo, Consolas, monospace;
  font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
"""As rich has it, without the font that it would have a browser fetch from somebody's server."""


def stage(store: Store, settings: Settings, clock: ManualClock) -> None:
    """An evening on which one provider is held and one type paused, while the rest goes on."""
    coordinator = Coordinator(store, settings, chance=seeded_chance(7))

    def enqueue(type_name: str, count: int, run_at: timedelta | None = None) -> None:
        at = None if run_at is None else clock.now() + run_at
        jobs = [new_job({"n": n}, type=type_name, user=f"user-{n % 5}", run_at=at) for n in range(count)]
        coordinator.enqueue_many(jobs, actor="shop")

    for name in WORKERS:
        with store.write() as tx:
            workers.register(
                tx, name=name, host=name[:5], pid=1, version="1", concurrency=8, types=None, now=clock.now()
            )
    enqueue("summarize", 260)
    enqueue("translate", 90)
    for _ in range(40):
        clock.advance(seconds=4)
        claims = claim_some(coordinator, 8, worker=WORKERS[0])
        clock.advance(seconds=2)
        coordinator.finish([ended(claim.job, Succeeded(result="1")) for claim in claims])
    for error_class in (ErrorClass.INVALID_REQUEST, ErrorClass.CONTENT_POLICY, ErrorClass.NETWORK):
        clock.advance(seconds=3)
        for claim in claim_some(coordinator, 2, worker=WORKERS[1]):
            fail(coordinator, claim.job, error_class)
    enqueue("summarize", 14)
    enqueue("nightly-report", 2, run_at=timedelta(hours=5))
    ProviderDesk(store, settings).hold("anthropic", actor="ana", reason="INC-1234", lasting=None)
    clock.advance(seconds=31)
    claim_some(coordinator, 4, worker=WORKERS[0])
    Switching(store, settings).pause(
        ["nightly-report"], below=None, actor="ana", reason="INC-1234", lasting=timedelta(hours=2)
    )
    clock.advance(seconds=9)
    with store.write() as tx:
        for name in WORKERS:
            workers.heartbeat(tx, name, now=clock.now() - timedelta(seconds=2))


def top(store: Store, settings: Settings) -> Text:
    """What `aijobs top` draws on a terminal of WIDTH by HEIGHT."""
    seen = Statistics(store, settings).close_up(5)
    return painted(picture(*seen, store="postgresql://app@db/app", height=HEIGHT))


def stats(config: Path, store: Store) -> Text:
    """What `aijobs stats` prints on a terminal of WIDTH."""
    run = CommandLine(store.url, clock=store.clock, environ={"AIJOBS_CONFIG": str(config)}, columns=WIDTH)
    return Text.from_ansi(run("stats", terminal=True).out.rstrip("\n"))


def save(name: str, drawn: Text) -> None:
    """*drawn* as docs/pictures/NAME.svg."""
    console = Console(width=WIDTH, record=True, file=io.StringIO(), force_terminal=True, legacy_windows=False)
    console.print(drawn, no_wrap=True, overflow="ellipsis")
    svg = console.export_svg(
        title=f"aijobs {name}", code_format=SHAPE, unique_id=f"aijobs-{name}", font_aspect_ratio=CELL
    )
    lines = (line.rstrip() for line in svg.splitlines())
    (FOLDER / f"{name}.svg").write_text("\n".join(lines) + "\n")


def main() -> None:
    """Write both."""
    os.environ.pop("NO_COLOR", None)
    FOLDER.mkdir(parents=True, exist_ok=True)
    settings, clock = Settings.model_validate(yaml.safe_load(CONFIG)), ManualClock()
    with tempfile.TemporaryDirectory() as name:
        config = Path(name) / "aijobs.yaml"
        config.write_text(CONFIG)
        store = open_store(f"sqlite:///{name}/jobs.db", create=True, clock=clock)
        stage(store, settings, clock)
        save("top", top(store, settings))
        save("stats", stats(config, store))
        store.close()


if __name__ == "__main__":
    main()
