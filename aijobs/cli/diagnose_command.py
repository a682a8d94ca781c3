"""`aijobs diagnose`: which layer is at fault, and what to do next."""

from typing import Annotated

import typer

from aijobs.cli.command import notes
from aijobs.cli.context import Context, context_of
from aijobs.core.diagnosis import Diagnosis


@notes(
    "aijobs diagnose 019b76d9-e8aa-7000-8000-000000000001",
    "aijobs diagnose --json",
    exits={
        0: "nothing is wrong",
        1: "something keeps the job, or jobs; the layer is named",
        3: "no such job",
        5: "the store cannot be reached",
    },
)
def diagnose(
    ctx: typer.Context,
    job_id: Annotated[
        str | None, typer.Argument(metavar="JOB", help="The job's id; without it the whole is looked at.")
    ] = None,
) -> int:
    """Say why a job is where it is: which layer keeps it, on what evidence, and what to do next.

    The layers are client, queue, worker, provider, webhook, result and notification. A job that waits for a
    time, a retry or a limit counts as kept. With --json: {checks: [{check, ok, evidence, since}], layer,
    summary, next_steps}. Nothing is changed.
    """
    from aijobs.services.diagnosis import Diagnosing

    context = context_of(ctx)
    diagnosing = Diagnosing(context.store, context.settings)
    found = diagnosing.system() if job_id is None else diagnosing.job(job_id)
    document = {
        "checks": [
            {"check": one.check, "ok": one.ok, "evidence": one.evidence, "since": one.since}
            for one in found.findings
        ],
        "layer": found.layer,
        "summary": found.summary,
        "next_steps": found.next_steps,
    }
    context.printer.emit(document, lambda: _print(context, found))
    return 0 if found.ok else 1


def _print(context: Context, found: Diagnosis) -> None:
    printer = context.printer
    rows = [("ok" if one.ok else "WRONG", one.check, one.since, one.evidence) for one in found.findings]
    printer.table(("", "CHECK", "SINCE", "EVIDENCE"), rows)
    printer.line("")
    printer.sentence(found.summary if found.layer is None else f"{found.layer}: {found.summary}")
    for step in found.next_steps:
        printer.sentence(f"  next: {step}", hang=8)
