"""The overview as JSON, for `stats`; it may grow, nothing in it is renamed."""

from collections.abc import Sequence
from dataclasses import asdict, fields
from datetime import datetime, timedelta
from typing import Any

from aijobs.core.overview import Load, Overview, ProviderSeen, Window, WorkerSeen, age
from aijobs.core.switches import scope_name

_HOUR = timedelta(hours=1)
_COUNTED = (
    "succeeded", "dead_letter", "cancelled", "attempts", "failed", "rate_limited", "lost", "started",
)  # fmt: skip


def overview_shape(seen: Overview) -> dict[str, Any]:
    """The whole."""
    return {
        "at": seen.now,
        "types": [
            {
                "type": name,
                **load_shape(load, seen.now),
                "hour": window_shape(seen.lately(_HOUR, type_name=name)),
            }
            for name, load in seen.loads.items()
        ],
        "total": load_shape(seen.total, seen.now),
        "hour": window_shape(seen.lately(_HOUR)),
        "dead_letters": [
            {"type": type_name, "error_class": error_class, "open": count}
            for (type_name, error_class), count in sorted(seen.dead_letters.items())
        ],
        "dead_letters_open": sum(seen.dead_letters.values()),
        "oldest_dead_letter_seconds": _seconds(age(seen.now, seen.oldest_dead_letter_at)),
        "providers": [provider_shape(one) for one in seen.providers],
        "workers": [worker_shape(one) for one in seen.alive],
        "switches": [asdict(one) | {"scope": scope_name(one.scope)} for one in seen.switches],
        "schedules": [
            {"schedule": one.name, "skipped": one.skipped, "overdue_since": one.overdue_since}
            for one in seen.schedules
        ],
        "webhooks_unmatched": seen.unmatched,
        "notifications_overdue": dict(seen.notifications_overdue),
    }


def provider_shape(one: ProviderSeen) -> dict[str, Any]:
    """Whether a provider is called, and why not."""
    return {
        "provider": one.name, "breaker": one.breaker, "in_flight": one.in_flight, "may_start": one.allowed,
        "why": None if one.allowed is None else one.reason, "until": one.again_at, "held": one.held,
        "since": one.since,
    }  # fmt: skip


def worker_shape(one: WorkerSeen) -> dict[str, Any]:
    """A worker that lives."""
    return {
        "worker": one.name, "host": one.host, "state": one.state, "concurrency": one.concurrency,
        "types": one.types, "started_at": one.started_at, "heartbeat_at": one.heartbeat_at,
    }  # fmt: skip


def load_shape(load: Load, now: datetime) -> dict[str, Any]:
    """What has not ended, of one type or of all."""
    return {
        "ready": load.ready,
        "oldest_ready_seconds": _seconds(age(now, load.oldest_ready_at)),
        "delayed": load.delayed,
        "retrying": load.retrying,
        "held": load.held,
        "running": load.running,
        "oldest_running_seconds": _seconds(age(now, load.oldest_running_at)),
        "parked": load.parked,
        "leases_expired": load.expired,
    }


def window_shape(window: Window) -> dict[str, Any]:
    """What happened in a span."""
    shape: dict[str, Any] = {name: getattr(window, name) for name in _COUNTED}
    return shape | {"success_rate": window.success_rate, "mean_wait_seconds": window.mean_wait}


def usage_shape(by: Sequence[str], key: Sequence[str], used: Any) -> dict[str, Any]:
    """Calls, tokens and cost of one group; what nobody said is null."""
    group = {name: value or None for name, value in zip(by, key, strict=True)}
    return group | {one.name: getattr(used, one.name) for one in fields(used)}


def _seconds(span: timedelta | None) -> float | None:
    return None if span is None else span.total_seconds()
