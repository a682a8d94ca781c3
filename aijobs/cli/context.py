"""What a command works with: settings, store, coordinator, printer, clock; each made when first asked for."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import typer

from aijobs.cli.printer import Printer, Verbosity
from aijobs.core.clock import Chance, Clock, SystemClock, system_chance
from aijobs.core.errors import StoreUnreachable
from aijobs.services import surroundings

if TYPE_CHECKING:
    from aijobs.core.log_events import Log
    from aijobs.core.settings import Settings
    from aijobs.services.coordinator import Coordinator
    from aijobs.services.tracing import Tracing
    from aijobs.store.engine import Store


class Context:
    """One invocation. *clock* and *chance* are given by tests; otherwise the machine's are used."""

    def __init__(
        self,
        *,
        environ: Mapping[str, str] = os.environ,
        clock: Clock | None = None,
        chance: Chance | None = None,
    ) -> None:
        self.environ = environ
        self.flags: dict[str, Any] = {}
        self._given_clock = clock
        self._store: Store | None = None
        self._tracing: Tracing | None = None
        self.chance = chance or system_chance()

    # --- What the global options say --------------------------------------------------------------

    @property
    def json(self) -> bool:
        """Whether --json was given."""
        return bool(self.flags.get("json"))

    @property
    def verbosity(self) -> Verbosity:
        """-q, -v or neither."""
        if self.flags.get("verbose"):
            return Verbosity.VERBOSE
        return Verbosity.QUIET if self.flags.get("quiet") else Verbosity.NORMAL

    @property
    def config_path(self) -> Path | None:
        """--config, else AIJOBS_CONFIG, else ./aijobs.yaml if it is there, else None."""
        return surroundings.config_path(self.flags.get("config"), self.environ)

    @property
    def database(self) -> str | None:
        """--database, else AIJOBS_DATABASE, else None (then the file or the default decides)."""
        return surroundings.database_url(self.flags.get("database"), self.environ)

    # --- Collaborators ----------------------------------------------------------------------------

    @cached_property
    def printer(self) -> Printer:
        """Where everything is written."""
        return Printer(json=self.json, verbosity=self.verbosity, clock=self.clock, environ=self.environ)

    @cached_property
    def settings(self) -> "Settings":
        """The whole configuration: flag over environment over file over default. Raises ConfigError."""
        return self.load_settings(thorough=False)

    def load_settings(self, *, thorough: bool) -> "Settings":
        """The configuration as it is in the file now; *thorough*: templates and schemas are looked at too."""
        from aijobs.core.config import load

        with _without_plugins():
            return load(self.config_path, environ=self.environ, database=self.database, thorough=thorough)

    @property
    def clock(self) -> Clock:
        """The store's clock once it is open, before that the machine's."""
        return self._given_clock or (self._store.clock if self._store else SystemClock())

    @property
    def store(self) -> "Store":
        """The job store, which must be there: a typo must not make an empty one. Raises StoreError."""
        return self._store or self._open(create=False)

    def create_store(self) -> "Store":
        """The job store, made if it is not there yet, and then saying where."""
        return self._store or self._open(create=True)

    @cached_property
    def coordinator(self) -> "Coordinator":
        """The only writer of job status, over the store."""
        from aijobs.services.coordinator import Coordinator

        return Coordinator(self.store, self.settings, chance=self.chance, tracing=self.tracing())

    def tracing(self, log: "Log | None" = None) -> "Tracing | None":
        """What tells of jobs as spans; None, and nothing loaded, while no OTEL_... variable asks for it.

        *log* hears why there are none although there should be.
        """
        if self._tracing is None and any(name.startswith("OTEL_") for name in self.environ):
            from aijobs.cli.logs import line_log
            from aijobs.services.tracing_setup import tracing_of

            log = log or line_log(self.printer, clock=self.clock, as_json=False)
            self._tracing = tracing_of(self.environ, clock=self.clock, chance=self.chance, log=log)
        return self._tracing

    def actor(self, name: str | None) -> str:
        """Who acts: *name* (--actor), else AIJOBS_ACTOR, else the login name."""
        return surroundings.actor(name, self.environ)

    def close(self) -> None:
        """Send the last spans, and give the store back."""
        if self._tracing is not None:
            self._tracing.close()
            self._tracing = None
        if self._store is not None:
            self._store.close()
            self._store = None

    def _open(self, *, create: bool) -> "Store":
        from aijobs.store.engine import open_store

        try:
            self._store = store = open_store(self.settings.database, clock=self._given_clock, create=create)
        except StoreUnreachable as error:
            if self.config_path is None and self.database is None:  # in the wrong folder, most likely
                here = f"there is no {surroundings.CONFIG_FILE} here, see --config"
                error.hint = "; or ".join(filter(None, (here, error.hint)))
            raise
        if store.created:
            self.printer.say(f"created the job store {store.location}")
        return store


@contextmanager
def _without_plugins() -> Iterator[None]:
    """Keep pydantic from searching every installed package for plugins that would change our models."""
    kept = os.environ.get("PYDANTIC_DISABLE_PLUGINS")
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"
    try:
        yield
    finally:
        if kept is None:
            del os.environ["PYDANTIC_DISABLE_PLUGINS"]
        else:
            os.environ["PYDANTIC_DISABLE_PLUGINS"] = kept


def unknown_type(context: Context, name: str | None) -> str:
    """What to add to an empty answer when no type of that name is configured: it may be a typing mistake."""
    if name is None or name in context.settings.types:
        return ""
    return f"; no type named {name!r} is configured (there are: {', '.join(sorted(context.settings.types))})"


def context_of(ctx: typer.Context) -> Context:
    """Our context out of typer's."""
    return cast("Context", ctx.obj)
