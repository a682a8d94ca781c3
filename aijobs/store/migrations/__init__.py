"""Numbered, forward only: each module in `versions` leads a store from the version before it to its own.

Run in one transaction, so that a store is changed whole or not at all and a crash repeats nothing.
"""

from pathlib import Path

from sqlalchemy import Connection

from aijobs.store.tables import schema_version

FOLDER = Path(__file__).parent


def run(tx: Connection, *, to: str = "head") -> None:
    """Bring the store of *tx* from its version to *to*, the newest one unless told otherwise."""
    # Here, not above: Alembic takes as long to load as a whole command takes to run.
    from alembic import command
    from alembic.config import Config

    schema_version.create(tx, checkfirst=True)  # Alembic would make it with a constraint name of its own
    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = tx
    command.upgrade(config, to)
