"""What running the whole needs: schedules, providers, switches, workers, totals, the schema version."""

from sqlalchemy import (
    CheckConstraint,
    Column,
    Float,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Text,
)

from aijobs.store.tables.columns import Counter, Instant, metadata, one_of

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
    CheckConstraint(one_of("breaker", "closed", "open", "half_open", "ramp"), name="breaker"),
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
    CheckConstraint(one_of("kind", "pause", "stale-results", "fallback"), name="kind"),
)

alerts = Table(
    "alerts",
    metadata,
    Column("rule", Text, primary_key=True),
    Column("since", Instant),  # null: it does not fire
    Column("told_at", Instant),
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
    CheckConstraint(one_of("state", "running", "stopping", "stopped"), name="state"),
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

minutes = Table(
    "minutes",
    metadata,
    # What happened lately, a row a minute and type: rates and alerts look here, never over jobs.
    Column("minute", Instant, nullable=False),
    Column("type", Text, nullable=False),
    Column("shard", Integer, nullable=False, server_default="0"),
    Column("succeeded", Counter, nullable=False, server_default="0"),
    Column("dead_letter", Counter, nullable=False, server_default="0"),
    Column("cancelled", Counter, nullable=False, server_default="0"),
    Column("attempts", Counter, nullable=False, server_default="0"),
    Column("failed", Counter, nullable=False, server_default="0"),
    Column("rate_limited", Counter, nullable=False, server_default="0"),
    Column("lost", Counter, nullable=False, server_default="0"),
    Column("most_retries", Integer, nullable=False, server_default="0"),  # of one job
    Column("started", Counter, nullable=False, server_default="0"),
    Column("waited_seconds", Float, nullable=False, server_default="0"),
    Column("webhooks", Counter, nullable=False, server_default="0"),
    Column("longest_webhook_seconds", Float, nullable=False, server_default="0"),
    PrimaryKeyConstraint("minute", "type", "shard"),
)

refusals = Table(
    "refusals",
    metadata,
    # Webhook deliveries that were refused lately, a row a minute, provider and reason.
    Column("minute", Instant, nullable=False),
    Column("provider", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("deliveries", Counter, nullable=False),
    PrimaryKeyConstraint("minute", "provider", "reason"),
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
