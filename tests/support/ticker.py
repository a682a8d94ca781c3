"""A process that ticks when told: an instant in, what came of it out."""

from contextlib import suppress
from multiprocessing.connection import Connection

from aijobs.core.clock import system_chance
from aijobs.services.coordinator import Coordinator
from aijobs.services.scheduler import Scheduler
from aijobs.store.engine import open_store
from tests.support.jobs import settings_of

EVERY_MINUTE = {"schedules": {"minutely": {"cron": "* * * * *", "type": "t", "overlap": "allow"}}}


def tick_when_told(url: str, told: Connection) -> None:
    """Tick until nobody is there to tell."""
    store = open_store(url)
    settings = settings_of(**EVERY_MINUTE)
    coordinator = Coordinator(store, settings, chance=system_chance())
    scheduler = Scheduler(store, settings, coordinator=lambda: coordinator)
    with suppress(EOFError):
        while True:
            report = scheduler.tick(told.recv())
            told.send(
                {
                    "created": len(report.created),
                    "existing": len(report.existing),
                    "failed": len(report.failed),
                }
            )
    store.close()
