"""A process that ticks when told: an instant a line on stdin, what came of it as a line of JSON on stdout."""

import json
import sys
from datetime import datetime

from aijobs.core.clock import system_chance
from aijobs.services.coordinator import Coordinator
from aijobs.services.scheduler import Scheduler
from aijobs.store.engine import open_store
from tests.support.jobs import settings_of

EVERY_MINUTE = {"schedules": {"minutely": {"cron": "* * * * *", "type": "t", "overlap": "allow"}}}


def main(url: str) -> None:
    """Tick until stdin ends."""
    store = open_store(url)
    settings = settings_of(**EVERY_MINUTE)
    coordinator = Coordinator(store, settings, chance=system_chance())
    scheduler = Scheduler(store, settings, coordinator=lambda: coordinator)
    print("ready", flush=True)
    for line in sys.stdin:
        report = scheduler.tick(datetime.fromisoformat(line.strip()))
        answer = {
            "created": len(report.created),
            "existing": len(report.existing),
            "failed": len(report.failed),
        }
        print(json.dumps(answer), flush=True)
    store.close()


if __name__ == "__main__":
    main(sys.argv[1])
