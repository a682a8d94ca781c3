"""Taking up a changed configuration without a restart: on SIGHUP, and within half a minute otherwise."""

import asyncio
from collections.abc import Awaitable, Callable

from aijobs.core.errors import AijobsError, ConfigError, ConfigFault
from aijobs.core.log_events import Log, LogEvent
from aijobs.core.settings import Settings
from aijobs.core.settings.changes import changed
from aijobs.services.worker.lane import Lane

LOOK_SECONDS = 30.0
"""Between two looks at the configuration. The whole of it is read, for a secret in a file of its own may have
changed as well."""

SETTLE_SECONDS = 2.0
"""A change is believed when the file says the same so much later: it may have been read half-written."""
MOST_READS = 10

NEEDS_RESTART = ("database", "worker.lease", "worker.heartbeat")
"""Options that a running worker keeps as they were when it started."""

Source = Callable[[], Settings]


class Reloading:
    """Reads the configuration now and then, and hands a changed one to *apply*; a faulty one is refused.

    *source* reads it anew and may raise ConfigError. *apply* is given the new settings, the paths of what
    changed, and why it was looked at. Belongs to the event loop.
    """

    def __init__(
        self, settings: Settings, source: Source, *, log: Log,
        apply: Callable[[Settings, tuple[str, ...], str], Awaitable[None]],
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:  # fmt: skip
        self._settings = settings
        self._source = source
        self._apply = apply
        self._log = log
        self._sleep = sleep
        self._lane = Lane("aijobs-config")
        self._asked = asyncio.Event()
        self._why = ""
        self._refused = ""

    def ask(self, why: str) -> None:
        """Look at once."""
        self._why = why
        self._asked.set()

    async def run(self) -> None:
        """Look again and again until cancelled."""
        try:
            while True:
                try:
                    await asyncio.wait_for(self._asked.wait(), LOOK_SECONDS)
                except TimeoutError:
                    self._why = ""
                self._asked.clear()
                await self.look(self._why)
        finally:
            self._lane.close(timeout=0)

    async def look(self, asked: str) -> None:
        """Read the configuration; *asked*: who wants an answer even when nothing has changed."""
        try:
            settings = await self._settled()
            await self._take(settings, asked)
        except ConfigError as fault:
            self._refuse("; ".join(map(str, fault.faults)) or fault.message, asked)
        except AijobsError as fault:  # a type asked for by name is gone, or the store is away
            self._refuse(fault.message, asked)
        except Exception as fault:  # whatever it is, the worker goes on with what it has
            self._refuse(type(fault).__name__, asked)

    async def _settled(self) -> Settings:
        """The configuration, once it stays the same for a moment. Raises what *source* raises."""
        found = await self._read()
        for _ in range(MOST_READS):
            if not changed(self._settings, found):
                return found
            await self._sleep(SETTLE_SECONDS)
            before, found = found, await self._read()
            if not changed(before, found):
                return found
        raise ConfigError([_fault(self._settings, "the file changes all the time")])

    async def _read(self) -> Settings:
        found = await self._lane.run(self._source)
        if changed(self._settings, found):
            found.refuse_blank()
            if found.source is None and self._settings.source is not None:
                raise ConfigError([_fault(self._settings, "the file is gone")])
        return found

    async def _take(self, settings: Settings, asked: str) -> None:
        paths = changed(self._settings, settings)
        self._refused = ""
        if not paths:
            if asked:
                self._log.emit(LogEvent.CONFIG_UNCHANGED, why=asked)
            return
        await self._apply(settings, paths, asked or "the file changed")
        self._settings = settings
        kept = [path for path in paths if path in NEEDS_RESTART]
        note = f"; at the next start: {', '.join(kept)}" if kept else ""
        self._log.emit(
            LogEvent.CONFIG_RELOADED, why=asked or "the file changed", changed=", ".join(paths), note=note
        )

    def _refuse(self, fault: str, asked: str) -> None:
        """Said once, not at every look; and whenever a person asks."""
        if asked or fault != self._refused:
            self._log.emit(LogEvent.CONFIG_REFUSED, why=asked or "the file changed", error=fault)
        self._refused = fault


def _fault(settings: Settings, message: str) -> ConfigFault:
    return ConfigFault(str(settings.source or "the configuration"), 0, 0, "", message)
