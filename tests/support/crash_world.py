"""A small world in which processes die: what survives them is the store, the clock and what others saw.

`Outside` is what the provider, the receivers and the callers know. It is kept in a file, one line a fact,
appended in one write, so that it survives a process that is killed for good.
"""

import json
import os
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from aijobs.core.clock import seeded_chance
from aijobs.core.errors import StoreError
from aijobs.core.lifecycle import AttemptEnd, Cancelled, Failed, Parked, Succeeded
from aijobs.core.log_events import Level, LogEvent, Unheard
from aijobs.core.model import CallFacts, Done, ErrorClass, Failure, Job, NewJob, Phase, Usage
from aijobs.core.signature import sign
from aijobs.core.signing_key import decode_key
from aijobs.services.coordinator import Claim, ClaimRequest, Coordinator, Ended
from aijobs.services.notifier import Notifier
from aijobs.services.orphans import Orphans
from aijobs.services.scheduler import Scheduler
from aijobs.services.sweeper import Sweeper
from aijobs.services.webhooks import Webhooks
from aijobs.services.worker.errands import Errand, Errands
from aijobs.store import effects, jobs
from aijobs.store.deliveries import Delivery
from aijobs.store.engine import Store
from tests.support.clock import START, ManualClock
from tests.support.fuse import Fuse
from tests.support.invariants import violations
from tests.support.jobs import LEASE, new_job, settings_of

SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
USED = Usage(input_tokens=7, output_tokens=3)
SETTINGS = settings_of(
    concurrency={"global": 50, "per_user": 20},
    providers={
        "p": {"kind": "openai-responses", "api_key": "k", "webhook_secret": SECRET, "rate": "600/m"}
    },
    types={
        "t": {"provider": "p", "model": "m", "notify": ["people"]},
        "held": {
            "provider": "p", "model": "m", "background": True, "on_unknown_outcome": "hold",
            "notify": ["people"],
        },
    },
    notify={"people": {"kind": "log", "on": ["succeeded", "dead_letter", "cancelled"]}},
    schedules={"hourly": {"every": "1h", "type": "t", "catch_up": "all", "overlap": "allow"}},
    retry={"worker_lost": {"retries": 9, "first": "immediate", "backoff": "fixed", "delay": "0s"}},
)  # fmt: skip
SETTINGS.read_from(Path("aijobs.yaml"))  # without a file nothing would be known of schedules that are gone


