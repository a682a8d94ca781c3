"""The first tables."""

from alembic import op

from aijobs.store.migrations import v0001

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make them all."""
    v0001.metadata.create_all(op.get_bind(), checkfirst=False)
