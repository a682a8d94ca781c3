"""`aijobs doctor`: is this installation fit to run?"""

from dataclasses import asdict
from functools import partial

import typer

from aijobs.cli.command import notes
from aijobs.cli.context import context_of
from aijobs.cli.options import Probe
from aijobs.cli.probes import ask


@notes(
    "aijobs doctor",
    "aijobs doctor --probe",
    "aijobs doctor --database postgresql://jobs@db/jobs --json",
    exits={0: "all is well", 1: "something is wrong; each line says what to do"},
)
def doctor(ctx: typer.Context, probe: Probe = False) -> int:
    """Check this installation: configuration, store, clocks, workers, credentials.

    Nothing is changed, and no part of a secret is shown. With --json: {checks: [{check, ok, evidence, hint}],
    ok}. With --probe every provider is asked, by one call that costs nothing.
    """
    from aijobs.services.doctor import examine

    context = context_of(ctx)
    findings = examine(
        lambda: context.settings, lambda: context.store, probe=partial(ask, context) if probe else None
    )
    well = all(finding.ok for finding in findings)
    document = {
        "checks": [asdict(one) | {"hint": None if one.ok else one.hint} for one in findings],
        "ok": well,
    }

    def plain() -> None:
        for one in findings:
            context.printer.sentence(f"{'ok' if one.ok else 'WRONG':<6} {one.check}: {one.evidence}", hang=7)
            if one.hint and not one.ok:
                context.printer.sentence(f"{'':<6} to do: {one.hint}", hang=14)

    context.printer.emit(document, plain)
    return 0 if well else 1
