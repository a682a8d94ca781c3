"""How events are worded: one line each, as text for people or as JSON for machines. Nothing else words them.

Whatever a field holds, a line stays a line: control characters, line breaks and marks that reorder text are
neutralised, and long values are cut with a mark.
"""

import json
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from string import Formatter
from types import MappingProxyType

from aijobs.core.clock import Clock
from aijobs.core.durations import format_duration, format_instant
from aijobs.core.log_events import Level, LogEvent, level_of
from aijobs.core.payload import clean_text

_VALUE_LIMIT = 500  # bytes of one field
_E = LogEvent
_WORDS = MappingProxyType(
    {
        _E.WORKER_STARTED: "worker {worker} started, concurrency {concurrency}",
        _E.CONFIG_RELOADED: "configuration reloaded ({why}): {changed}{note}",
        _E.CONFIG_UNCHANGED: "configuration looked at ({why}): nothing has changed",
        _E.CONFIG_REFUSED: "the new configuration is refused, the old one stays ({why}): {error}",
        _E.WORKER_STOPPING: "stopping on {why}: {running} running, {grace} to finish",
        _E.WORKER_STOPPED: "worker {worker} stopped: {claimed} claimed, {succeeded} succeeded, "
        "{failed} failed, {dead_letter} dead letters, {cancelled} cancelled, {handed_back} handed back, "
        "{lost} lost",
        _E.DRAIN_WAITS: "not done yet: {why}",
        _E.SIDE_TASK_DIED: "{task} died ({error}): the worker stops",
        _E.BREAKER_OPENED: "provider {provider}: breaker opened, nothing is sent until {until}: {why}",
        _E.BREAKER_HALF_OPEN: "provider {provider}: breaker half open, job {job} is the trial",
        _E.BREAKER_RAMP: "provider {provider}: slow start, {why}",
        _E.BREAKER_CLOSED: "provider {provider}: breaker closed, {why}",
        _E.PROVIDER_HELD: "provider {provider}: held until a probe succeeds, the next {until}: {why}",
        _E.JOB_CLAIMED: "job {job} ({type}) claimed, attempt {attempt}",
        _E.JOB_SUCCEEDED: "job {job} ({type}) succeeded in {seconds}",
        _E.JOB_PARKED: "job {job} ({type}) goes on at the provider as {provider_job_id}, next look {next_at}",
        _E.JOB_RETRY: "job {job} ({type}) failed, attempt {attempt}: {error_class} {error_code}; "
        "again {next_at}",
        _E.JOB_HELD: "job {job} ({type}) failed, attempt {attempt}: {error_class} {error_code}; "
        "it waits for a person",
        _E.JOB_DEAD_LETTER: "job {job} ({type}) is a dead letter: {error_class} {error_code}; {reason}",
        _E.JOB_CANCELLED: "job {job} ({type}) cancelled",
        _E.JOB_HANDED_BACK: "job {job} ({type}) handed back: {reason}",
        _E.SHADOW_LEFT_OUT: "job {job}: no comparison with the candidate ({why})",
        _E.LEASE_LOST: "job {job}: lease {fence} lost, its result is dropped ({why})",
        _E.LEASES_RESCUED: "{count} attempts of lost workers recorded",
        _E.JOBS_EXPIRED: "{count} jobs passed their deadline while waiting",
        _E.ORPHAN_CANCELLED: "job {job}: {provider_job_id} was started under a lost lease and is cancelled",
        _E.CANCEL_UNCONFIRMED: "job {job}: the provider did not confirm that {provider_job_id} is cancelled",
        _E.END_REFUSED: "job {job}: the store refused the end of its attempt ({error})",
        _E.RESULTS_NOT_SAVED: "{count} attempts could not be saved before the end: their leases run out",
        _E.JOB_ENDED: "job {job} ({type}) ended: {status}",
        _E.NOTIFIED: "job {job}: {target} was told ({about})",
        _E.NOTIFICATION_FAILED: "job {job}: {target} could not be told ({about}): {error}; again {next_at}",
        _E.NOTIFICATION_NOT_SAVED: "job {job}: {target} was called ({about}), which is not saved: {error}",
        _E.ALERT: "{severity} alert {rule}: {evidence}",
        _E.STORE_LOST: "the store is away, trying again: {error}",
        _E.STORE_BACK: "the store is back after {seconds}",
        _E.STORE_WARNING: "{text}",
        _E.SERVER_STARTED: "serving at {url}",
        _E.SERVER_STOPPED: "stopped on {why}",
        _E.REQUEST_FAILED: "a request to {route} failed: {error}",
        _E.DELIVERY_TAKEN: "webhook {provider} {event_type} {delivery_id}: {outcome} {job}",
        _E.DELIVERY_CONTRADICTS: "webhook {provider} {event_type} {delivery_id}: {outcome} {job}, "
        "and its body differs from the first",
        _E.DELIVERY_REFUSED: "webhook {provider} refused: {reason}",
        _E.DELIVERY_NOT_SAVED: "webhook {provider} not written down ({error}): it is to be sent again",
        _E.REFUSALS_NOT_SAVED: "{count} refused webhooks are not counted in the store: {error}",
        _E.ORPHAN_ADOPTED: "job {job}: {provider_job_id} was found again; nothing is sent anew",
        _E.LATE_OUTCOME: "job {job}: {provider_job_id} ended as {outcome} after the job had",
        _E.DELIVERIES_EXPIRED: "{count} webhook deliveries found no job",
        _E.TRACING_OFF: "{asked_by} is set, but no spans are sent: {why}",
        _E.TRACING_FAILED: "spans could not be sent; jobs are not affected: {error} ({count} times)",
    }
)

