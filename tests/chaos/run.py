"""One run on one database: feed, trouble, peace, settling, the account."""

import contextlib
import dataclasses
import json
import random
import shutil
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from sqlalchemy import func, select

from aijobs.core.errors import Conflict, StoreError
from aijobs.store.tables import jobs, notifications
from tests.chaos.accounts import Account, Facts, close_the_books
from tests.chaos.blows import LONGEST_STOP, Clockwork, Director, Foe, PostgresFoe, SqliteFoe
from tests.chaos.feed import Feeder
from tests.chaos.outside import Outside, outside
from tests.chaos.place import Child, Place
from tests.chaos.watch import Span, Watch, overlap
from tests.support.postgres import Restartable, restartable_server
from tests.support.wait import eventually

DURABLE = {"synchronous_commit": "on", "full_page_writes": "on"}
"""As a server must be that may crash; only fsync stays off, for the machine goes on."""

PATIENCE = 90.0
"""Seconds without anything ending, after which what is left has stalled. A notice whose worker was killed is
delivered by another after a minute: ten times the target's limit, and half a minute. A held job waits for
its person."""
HELD_FOR = 12.0
"""Seconds a job is held before a person looks: until then a webhook may yet find it."""

_j = jobs.c
_OPEN = select(_j.id, _j.status, _j.hold_reason).where(_j.finished_at.is_(None))
_n = notifications.c
_UNTOLD = select(func.count()).where(_n.state == "pending", _n.attempts < 2)
"""Notices on their way; after a second failure the next try is minutes away, as it should be."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is asked for."""

    database: str
    minutes: float
    seed: int
    rate: float = 6.0
    workers: int = 3
    pace: float = 2.5
    keep: Path | None = None


def run(plan: Plan) -> Account:
    """Make the trouble, and say what became of the jobs. What is kept is kept only when a promise broke."""
    account = Account(database=plan.database, seed=plan.seed, minutes=plan.minutes)
    folder = Path(tempfile.mkdtemp(prefix=f"aijobs-chaos-{plan.database}-", dir=plan.keep))
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(restartable_server(settings=DURABLE)) if _is_pg(plan) else None
        url = server.server.url_of() if server else f"sqlite:///{folder / 'jobs.db'}"
        world = stack.enter_context(outside())
        place = Place(folder, url, outside=world.url, workers=plan.workers, seed=plan.seed)
        stack.callback(place.close)
        _play(plan, account, place, world, server)
    if not account.broken and plan.keep is None:
        shutil.rmtree(folder, ignore_errors=True)
    elif account.broken:
        account.broken.append(f"(what everybody said, the timeline and the attempts: {folder})")
    return account


def _is_pg(plan: Plan) -> bool:
    return plan.database == "postgresql"


def _play(plan: Plan, account: Account, place: Place, world: Outside, server: Restartable | None) -> None:
    chance, clockwork = random.Random(f"blows {plan.seed}"), Clockwork()
    foe: Foe = PostgresFoe(server, chance, clockwork) if server else SqliteFoe(place, chance, clockwork)
    director = Director(place, foe, clockwork, chance, pace=plan.pace)
    feeder, watch = Feeder(place, rate=plan.rate, seed=plan.seed), Watch(place.url)
    director.keep_up()
    eventually(lambda: all(one.ready for one in place.of("worker")), 60, every=0.1)
    watch.start()
    feeder.start()
    with _errands(place, max(4.0, plan.minutes)) as no_more_ticks:
        director.run(plan.minutes * 60)
        no_more_ticks.set()
        peace = time.time()
        director.make_peace()
        feeder.stop()
        account.settled_after = _settle(account, place, director)
    watch.stop()
    clockwork.alone(False)
    account.blows = dict(Counter(blow.what for blow in director.timeline if "continues" not in blow.what))
    _stop_workers(account, place)
    if feeder.fault is not None:
        account.broken.append(f"the feed broke: {feeder.fault!r}")
    _pauses(account, [span for span in watch.seen.pauses if span[0] < peace], clockwork.away)
    close_the_books(account, place, fed=feeder.fed, seen=watch.seen, outside=world, away=clockwork.away)
    _keep(account, place, director)


def _pauses(account: Account, pauses: Sequence[Span], away: Sequence[Span]) -> None:
    """The longest time without any job ending: in all, and with the store there and a worker awake."""
    there = (end - begin - overlap(begin, end, list(away)) for begin, end in pauses)
    account.longest_pause = round(max((end - begin for begin, end in pauses), default=0.0), 1)
    account.longest_pause_at_work = round(max(there, default=0.0), 1)


