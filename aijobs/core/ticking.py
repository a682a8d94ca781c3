"""What a tick does with one schedule: a pure decision from its times, what is stored of it, and now.

Invariants: a window fires at most once, windows are settled in order, and nothing from before the schedule
was first seen or edited, or from a pause, ever fires. A tick whose clock is a little behind another's settles
nothing twice; one that ran far in the future by mistake does not freeze the schedule.

A *window* is an instant at which the schedule falls due. *Live* is a job of the schedule that has not ended;
one that waits to be tried again has not.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal

from aijobs.core.cron import Schedule
from aijobs.core.durations import format_duration

LATE = timedelta(minutes=10)
"""`catch_up: none` fires a window when a tick comes at most so long after it; later it counts as missed."""

STEPPED_BACK = timedelta(hours=1)
"""Up to so far in the future a settled window is believed, and waited for; beyond it a clock was wrong."""

SOON_BACK = timedelta(days=1)
"""A schedule that was out of the file for no longer goes on where it stood: the file was being written, or a
machine had the new one late. Out for longer it was taken out on purpose, and begins afresh."""

OPEN_END = datetime(9999, 1, 1, tzinfo=UTC)
"""The end of a pause that lasts until somebody ends it."""

_TICK = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A schedule as configured. *fingerprint* changes with its times, its zone and its job type."""

    schedule: Schedule
    fingerprint: str
    catch_up: Literal["none", "latest", "all"] = "latest"
    catch_up_limit: int = 10
    overlap: Literal["skip", "allow"] = "skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What is stored of a schedule. *seen_at* is when it was first seen as it is now, *retired_at* when a
    tick found it gone from the file.
    """

    fingerprint: str
    seen_at: datetime
    last_window: datetime | None = None
    paused_until: datetime | None = None
    retired_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """*count* windows that do not fire, of which *window* is the newest; 0 when it only waits its turn."""

    window: datetime
    reason: str
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to do: *fire* a job for each window, in order, and store *becomes* (None: what is stored stands).

    *settled* is a window of this very minute that was dealt with before; *note* is for the operator.
    """

    fire: tuple[datetime, ...] = ()
    skipped: tuple[Skip, ...] = ()
    becomes: State | None = None
    settled: datetime | None = None
    note: str | None = None

    @property
    def left_out(self) -> int:
        """How many windows never get a job."""
        return sum(skip.count for skip in self.skipped)


def decide_tick(rule: Rule, state: State | None, now: datetime, *, live: bool = False) -> Decision:
    """What a tick at *now* does, when *state* is stored and a job of the schedule is *live* or not."""
    start = _start(rule, state, now)
    due = rule.schedule.count(start.after, now)
    if not due:
        return Decision(becomes=start.afresh, settled=_this_minute(state, now), note=start.note)
    if state and state.paused_until and state.paused_until > now:
        newest = rule.schedule.latest(start.after, now, 1)[0]
        end = "it is resumed" if state.paused_until == OPEN_END else _utc(state.paused_until)
        skip = Skip(window=newest, reason=f"paused until {end}", count=due)
        return Decision(skipped=(skip,), becomes=_moved(rule, state, start, newest), note=start.note)
    wanted = _caught_up(rule, start.after, now)
    skipped = list(_missed(rule, start.after, wanted, due, now))
    fire, waiting, settled = _without_overlap(rule, wanted, live=live)
    if settled is None and skipped:
        settled = skipped[-1].window
    becomes = _moved(rule, state, start, settled) if settled else start.afresh
    return Decision(fire=fire, skipped=(*skipped, *waiting), becomes=becomes, note=start.note)


# --- Where it begins ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Start:
    """Only windows later than *after* are looked at; *afresh* is the state when that is a new beginning, or a
    return.
    """

    after: datetime
    afresh: State | None = None
    note: str | None = None


