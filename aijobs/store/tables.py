"""Every table, with the constraints by which the database itself refuses a state that makes no sense.

Times are UTC: `timestamptz` on PostgreSQL, ISO 8601 text with a `Z` on SQLite, which sorts as time does.
JSON is kept as text, byte for byte, so that both databases give back what was put in.
"""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Dialect,
    Float,
    ForeignKey,
    Identity,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.types import UserDefinedType

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def to_text(value: datetime) -> str:
    """*value* as the text SQLite keeps: always 27 characters, so that text order is time order."""
    if value.tzinfo is not UTC:
        value = value.astimezone(UTC)
    return value.isoformat(timespec="microseconds")[:26] + "Z"


class IsoText(UserDefinedType[datetime]):
    """An instant as ISO 8601 text; SQLite has no type for it."""

    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        return "TEXT"

    def bind_processor(self, dialect: Dialect) -> Any:  # noqa: ARG002
        return lambda value: None if value is None else to_text(value)

    def result_processor(self, dialect: Dialect, coltype: object) -> Any:  # noqa: ARG002
        return lambda value: None if value is None else datetime.fromisoformat(value)


Instant = DateTime(timezone=True).with_variant(IsoText(), "sqlite")
Counter = BigInteger().with_variant(Integer(), "sqlite")


def _in(column: str, *values: str) -> str:
    return f"{column} IN ({', '.join(repr(v) for v in values)})"


_ERROR = ("last_error_class", "last_error_code", "last_error_message")

jobs = Table(
    "jobs",
    metadata,
    # Column order is the field order of core.model.Job; `turn` comes after and is the store's own.
    Column("id", Text, primary_key=True),
    Column("type", Text, nullable=False),
    Column("user", Text, nullable=False, server_default=""),
    Column("key", Text),
    Column("status", Text, nullable=False),
    Column("priority", Integer, nullable=False, server_default="0"),
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("max_attempts", Integer, nullable=False),
    Column("round", Integer, nullable=False, server_default="1"),
    Column("deferrals", Integer, nullable=False, server_default="0"),
    Column("next_run_at", Instant),
    Column("locked_until", Instant),
    Column("locked_by", Text),
    Column("lock_token", Counter, nullable=False, server_default="0"),
    Column("claimed_at", Instant),
    Column("parked_at", Instant),
    Column("hold_reason", Text),
    Column("cancel_requested_at", Instant),
    Column("provider", Text),
    Column("model", Text),
    Column("provider_job_id", Text),
    *(Column(name, Text) for name in _ERROR),
    Column("deadline", Instant),
    Column("input_hash", Text, nullable=False),
    Column("request_id", Text),
    Column("traceparent", Text),
    Column("schedule", Text),
    Column("key_expires_at", Instant),
    Column("code_version", Text),
    Column("created_by", Text, nullable=False, server_default=""),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    Column("finished_at", Instant),
    Column("turn", Counter),  # its place in the queue of its type; null until due (see store/claims.py)
    Column("key_released_at", Instant),  # set when the key's time to live is over and another job took it
    CheckConstraint(
        _in("status", "pending", "processing", "failed", "succeeded", "dead_letter", "cancelled"),
        name="status",
    ),
    CheckConstraint(
        "(finished_at IS NOT NULL) = (status IN ('succeeded', 'dead_letter', 'cancelled'))",
        name="finished_at",
    ),
    CheckConstraint("(locked_until IS NOT NULL) = (status = 'processing')", name="locked_until"),
    CheckConstraint("(locked_by IS NOT NULL) = (status = 'processing')", name="locked_by"),
    CheckConstraint("(claimed_at IS NOT NULL) = (status = 'processing')", name="claimed_at"),
    CheckConstraint(
        "parked_at IS NULL OR (status = 'processing' AND provider_job_id IS NOT NULL)", name="parked_at"
    ),
    CheckConstraint(
        "(next_run_at IS NOT NULL) = (status IN ('pending', 'failed') AND hold_reason IS NULL)",
        name="next_run_at",
    ),
    CheckConstraint("hold_reason IS NULL OR status = 'failed'", name="hold_reason"),
    CheckConstraint("turn IS NULL OR next_run_at IS NOT NULL", name="turn"),
    CheckConstraint("attempts >= 0 AND max_attempts >= 1 AND round >= 1 AND deferrals >= 0", name="counts"),
    CheckConstraint("lock_token >= 0", name="lock_token"),
)

