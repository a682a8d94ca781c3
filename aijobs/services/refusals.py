"""Webhook deliveries that are refused: counted in memory, and written now and then in one small transaction.

Anybody may send rubbish: it must cost the store nothing. So nothing is written for a refusal itself, and
there are as many counts as providers in the configuration times reasons, whatever is sent and however long
the store is away.
"""

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from types import MappingProxyType

from aijobs.core.durations import format_duration
from aijobs.core.overview import OTHER
from aijobs.core.settings import Settings
from aijobs.core.signature import Refusal
from aijobs.core.totals import REFUSALS, Totals
from aijobs.store import refusals, rollups
from aijobs.store.engine import Store
from aijobs.store.refusals import InMinute

NO_SECRET = "no_secret"
"""The reason where nothing can be verified: no such provider, or it has no `webhook_secret`."""

LATELY = timedelta(hours=1)
"""So far back `doctor` looks."""

SOME_TIME = timedelta(minutes=5)
"""A single refusal is a fault once no good delivery has come for so long after it."""

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

    def write(self, *, wait: bool = False) -> bool:
        """Write what was counted. Raises StoreError: then nothing is lost, and the next call has it.

        False while another thread is at it, be it that a store hangs: nothing was done then. With *wait*,
        that one is waited for. A commit whose answer is lost may be counted twice, rather than not at all.
        """
        if not self._at_work.acquire(blocking=wait):
            return False
        try:
            self._write()
        finally:
            self._at_work.release()
        return True

    def _write(self) -> None:
        with self._guard:
            counted, last = self._counted.copy(), dict(self._last)
        if not counted:
            return
        self._save(counted, last)
        with self._guard:  # only now: until the commit they are pending, however long it takes
            self._counted -= counted

    def _save(self, counted: Counter[_Key], last: dict[_Key, datetime]) -> None:
        totals = Totals()
        for (provider, reason), count in counted.items():
            totals.count(REFUSALS, count, provider=provider, reason=reason)
        with self._store.write() as tx:
            rollups.add(tx, totals, _SHARD, max(last.values()))
            refusals.add(tx, [(last[key], *key, count) for key, count in counted.items()])


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A reason in words, and what to do about it: where `serve` refuses, and where `webhook ingest` does."""

    words: str
    serve: str
    ingest: str


CAUSES: Mapping[str, Cause] = MappingProxyType(
    {
        Refusal.BAD_SIGNATURE: Cause(
            words="no signature fits a configured secret",
            serve="was the secret changed? give webhook_secret the provider's (both, meanwhile) and restart "
            "serve",
            ingest="is webhook_secret that of this endpoint, and the body what came in, byte for byte?",
        ),
        Refusal.STALE: Cause(
            words="rightly signed, but too old or from the future",
            serve="set the clock the store goes by (NTP), or raise webhook_tolerance",
            ingest="is the clock of this machine right? if so, somebody sent an old delivery again",
        ),
        Refusal.MALFORMED: Cause(
            words="not in the form of a delivery",
            serve="look at what stands between: a proxy that drops headers or compresses bodies makes it so",
            ingest="pass on the three headers as they came, each once: --header 'webhook-id: ...'",
        ),
        NO_SECRET: Cause(
            words="no webhook_secret is configured for that address",
            serve="give the provider its webhook_secret and restart serve, or let nobody send there",
            ingest="set webhook_secret of the provider in the configuration",
        ),
    }
)
"""Every reason there is. The table in docs/serving.md has the same words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """What was refused of one provider for one reason lately. *ok*: nobody has to look."""

    provider: str
    reason: str
    ok: bool
    evidence: str
    hint: str


def refused_lately(store: Store, settings: Settings, now: datetime) -> list[Refused]:
    """What was refused within LATELY, for each provider and reason. Raises StoreError.

    Anybody may send a forged delivery: it is trouble only while nothing good comes from the provider.
    """
    with store.read() as tx:
        minutes = [
            one
            for one in refusals.since(tx, now - LATELY)
            if one.provider in settings.providers or one.provider == OTHER
        ]
        providers = {one.provider for one in minutes}
        good = {name: refusals.last_taken(tx, name, now - LATELY) for name in providers}
    by_reason = groupby(minutes, key=lambda one: (one.provider, one.reason))
    return [_told(key, list(group), good[key[0]], settings, now) for key, group in by_reason]


def _told(
    key: _Key, minutes: list[InMinute], good: datetime | None, settings: Settings, now: datetime
) -> Refused:
    provider, reason = key
    # What came within the minute of the good one may have come before it.
    after = [one for one in minutes if good is None or one.minute > good]
    ok = reason == NO_SECRET or not _is_trouble(after, good, now)
    return Refused(
        provider=provider,
        reason=reason,
        ok=ok,
        evidence=", ".join(_evidence(reason, minutes if ok else after, good)),
        hint=_hint(provider, reason, settings),
    )


def _is_trouble(after: list[InMinute], good: datetime | None, now: datetime) -> bool:
    """Whether *after* the last good delivery more came than one that a stranger sent just now."""
    if good is None or not after:
        return bool(after)
    return sum(one.count for one in after) > 1 or now - after[0].minute >= SOME_TIME


def _evidence(reason: str, minutes: list[InMinute], good: datetime | None) -> Iterator[str]:
    count = sum(one.count for one in minutes)
    what = "1 delivery" if count == 1 else f"{count} deliveries"
    yield f"{what} refused since {minutes[0].minute:%H:%M} UTC"
    words = CAUSES[reason].words if reason in CAUSES else reason  # a newer server's
    yield f"the last at {minutes[-1].minute:%H:%M}: {words}"
    if reason != NO_SECRET:
        yield f"the last good one at {good:%H:%M}" if good else "no good one within the hour"


def _hint(provider: str, reason: str, settings: Settings) -> str:
    hint = CAUSES[reason].serve if reason in CAUSES else "ask a newer version of aijobs what that is"
    if reason == Refusal.STALE and provider in settings.providers:
        hint += f", which is {format_duration(settings.providers[provider].webhook_tolerance)}"
    return hint
