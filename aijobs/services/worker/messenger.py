"""Delivers notifications beside the work, from a thread of its own: a dead receiver delays no job."""

import threading
from collections.abc import Callable

from aijobs.core.errors import StoreError
from aijobs.core.settings import Settings
from aijobs.services.notifier import Notifier

EVERY_SECONDS = 1.0
"""Between two looks at the outbox when nothing was due."""


class Messenger:
    """Runs a notifier again and again until it is stopped. *died* hears of what ended it by itself."""

    def __init__(self, notifier: Notifier, *, died: Callable[[BaseException], None]) -> None:
        self._notifier = notifier
        self._died = died
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="aijobs-messenger", daemon=True)
        self._began = False

    def start(self) -> None:
        """Begin, if there is anybody to tell."""
        if self._notifier.settings.notify:
            self._began = True
            self._thread.start()

    def configure(self, settings: Settings) -> None:
        """Go by new settings from the next look on."""
        self._notifier.settings = settings
        if not self._began and not self._stop.is_set():
            self.start()

    def stop(self, *, timeout: float) -> None:
        """End after a last look, waiting for it at most *timeout* seconds; its lease covers the rest."""
        self._stop.set()
        if self._began:
            self._thread.join(timeout)

    def _work(self) -> None:
        try:
            while not self._stop.is_set():
                if self._look() == 0:
                    self._stop.wait(EVERY_SECONDS)
            self._look()
        except BaseException as fault:
            self._died(fault)
            raise

    def _look(self) -> int:
        """How many were tried. A store that is away is waited for; the outbox keeps what it has."""
        try:
            return self._notifier.run_once().tried
        except StoreError:
            return 0
