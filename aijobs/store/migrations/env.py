"""Read by Alembic: which connection to migrate. Only `migrations.run` starts it."""

from alembic import context

from aijobs.store.tables import schema_version

context.configure(connection=context.config.attributes["connection"], version_table=schema_version.name)
with context.begin_transaction():
    context.run_migrations()
