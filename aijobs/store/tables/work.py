"""Jobs and what hangs on them: input, result, attempts, events."""

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Identity,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Text,
    text,
)

from aijobs.store.tables.columns import Counter, Instant, metadata, one_of, partial_index, storage

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
        one_of("status", "pending", "processing", "failed", "succeeded", "dead_letter", "cancelled"),
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
    # Only the newest rows are busy. A fifth of a month's jobs, the default, is three days of dead rows.
    **storage(autovacuum_vacuum_scale_factor=0.02),
)

_READY = text("turn IS NOT NULL")
_WAITING = text("turn IS NULL AND next_run_at IS NOT NULL")
_RUNNING = text("claimed_at IS NOT NULL")
_LEASED = text("locked_until IS NOT NULL AND provider_job_id IS NULL")
_AT_PROVIDER = text("locked_until IS NOT NULL AND provider_job_id IS NOT NULL")
_KEYED = text("key IS NOT NULL AND key_released_at IS NULL")


_j = jobs.c
partial_index("uq_jobs_user_type_key", _j.user, _j.type, _j.key, where=_KEYED, unique=True)
partial_index("ix_jobs_ready", _j.type, _j.priority.desc(), _j.turn, _j.id, _j.next_run_at, where=_READY)
partial_index(
    "ix_jobs_ready_user", _j.type, _j.user, _j.priority.desc(), _j.turn, _j.id, _j.next_run_at, where=_READY
)
partial_index("ix_jobs_waiting", _j.next_run_at, _j.type, _j.status, where=_WAITING)
partial_index("ix_jobs_held", _j.type, where=text("hold_reason IS NOT NULL"))
partial_index("ix_jobs_running", _j.type, _j.user, _j.provider, where=_RUNNING)
partial_index("ix_jobs_lease", _j.locked_until, where=_LEASED)
partial_index("ix_jobs_look", _j.locked_until, where=_AT_PROVIDER)
partial_index("ix_jobs_deadline", _j.deadline, where=text("deadline IS NOT NULL AND next_run_at IS NOT NULL"))
partial_index("ix_jobs_provider_job_id", _j.provider_job_id, where=text("provider_job_id IS NOT NULL"))
partial_index(
    "ix_jobs_live_schedule", _j.schedule, where=text("schedule IS NOT NULL AND finished_at IS NULL")
)
partial_index("ix_jobs_finished", _j.status, _j.finished_at, where=text("finished_at IS NOT NULL"))
partial_index("ix_jobs_last_success", _j.user, _j.type, _j.finished_at, where=text("status = 'succeeded'"))
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
    CheckConstraint(
        one_of("outcome", "succeeded", "failed", "lost", "cancelled", "abandoned"), name="outcome"
    ),
    CheckConstraint("(outcome = 'succeeded') <= (error_class IS NULL)", name="error_class"),
)

shadows = Table(  # beside the execution of a shadow call: how its answer compared, and never the answer
    "shadows",
    metadata,
    Column("job_id", Text, ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False),
    Column("fence", Counter, nullable=False),
    Column("type", Text, nullable=False),
    Column("at", Instant, nullable=False),
    Column("length", Integer),
    Column("real_length", Integer, nullable=False),
    Column("compared", Integer, nullable=False),
    Column("agreed", Integer, nullable=False),
    PrimaryKeyConstraint("job_id", "fence"),
    CheckConstraint("agreed >= 0 AND agreed <= compared", name="agreed"),
)
Index("ix_shadows_type", shadows.c.type, shadows.c.at)

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
partial_index("ix_events_job", events.c.job_id, events.c.id, where=text("job_id IS NOT NULL"))
partial_index("ix_events_of_none", events.c.at, where=text("job_id IS NULL"))  # for retention; they are few
