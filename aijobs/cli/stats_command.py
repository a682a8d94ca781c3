"""`aijobs stats`: how things stand, once."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any

import typer

from aijobs.cli.command import notes
from aijobs.cli.context import Context, context_of
from aijobs.cli.overview_shapes import overview_shape, usage_shape
from aijobs.cli.plain import cell
from aijobs.cli.printer import Printer
from aijobs.cli.words import past
from aijobs.core.errors import UsageError
from aijobs.core.overview import Overview, ProviderSeen, WorkerSeen, age
from aijobs.core.switches import scope_name


class By(StrEnum):
    """What tokens and cost are summed by."""

    TYPE = "type"
    USER = "user"
    PROVIDER = "provider"
    MODEL = "model"
    DAY = "day"


_HOUR = timedelta(hours=1)
_USED = ("calls", "input_tokens", "output_tokens", "cache_read_tokens", "reasoning_tokens", "cost")


@notes(
    "aijobs stats",
    "aijobs stats --by user --since 7d",
    "aijobs stats --by day --by model --json",
    exits={0: "shown", 5: "the store cannot be reached"},
)
def stats(
    ctx: typer.Context,
    by: Annotated[
        list[By] | None,
        typer.Option(
            "--by", metavar="GROUP", help="Sum tokens and cost by type, user, provider, model, day."
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="With --by: whole days (UTC) from this one on."),
    ] = None,
) -> None:
    """Show what waits and runs, what failed, who works, what holds calls back; or tokens and cost.

    Nothing is counted over jobs that have ended, so it stays quick however many there are. Rates are those
    of the last hour, the running minute included.
    """
    from aijobs.services.statistics import Statistics

    context = context_of(ctx)
    if since is not None and not by:
        raise UsageError("--since needs --by", hint="aijobs stats --by day --since 7d")
    statistics = Statistics(context.store, context.settings)
    if by:
        _usage(context, statistics, list(dict.fromkeys(one.value for one in by)), since)
        return
    overview = statistics.overview()
    context.printer.emit(overview_shape(overview), lambda: print_overview(context.printer, overview))


def _usage(context: Context, statistics: Any, by: list[str], since: str | None) -> None:
    begin = past(since, "--since", now=context.clock.now())
    sums = [usage_shape(by, key, one) for key, one in statistics.usage(by, begin)]
    columns = [name.upper().replace("_", " ") for name in (*by, *_USED)]
    rows = [[one[name] for name in (*by, *_USED)] for one in sums]
    document = {"by": by, "since": begin.date().isoformat() if begin else None, "usage": sums}
    context.printer.emit(document, lambda: context.printer.table(columns, rows, empty="no usage is known"))


# --- In words -------------------------------------------------------------------------------------


_LOADS = ("TYPE", "READY", "OLDEST", "LATER", "RETRY", "HELD", "RUN", "PARK", "OK/H", "SUCCESS")


def print_overview(printer: Printer, seen: Overview) -> None:
    """The overview as tables."""
    printer.table(_LOADS, list(load_rows(seen)), empty="no types are configured")
    if seen.dead_letters:
        printer.section("Dead letters, open", sum(seen.dead_letters.values()))
        rows = [(*key, count) for key, count in sorted(seen.dead_letters.items(), key=lambda one: -one[1])]
        printer.table(("TYPE", "ERROR CLASS", "COUNT"), rows)
    printer.section("Providers")
    printer.table(
        ("PROVIDER", "BREAKER", "FOR", "CALLS NOW", "MAY START", "AGAIN IN", "WHY"), list(provider_rows(seen))
    )
    printer.section("Workers alive", len(seen.alive))
    printer.table(
        ("WORKER", "HOST", "STATE", "CALLS AT ONCE", "TYPES", "LAST HEARD OF"), list(worker_rows(seen))
    )
    if seen.switches:
        printer.section("Switches on")
        thrown = [
            (s.kind, scope_name(s.scope), s.value, s.expires_at, s.actor, s.reason) for s in seen.switches
        ]
        printer.table(("SWITCH", "SCOPE", "VALUE", "UNTIL", "BY", "REASON"), thrown)
    printer.section("Last hour")
    printer.fields(hour_fields(seen))


def load_rows(seen: Overview) -> list[tuple[object, ...]]:
    """A row a type."""
    rows: list[tuple[object, ...]] = []
    for name, load in seen.loads.items():
        hour = seen.lately(_HOUR, type_name=name)
        rows.append(
            (
                name, load.ready, age(seen.now, load.oldest_ready_at), load.delayed, load.retrying, load.held,
                load.running, load.parked, hour.succeeded, percent(hour.success_rate),
            )
        )  # fmt: skip
    return rows


def provider_rows(seen: Overview) -> list[tuple[object, ...]]:
    """A row a provider."""
    return [
        (
            one.name, one.breaker, _since(one, seen.now), one.in_flight,
            "any" if one.allowed is None else one.allowed, _again(one, seen.now),
            None if one.allowed is None else one.reason,
        )
        for one in seen.providers
    ]  # fmt: skip


def _since(one: ProviderSeen, now: datetime) -> timedelta | None:
    """How long it is not well already."""
    return age(now, one.since) if one.held or one.breaker != "closed" else None


def _again(one: ProviderSeen, now: datetime) -> str | timedelta | None:
    """When it is called again: by itself, by a trial or a probe first, or by nobody but a person."""
    if one.again_at is None:
        return "when reset" if one.held and one.allowed == 0 else None
    wait = one.again_at - now
    if one.held:
        return f"{cell(wait)}, probe"
    return f"{cell(wait)}, trial" if one.breaker == "open" else wait


def worker_rows(seen: Overview) -> list[tuple[object, ...]]:
    """A row a worker that is alive."""
    return [
        (
            one.name, one.host, one.state, one.concurrency,
            _types(one, seen), age(seen.now, one.heartbeat_at),
        )
        for one in seen.alive
    ]  # fmt: skip


def _types(one: WorkerSeen, seen: Overview) -> str:
    return "all" if one.types is None or seen.loads.keys() <= set(one.types) else ", ".join(one.types)


def hour_fields(seen: Overview) -> list[tuple[str, object]]:
    """The rates of the last hour, and what has piled up."""
    hour = seen.lately(_HOUR)
    wait = None if hour.mean_wait is None else timedelta(seconds=hour.mean_wait)
    return [
        ("succeeded", hour.succeeded),
        ("dead letters", hour.dead_letter),
        ("success", percent(hour.success_rate)),
        ("attempts", hour.attempts),
        ("attempts failed", hour.failed),
        ("rate limited", hour.rate_limited),
        ("leases expired", hour.lost),
        ("mean wait", wait),
        ("oldest dead letter", age(seen.now, seen.oldest_dead_letter_at)),
        ("schedule windows left out", sum(one.skipped for one in seen.schedules)),
        ("webhooks unmatched", seen.unmatched),
        ("notifications overdue", sum(seen.notifications_overdue.values())),
    ]


def percent(share: float | None) -> str | None:
    """A share as people read it; never rounded up to 100 % when it is less."""
    if share is None:
        return None
    return "100%" if share == 1 else f"{min(share * 100, 99.9):.1f}%"
