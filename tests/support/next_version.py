"""The program as it might be one schema version further, for what happens around an upgrade.

`python -m tests.support.next_version FOLDER ARGS...` is `aijobs ARGS...` of that version, with the migrations
in FOLDER, which `write` has filled.
"""

import shutil
import sys
from pathlib import Path

import pytest

from aijobs.store import migrations, schema

NUMBER = f"{int(schema.HEAD) + 1:04d}"

MIGRATION = f'''
"""The next version, of the kind that workers of the version before go on with; run twice it fails."""

import sqlalchemy as sa
from alembic import op

revision = "{NUMBER}"
down_revision = "{schema.HEAD}"


def upgrade() -> None:
    op.create_table("novelties", sa.Column("id", sa.Integer(), primary_key=True))
    op.add_column("jobs", sa.Column("novelty", sa.Text(), nullable=False, server_default="none"))
    op.create_index("ix_jobs_novelty", "jobs", ["novelty"])
'''

KILLED = MIGRATION + "    import os\n    os.kill(os.getpid(), 9)\n"
"""The same, killed when everything is done and nothing committed."""


def write(folder: Path, migration: str = MIGRATION) -> Path:
    """All migrations and one more, in *folder*, which is made."""
    shutil.copytree(migrations.FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "versions" / f"v{NUMBER}_novelties.py").write_text(migration)
    return folder


def go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, migration: str = MIGRATION) -> None:
    """From here on the program of this process is one schema version further."""
    folder = write(tmp_path / "100% new migrations", migration)
    monkeypatch.setattr(migrations, "FOLDER", folder)
    monkeypatch.setattr(schema, "HEAD", NUMBER)


if __name__ == "__main__":
    migrations.FOLDER = Path(sys.argv.pop(1))
    schema.HEAD = NUMBER
    from aijobs.cli.main import main

    main()
