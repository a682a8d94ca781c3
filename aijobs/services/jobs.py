"""The Python API: put jobs in, ask about them, read what came out; also inside a transaction of your own.

from aijobs import Jobs

with Jobs("sqlite:///aijobs.db") as jobs:
    accepted = jobs.enqueue("demo", {"text": "hello"}, key="order-7781", user="ana")
    job = jobs.wait(accepted.job.id, timeout=60)
    print(jobs.result(job.id))
"""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, TypedDict, Unpack

from aijobs.core.clock import Chance, Clock, system_chance
from aijobs.core.config import load
from aijobs.core.durations import parse_duration
from aijobs.core.errors import Conflict, UsageError
from aijobs.core.model import Job, NewJob
from aijobs.core.reasons import checked_reason
from aijobs.core.settings import Settings
from aijobs.services.coordinator import Coordinator, Enqueued
from aijobs.services.last_results import LastResult, LastResults
from aijobs.services.submission import Request, clean_name, new_job
from aijobs.services.surroundings import actor as actor_name
from aijobs.services.surroundings import config_path, database_url
from aijobs.services.waiting import find, wait_until_final
from aijobs.store import jobs as reads
from aijobs.store.engine import Store, Tx, open_store

if TYPE_CHECKING:
    from aijobs.services.tracing import Tracing


class Session(Protocol):
    """What we need of a SQLAlchemy ORM session: the connection its transaction is on."""

    def connection(self) -> Tx:
        """The connection."""
        ...


class Options(TypedDict, total=False):
    """What `enqueue` takes besides type and input; see `aijobs enqueue --help` for their meaning.

    Durations may be texts (`"1h30m"`). What is left out, the type's settings decide.
    """

    key: str | None
    user: str | None
    priority: int | None
    delay: timedelta | str | None
    at: datetime | None
    deadline: timedelta | datetime | str | None
    max_attempts: int | None
    request_id: str | None
    traceparent: str | None


