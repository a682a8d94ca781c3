"""Every table, with the constraints by which the database itself refuses a state that makes no sense."""

from aijobs.store.tables.aftermath import (
    dead_letters,
    deliveries,
    effects,
    notifications,
    replay_items,
    replays,
)
from aijobs.store.tables.columns import Counter, Instant, IsoText, metadata, to_text
from aijobs.store.tables.operation import (
    alerts,
    minutes,
    provider_calls,
    provider_trials,
    providers,
    refusals,
    rollups,
    schedules,
    schema_version,
    switches,
    usage_days,
    workers,
)
from aijobs.store.tables.work import events, executions, job_inputs, job_results, jobs

__all__ = [
    "Counter",
    "Instant",
    "IsoText",
    "alerts",
    "dead_letters",
    "deliveries",
    "effects",
    "events",
    "executions",
    "job_inputs",
    "job_results",
    "jobs",
    "metadata",
    "minutes",
    "notifications",
    "provider_calls",
    "provider_trials",
    "providers",
    "refusals",
    "replay_items",
    "replays",
    "rollups",
    "schedules",
    "schema_version",
    "switches",
    "to_text",
    "usage_days",
    "workers",
]
