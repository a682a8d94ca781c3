"""What `top` draws: lines that fit a terminal, the most telling ones first where room is short. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from aijobs.cli.plain import Line, Tone, aligned, cell, cut, width
from aijobs.cli.stats_command import percent, provider_rows, worker_rows
from aijobs.core.overview import FailedJob, Load, Overview, ProviderSeen, RunningJob, Window, age

_MINUTE = timedelta(minutes=1)
_HOUR = timedelta(hours=1)
_TYPES = ("TYPE", "READY", "OLDEST", "LATER", "RETRY", "HELD", "RUN", "PARK", "OK/H", "DEAD/H")
_PROVIDERS = ("PROVIDER", "BREAKER", "FOR", "CALLS", "MAY START", "AGAIN IN", "WHY")
_WORKERS = ("WORKER", "HOST", "STATE", "CALLS", "TYPES", "HEARD")
_RUNNING = ("RUNNING", "TYPE", "FOR", "LEASE", "WORKER")
_FAILED = ("FAILED", "TYPE", "AGO", "ERROR", "")

Row = tuple[Tone, Sequence[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Section:
    """A table with its rows, of which *shown* are drawn; the rest are counted in the last line."""

    columns: Sequence[str]
    rows: Sequence[Row]
    shown: int

    @property
    def height(self) -> int:
        return 2 + self.shown  # a blank line and the heading

    def lines(self) -> Iterator[Line]:
        fits = self.shown >= len(self.rows)
        drawn = self.rows if fits else self.rows[: max(0, self.shown - 1)]
        heading, *texts = aligned(self.columns, [[cell(value) for value in cells] for _, cells in drawn])
        yield Line("")
        yield Line(heading, Tone.HEADING)
        yield from (Line(text, tone) for text, (tone, _) in zip(texts, drawn, strict=True))
        if not fits:
            yield Line(f"and {len(self.rows) - len(drawn)} more", Tone.QUIET)


def picture(
    seen: Overview, running: Sequence[RunningJob], failed: Sequence[FailedJob], *, store: str, height: int
) -> list[Line]:
    """The lines of one picture, at most *height* where that holds a line of each table."""
    tables = (
        (_TYPES, _loads(seen)), (_PROVIDERS, _providers(seen)), (_WORKERS, _workers(seen)),
        (_RUNNING, _jobs_running(seen, running)), (_FAILED, _jobs_failed(seen, failed)),
    )  # fmt: skip
    head = [
        Line(f"aijobs  {cell(seen.now)}  q quits  {store}", Tone.HEADING),
        Line(_rates(seen)),
        _crew(seen),
    ]
    sections = [_Section(columns=names, rows=rows, shown=len(rows)) for names, rows in tables if rows]
    shown = _fitted(sections, height - len(head))
    return [*head, *(line for section in shown for line in section.lines())]


def _fitted(sections: Sequence[_Section], room: int) -> list[_Section]:
    """The sections, line by line the longest one shortened until they fit; each keeps a line."""
    found = list(sections)
    while sum(section.height for section in found) > room:
        longest = max(range(len(found)), key=lambda n: found[n].shown, default=0)
        if not found or found[longest].shown <= 1:
            return found
        found[longest] = replace(found[longest], shown=found[longest].shown - 1)
    return found


def _rates(seen: Overview) -> str:
    minute, hour = seen.lately(_MINUTE), seen.lately(_HOUR)
    wait = None if hour.mean_wait is None else timedelta(seconds=hour.mean_wait)
    share = cell(percent(hour.success_rate))
    now = f"this minute {minute.succeeded} ok, {minute.failed} failed"
    return f"{now}; hour {hour.succeeded} ok, {hour.dead_letter} dead, {share}, wait {cell(wait)}"


def _crew(seen: Overview) -> Line:
    if not seen.alive:
        return Line("no worker is alive", Tone.BAD if seen.total.ready else Tone.QUIET)
    slots = sum(worker.concurrency for worker in seen.alive)
    return Line(f"workers alive {len(seen.alive)}, calls at once {slots}")


def _loads(seen: Overview) -> list[Row]:
    """By name, those last of which nothing is to be told."""
    rows: list[Row] = []
    for name, load in seen.loads.items():
        hour = seen.lately(_HOUR, type_name=name)
        cells = (
            cut(name, 16), load.ready, age(seen.now, load.oldest_ready_at), load.delayed, load.retrying,
            load.held, load.running, load.parked, hour.succeeded, hour.dead_letter,
        )  # fmt: skip
        rows.append((_tone_of_load(load, hour), cells))
    return sorted(rows, key=lambda row: row[0] is Tone.QUIET)


def _tone_of_load(load: Load, hour: Window) -> Tone:
    if load.expired:
        return Tone.BAD
    if load.held:
        return Tone.WARNING
    idle = not (load.waiting or load.running or load.parked or hour.ended)
    return Tone.QUIET if idle else Tone.PLAIN


def _providers(seen: Overview) -> list[Row]:
    """Those that are not called first, by name."""
    rows = [(_tone_of(one), row) for one, row in zip(seen.providers, provider_rows(seen), strict=True)]
    return sorted(rows, key=lambda row: row[0] is not Tone.BAD)


def _tone_of(one: ProviderSeen) -> Tone:
    metered = one.reason.startswith("rate ")
    if one.allowed == 0 and not metered:
        return Tone.BAD
    return Tone.PLAIN if one.breaker == "closed" else Tone.WARNING


def _workers(seen: Overview) -> list[Row]:
    return [
        (Tone.PLAIN, (cut(str(name), 20), cut(str(host), 14), state, calls, cut(str(types), 14), heard))
        for name, host, state, calls, types, heard in worker_rows(seen)
    ]


def _jobs_running(seen: Overview, running: Sequence[RunningJob]) -> list[Row]:
    rows: list[Row] = []
    for one in running:
        left = one.locked_until - seen.now
        tone = Tone.BAD if left <= timedelta(0) and not one.parked_at else Tone.PLAIN
        lease = "parked" if one.parked_at else "ran out" if tone is Tone.BAD else left
        cells = (one.id, cut(one.type, 12), age(seen.now, one.claimed_at), lease, _end(one.worker or ""))
        rows.append((tone, cells))
    return rows


def _end(worker: str) -> str:
    """The end of a worker's name, by which those of one machine differ."""
    return worker if width(worker) <= 11 else f"~{worker[-10:]}"


def _jobs_failed(seen: Overview, failed: Sequence[FailedJob]) -> list[Row]:
    return [
        (
            Tone.BAD if one.dead else Tone.WARNING,
            (one.id, cut(one.type, 12), age(seen.now, one.at), one.error_class or "",
             "dead" if one.dead else "again"),
        )
        for one in failed
    ]  # fmt: skip