FIELDS = MappingProxyType(
    {
        event: frozenset(name for _, name, _, _ in Formatter().parse(words) if name)
        for event, words in _WORDS.items()
    }
)
"""The fields whose values appear in the words of each event; JSON shows all it was given."""


class LineLog:
    """A log that writes lines. *write* takes one line without its end; *level* and up is shown."""

    def __init__(
        self, write: Callable[[str], object], *, clock: Clock, level: Level, as_json: bool = False
    ) -> None:
        self._write = write
        self._clock = clock
        self._level = level
        self._phrase = json_line if as_json else text_line

    def wants(self, event: LogEvent) -> bool:
        """Whether *event* is shown at this level."""
        return level_of(event) >= self._level

    def emit(self, event: LogEvent, /, *, level: Level | None = None, **fields: object) -> None:
        """Write the line of *event*."""
        level = level or level_of(event)
        if level >= self._level:
            self._write(self._phrase(event, fields, self._clock.now(), level))


def text_line(
    event: LogEvent, fields: Mapping[str, object], now: datetime, level: Level | None = None
) -> str:
    """`2026-01-01T00:00:00.000Z WARNING job ...`: the words of the table, with the fields filled in."""
    words = _WORDS[event].format_map({name: _plain(fields.get(name)) for name in FIELDS[event]})
    return f"{format_instant(now)} {(level or level_of(event)).name:<7} {' '.join(words.split())}"


def json_line(
    event: LogEvent, fields: Mapping[str, object], now: datetime, level: Level | None = None
) -> str:
    """`{"at": ..., "level": ..., "event": ..., <fields>}`; unknown is null, durations are seconds."""
    level = level or level_of(event)
    head = {"at": format_instant(now), "level": level.name.lower(), "event": event.value}
    told = {name: _json(value) for name, value in fields.items() if name not in head}
    return json.dumps(head | told, ensure_ascii=False)


def _plain(value: object) -> str:
    match value:
        case None:
            return ""
        case timedelta():
            return format_duration(value)
        case datetime():
            return format_instant(value)
        case _:
            return clean_text(str(value), _VALUE_LIMIT)


def _json(value: object) -> object:
    match value:
        case None | bool() | int() | float():
            return value
        case timedelta():
            return value.total_seconds()
        case datetime():
            return format_instant(value)
        case _:
            return clean_text(str(value), _VALUE_LIMIT)