_READY = text("turn IS NOT NULL")
_WAITING = text("turn IS NULL AND next_run_at IS NOT NULL")
_RUNNING = text("status = 'processing'")
_KEYED = text("key IS NOT NULL AND key_released_at IS NULL")


def _partial(name: str, *columns: Any, where: Any, unique: bool = False) -> Index:
    return Index(name, *columns, unique=unique, sqlite_where=where, postgresql_where=where)


_j = jobs.c
_partial("uq_jobs_user_type_key", _j.user, _j.type, _j.key, where=_KEYED, unique=True)
_partial("ix_jobs_ready", _j.type, _j.priority.desc(), _j.turn, _j.id, where=_READY)
_partial("ix_jobs_ready_user", _j.type, _j.user, _j.priority, _j.turn, where=_READY)
_partial("ix_jobs_waiting", _j.next_run_at, where=_WAITING)
_partial("ix_jobs_running", _j.type, _j.user, _j.provider, where=_RUNNING)
_partial("ix_jobs_lease", _j.locked_until, where=_RUNNING)
_partial("ix_jobs_deadline", _j.deadline, where=text("deadline IS NOT NULL AND next_run_at IS NOT NULL"))
_partial("ix_jobs_provider_job_id", _j.provider_job_id, where=text("provider_job_id IS NOT NULL"))
_partial("ix_jobs_live_schedule", _j.schedule, where=text("schedule IS NOT NULL AND finished_at IS NULL"))
_partial("ix_jobs_finished", _j.status, _j.finished_at, where=text("finished_at IS NOT NULL"))
Index("ix_jobs_status", _j.status, _j.id)
Index("ix_jobs_user", _j.user, _j.type, _j.id)

