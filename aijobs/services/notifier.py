"""Delivers the outbox: signed webhooks, commands, log lines. At least once, with one id a notification.

Targets are served side by side and each only a few at a time, so a dead one holds nobody else up.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import httpx

from aijobs import __version__
from aijobs.core.clock import Chance
from aijobs.core.errors import StoreError
from aijobs.core.hints import delay_hint
from aijobs.core.log_events import Level, Log, LogEvent, Unheard
from aijobs.core.notifying import NextStep, Told, message, next_step, private_address
from aijobs.core.redaction import redact
from aijobs.core.settings import NotifySettings, Settings
from aijobs.core.signature import sign
from aijobs.core.signing_key import decode_key
from aijobs.services.coordinator import Rescue
from aijobs.services.hang_up import HangUp
from aijobs.store import outbox
from aijobs.store.engine import Store
from aijobs.store.outbox import Note

_AT_ONCE = 10  # of one target in one run
_MARGIN = timedelta(seconds=30)

OVERDUE_AFTER = timedelta(minutes=1)
"""Workers deliver within a second; what has waited for so long has nobody to deliver it."""

_THREADS = 8

Resolve = Callable[[str, int], Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyReport:
    """What one run did, in notifications."""

    delivered: int = 0
    again: int = 0
    given_up: int = 0

    @property
    def tried(self) -> int:
        """How many were tried."""
        return self.delivered + self.again + self.given_up


@dataclass(frozen=True, slots=True)
class _Delivery:
    """One that was made: how it went, what follows, and when."""

    note: Note
    told: Told
    step: NextStep
    at: datetime


_LOST = "lost"  # somebody else has it by now, and tells of it
_UNWRITTEN = "unwritten"  # for now


def resolve(host: str, port: int) -> Sequence[str]:
    """The addresses of *host*, as the system's resolver gives them."""
    return [str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


class Notifier:
    """Delivers what is due, whoever runs it and however many at once."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        *,
        chance: Chance,
        log: Log | None = None,
        resolver: Resolve = resolve,
    ) -> None:
        self.store = store
        self.settings = settings
        self.chance = chance
        self.log = log or Unheard()
        self.resolver = resolver
        self._unwritten: list[_Delivery] = []

    def run_once(self) -> NotifyReport:
        """Deliver at most a few due notifications of each target, and write down how it went."""
        states = self._write_again()
        targets = self.settings.notify  # held on to: a reload may put others in its place meanwhile
        taken = {name: self._take(name, target) for name, target in targets.items()}
        work = [(targets[name], notes) for name, notes in taken.items() if notes]
        if work:
            with ThreadPoolExecutor(min(_THREADS, len(work)), "aijobs-notify") as pool:
                states += [
                    state for found in pool.map(lambda one: self._serve(*one), work) for state in found
                ]
        return NotifyReport(
            delivered=states.count("delivered"),
            again=states.count("pending"),
            given_up=states.count("failed") + states.count("gone"),
        )

    def tell(self, name: str, message_id: str, body: bytes) -> Told:
        """Deliver one message that is about no job to the target *name*, now and once. Raises NotFound."""
        target = self.settings.target(name)
        match target.kind:
            case "webhook":
                return self._post(target, message_id, body)
            case "command":
                return _run(target, body)
            case "log":
                data = json.loads(body)["data"]
                said = {field: data.get(field) for field in ("severity", "rule", "evidence")}
                self.log.emit(LogEvent.ALERT, notification=message_id, target=name, **said)
                return Told(delivered=True)

    def repair(self, *, limit: int, preview: bool = False) -> Rescue:
        """Deliver what has been due for a while, at most about *limit*: for when no worker does it."""
        with self.store.read() as tx:
            found = outbox.due_since(tx, self.store.clock.now() - OVERDUE_AFTER, limit)
        if preview or not found:
            return Rescue(found=len(found), ids=tuple(found))
        tried = delivered = 0
        while tried < limit and (report := self.run_once()).tried:
            tried += report.tried
            delivered += report.delivered
        return Rescue(found=len(found), repaired=delivered, ids=tuple(found))

    def _take(self, name: str, target: NotifySettings) -> list[Note]:
        lease = target.timeout * _AT_ONCE + _MARGIN
        with self.store.write() as tx:
            return outbox.take(tx, name, self.store.clock.now(), _AT_ONCE, lease)

    def _serve(self, target: NotifySettings, notes: Sequence[Note]) -> list[str]:
        return [
            self._write(self._deliver(target, note))
            for note in notes
            # The machine may have slept, or a name or a lock kept us: then somebody else delivers the rest.
            if self.store.clock.now() + target.timeout < note.leased_until
        ]

    def _deliver(self, target: NotifySettings, note: Note) -> _Delivery:
        told = self._tell(target, note)
        now = self.store.clock.now()
        step = next_step(
            told, attempts=note.attempts, created_at=note.created_at, give_up_after=target.give_up_after,
            now=now, chance=self.chance,
        )  # fmt: skip
        return _Delivery(note, told, step, now)

    def _write(self, done: _Delivery) -> str:
        """Write down how it went; what the store does not take now is kept, and the others go on."""
        try:
            return self._finish(done)
        except StoreError as fault:
            self._say(LogEvent.NOTIFICATION_NOT_SAVED, done, fault.message)
            self._unwritten.append(done)
            return _UNWRITTEN

    def _write_again(self) -> list[str]:
        """What could not be written is not sent again. What others have by now does not pass the fence."""
        states = []
        while self._unwritten:
            done = self._unwritten.pop(0)
            try:
                states.append(self._finish(done))
            except StoreError:
                if self.store.clock.now() < done.note.leased_until:
                    self._unwritten.append(done)
                break  # one wait for a lock is enough; the next look goes on
        return states

    def _finish(self, done: _Delivery) -> str:
        with self.store.write() as tx:
            applied = outbox.finish(tx, done.note, done.told, done.step, done.at)
        if not applied:
            return _LOST
        told = done.told
        self._say(LogEvent.NOTIFIED if told.delivered else LogEvent.NOTIFICATION_FAILED, done, told.error)
        return done.step.state

    def _say(self, event: LogEvent, done: _Delivery, error: str | None) -> None:
        note = done.note
        self.log.emit(
            event, job=note.job_id, target=note.target, notification=note.id, about=note.event, error=error,
            next_at=done.step.next_run_at,
        )  # fmt: skip

    def _tell(self, target: NotifySettings, note: Note) -> Told:
        body = message(
            event=note.event, job_id=note.job_id, type_name=note.type, user=note.user, key=note.key,
            round_number=note.round, attempts=note.job_attempts, error_class=note.error_class,
            error_code=note.error_code, finished_at=note.finished_at,
        )  # fmt: skip
        match target.kind:
            case "webhook":
                return self._post(target, note.id, body)
            case "command":
                return _run(target, body)
            case "log":
                level = Level[target.level.upper()]
                self.log.emit(
                    LogEvent.JOB_ENDED, level=level, job=note.job_id, type=note.type, status=note.event
                )
                return Told(delivered=True)

    def _post(self, target: NotifySettings, note_id: str, body: bytes) -> Told:
        keys = [decode_key(secret.get_secret_value()) for secret in target.secret]
        headers = {name: value.get_secret_value() for name, value in target.headers.items()}
        headers |= {"content-type": "application/json", "user-agent": f"aijobs/{__version__}"}
        headers |= (
            sign(note_id, body, keys=keys, now=self.store.clock.now()) if keys else {"webhook-id": note_id}
        )
        limit = target.timeout.total_seconds()
        hang_up = HangUp(limit)
        try:
            url, extensions, host = self._address(target)
            extensions |= {"trace": hang_up.trace}
            with (
                hang_up,
                httpx.Client(trust_env=False, timeout=limit) as client,
                client.stream(
                    "POST", url, content=body, headers=headers | {"host": host}, extensions=extensions
                ) as answer,
            ):
                return self._judged(answer)
        except _PrivateAddressError as error:
            return Told(delivered=False, error=str(error))
        except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError) as error:
            what = f"{type(error).__name__}: {error}"
            return Told(
                delivered=False, error=f"no answer within {limit:g} s" if hang_up.passed else redact(what)
            )

    def _address(self, target: NotifySettings) -> tuple[httpx.URL, dict[str, Any], str]:
        """Where to connect: the checked address itself, so that a second look at DNS cannot give another."""
        url = httpx.URL(target.url or "")
        port = url.port or (443 if url.scheme == "https" else 80)
        name = url.raw_host.decode("ascii")
        addresses = self.resolver(name, port)
        if not target.allow_private:
            private = private_address(addresses)
            if private:
                raise _PrivateAddressError(f"{name} is {private}, inside a private network (allow_private)")
        host = url.netloc.decode("ascii")
        return url.copy_with(host=addresses[0]), {"sni_hostname": name}, host

    def _judged(self, answer: httpx.Response) -> Told:
        status = answer.status_code
        if 200 <= status < 300:
            return Told(delivered=True, http_status=status)
        hint = delay_hint(answer.headers.multi_items(), None, self.store.clock.now())
        what = "a redirect, which is not followed" if 300 <= status < 400 else "not a success"
        return Told(
            delivered=False,
            error=f"HTTP {status}: {what}",
            http_status=status,
            gone=status == 410,
            hint=hint.delay,
        )


class _PrivateAddressError(Exception):
    """The receiver's name leads into a private network."""


def _run(target: NotifySettings, body: bytes) -> Told:
    """Run the command with the message on its stdin; exit status 0 is a delivery."""
    limit = target.timeout.total_seconds()
    try:
        with _started(target.command) as process:
            try:
                process.communicate(body, timeout=limit)
            except subprocess.TimeoutExpired:
                return Told(delivered=False, error=f"the command did not end within {limit:g} s")
    except OSError as error:
        return Told(delivered=False, error=f"the command cannot be started: {error.strerror}")
    if process.returncode == 0:
        return Told(delivered=True)
    return Told(delivered=False, error=f"the command ended with status {process.returncode}")


@contextlib.contextmanager
def _started(command: Sequence[str]) -> Iterator["subprocess.Popen[bytes]"]:
    """The command in a group of its own, so that when its time is over its children end with it."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
