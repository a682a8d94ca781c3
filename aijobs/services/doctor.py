"""Is this installation fit to run? Checks that change nothing, each with its evidence and what to do."""

import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from importlib.metadata import version

from aijobs import __version__
from aijobs.core.config.checks import check as config_warnings
from aijobs.core.diagnosis.system import LARGEST_SKEW
from aijobs.core.durations import format_duration
from aijobs.core.errors import AijobsError
from aijobs.core.settings import Kind, ProviderSettings, Settings
from aijobs.providers.contract import Probed
from aijobs.services.interventions import interventions
from aijobs.services.refusals import refused_lately
from aijobs.store import leases, locks, schema, workers
from aijobs.store.condition import Condition, condition_of
from aijobs.store.engine import Store
from aijobs.store.wake import Wake
from aijobs.store.workers import WorkerRecord, WorkerState

_LIBRARIES = ("typer", "sqlalchemy", "psycopg", "pydantic", "httpx", "aiohttp")
_LEAST_ROOM = 100 << 20  # bytes left on the disk of an SQLite store
_WRITE_WAIT = 2.0  # seconds to wait for whoever writes
_LISTEN_WAIT = 3.0  # seconds a listener may take to hear its own message


Probe = Callable[[Settings, Sequence[str]], Mapping[str, Probed]]
"""Asks providers of a configuration, by one free call each, whether they take our credentials."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One check: whether all is well, what was seen, and what to do if not. Its name is no other one's."""

    check: str
    ok: bool
    evidence: str
    hint: str | None = None


@dataclass(slots=True, kw_only=True)
class Patient:
    """What the checks look at. *settings* and *store* stay None when they cannot be had."""

    load: Callable[[], Settings]
    open: Callable[[], Store]
    probe: Probe | None = None
    settings: Settings | None = None
    store: Store | None = None
    condition: Condition | None = None
    records: list[WorkerRecord] = field(default_factory=list)


def examine(
    load: Callable[[], Settings], open_store: Callable[[], Store], *, probe: Probe | None = None
) -> list[Finding]:
    """Run every check; one that cannot be done because an earlier one failed is left out.

    With *probe*, every provider is also asked whether it takes the credentials.
    """
    patient = Patient(load=load, open=open_store, probe=probe)
    return [finding for check in CHECKS for finding in _findings(check, patient)]


def _findings(check: Callable[[Patient], Iterator[Finding]], patient: Patient) -> Iterator[Finding]:
    """What *check* finds. That it cannot be done, for want of a table for example, is a finding as well."""
    try:
        yield from check(patient)
    except AijobsError as error:
        name = check.__name__.strip("_")
        yield Finding(check=name, ok=False, evidence=error.message, hint=error.hint)


def _python(_: Patient) -> Iterator[Finding]:
    yield Finding(
        check="python",
        ok=sys.version_info >= (3, 11),
        evidence=f"Python {sys.version.split()[0]}",
        hint="aijobs needs Python 3.11 or newer",
    )


def _versions(_: Patient) -> Iterator[Finding]:
    found = ", ".join(f"{name} {version(name)}" for name in _LIBRARIES)
    yield Finding(check="versions", ok=True, evidence=f"aijobs {__version__}, {found}")


def _configuration(patient: Patient) -> Iterator[Finding]:
    patient.settings = settings = patient.load()
    source = str(settings.source) if settings.source else "no file; the defaults"
    what = f"{len(settings.types)} types, {len(settings.providers)} providers"
    yield Finding(check="configuration", ok=True, evidence=f"{source}: {what}")
    warnings = list(config_warnings(settings))
    if warnings:
        text = "; ".join(str(warning) for warning in warnings)
        yield Finding(check="configuration warnings", ok=True, evidence=text)


def _credentials(patient: Patient) -> Iterator[Finding]:
    if patient.settings is None:
        return
    for name, provider in patient.settings.providers.items():
        yield _provider(f"provider {name}", provider)
    if patient.probe is not None:
        for name, found in patient.probe(patient.settings, sorted(patient.settings.providers)).items():
            hint = "mend its key or its address, or wait until it is well"
            yield Finding(check=f"probe {name}", ok=found.ok, evidence=found.evidence, hint=hint)


def _provider(check: str, provider: ProviderSettings) -> Finding:
    """Whether a provider could be called, told without any part of a secret."""
    parts = [str(provider.kind)]
    if provider.kind is Kind.PYTHON:
        module = str(provider.callable).partition(":")[0]
        there = _module_exists(module)
        parts.append(f"module {module} " + ("found" if there else "not found"))
        hint = f"is {module} on PYTHONPATH?"
        return Finding(check=check, ok=there, evidence=", ".join(parts), hint=hint)
    if provider.base_url:
        parts.append(provider.base_url)
    parts.append("API key present" if provider.api_key else "no API key")
    if provider.webhook_secret:
        parts.append("webhook secret present")
    missing = provider.lacks_credentials
    fix = "give it an api_key: ${NAME}" if missing else None
    return Finding(check=check, ok=not missing, evidence=", ".join(parts), hint=fix)


