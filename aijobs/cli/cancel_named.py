"""`aijobs cancel JOB...`: jobs that are named, each on its own."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from aijobs.cli.cancel_shapes import (
    PREVIEW_COLUMNS,
    PREVIEWED,
    Order,
    cancelled_shape,
    named_rows,
    preview_row,
)
from aijobs.cli.context import Context
from aijobs.cli.stopping import Account, accounted
from aijobs.core.errors import AijobsError
from aijobs.core.model import Job, Status
from aijobs.services.waiting import find


def preview_named(context: Context, job_ids: Sequence[str]) -> int:
    """Say what would become of each; the exit code. Raises NotFound."""
    found = [find(context.store, job_id) for job_id in job_ids]
    rows = [preview_row(job) for job in found]
    context.printer.emit(
        {"preview": named_rows(PREVIEWED, rows)},
        lambda: context.printer.table(PREVIEW_COLUMNS, rows),
    )
    return 1 if any(job.status.final for job in found) else 0


def cancel_named(context: Context, job_ids: Sequence[str], order: Order) -> int:
    """Stop them, several after asking; the exit code. Raises what a single one is refused with."""
    done = _Done()
    if len(job_ids) == 1:
        done.cancelled.append(context.coordinator.cancel(job_ids[0], actor=order.actor, reason=order.reason))
    elif not context.printer.confirm(f"Cancel {len(job_ids)} jobs?", yes=order.yes):
        return 1
    else:
        with accounted(lambda: done.account(len(job_ids))):
            _cancel_each(context, job_ids, order, done)
    context.printer.emit(done.document(), lambda: context.printer.table(("ID", "OUTCOME"), done.rows()))
    return 1 if done.refused else 0


def _cancel_each(context: Context, job_ids: Sequence[str], order: Order, done: "_Done") -> None:
    """Cancel several: what cannot be cancelled does not keep the others."""
    with context.printer.progress("cancel", total=len(job_ids)) as progress:
        for job_id in job_ids:
            try:
                job = context.coordinator.cancel(job_id, actor=order.actor, reason=order.reason)
                done.cancelled.append(job)
            except AijobsError as error:
                if error.exit_code not in (3, 4):
                    raise
                done.refused.append((job_id, error))
            progress.advance()


@dataclass(slots=True)
class _Done:
    """What became of those that were come to."""

    cancelled: list[Job] = field(default_factory=list)
    refused: list[tuple[str, AijobsError]] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """For JSON."""
        refused = [{"job_id": job_id, "kind": e.kind, "message": e.message} for job_id, e in self.refused]
        return {"cancelled": [cancelled_shape(job) for job in self.cancelled], "refused": refused}

    def rows(self) -> list[tuple[str, str]]:
        """For a person."""
        refused = [(job_id, error.message) for job_id, error in self.refused]
        return [(job.id, _became(job)) for job in self.cancelled] + refused

    def account(self, wanted: int) -> Account:
        """Why *wanted* jobs are not all in it."""
        words = f"until then {len(self.cancelled)} of {wanted} cancelled, {len(self.refused)} refused"
        return Account(self.document(), words, "the same command goes on, and refuses those that have ended")


def _became(job: Job) -> str:
    return "cancelled" if job.status is Status.CANCELLED else "asked to stop; its worker will notice"
