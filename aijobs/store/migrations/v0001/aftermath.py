"""What follows from jobs: dead letters, replays, webhook deliveries, notifications, effects."""

from sqlalchemy import (
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from aijobs.store.migrations.v0001.columns import Counter, Instant, metadata, one_of, partial_index

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
    CheckConstraint(one_of("state", "open", "replayed", "closed"), name="state"),
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
    Column("leg_from", Integer, nullable=False, server_default="0"),  # batches before do not count
    CheckConstraint(
        one_of("state", "planned", "running", "interrupted", "stopped", "done", "aborted"), name="state"
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
    Column("batch", Integer),
    Column("replayed_at", Instant),
    PrimaryKeyConstraint("replay_id", "job_id"),
    UniqueConstraint("replay_id", "position"),
    CheckConstraint(one_of("state", "planned", "skipped", "replayed", "succeeded", "failed"), name="state"),
)
Index("ix_replay_items_state", replay_items.c.replay_id, replay_items.c.state, replay_items.c.position)
Index("ix_replay_items_job", replay_items.c.job_id)

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
    CheckConstraint(one_of("outcome", "accepted", "unmatched", "ignored", "expired"), name="outcome"),
)
partial_index(
    "ix_deliveries_unhandled",
    deliveries.c.received_at,
    where=text("handled_at IS NULL AND outcome <> 'ignored'"),
)
partial_index(
    "ix_deliveries_handled", deliveries.c.handled_at, where=text("handled_at IS NOT NULL")
)  # what retention removes, the oldest first
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
    CheckConstraint(one_of("state", "pending", "delivered", "failed", "gone"), name="state"),
    CheckConstraint("(next_run_at IS NOT NULL) = (state = 'pending')", name="next_run_at"),
)
partial_index(
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
    CheckConstraint(one_of("state", "begun", "done"), name="state"),
)
