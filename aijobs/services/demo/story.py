"""The story: jobs that succeed, one that is turned away and tried again, one that dies and is revived.

Everything is real but the provider: the store, the worker, HTTP, the moves of every job.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from aijobs.core.clock import Chance
from aijobs.core.config import load
from aijobs.core.errors import Interrupted
from aijobs.core.model import Execution, Job, Outcome, Status
from aijobs.core.settings import Settings
from aijobs.providers.registry import Providers
from aijobs.services.coordinator import Coordinator
from aijobs.services.demo.setting import (
    CONFIG,
    MODEL,
    WISHES,
    WRONG_MODEL,
    Wish,
    write_configuration,
    write_inputs,
)
from aijobs.services.submission import Request, new_job
from aijobs.services.waiting import find
from aijobs.services.worker import Worker, WorkerOptions, WorkerReport
from aijobs.store import jobs as reads
from aijobs.store.engine import Store, open_store

_ACTOR = "demo"
_CONCURRENCY = 4


class Provider(Protocol):
    """The simulated provider, as far as the story needs it."""

    @property
    def url(self) -> str:
        """Where it answers, without a path."""
        ...

    def asked(self) -> int:
        """How many calls asked it for work."""
        ...

    def billed(self) -> int:
        """How often it did the work."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of the story, and what a person would type for it."""

    title: str
    text: str
    commands: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What became of one job, over all of its attempts."""

    job: Job
    attempts: int
    story: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoReport:
    """How it went. *wrong* is empty when everything went as told."""

    steps: tuple[Step, ...]
    fates: tuple[Fate, ...]
    provider_url: str
    calls: int
    billed: int
    seconds: float
    wrong: tuple[str, ...]


class Demo:
    """Plays in *folder*, against *provider*; *tell* hears each step when it has happened."""

    def __init__(
        self, folder: Path, provider: Provider, *, chance: Chance, tell: Callable[[Step], None]
    ) -> None:
        self._folder = folder
        self._provider = provider
        self._chance = chance
        self._tell = tell
        self._steps: list[Step] = []
        self._ids: dict[str, str] = {}

    def run(self) -> DemoReport:
        """The whole story. Raises Interrupted when a person stops it, StoreError."""
        settings = self._prepare()
        store = open_store(settings.database, create=True)
        try:
            began = store.clock.monotonic()
            self._enqueue(store, settings)
            self._work(store, settings)
            self._retried(store)
            self._in_background(store)
            self._dead(store)
            self._revive(store)
            return self._report(store, store.clock.monotonic() - began)
        finally:
            store.close()

    # --- The steps --------------------------------------------------------------------------------

    def _prepare(self) -> Settings:
        path = write_configuration(self._folder, self._provider.url, model=WRONG_MODEL)
        write_inputs(self._folder)
        self._say(
            "A provider, a store and a configuration",
            f"A simulated model provider answers at {self._provider.url}; it speaks real HTTP. {CONFIG} "
            "names it, an SQLite file to keep the jobs in, and four types of jobs.",
            f"cd {self._folder}",
            "aijobs config check",
        )
        return load(path, environ={})

    def _enqueue(self, store: Store, settings: Settings) -> None:
        coordinator = Coordinator(store, settings, chance=self._chance)
        for wish in WISHES:
            self._ids[wish.name] = self._ask(coordinator, wish, store=store, settings=settings)[0]
        again, duplicate = self._ask(coordinator, WISHES[0], store=store, settings=settings)
        known = (
            "found the job that was there" if duplicate and again == self._ids[WISHES[0].name] else "failed"
        )
        self._say(
            "Jobs are accepted",
            f"{len(WISHES)} jobs are written down; nothing has been called yet. The first was asked for "
            f"twice with the same key, as a nervous web shop does: the second time {known}.",
            *(wish.command for wish in WISHES),
            WISHES[0].command,
        )

    def _ask(
        self, coordinator: Coordinator, wish: Wish, *, store: Store, settings: Settings
    ) -> tuple[str, bool]:
        request = Request(type=wish.type, input=wish.input, user=wish.user, key=wish.key)
        answer = coordinator.enqueue(new_job(request, settings, now=store.clock.now()), actor=_ACTOR)
        return answer.job.id, answer.duplicate

    def _work(self, store: Store, settings: Settings) -> None:
        report = self._drain(store, settings)
        self._say(
            "A worker carries them out",
            f"It ran until nothing was left to do: {report.succeeded} jobs succeeded, {report.failed} "
            f"attempt failed and was tried again, {report.dead_letter} job was given up.",
            "aijobs worker --drain",
            "aijobs inspect",
        )

    def _retried(self, store: Store) -> None:
        job_id = self._ids["mail"]
        first, *_, last = self._executions(store, job_id)
        waited = (last.started_at - first.finished_at).total_seconds()
        self._say(
            "One was turned away and tried again",
            f"The provider answered the classification with HTTP {first.http_status} and asked for "
            f"{first.hint_seconds or 0:g} s of patience. Its next attempt began {waited:.1f} s later and "
            f"{last.outcome}. Nobody had to do anything.",
            f"aijobs inspect {job_id}",
        )

    def _in_background(self, store: Store) -> None:
        job_id = self._ids["quarter"]
        last = self._executions(store, job_id)[-1]
        self._say(
            "One ran at the provider by itself",
            f"The report was accepted as {last.provider_job_id}, and that id was saved before anything else. "
            "While the provider worked, the job held no place at the worker; a crash would only have meant "
            "that another worker asks after the same id, and nothing is paid for twice.",
            f"aijobs inspect {job_id}",
        )

    def _dead(self, store: Store) -> None:
        job_id = self._ids["manual"]
        last = self._executions(store, job_id)[-1]
        self._say(
            "One became a dead letter",
            f"The translation asks for the model {WRONG_MODEL}, which the provider does not have: "
            f"{last.error_class} (HTTP {last.http_status}). Trying again could not help, so it was not tried "
            "again, and it is kept until a person decides.",
            "aijobs deadletter list",
            f"aijobs diagnose {job_id}",
        )

    def _revive(self, store: Store) -> None:
        job_id = self._ids["manual"]
        path = write_configuration(self._folder, self._provider.url, model=MODEL)
        settings = load(path, environ={})
        reason = f"the model is {MODEL}, not {WRONG_MODEL}"
        Coordinator(store, settings, chance=self._chance).retry(job_id, actor=_ACTOR, reason=reason)
        self._drain(store, settings)
        job = find(store, job_id)
        ended = "has succeeded" if job.status is Status.SUCCEEDED else f"is {job.status}"
        self._say(
            "Its cause is repaired, and it is replayed",
            f"{CONFIG} now says {MODEL}. The replay was round {job.round} of the same job, which {ended}; "
            "what went wrong before stays in its history, with who replayed it and why.",
            f"aijobs deadletter replay {job_id} --preview",
            f"aijobs retry {job_id} --reason '{reason}'",
            "aijobs worker --drain",
        )

    # --- Helpers of the steps ---------------------------------------------------------------------

    def _say(self, title: str, text: str, *commands: str) -> None:
        step = Step(title=title, text=text, commands=commands)
        self._steps.append(step)
        self._tell(step)

    def _drain(self, store: Store, settings: Settings) -> WorkerReport:
        worker = Worker(
            store,
            Coordinator(store, settings, chance=self._chance),
            settings,
            Providers(settings, clock=store.clock),
            options=WorkerOptions.from_settings(settings, concurrency=_CONCURRENCY, drain=True),
            chance=self._chance,
        )
        report = worker.run()
        if report.stopped_by:
            raise Interrupted("the demonstration was stopped")
        return report

    def _executions(self, store: Store, job_id: str) -> list[Execution]:
        with store.read() as tx:
            return reads.executions_of(tx, job_id)

    # --- The end ----------------------------------------------------------------------------------

    def _report(self, store: Store, seconds: float) -> DemoReport:
        histories = {wish.name: self._executions(store, self._ids[wish.name]) for wish in WISHES}
        fates = tuple(
            Fate(
                job=find(store, self._ids[wish.name]),
                attempts=len(histories[wish.name]),
                story=_told(histories[wish.name]),
            )
            for wish in WISHES
        )
        calls, billed = self._provider.asked(), self._provider.billed()
        self._say(
            "Every job has its result, and each was paid for once",
            f"The provider was asked for work {calls} times and did it {billed} times, for {len(fates)} "
            "jobs.",
        )
        return DemoReport(
            steps=tuple(self._steps),
            fates=fates,
            provider_url=self._provider.url,
            calls=calls,
            billed=billed,
            seconds=seconds,
            wrong=tuple(_differences(fates, histories, billed=billed)),
        )


def _told(history: Sequence[Execution]) -> str:
    """One line on what the attempts were: `rate_limited, succeeded`."""
    words = [str(one.error_class or one.outcome) for one in history]
    for index in range(1, len(history)):
        if history[index].round > history[index - 1].round:
            words[index] = f"replayed: {words[index]}"
    return ", ".join(words)


def _differences(
    fates: Sequence[Fate], histories: Mapping[str, Sequence[Execution]], *, billed: int
) -> Iterator[str]:
    """What did not go as it is told."""
    for fate in fates:
        if fate.job.status is not Status.SUCCEEDED:
            yield f"job {fate.job.id} ({fate.job.type}) is {fate.job.status}"
    if [one.outcome for one in histories["mail"]] != [Outcome.FAILED, Outcome.SUCCEEDED]:
        yield "the job that was turned away did not fail once and then succeed"
    if [one.round for one in histories["manual"]] != [1, 2]:
        yield "the replayed job did not have one attempt in each of two rounds"
    if billed != len(fates):
        yield f"{len(fates)} jobs were paid for {billed} times"