class Jobs:
    """A job store and its configuration. Threads may share one; close it, or use it in a `with`.

    *source* is a store's URL, the path of a configuration file, or Settings; without it AIJOBS_CONFIG,
    AIJOBS_DATABASE, ./aijobs.yaml and the defaults decide, as for the command line. A store that is not there
    yet is made unless *create* is False. *actor* is recorded with every change; by default the login name.
    *tracing* (`aijobs.services.otel.tracing_to`) makes a span of each enqueue, below the caller's own.

    Raises ConfigError, StoreError; each method says what else.
    """

    def __init__(
        self,
        source: str | Path | Settings | None = None,
        *,
        create: bool = True,
        actor: str | None = None,
        clock: Clock | None = None,
        chance: Chance | None = None,
        tracing: "Tracing | None" = None,
    ) -> None:
        self.settings = source if isinstance(source, Settings) else _settings(source, os.environ)
        self.store: Store = open_store(self.settings.database, clock=clock, create=create)
        self._actor = actor_name(actor, os.environ)
        self._coordinator = Coordinator(
            self.store, self.settings, chance=chance or system_chance(), tracing=tracing
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the connections back."""
        self.store.close()

    # --- Putting jobs in ----------------------------------------------------------------------------

    def enqueue(
        self,
        type: str,  # noqa: A002  # the word of the command line
        input: Mapping[str, Any] | None = None,  # noqa: A002  # the word of the command line
        *,
        connection: Tx | Session | None = None,
        **options: Unpack[Options],
    ) -> Enqueued:
        """Create a job, or find the one that has the same key (`.duplicate`; `.result` once it succeeded).

        With *connection* (a SQLAlchemy Connection, or an ORM Session) on the store's database the job becomes
        part of your transaction: it exists exactly when your rows do, and nothing is committed here.

        Raises NotFound (type), InvalidInput, UsageError, KeyConflict (same key, other input), KeyOwnerEnded
        (the key's job died or was cancelled) and BacklogFull (as many wait as the type allows).
        """
        request = _request(type, input, options)
        if connection is not None:
            return self.enqueue_in(connection, [request])[0]
        return self._coordinator.enqueue(self._new(request), actor=self._actor)

    def enqueue_in(self, connection: Tx | Session, requests: Iterable[Request]) -> list[Enqueued]:
        """Create many jobs inside your transaction; one answer each, in order.

        Raises as `enqueue` does; then roll back, because jobs before the refused one are in your transaction.
        Errors of the database come as SQLAlchemy's own: the connection is yours.
        """
        new = [self._new(request) for request in requests]
        return self._coordinator.enqueue_in(_connection(connection), new, actor=self._actor)

    def enqueue_many(
        self, requests: Iterable[Request], *, keep_going: bool = False
    ) -> Sequence[Enqueued | Conflict]:
        """Create many jobs in one transaction; one answer each, in order.

        Without *keep_going* a single conflict means that none is created, and it is raised. What is invalid
        is raised in either case, before anything is written.
        """
        new = [self._new(request) for request in requests]
        answers = self._coordinator.enqueue_many(new, actor=self._actor, keep_going=keep_going)
        refused = next((answer for answer in answers if isinstance(answer, Conflict)), None)
        if refused is not None and not keep_going:
            raise refused
        return answers

    # --- Asking and stopping ------------------------------------------------------------------------

    def get(self, job_id: str) -> Job:
        """The job as it is now. Raises NotFound."""
        return find(self.store, job_id)

    def result(self, job_id: str) -> Any:
        """The result, as the JSON value it is; None as long as there is none. Raises NotFound."""
        with self.store.read() as tx:
            text = reads.result_of(tx, job_id)
        if text is None:
            self.get(job_id)
            return None
        return json.loads(text)

    def last_result(self, type: str, user: str | None = None, *, stale_ok: bool = False) -> LastResult:  # noqa: A002  # as above
        """The last result of a user and type (`.value`), with its age (`.age`, `.finished_at`).

        It is `.stale` when a newer job of theirs was accepted since. With *stale_ok* such a one is given too,
        where the type allows it and up to the age that it allows. Raises NotFound (no such type, no result,
        none that is current, or too old a one) and Conflict (the type does not allow stale ones).
        """
        name = "" if user is None else clean_name(user, "user")
        return LastResults(self.store, self.settings).find(type, name, stale_ok=stale_ok)

    def stand_in(self, job: Job) -> LastResult | None:
        """What may be shown, with its age, until *job* has its own result; None while switched off."""
        return LastResults(self.store, self.settings).stand_in(job)

    def wait(self, job_id: str, timeout: timedelta | float | None = None) -> Job:
        """The job once it has ended. Raises NotFound; TimeoutError after *timeout* (a number: seconds)."""
        limit = timedelta(seconds=timeout) if isinstance(timeout, int | float) else timeout
        return wait_until_final(self.store, job_id, timeout=limit)

    def cancel(self, job_id: str, reason: str = "cancelled by the application") -> Job:
        """Stop a job: at once when it waits, as soon as its worker notices when it runs.

        Raises NotFound and AlreadyFinished; UsageError for a reason that says nothing.
        """
        return self._coordinator.cancel(job_id, actor=self._actor, reason=checked_reason(reason))

    def _new(self, request: Request) -> NewJob:
        return new_job(request, self.settings, now=self.store.clock.now())


def _settings(source: str | Path | None, environ: Mapping[str, str]) -> Settings:
    url = None
    if isinstance(source, str) and "://" in source:
        url, source = source, None
    return load(config_path(source, environ), environ=environ, database=database_url(url, environ))


def _request(type_name: str, value: Mapping[str, Any] | None, options: Options) -> Request:
    values: dict[str, Any] = dict(options)
    for name in ("delay", "deadline"):
        if isinstance(values.get(name), str):
            values[name] = _duration(values[name], name)
    return Request(type=type_name, input={} if value is None else value, **values)


def _duration(text: str, what: str) -> timedelta:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"{what}: {error}") from None


def _connection(given: Tx | Session) -> Tx:
    return given if isinstance(given, Tx) else given.connection()