class Outside:
    """What everybody else saw, in the order they saw it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def note(self, *fact: object) -> None:
        """Something was seen; it stays seen."""
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(descriptor, json.dumps(fact).encode() + b"\n")
        finally:
            os.close(descriptor)

    def facts(self, kind: str) -> list[list[Any]]:
        """All that was seen of a kind, without the kind."""
        if not self.path.exists():
            return []
        lines = map(json.loads, self.path.read_text().splitlines())
        return [line[1:] for line in lines if line[0] == kind]

    def seen(self, kind: str, *about: object) -> int:
        """How often just this was seen."""
        return self.facts(kind).count(list(about))

    @property
    def accepted(self) -> list[str]:
        """The jobs that their callers were told of."""
        return [fact[0] for fact in self.facts("accepted")]

    @property
    def works(self) -> dict[str, str]:
        """What the provider has done or does, by its own ids: for which job."""
        return dict(self.facts("work"))


class World:
    """A store, a clock, the others; and processes, which come and go.

    *store* tells the time by a `ManualClock`. The processes of one world share its engine, which costs a
    second to warm up, and nothing else: each begins with no connection and a coordinator of its own.
    """

    def __init__(self, store: Store, folder: Path, *, pruned: bool = False) -> None:
        assert isinstance(store.clock, ManualClock)
        self.store, self.clock = store, store.clock
        self.folder, self.pruned = folder, pruned
        self.settings = SETTINGS
        self.outside = Outside(folder / "outside.jsonl")
        self.look_at_the_clock()

    def look_at_the_clock(self) -> None:
        """Go on from where the last process left the time."""
        told = self.outside.facts("time")
        if told:
            self.clock.set(max(self.clock.now(), datetime.fromisoformat(told[-1][0])))

    def advance(self, seconds: float) -> None:
        """Let time pass for everybody."""
        self.outside.note("time", self.clock.advance(seconds=seconds).isoformat())

    def process(self, fuse: Fuse | None = None) -> "Process":
        """Start a process."""
        self.outside.note("born")
        return Process(self, fuse or Fuse(), number=len(self.outside.facts("born")))

    def broken(self, *, settled: bool) -> list[str]:
        """The promises that do not hold now."""
        return violations(
            self.store, expected_ids=self.outside.accepted, settled=settled, pruned=self.pruned,
            settings=self.settings,
        )  # fmt: skip

    def doubled(self) -> list[str]:
        """What happened twice and must not have: effects, and work of which the provider told us."""
        effects_done = Counter(tuple(fact) for fact in self.outside.facts("effect"))
        works = Counter(self.outside.works.values())
        return [
            *(
                f"effect {name} of job {job} happened {n} times"
                for (job, name), n in effects_done.items()
                if n > 1
            ),
            *(f"job {job} was paid for {n} times" for job, n in works.items() if n > 1),
        ]


class Process:
    """What one process has in its memory, and what it does. It is a worker, a cron job and a server in one.

    It makes the same calls in the same order as the real ones, in one thread, so that the points are the same
    in every run.
    """

    def __init__(self, world: World, fuse: Fuse, *, number: int) -> None:
        self.world, self.outside, self.fuse = world, world.outside, fuse
        self.settings = world.settings
        self.name = f"w{number}"
        self.chance = seeded_chance(number)
        self.store = world.store
        self.store.close()
        fuse.attach(self.store)
        self.coordinator = Coordinator(self.store, self.settings, chance=self.chance)
        self._errands = Errands(self.coordinator, _NoKeeper(), None, worker=self.name, log=Unheard())  # type: ignore[arg-type]
        self._webhooks = Webhooks(self.coordinator, self.settings)
        self._orphans = Orphans(self.coordinator, log=Unheard())
        self._receiver = _Receiver(self)

    def close(self) -> None:
        """Its connections go, and its fuse with it."""
        self.store.close()
        Fuse().attach(self.store)

    # --- As a caller ---

    def enqueue(self, script: str, key: str | None = None, **changes: Any) -> str:
        """Ask for a job; *script* says what the provider answers to its calls, one word a call."""
        job = self.coordinator.enqueue(asked(script, key, **changes), actor="caller").job
        self.outside.note("accepted", job.id)
        self.outside.note("script", job.id, len(script.split()))
        return job.id

    # --- As a worker ---

    def work(self) -> None:
        """Write ends, repair, claim and call until nothing is left that could be done now."""
        ends: list[Ended] = []
        retried = False
        for _ in range(60):
            request = ClaimRequest(worker=self.name, slots=10, lease=LEASE)
            errand = Errand(
                ends=ends, retried=retried, repair=self.coordinator.clock.now(), cancels=True, claim=request
            )
            answer = self._errands.run(errand)
            ends = ends[len(answer.finished) :]
            retried = bool(ends)
            ends += [self._ended(claim) for claim in answer.claims]
            if not ends and not answer.claims and answer.fault is None:
                return
        raise AssertionError("there is no end to the work")

    def _ended(self, claim: Claim) -> Ended:
        job = claim.job
        script = json.loads(claim.payload)
        end = self._effects(job, script["effects"]) if "effects" in script else self._call(claim, script)
        return Ended(
            job=job, end=end, started_at=job.claimed_at or self.world.clock.now(), worker=self.name,
            client_request_id=f"aijobs-{job.id}-{job.attempts}",
        )  # fmt: skip

    def _call(self, claim: Claim, script: dict[str, Any]) -> AttemptEnd:
        if claim.job.cancel_requested_at is not None:
            return Cancelled()
        self.fuse.point("before the call")
        end = self._answer(claim, script)
        self.fuse.point("after the call")
        return end

    def _answer(self, claim: Claim, script: dict[str, Any]) -> AttemptEnd:
        job = claim.job
        words = str(script.get("answers", "done")).split()
        before = self.outside.seen("call", job.id)
        word = "done" if claim.resume else words[min(before, len(words) - 1)]
        if not claim.resume:
            self.outside.note("call", job.id)
        facts = CallFacts(provider="p", model="m", phase=Phase.BODY, http_status=200, usage=USED)
        if word == "done":
            return Succeeded(result=json.dumps({"call": before}), facts=facts)
        if word == "parked":
            work = f"resp_{job.id}_{before}"
            self.outside.note("work", work, job.id)
            until = self.world.clock.now() + timedelta(seconds=20)
            return Parked(provider_job_id=work, poll_at=until, facts=CallFacts(provider="p", http_status=200))
        return Failed(failure=Failure(error_class=ErrorClass(word), message="as asked", facts=facts))

    def _effects(self, job: Job, names: list[str]) -> AttemptEnd:
        """A job of ours with side effects: each is entered, happens, and is entered as done."""
        for name in names:
            found = self._entered(job, name)
            if isinstance(found, effects.Done):
                continue
            self.fuse.point("before the effect")
            if not self.outside.seen("effect", job.id, name):  # when in doubt, its receiver is asked
                self.outside.note("effect", job.id, name)
            self.fuse.point("after the effect")
            self._patiently(
                lambda tx, name=name: effects.done(tx, job.id, name=name, **self._under(job), value=None)
            )
        return Succeeded(result='"done"')

    def _entered(self, job: Job, name: str) -> effects.First | effects.Done | effects.Unfinished:
        return self._patiently(lambda tx: effects.begin(tx, job.id, name=name, **self._under(job)))

    def _under(self, job: Job) -> dict[str, Any]:
        return {"fence": job.lock_token, "now": self.world.clock.now()}

    def _patiently(self, work: Any) -> Any:
        """A transaction of its own, once more when the store was away."""
        try:
            with self.store.write() as tx:
                return work(tx)
        except StoreError:
            with self.store.write() as tx:
                return work(tx)

    # --- As everything else ---

    def deliver_webhooks(self) -> None:
        """The provider tells of work that is done, again until it hears that it was heard."""
        for work in self.outside.works:
            if not self.outside.seen("heard", work):
                self.deliver(work)
                self.outside.note("heard", work)

    def deliver(self, *works: str) -> None:
        """A delivery about each piece of work, written down together."""
        for answer in self._webhooks.record([self._delivery(work) for work in works]):
            if isinstance(answer, Exception):
                raise answer

    def _delivery(self, work: str) -> Delivery:
        body = json.dumps({"type": "response.completed", "data": {"id": work}}).encode()
        headers = sign(f"wh_{work}", body, keys=[decode_key(SECRET)], now=self.world.clock.now())
        return self._webhooks.read("p", headers, body)

    def find(self) -> None:
        """Ask after work that nobody knows of."""
        for delivery in self._orphans.due():
            owner = self.outside.works.get(delivery.provider_job_id or "")
            facts = CallFacts(provider="p", model="m", owner=owner, usage=USED)
            self._orphans.settle(delivery, Done(result='"found"', facts=facts))

    def notify(self) -> None:
        """Deliver what waits in the outbox."""
        notifier = Notifier(self.store, self.settings, chance=self.chance, log=self._receiver)
        while notifier.run_once().tried:
            pass

    def tick(self) -> None:
        """Fire what is due."""
        Scheduler(self.store, self.settings, coordinator=lambda: self.coordinator).tick()

    def sweep(self) -> None:
        """Repair what fell through."""
        Sweeper(self.coordinator).sweep()

    def release_held(self) -> None:
        """A person lets go on what waits for a person."""
        with self.store.read() as tx:
            held = jobs.page(tx, jobs.Filter(held=True), 100)
        for job in held:
            self.coordinator.retry(job.id, actor="person", reason="looked at")


class _NoKeeper:
    """Nobody renews: no call here lasts as long as a lease."""

    def until(self) -> None:
        return None

    def hold(self, keys: object, until: object) -> None:
        pass


class _Receiver(Unheard):
    """Who is told of ends; a log line is a delivery."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def emit(self, event: LogEvent, /, *, level: Level | None = None, **fields: object) -> None:
        if event is LogEvent.JOB_ENDED:
            self._process.fuse.point("before the notification")
            self._process.outside.note("told", fields["job"], str(fields["status"]))
            self._process.fuse.point("after the notification")