job_inputs = Table(
    "job_inputs",
    metadata,
    Column("job_id", Text, ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("payload", Text, nullable=False),
)

job_results = Table(
    "job_results",
    metadata,
    Column("job_id", Text, ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("result", Text, nullable=False),
    Column("fence", Counter, nullable=False),
    Column("created_at", Instant, nullable=False),
)

executions = Table(
    "executions",
    metadata,
    # Column order is the field order of core.model.Execution.
    Column("job_id", Text, ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False),
    Column("fence", Counter, nullable=False),
    Column("shadow", Boolean, nullable=False, server_default=text("false")),
    Column("round", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("counted", Boolean, nullable=False, server_default=text("true")),
    Column("worker", Text),
    Column("provider", Text),
    Column("model", Text),
    Column("outcome", Text, nullable=False),
    Column("error_class", Text),
    Column("error_code", Text),
    Column("http_status", Integer),
    Column("message", Text),
    Column("provider_job_id", Text),
    Column("provider_request_id", Text),
    Column("client_request_id", Text),
    Column("started_at", Instant, nullable=False),
    Column("finished_at", Instant, nullable=False),
    Column("elapsed_seconds", Float),
    Column("phase", Text),
    Column("hint_seconds", Float),
    Column("retry_at", Instant),
    Column("maybe_billed", Boolean, nullable=False, server_default=text("false")),
    Column("input_tokens", Counter),
    Column("output_tokens", Counter),
    Column("cache_read_tokens", Counter),
    Column("cache_write_tokens", Counter),
    Column("reasoning_tokens", Counter),
    Column("service_tier", Text),
    Column("cost", Float),
    Column("usage", Text),
    Column("fallback", Boolean, nullable=False, server_default=text("false")),
    Column("code_version", Text),
    PrimaryKeyConstraint("job_id", "fence", "shadow"),  # one record a claim: a second one is refused
    CheckConstraint(_in("outcome", "succeeded", "failed", "lost", "cancelled", "abandoned"), name="outcome"),
    CheckConstraint("(outcome = 'succeeded') <= (error_class IS NULL)", name="error_class"),
)

events = Table(
    "events",
    metadata,
    Column("id", Counter, Identity(), primary_key=True),
    Column("at", Instant, nullable=False),
    Column("kind", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("job_id", Text, ForeignKey("jobs.id", ondelete="CASCADE")),
    Column("reason", Text),
    Column("detail", Text),
    sqlite_autoincrement=True,
)
_partial("ix_events_job", events.c.job_id, events.c.id, where=text("job_id IS NOT NULL"))

dead_letters = Table(
    "dead_letters",
    metadata,
    # A reference and what is needed to choose; never the input, a key, or a provider's words about them.
    Column("job_id", Text, ForeignKey("jobs.id"), nullable=False),
    Column("round", Integer, nullable=False),
    Column("type", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("error_class", Text, nullable=False),
    Column("error_code", Text),
    Column("attempts", Integer, nullable=False),
    Column("at", Instant, nullable=False),
    Column("state", Text, nullable=False, server_default="open"),
    Column("reason", Text),
    Column("actor", Text),
    Column("settled_at", Instant),
    PrimaryKeyConstraint("job_id", "round"),
    CheckConstraint(_in("state", "open", "replayed", "closed"), name="state"),
    CheckConstraint("(state = 'open') = (settled_at IS NULL)", name="settled_at"),
)
Index("ix_dead_letters_state", dead_letters.c.state, dead_letters.c.at)
Index("ix_dead_letters_group", dead_letters.c.state, dead_letters.c.type, dead_letters.c.error_class)

replays = Table(
    "replays",
    metadata,
    Column("id", Text, primary_key=True),
    Column("state", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("reason", Text),
    Column("filters", Text, nullable=False),
    Column("options", Text),
    Column("checks", Text),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    Column("expires_at", Instant),
    Column("owner", Text),
    Column("owner_until", Instant),
    Column("owner_token", Counter, nullable=False, server_default="0"),
    Column("stopped_because", Text),
    Column("finished_at", Instant),
    CheckConstraint(
        _in("state", "planned", "running", "interrupted", "stopped", "done", "aborted"), name="state"
    ),
)

replay_items = Table(
    "replay_items",
    metadata,
    Column("replay_id", Text, ForeignKey("replays.id", ondelete="CASCADE"), nullable=False),
    Column("job_id", Text, ForeignKey("jobs.id"), nullable=False),
    Column("position", Integer, nullable=False),
    Column("round", Integer, nullable=False),  # the round that died; the compare-and-set names it
    Column("type", Text, nullable=False),
    Column("error_class", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("reason", Text),
    Column("replayed_at", Instant),
    PrimaryKeyConstraint("replay_id", "job_id"),
    UniqueConstraint("replay_id", "position"),
    CheckConstraint(_in("state", "planned", "skipped", "replayed", "succeeded", "failed"), name="state"),
)
Index("ix_replay_items_state", replay_items.c.replay_id, replay_items.c.state, replay_items.c.position)
Index("ix_replay_items_job", replay_items.c.job_id)

schedules = Table(
    "schedules",
    metadata,
    Column("name", Text, primary_key=True),
    Column("fingerprint", Text, nullable=False),  # of cron, zone and type: an edit starts afresh from now
    Column("last_window", Instant),
    Column("last_tick_at", Instant),
    Column("skipped", Counter, nullable=False, server_default="0"),
    Column("first_seen_at", Instant, nullable=False),
    Column("paused_until", Instant),
    Column("updated_at", Instant, nullable=False),
)

deliveries = Table(
    "deliveries",
    metadata,
    Column("provider", Text, nullable=False),
    Column("delivery_id", Text, nullable=False),
    Column("event_type", Text, nullable=False),
    Column("provider_job_id", Text),
    Column("job_id", Text),
    Column("body_hash", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("sent_at", Instant),
    Column("received_at", Instant, nullable=False),
    Column("handled_at", Instant),
    Column("copies", Integer, nullable=False, server_default="1"),
    PrimaryKeyConstraint("provider", "delivery_id"),
    CheckConstraint(_in("outcome", "accepted", "unmatched", "ignored", "expired"), name="outcome"),
)
_partial(
    "ix_deliveries_unhandled",
    deliveries.c.received_at,
    where=text("handled_at IS NULL AND outcome <> 'ignored'"),
)
Index("ix_deliveries_provider_job_id", deliveries.c.provider_job_id)

notifications = Table(
    "notifications",
    metadata,
    Column("id", Text, primary_key=True),
    Column("job_id", Text, ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False),
    Column("round", Integer, nullable=False),
    Column("target", Text, nullable=False),
    Column("event", Text, nullable=False),
    Column("state", Text, nullable=False, server_default="pending"),
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("next_run_at", Instant),
    Column("locked_until", Instant),
    Column("lock_token", Counter, nullable=False, server_default="0"),
    Column("last_error", Text),
    Column("http_status", Integer),
    Column("created_at", Instant, nullable=False),
    Column("delivered_at", Instant),
    UniqueConstraint("job_id", "round", "target"),
    CheckConstraint(_in("state", "pending", "delivered", "failed", "gone"), name="state"),
    CheckConstraint("(next_run_at IS NOT NULL) = (state = 'pending')", name="next_run_at"),
)
_partial(
    "ix_notifications_due",
    notifications.c.target,
    notifications.c.next_run_at,
    where=text("state = 'pending'"),
)

effects = Table(
    "effects",
    metadata,
    Column("job_id", Text, ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False),
    Column("name", Text, nullable=False),
    Column("fence", Counter, nullable=False),
    Column("state", Text, nullable=False, server_default="begun"),
    Column("value", Text),
    Column("begun_at", Instant, nullable=False),
    Column("done_at", Instant),
    PrimaryKeyConstraint("job_id", "name"),
    CheckConstraint(_in("state", "begun", "done"), name="state"),
)

providers = Table(
    "providers",
    metadata,
    Column("name", Text, primary_key=True),
    Column("breaker", Text, nullable=False, server_default="closed"),
    Column("breaker_since", Instant),
    Column("opened_until", Instant),
    Column("ramp_step", Integer, nullable=False, server_default="0"),
    Column("failures", Integer, nullable=False, server_default="0"),
    Column("failures_since", Instant),
    Column("successes", Integer, nullable=False, server_default="0"),
    Column("paused_until", Instant),
    Column("pause_reason", Text),
    Column("held_at", Instant),  # quota or auth: until a probe succeeds or a person resets it
    Column("hold_reason", Text),
    Column("concurrency_cap", Integer),  # halved by `slow_down`
    Column("cap_until", Instant),
    Column("rate_tokens", Float),
    Column("rate_at", Instant),
    Column("last_headers", Text),
    Column("version", Counter, nullable=False, server_default="0"),
    Column("updated_at", Instant, nullable=False),
    CheckConstraint(_in("breaker", "closed", "open", "half_open", "ramp"), name="breaker"),
)

provider_trials = Table(
    "provider_trials",
    metadata,
    Column("provider", Text, nullable=False),
    Column("job_id", Text, nullable=False),
    Column("fence", Counter, nullable=False),
    Column("locked_until", Instant, nullable=False),
    PrimaryKeyConstraint("provider", "job_id"),
)

provider_calls = Table(
    "provider_calls",
    metadata,
    # First calls and retries a provider and bucket of time: the retry budget reads it.
    Column("provider", Text, nullable=False),
    Column("bucket", Instant, nullable=False),
    Column("first_calls", Integer, nullable=False, server_default="0"),
    Column("retries", Integer, nullable=False, server_default="0"),
    PrimaryKeyConstraint("provider", "bucket"),
)

switches = Table(
    "switches",
    metadata,
    Column("kind", Text, nullable=False),
    Column("scope", Text, nullable=False),
    Column("value", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("set_at", Instant, nullable=False),
    Column("expires_at", Instant),
    PrimaryKeyConstraint("kind", "scope"),
    CheckConstraint(_in("kind", "pause", "stale-results", "fallback"), name="kind"),
)

workers = Table(
    "workers",
    metadata,
    Column("name", Text, primary_key=True),
    Column("host", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("version", Text, nullable=False),
    Column("concurrency", Integer, nullable=False),
    Column("types", Text),
    Column("state", Text, nullable=False),
    Column("started_at", Instant, nullable=False),
    Column("heartbeat_at", Instant, nullable=False),
    CheckConstraint(_in("state", "running", "stopping", "stopped"), name="state"),
)

rollups = Table(
    "rollups",
    metadata,
    # Counters and histogram buckets that never fall, whatever is pruned.
    Column("metric", Text, nullable=False),
    Column("labels", Text, nullable=False),
    Column("shard", Integer, nullable=False, server_default="0"),
    Column("value", Float, nullable=False),
    PrimaryKeyConstraint("metric", "labels", "shard"),
)

usage_days = Table(
    "usage_days",
    metadata,
    Column("day", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("provider", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("calls", Counter, nullable=False),
    Column("input_tokens", Counter),
    Column("output_tokens", Counter),
    Column("cache_read_tokens", Counter),
    Column("cache_write_tokens", Counter),
    Column("reasoning_tokens", Counter),
    Column("cost", Float),
    PrimaryKeyConstraint("day", "type", "user", "provider", "model"),
)

schema_version = Table(
    "schema_version",
    metadata,
    Column("version_num", Text, primary_key=True),  # the name Alembic looks for
)