def _module_exists(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _store(patient: Patient) -> Iterator[Finding]:
    if patient.settings is None:
        return
    patient.store = store = patient.open()
    patient.condition = seen = condition_of(store)
    with store.read() as tx:
        patient.records = workers.listed(tx)
        lost = schema.missing(tx)
    yield Finding(check="store", ok=True, evidence=f"{store.location}, {store.dialect} {seen.version}")
    whole = "whole, as this program needs it" if not lost else f"but it lacks {', '.join(lost)}"
    yield Finding(
        check="schema",
        ok=not lost,
        evidence=f"version {schema.HEAD}, {whole}",
        hint="restore a backup: somebody removed them",
    )


def _disk(patient: Patient) -> Iterator[Finding]:
    store, seen = patient.store, patient.condition
    if store is None or seen is None or seen.free_bytes is None:
        return
    if store.warnings:
        warnings = "; ".join(store.warnings)
        yield Finding(check="file system", ok=False, evidence=warnings, hint="move the store to a local disk")
    yield Finding(
        check="journal",
        ok=seen.journal_mode == "wal" and bool(seen.durable),
        evidence=f"mode {seen.journal_mode}, a commit "
        + ("survives a loss of power" if seen.durable else "may be lost with the power"),
        hint="the file system does not support SQLite's write-ahead log: use a local disk",
    )
    yield Finding(
        check="disk space",
        ok=seen.free_bytes >= _LEAST_ROOM,
        evidence=f"{seen.free_bytes >> 20} MiB free beside the store",
        hint="free disk space: a full disk stops the workers",
    )


def _writing(patient: Patient) -> Iterator[Finding]:
    if patient.store is None:
        return
    free = locks.are_free(patient.store, (), wait=_WRITE_WAIT)  # raises on a standby, or a disk that failed
    yield Finding(
        check="writing",
        ok=free,
        evidence="a transaction may begin" if free else f"somebody kept us from it for {_WRITE_WAIT:g} s",
        hint="end the program that keeps a transaction open; a worker that was stopped (SIGSTOP) may be it",
    )


def _clock(patient: Patient) -> Iterator[Finding]:
    skew = patient.condition.skew_seconds if patient.condition else None
    if skew is None:
        return
    yield Finding(
        check="clock",
        ok=abs(skew) <= LARGEST_SKEW,
        evidence=f"the server's is {abs(skew):.3f} s {'ahead of' if skew > 0 else 'behind'} this machine's",
        hint="jobs go by the server's clock, but certificates and logs go by this one: set it (NTP)",
    )


def _listener(patient: Patient) -> Iterator[Finding]:
    store = patient.store
    if store is None or store.dialect != "postgresql":
        return
    wake = Wake(store)
    try:
        end = store.clock.monotonic() + _LISTEN_WAIT
        while not wake.healthy and store.clock.monotonic() < end:
            wake.wait(0.1)
        healthy = wake.healthy
    finally:
        wake.close()
    evidence = "notifications arrive" if healthy else "notifications do not arrive (a transaction pooler?)"
    hint = "workers then only look at intervals: jobs start up to a second later"
    yield Finding(check="listener", ok=healthy, evidence=evidence, hint=hint)


def _webhooks(patient: Patient) -> Iterator[Finding]:
    store, settings = patient.store, patient.settings
    if store is None or settings is None:
        return
    for one in refused_lately(store, settings, store.clock.now()):
        name = f"webhooks {one.provider} {one.reason}"
        yield Finding(check=name, ok=one.ok, evidence=one.evidence, hint=one.hint)


def _workers(patient: Patient) -> Iterator[Finding]:
    store, settings = patient.store, patient.settings
    if store is None or settings is None:
        return
    now = store.clock.now()
    running = [record for record in patient.records if record.state is not WorkerState.STOPPED]
    alive = [record for record in running if now - record.heartbeat_at <= settings.worker.lease]
    silent = [record for record in running if record not in alive]
    with store.read() as tx:
        waiting = leases.runnable(tx, running=(), waiting=sorted(settings.types), above=None, now=now)
    names = ", ".join(f"{record.name} on {record.host}" for record in alive) or "none"
    yield Finding(
        check="workers",
        ok=bool(alive) or not waiting,
        evidence=f"alive: {names}" + ("; jobs are waiting" if waiting and not alive else ""),
        hint=None if alive else "start one: aijobs worker",
    )
    then = "its jobs are taken over" if alive else "its jobs wait for a worker"
    for record in silent:
        evidence = f"{_silence(record, now - record.heartbeat_at)}: {then}"
        yield Finding(check=f"worker {record.name}", ok=True, evidence=evidence)


def _silence(record: WorkerRecord, silent: timedelta) -> str:
    since = format_duration(timedelta(seconds=round(silent.total_seconds())))
    return f"{record.name} on {record.host} has been silent for {since}"


def _interventions(patient: Patient) -> Iterator[Finding]:
    """No fault; but whoever wonders why nothing runs looks here."""
    if patient.store is not None and patient.settings is not None:
        for name, evidence in interventions(patient.store, patient.settings):
            yield Finding(check=name, ok=True, evidence=evidence)


CHECKS = (
    _python,
    _versions,
    _configuration,
    _credentials,
    _store,
    _disk,
    _writing,
    _clock,
    _listener,
    _webhooks,
    _workers,
    _interventions,
)
"""In the order they are told: what others build on comes first."""
