"""Webhook deliveries that are refused: counted in memory, and written now and then in one small transaction.

Anybody may send rubbish: it must cost the store nothing. So nothing is written for a refusal itself, and
there are as many counts as providers in the configuration times reasons, whatever is sent and however long
the store is away.
"""

import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from aijobs.core.durations import format_duration
from aijobs.core.overview import OTHER
from aijobs.core.settings import Settings
from aijobs.core.signature import Refusal
from aijobs.core.totals import REFUSALS, Totals
from aijobs.store import refusals, rollups
from aijobs.store.engine import Store

NO_SECRET = "no_secret"
"""The reason where nothing can be verified: no such provider, or it has no `webhook_secret`."""

LATELY = timedelta(hours=1)
"""So far back `doctor` looks."""

_SHARD = 0  # written so seldom that servers need no rows of their own
_Key = tuple[str, str]


class Refusals:
    """The counts of one process. Threads may share them."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._providers = frozenset(settings.providers)
        self._counted: Counter[_Key] = Counter()
        self._last: dict[_Key, datetime] = {}
        self._guard = threading.Lock()
        self._at_work = threading.Lock()

    def note(self, provider: str, reason: str, now: datetime) -> None:
        """Count a delivery refused at *now*; a provider that is not configured is `other`."""
        key = (provider if provider in self._providers else OTHER, str(reason))
        with self._guard:
            self._counted[key] += 1
            self._last[key] = now

    @property
    def pending(self) -> int:
        """How many are not written yet."""
        with self._guard:
            return self._counted.total()

    def write(self) -> None:
        """Write what was counted. Raises StoreError: then nothing is lost, and the next call has it.

        Does nothing while another thread is at it, be it that a store hangs: it will tell what became of its
        part. A commit whose answer is lost may so be counted twice, rather than not at all.
        """
        if not self._at_work.acquire(blocking=False):
            return
        try:
            self._write()
        finally:
            self._at_work.release()

    def _write(self) -> None:
        with self._guard:
            counted, self._counted = self._counted, Counter()
            last = dict(self._last)
        if not counted:
            return
        try:
            self._save(counted, last)
        except BaseException:
            with self._guard:
                self._counted += counted
            raise

    def _save(self, counted: Counter[_Key], last: dict[_Key, datetime]) -> None:
        totals = Totals()
        for (provider, reason), count in counted.items():
            totals.count(REFUSALS, count, provider=provider, reason=reason)
        with self._store.write() as tx:
            rollups.add(tx, totals, _SHARD, max(last.values()))
            refusals.add(tx, [(last[key], *key, count) for key, count in counted.items()])


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """What was refused of one provider lately. *ok*: nobody has to look."""

    provider: str
    ok: bool
    evidence: str
    hint: str


def refused_lately(store: Store, settings: Settings, now: datetime) -> list[Refused]:
    """What was refused within LATELY, for each provider and reason. Raises StoreError.

    Anybody may send a forged delivery: it is trouble only while nothing good comes from the provider.
    """
    with store.read() as tx:
        found = [
            (one, one.reason != NO_SECRET and not refusals.was_one_taken(tx, one.provider, _after(one.first)))
            for one in refusals.since(tx, now - LATELY)
            if one.provider in settings.providers or one.provider == OTHER
        ]
    return [_told(one, alone, settings) for one, alone in found]


def _after(minute: datetime) -> datetime:
    """When *minute* is over: what was taken within it may have come before what was refused."""
    return minute + timedelta(minutes=1)


def _told(one: refusals.Lately, alone: bool, settings: Settings) -> Refused:
    return Refused(
        provider=one.provider,
        ok=not alone,
        evidence=", ".join(_evidence(one, alone)),
        hint=_hint(one, settings),
    )


def _evidence(one: refusals.Lately, alone: bool) -> Iterator[str]:
    what = "1 delivery" if one.count == 1 else f"{one.count} deliveries"
    yield f"{what} refused since {one.first:%H:%M} UTC"
    yield f"the last at {one.last:%H:%M}: {_WORDS.get(one.reason, one.reason)}"
    if one.reason != NO_SECRET:
        yield "none was taken since" if alone else "but others were taken since"


_WORDS = {
    Refusal.BAD_SIGNATURE: "no signature fits a configured secret",
    Refusal.STALE: "rightly signed, but too old or from the future",
    Refusal.MALFORMED: "not in the form of a delivery",
    NO_SECRET: "no webhook_secret is configured for that address",
}


def _hint(one: refusals.Lately, settings: Settings) -> str:
    if one.reason == Refusal.BAD_SIGNATURE:
        return (
            "was the secret changed? give webhook_secret the provider's (both, meanwhile) and restart serve"
        )
    if one.reason == Refusal.STALE and one.provider in settings.providers:
        tolerance = format_duration(settings.providers[one.provider].webhook_tolerance)
        return f"set the clock the store goes by (NTP), or raise webhook_tolerance, which is {tolerance}"
    return "look at what stands between: a proxy that drops headers or compresses bodies makes them so"
