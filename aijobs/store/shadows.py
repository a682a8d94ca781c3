"""Comparisons of a real answer with that of a candidate: numbers only, never an answer."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime

from sqlalchemy import Connection, and_, bindparam, select

from aijobs.store.dialect import PerDialect
from aijobs.store.tables import executions
from aijobs.store.tables.work import shadows

_INSERT = PerDialect(
    lambda dialect: dialect.insert(shadows).on_conflict_do_nothing().execution_options(preserve_rowcount=True)
)
_real, _tried = executions.alias("real"), executions.alias("tried")
_MEASURED = (
    "provider", "model", "elapsed_seconds", "input_tokens", "output_tokens", "cost", "provider_job_id",
    "started_at", "finished_at",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Measure:
    """What one call took."""

    provider: str | None
    model: str | None
    elapsed_seconds: float | None
    input_tokens: int | None
    output_tokens: int | None
    cost: float | None
    provider_job_id: str | None
    started_at: datetime
    finished_at: datetime

    @property
    def seconds(self) -> float | None:
        """How long its answer took; of work in the background from its first call to its end, for the last
        call only asked whether it had ended.
        """
        if self.provider_job_id is None:
            return self.elapsed_seconds
        return (self.finished_at - self.started_at).total_seconds()


@dataclass(frozen=True, slots=True)
class Comparison:
    """One job's two calls; *error_class* None: the candidate answered too."""

    real: Measure
    candidate: Measure
    error_class: str | None
    length: int | None
    real_length: int
    compared: int
    agreed: int


_LATEST = (
    select(
        *(_real.c[name] for name in _MEASURED), *(_tried.c[name] for name in _MEASURED), _tried.c.error_class,
        shadows.c.length, shadows.c.real_length, shadows.c.compared, shadows.c.agreed,
    )
    .join(_real, and_(_real.c.job_id == shadows.c.job_id, _real.c.fence == shadows.c.fence,
                      _real.c.shadow.is_(False)))
    .join(_tried, and_(_tried.c.job_id == shadows.c.job_id, _tried.c.fence == shadows.c.fence,
                       _tried.c.shadow.is_(True)))
    .where(shadows.c.type == bindparam("type"), shadows.c.at >= bindparam("since"))
    .order_by(shadows.c.at.desc())
    .limit(bindparam("limit"))
)  # fmt: skip


def add(tx: Connection, row: Mapping[str, object]) -> bool:
    """Keep one comparison; False when there is one of that claim already."""
    return tx.execute(_INSERT[tx.dialect.name], dict(row)).rowcount == 1


def latest(tx: Connection, type_name: str, since: datetime, limit: int) -> list[Comparison]:
    """The latest comparisons of a type, the newest first."""
    size = len(fields(Measure))
    rows = tx.execute(_LATEST, {"type": type_name, "since": since, "limit": limit})
    return [
        Comparison(Measure(*row[:size]), Measure(*row[size : 2 * size]), *row[2 * size :]) for row in rows
    ]
