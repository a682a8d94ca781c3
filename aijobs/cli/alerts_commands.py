"""`aijobs alerts` and `aijobs alerts rules`: the rules, evaluated here or by Prometheus."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aijobs.cli.command import notes
from aijobs.cli.context import Context, context_of

if TYPE_CHECKING:
    from aijobs.services.alerting import AlertReport


@notes(
    "aijobs alerts",
    "aijobs alerts --new || mail -s 'aijobs' ops@example.org",
    exits={
        0: "no rule fires; with --new: none that was not told already",
        1: "a rule fires",
        5: "the store cannot be reached",
    },
)
def alerts(
    ctx: typer.Context,
    new: Annotated[
        bool, typer.Option("--new", help="Exit with 1 only for what was not told within the silence period.")
    ] = False,
) -> int:
    """Evaluate the alert rules on the store, and tell the targets of `alerts.notify`.

    The same alert is told once within `alerts.silence`, however often this runs and on however many machines;
    run it every minute from cron. Without targets the exit code of --new is what tells: a look without it
    silences nothing. With --json: {alerts: [{rule, severity, firing, value, threshold, samples,
    evidence, since, silenced_until, news, told, failed}], firing}.
    """
    from aijobs.services.alerting import Alerting

    context = context_of(ctx)
    found = Alerting(context.store, context.settings, tell=_teller(context)).run(passed_on=new)
    firing = [one for one in found if one.alert.firing]
    document = {"alerts": [_shape(one) for one in found], "firing": [one.alert.rule for one in firing]}
    context.printer.emit(document, lambda: context.printer.table(_COLUMNS, map(_row, found)))
    for one in found:
        for name in one.failed:
            context.printer.warn(f"{name} could not be told of {one.alert.rule}")
    return 1 if any(one.news or not new for one in firing) else 0


@notes(
    "aijobs alerts rules > /etc/prometheus/rules/aijobs.yml",
    "aijobs alerts rules --json",
    exits={0: "printed"},
)
def alerts_rules(ctx: typer.Context) -> None:
    """Print the same rules as a rules file for Prometheus, by the bounds of the configuration.

    With --json the same as JSON: {groups: [{name, rules: [{alert, expr, labels, annotations}]}]}.
    """
    from aijobs.core.alerts import prometheus_rules

    context = context_of(ctx)
    rules = prometheus_rules(context.settings)
    context.printer.emit(rules, lambda: context.printer.raw(rules_file(rules)))


def rules_file(rules: dict[str, Any]) -> str:
    """The rules as YAML; a JSON text is a quoted YAML one."""
    lines = ["# The alert rules of aijobs, made by `aijobs alerts rules`.", "groups:"]
    for group in rules["groups"]:
        lines += [f"  - name: {json.dumps(group['name'])}", "    rules:"]
        for rule in group["rules"]:
            lines += [
                f"      - alert: {json.dumps(rule['alert'])}",
                f"        expr: {json.dumps(rule['expr'])}",
            ]
            for part in ("labels", "annotations"):
                lines.append(f"        {part}:")
                lines += [f"          {name}: {json.dumps(text)}" for name, text in rule[part].items()]
    return "\n".join(lines) + "\n"


_COLUMNS = ("", "RULE", "SEVERITY", "VALUE", "SINCE", "SILENCED UNTIL")


def _row(one: "AlertReport") -> tuple[object, ...]:
    state = "FIRING" if one.alert.firing else "ok"
    until = None if one.news else one.silenced_until
    return state, one.alert.rule, one.alert.severity, one.alert.evidence, one.since, until


def _shape(one: "AlertReport") -> dict[str, Any]:
    return asdict(one.alert) | {
        "since": one.since, "silenced_until": one.silenced_until, "news": one.news, "told": one.told,
        "failed": one.failed,
    }  # fmt: skip


def _teller(context: Context) -> Any:
    """What delivers; loaded only when there is something to tell."""

    def tell(name: str, message_id: str, body: bytes) -> Any:
        from aijobs.cli.logs import line_log
        from aijobs.services.notifier import Notifier

        log = line_log(context.printer, clock=context.clock, as_json=False)
        return Notifier(context.store, context.settings, chance=context.chance, log=log).tell(
            name, message_id, body
        )

    return tell
