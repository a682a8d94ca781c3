"""One moment of a store in memory, as `tests.support.invariants` looks at it."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Table, select

from aijobs.store import tables as t

Rows = Sequence[Any]
FINAL = ("succeeded", "dead_letter", "cancelled")


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The store at one moment; what belongs to a job is grouped by its id."""

    jobs: Mapping[str, Any]
    executions: Mapping[str, Rows]  # in the order of their fences, shadows left out
    shadows: Rows
    events: Mapping[str, Rows]
    results: Mapping[str, Any]
    inputs: frozenset[str]
    dead: Mapping[str, Rows]
    notes: Mapping[str, Rows]
    effects: Rows
    deliveries: Rows
    replays: Rows
    items: Rows
    calls: Rows
    totals: Mapping[str, Sequence[tuple[Mapping[str, str], float]]]  # by metric
    minutes: Rows
    usage: Rows

    @classmethod
    def of(cls, tx: Connection) -> "Facts":
        """What *tx* sees."""
        attempts = rows(tx, t.executions, "fence")
        return cls(
            jobs={row.id: row for row in rows(tx, t.jobs)},
            executions=_by_job(row for row in attempts if not row.shadow),
            shadows=[row for row in attempts if row.shadow],
            events=_by_job(rows(tx, t.events, "id")),
            results={
                row.job_id: row for row in tx.execute(select(t.job_results.c.job_id, t.job_results.c.fence))
            },
            inputs=frozenset(tx.execute(select(t.job_inputs.c.job_id)).scalars()),
            dead=_by_job(rows(tx, t.dead_letters, "round")),
            notes=_by_job(rows(tx, t.notifications, "round")),
            effects=rows(tx, t.effects),
            deliveries=rows(tx, t.deliveries),
            replays=rows(tx, t.replays),
            items=rows(tx, t.replay_items),
            calls=rows(tx, t.provider_calls),
            totals=_parsed(rows(tx, t.rollups)),
            minutes=rows(tx, t.minutes),
            usage=rows(tx, t.usage_days),
        )

    def total(self, metric: str, **labels: str) -> float:
        """The sum of a metric's series that have these labels."""
        wanted = labels.items()
        return sum(value for said, value in self.totals.get(metric, ()) if wanted <= said.items())

    def events_of(self, job_id: str, *kinds: str) -> Rows:
        """A job's events of these kinds, oldest first."""
        return [row for row in self.events.get(job_id, ()) if row.kind in kinds]

    def all_attempts(self) -> Iterator[Any]:
        """Every attempt of every job, shadows left out."""
        for found in self.executions.values():
            yield from found


def rows(tx: Connection, table: Table, order: str | None = None) -> Rows:
    """All rows of *table*, by the column *order* if one is named."""
    query = select(table)
    return tx.execute(query if order is None else query.order_by(table.c[order])).all()


def _by_job(rows: Iterable[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        found[row.job_id].append(row)
    return dict(found)


def _parsed(found: Rows) -> dict[str, list[tuple[Mapping[str, str], float]]]:
    totals: dict[str, list[tuple[Mapping[str, str], float]]] = defaultdict(list)
    for row in found:
        totals[row.metric].append((json.loads(row.labels), row.value))
    return dict(totals)