def asked(script: str, key: str | None = None, **changes: Any) -> NewJob:
    """A job of which *script* says what the provider answers: `network done`, `parked`, `effects: a b`."""
    names = script.removeprefix("effects: ")
    value = {"answers": script} if names == script else {"effects": names.split()}
    expires = {"key_expires_at": START + timedelta(days=365)} if key is not None else {}
    return new_job(value, **({"key": key, "user": "u"} | expires | changes))


def heal(world: World) -> list[str]:
    """Let life go on without accidents until everything has come to its end; what does not hold then."""
    process = world.process()
    try:
        return _healed(world, process)
    finally:
        process.close()


def _healed(world: World, process: Process) -> list[str]:
    broken: list[str] = []
    for turn in range(16):
        for step in _turn(process, people=turn > 2):
            step()
        broken = world.broken(settled=True)
        if not broken and not _held(process):
            break
        world.advance(LEASE.total_seconds() + 1)
    return broken


def _turn(process: Process, *, people: bool) -> Iterator[Any]:
    yield from (process.deliver_webhooks, process.sweep, process.work, process.find, process.work)
    if people:  # who looks only after everything else has had its chance
        yield process.release_held
    yield process.notify


def _held(process: Process) -> bool:
    with process.store.read() as tx:
        return bool(jobs.page(tx, jobs.Filter(held=True), 1))
