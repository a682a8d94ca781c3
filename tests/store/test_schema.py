"""The schema's version, and the way from one to the next."""

import ast
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, text, update

from aijobs.core.errors import SchemaMismatch, StoreError, StoreUnreachable
from aijobs.store import engine, migrations, schema, upgrading
from aijobs.store.engine import Store, open_store
from aijobs.store.tables import schema_version
from aijobs.store.upgrading import Upgraded
from tests.support.next_version import MIGRATION, go_on


def stamp(url: str, version: str) -> None:
    store = engine.open_any(url)
    with store.write() as tx:
        tx.execute(update(schema_version).values(version_num=version))
    store.close()


def four_at_once(work: Callable[[], Upgraded]) -> list[Upgraded | BaseException]:
    answers: list[Upgraded | BaseException] = []
    start = threading.Barrier(4)

    def run() -> None:
        start.wait()
        try:
            answers.append(work())
        except BaseException as error:
            answers.append(error)

    threads = [threading.Thread(target=run, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


# --- Migrations and tables ------------------------------------------------------------------------

_OURS = "(SELECT oid FROM pg_namespace WHERE nspname = current_schema())"
_COLUMNS = f"""
    SELECT format('column %s %s %s %s %s %s %s', c.relname, attnum, attname, format_type(atttypid, atttypmod),
                  attnotnull, attidentity, pg_get_expr(d.adbin, d.adrelid))
    FROM pg_attribute a
    JOIN pg_class c ON c.oid = attrelid
    LEFT JOIN pg_attrdef d ON d.adrelid = attrelid AND d.adnum = attnum
    WHERE c.relkind = 'r' AND attnum > 0 AND c.relnamespace = {_OURS}
"""
_CONSTRAINTS = f"""
    SELECT format('constraint %s %s %s', conrelid::regclass, conname, pg_get_constraintdef(oid))
    FROM pg_constraint WHERE connamespace = {_OURS}
"""
_STORAGE = f"""
    SELECT format('storage %s %s', relname, reloptions)
    FROM pg_class WHERE relkind = 'r' AND reloptions IS NOT NULL AND relnamespace = {_OURS}
"""
_INDEXES = "SELECT replace(indexdef, schemaname, '') FROM pg_indexes WHERE schemaname = current_schema()"


def description(tx: Connection) -> list[str]:
    """Every table, column, constraint, index and storage parameter, as the database itself tells it."""
    if tx.dialect.name == "postgresql":
        queries = (_COLUMNS, _CONSTRAINTS, _INDEXES, _STORAGE)
        return sorted(row[0] for query in queries for row in tx.execute(text(query)))
    lines = []
    for kind, name, sql in tx.execute(
        text("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    ):
        # SQLite keeps the statement as it was: a column or constraint a line.
        lines += [f"{kind} {name} {line.strip(' ,()')}" for line in sql.split("\n")]
    return sorted(lines)


@pytest.fixture
def migrated(store: Store, request: pytest.FixtureRequest) -> Iterator[Store]:
    """A store of the same kind as `store`, made by all migrations, one after the other."""
    url = request.getfixturevalue("postgres_url" if store.dialect == "postgresql" else "sqlite_url")
    if store.dialect == "sqlite":
        Path(url.removeprefix("sqlite:///")).touch()
    made = engine.open_any(url)
    with made.write() as tx:
        migrations.run(tx)
    yield made
    made.close()


def test_the_sum_of_all_migrations_is_the_declared_tables(store: Store, migrated: Store) -> None:
    with store.read() as tx, migrated.read() as other:
        declared, summed = description(tx), description(other)

    assert len(declared) > 200
    hint = "write a new migration (before the first release: python -m tests.support.first_migration)"
    assert summed == declared, hint


def test_the_migrations_end_at_the_version_the_program_asks_for(migrated: Store) -> None:
    with migrated.read() as tx:
        assert schema.version_of(tx) == schema.HEAD


def test_no_migration_depends_on_what_the_tables_are_today() -> None:
    files = [*(migrations.FOLDER / "versions").glob("v*.py"), *migrations.FOLDER.glob("v*/*.py")]
    assert len(files) > 4

    for path in files:
        modules = [n.module for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.ImportFrom)]
        ours = [m for m in modules if m and m.startswith("aijobs.") and "migrations" not in m]
        assert ours == [], path


# --- Upgrading ------------------------------------------------------------------------------------


def test_an_upgrade_makes_a_store_and_then_has_nothing_to_do(database_url: str) -> None:
    first, second = upgrading.upgrade(database_url), upgrading.upgrade(database_url)

    assert (first.before, first.after) == (None, schema.HEAD)
    assert (second.before, second.after) == (schema.HEAD, schema.HEAD)
    open_store(database_url).close()


def test_an_older_store_is_refused_until_it_is_upgraded(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_store(database_url, create=True).close()
    go_on(tmp_path, monkeypatch)

    with pytest.raises(SchemaMismatch, match="older schema 0001") as caught:
        open_store(database_url)
    done = upgrading.upgrade(database_url)

    assert caught.value.exit_code == 5
    assert "aijobs db upgrade" in str(caught.value.hint)
    assert (done.before, done.after) == ("0001", "0002")
    store = open_store(database_url)
    with store.read() as tx:
        assert tx.execute(text("SELECT count(*) FROM novelties")).scalar_one() == 0
    store.close()


@pytest.mark.parametrize("entrance", [open_store, upgrading.upgrade, upgrading.check])
def test_a_newer_store_is_refused_everywhere(database_url: str, entrance: Callable[[str], object]) -> None:
    open_store(database_url, create=True).close()
    stamp(database_url, "0999")

    with pytest.raises(SchemaMismatch, match="newer schema 0999") as caught:
        entrance(database_url)

    assert caught.value.exit_code == 5
    assert "upgrade aijobs" in str(caught.value.hint)


def test_of_four_upgrades_at_once_one_does_the_work(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_store(database_url, create=True).close()
    go_on(tmp_path, monkeypatch)

    answers = four_at_once(lambda: upgrading.upgrade(database_url))

    assert [a for a in answers if not isinstance(a, Upgraded)] == []
    assert sorted(str(a.before) for a in answers if isinstance(a, Upgraded)) == [
        "0001",
        "0002",
        "0002",
        "0002",
    ]


def test_of_four_upgrades_at_once_one_makes_the_store(database_url: str) -> None:
    answers = four_at_once(lambda: upgrading.upgrade(database_url))

    assert [a for a in answers if not isinstance(a, Upgraded)] == []
    assert [a.before for a in answers if isinstance(a, Upgraded)].count(None) == 1


def test_a_migration_that_fails_changes_nothing(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_store(database_url, create=True).close()
    go_on(tmp_path, monkeypatch, MIGRATION + '    op.execute("SELECT nonsense FROM nowhere")\n')

    with pytest.raises(StoreError):
        upgrading.upgrade(database_url)

    store = engine.open_any(database_url)
    with store.read() as tx:
        assert schema.version_of(tx) == "0001"
        assert not schema.dialect.tables_present(tx, ["novelties"])
    store.close()


def test_opening_a_store_does_not_load_alembic(sqlite_store_url: str) -> None:
    program = (
        "import sys\n"
        "from aijobs.store.engine import open_store\n"
        "open_store(sys.argv[1]).close()\n"
        "print([m for m in ('alembic', 'psycopg', 'mako') if m in sys.modules])\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program, sqlite_store_url], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[]"


# --- Checking -------------------------------------------------------------------------------------


def test_a_whole_store_passes_the_check(store: Store) -> None:
    checked = upgrading.check(store.url)

    assert (checked.location, checked.version, checked.missing) == (store.location, schema.HEAD, ())


def test_the_check_names_what_somebody_removed(database_url: str) -> None:
    store = open_store(database_url, create=True)
    with store.write() as tx:
        tx.execute(text("DROP TABLE usage_days"))
        tx.execute(text("DROP INDEX ix_jobs_lease"))
        tx.execute(text("ALTER TABLE workers DROP COLUMN version"))
    store.close()

    missing = upgrading.check(database_url).missing

    assert set(missing) == {"table usage_days", "index ix_jobs_lease", "column workers.version"}


def test_the_check_makes_no_store(sqlite_url: str, tmp_path: Path) -> None:
    with pytest.raises(StoreUnreachable, match="no job store"):
        upgrading.check(sqlite_url)

    assert list(tmp_path.iterdir()) == []