def _start(rule: Rule, state: State | None, now: datetime) -> _Start:
    just_before = now.replace(second=0, microsecond=0) - _TICK  # the minute that is running is not the past
    if state is None:
        return _Start(after=just_before, afresh=State(fingerprint=rule.fingerprint, seen_at=now))
    last = state.last_window or state.seen_at
    mark = max(state.seen_at, last)
    if mark > now + STEPPED_BACK:
        ahead = _ahead(mark - now)
        note = f"it was settled up to {_utc(mark)}, {ahead} ahead: some clock was wrong; it begins afresh"
        return _Start(after=just_before, afresh=_anew(rule, state, now, None), note=note)
    gone = state.retired_at
    if state.fingerprint != rule.fingerprint or (gone and now - gone > SOON_BACK):
        afresh, after = _anew(rule, state, now, state.last_window), state.last_window or just_before
        return _Start(after=max(just_before, after), afresh=afresh, note=_back(gone, "begins afresh"))
    if state.paused_until and state.paused_until <= now:
        mark = max(mark, state.paused_until - _TICK)
    back = replace(state, retired_at=None) if gone else None
    return _Start(after=mark, afresh=back, note=_back(gone, "goes on where it stood"))


def _back(gone: datetime | None, how: str) -> str | None:
    return f"it is back in the file, from which it was gone at {_utc(gone)}: it {how}" if gone else None


def _anew(rule: Rule, state: State, now: datetime, last_window: datetime | None) -> State:
    return State(
        fingerprint=rule.fingerprint, seen_at=now, last_window=last_window, paused_until=state.paused_until
    )


def _moved(rule: Rule, state: State | None, start: _Start, window: datetime) -> State:
    """The state once everything up to *window* is settled."""
    base = start.afresh or state
    assert base is not None
    return State(
        fingerprint=rule.fingerprint,
        seen_at=base.seen_at,
        last_window=window,
        paused_until=base.paused_until,
    )


def _this_minute(state: State | None, now: datetime) -> datetime | None:
    last = state.last_window if state else None
    return last if last and now.replace(second=0, microsecond=0) <= last <= now else None


# --- Which of the due windows fire ----------------------------------------------------------------


def _caught_up(rule: Rule, after: datetime, now: datetime) -> list[datetime]:
    """The windows that the policy for missed ones lets fire, oldest first."""
    if rule.catch_up == "all":
        return rule.schedule.latest(after, now, rule.catch_up_limit)
    newest = rule.schedule.latest(after, now, 1)
    return [] if rule.catch_up == "none" and newest and now - newest[0] > LATE else newest


def _missed(rule: Rule, after: datetime, wanted: list[datetime], due: int, now: datetime) -> tuple[Skip, ...]:
    """The due windows that are too old, as one entry."""
    count = due - len(wanted)
    if not count:
        return ()
    newest = rule.schedule.latest(after, wanted[0] - _TICK if wanted else now, 1)[0]
    why = f"more than {rule.catch_up_limit} were" if rule.catch_up == "all" else _plural(count)
    return (Skip(window=newest, reason=f"{why} missed (catch_up: {rule.catch_up})", count=count),)


def _without_overlap(
    rule: Rule, wanted: list[datetime], *, live: bool
) -> tuple[tuple[datetime, ...], tuple[Skip, ...], datetime | None]:
    """What fires now, what does not because of a live job, and up to where all is settled.

    With `overlap: skip` there is never more than one live job. What `catch_up: all` asks for is then not
    dropped: it waits, and fires one by one as the jobs before it end.
    """
    if not wanted:
        return (), (), None
    if rule.overlap == "allow" or (not live and len(wanted) == 1):
        return tuple(wanted), (), wanted[-1]
    reason = "an earlier job of it has not ended (overlap: skip)"
    if rule.catch_up != "all":
        return (), (Skip(window=wanted[-1], reason=reason),), wanted[-1]
    fire = () if live else (wanted[0],)
    waits = Skip(window=wanted[-1], reason=f"waits: {reason}", count=0)
    return fire, (waits,), fire[0] if fire else None


def _plural(count: int) -> str:
    return "1 window was" if count == 1 else f"{count} windows were"


def _utc(instant: datetime) -> str:
    return instant.isoformat(timespec="seconds").replace("+00:00", "Z")


def _ahead(by: timedelta) -> str:
    return (
        f"{by.days} days"
        if by >= timedelta(days=2)
        else format_duration(timedelta(minutes=by // timedelta(minutes=1)))
    )
