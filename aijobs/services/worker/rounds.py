"""When the lease keeper's rounds went through, and whether it is fair to call anybody's lease lost by now."""

from datetime import datetime, timedelta

from aijobs.core.clock import Clock


class Rounds:
    """Notices a sleep of the machine, a stopped process, a step of the clock, a store that was away: all of
    them leave two rounds far apart by the store's clock.

    Whoever slept with us finds its leases over as well, though it lives. So that nobody's call, nor one's
    own, is recorded as lost and paid for again, everybody has the time of one round to renew.
    """

    def __init__(self, *, lease: timedelta, every: timedelta, clock: Clock, host: Clock) -> None:
        self._gap = max(lease / 2, min(every * 1.5, lease * 0.75))
        self._every = every.total_seconds()
        self._host = host
        self._last = clock.now()
        self._regular_from = host.monotonic()  # stands still while a machine sleeps, as the rounds do

    def through(self, now: datetime) -> None:
        """A round has been answered; it was asked for at *now*."""
        if self.overdue(now):
            self._regular_from = self._host.monotonic() + self._every
        self._last = now

    def overdue(self, now: datetime) -> bool:
        """Whether the last round is so long past that there was a pause."""
        return now - self._last > self._gap

    def regular(self, now: datetime) -> bool:
        """Whether leases that are over by *now* are those of workers that are gone."""
        return not self.overdue(now) and self._host.monotonic() >= self._regular_from