@contextlib.contextmanager
def _errands(place: Place, pause: float) -> Iterator[threading.Event]:
    """`aijobs tick` and `aijobs sweep` in turn, as cron would call them, *pause* seconds apart.

    What is yielded stops the ticks, when it is set.
    """
    over, no_more_ticks = threading.Event(), threading.Event()

    def go_round() -> None:
        while not over.wait(pause):
            for name in ("sweep",) if no_more_ticks.is_set() else ("tick", "sweep"):
                child = place.command(name)
                with contextlib.suppress(Exception):
                    child.process.wait(60)

    thread = threading.Thread(target=go_round, name="cron", daemon=True)
    thread.start()
    yield no_more_ticks
    over.set()
    thread.join(90)


def _settle(account: Account, place: Place, director: Director) -> float:
    """Wait until every job has ended and every notice is delivered; seconds it took."""
    began = moved = time.monotonic()
    held: dict[str, float] = {}
    rows, untold = [], -1
    while time.monotonic() - moved < PATIENCE:
        director.keep_up()
        before = (len(rows), untold)
        with contextlib.suppress(StoreError), place.store.read() as tx:
            rows = list(tx.execute(_OPEN))
            untold = tx.execute(_UNTOLD).scalar_one()
        if not rows and not untold:
            break
        if (len(rows), untold) != before:
            moved = time.monotonic()
        held = {row.id: held.get(row.id, time.monotonic()) for row in rows if row.hold_reason}
        overdue = [job_id for job_id, since in held.items() if time.monotonic() - since > HELD_FOR]
        if overdue:
            account.released_by_a_person += _decide(place, overdue)
        time.sleep(0.3)
    account.stalled = len(rows)
    account.broken += [f"job {row.id} stalled: still {row.status}" for row in rows]
    if untold and not rows:
        account.broken.append(f"{untold} notices were not delivered in {PATIENCE:g} s")
    return round(time.monotonic() - began, 1)


def _decide(place: Place, held: list[str]) -> int:
    """A person looks at the provider: what it never worked for is let go on, what it did is given up."""
    billed = place.calls()["billed_by_job"]
    assert isinstance(billed, dict)
    for job_id in held:
        with contextlib.suppress(StoreError, Conflict):
            if billed.get(job_id):
                place.coordinator.cancel(job_id, actor="person", reason="paid for, and the answer is gone")
            else:
                place.coordinator.retry(job_id, actor="person", reason="the provider never heard of it")
    return len(held)


def _stop_workers(account: Account, place: Place) -> None:
    """Everybody goes in order; and nobody may have ended of itself, or not ended when told to."""
    for child in place.children:
        if child.alive and child.what in ("worker", "serve"):
            child.end(signal.SIGTERM)
    for child in place.children:
        if child.alive and child.what in ("worker", "serve"):
            with contextlib.suppress(Exception):
                child.process.wait(LONGEST_STOP)
            if child.alive:
                account.broken.append(f"{child.what} {child.process.pid} did not stop when told to")
    for child in place.children:
        if child.what in ("worker", "serve") and (why := _wrong_end(child)):
            account.broken.append(why)


def _wrong_end(child: Child) -> str:
    """A store that was away ends a process with 5; whatever else nobody asked for is a fault.

    -15: told to go before it had begun, and so before it had anything.
    """
    code = child.process.poll()
    meant = {"SIGKILL": {-9}, "SIGTERM": {0, 5, -15}}.get(child.told, {5})
    if code in meant and not any(line.startswith("Traceback") for line in child.said):
        return ""
    last = " | ".join(list(child.said)[-3:])
    return f"{child.what} {child.process.pid} ended with {code} ({child.told or 'nobody told it to'}): {last}"


def _keep(account: Account, place: Place, director: Director) -> None:
    """The evidence: what was done when, what the provider was asked, and the jobs that went wrong."""
    timeline = [dataclasses.asdict(blow) for blow in director.timeline]
    (place.folder / "timeline.json").write_text(json.dumps(timeline, indent=1))
    if not account.broken:
        return
    (place.folder / "calls.json").write_text(json.dumps(place.calls()))
    facts = Facts.of(place.store)
    named = {word for line in account.broken for word in line.replace(":", " ").split()}
    rows = [
        {
            "job": dict(facts.jobs[job_id]._mapping),
            "attempts": [dataclasses.asdict(one) for one in facts.attempts.get(job_id, [])],
        }
        for job_id in sorted(named & facts.jobs.keys())
    ]
    (place.folder / "jobs.json").write_text(json.dumps(rows, indent=1, default=str))
