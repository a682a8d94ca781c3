"""`aijobs db`: make the store, bring it to this version, look whether it is whole."""

from dataclasses import asdict

import typer

from aijobs.cli.command import notes
from aijobs.cli.context import context_of
from aijobs.core.errors import SchemaMismatch


@notes(
    "aijobs db upgrade",
    "aijobs db upgrade --database postgresql://jobs@db/jobs",
    exits={
        0: "the store is there, at the version of this program",
        5: "it cannot be reached, is newer than this program, or holds another program's tables",
    },
)
def upgrade(ctx: typer.Context) -> None:
    """Make the store, or bring an older one to this version.

    One transaction: the store is changed whole or not at all. Several may run at once; one does it. Workers
    of the version before end what they hold, and then themselves. With --json: {location, before, after,
    changed}.
    """
    from aijobs.store import upgrading

    context = context_of(ctx)
    done = upgrading.upgrade(context.settings.database)
    document = asdict(done) | {"changed": done.before != done.after}
    if done.before is None:
        text = f"created the job store {done.location}, version {done.after}"
    elif done.before == done.after:
        text = f"{done.location} is at version {done.after} already"
    else:
        text = f"{done.location} is brought from version {done.before} to {done.after}"
    context.printer.emit(document, lambda: context.printer.line(text))


@notes(
    "aijobs db check",
    "aijobs db check --json",
    exits={
        0: "the store is whole and of the right version",
        5: "there is none, it has another version, or parts of it are missing",
    },
)
def check(ctx: typer.Context) -> None:
    """Look whether the store is there, of this version, and whole; nothing is changed.

    With --json: {location, version, missing}.
    """
    from aijobs.store import upgrading

    context = context_of(ctx)
    found = upgrading.check(context.settings.database)
    if found.missing:
        parts = ", ".join(found.missing)
        raise SchemaMismatch(
            f"{found.location} lacks {parts}", hint="restore a backup: somebody removed them"
        )
    text = f"{found.location} is whole, at version {found.version}"
    context.printer.emit(asdict(found), lambda: context.printer.line(text))
