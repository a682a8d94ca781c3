"""The table of commands.

To add one: a line here, and a function with a docstring, `notes` and a first parameter `ctx: typer.Context`.
It returns the exit code (None for 0).
"""

from collections.abc import Mapping
from typing import Annotated

import typer

from aijobs import __version__
from aijobs.cli.command import EXITS, Entry, Group, notes
from aijobs.cli.completion import teach_shells
from aijobs.cli.options import global_parameters

JOBS = "Jobs"
CONTROL = "Control"
SEEING = "Seeing"
SERVING = "Serving"
SETUP = "Set-up and trust"
_SECTIONS = (JOBS, SEEING, CONTROL, SERVING, SETUP, "")
"""The order in which the overview shows them."""

COMMANDS: Mapping[str, Entry] = {
    "enqueue": Entry(
        help="Accept a job, or many from a file.", target="aijobs.cli.enqueue_command:enqueue", section=JOBS
    ),
    "inspect": Entry(
        help="List jobs, newest first, or show everything about one.",
        target="aijobs.cli.inspect_command:inspect",
        section=JOBS,
    ),
    "worker": Entry(
        help="Claim jobs and carry them out until told to stop.",
        target="aijobs.cli.worker_command:worker",
        section=JOBS,
    ),
    "cancel": Entry(
        help="Stop jobs, at once or as soon as their worker notices.",
        target="aijobs.cli.cancel_command:cancel",
        section=JOBS,
    ),
    "tick": Entry(
        help="Make a job for every schedule that has fallen due; safe every minute, on every machine.",
        target="aijobs.cli.tick_command:tick",
        section=JOBS,
    ),
    "schedule": Entry(
        help="Show when schedules fire, and pause them.",
        section=CONTROL,
        commands={
            "list": Entry(
                help="List the schedules with their next fire times.",
                target="aijobs.cli.schedule_commands:schedule_list",
            ),
            "preview": Entry(
                help="Show when one fires, over days on which the clocks change.",
                target="aijobs.cli.schedule_commands:schedule_preview",
            ),
            "pause": Entry(
                help="Let one fire nothing.", target="aijobs.cli.schedule_commands:schedule_pause"
            ),
            "resume": Entry(help="End a pause.", target="aijobs.cli.schedule_commands:schedule_resume"),
        },
    ),
    "sweep": Entry(
        help="Find what fell through and put it right; safe at any time, on any machine.",
        target="aijobs.cli.sweep_command:sweep",
        section=JOBS,
    ),
    "config": Entry(
        help="Check, show or begin a configuration file.",
        section=SETUP,
        commands={
            "check": Entry(
                help="Look the configuration over and list every fault.",
                target="aijobs.cli.config_commands:check",
            ),
            "show": Entry(
                help="Print the configuration as it is in force, defaults included.",
                target="aijobs.cli.config_commands:show",
            ),
            "schema": Entry(
                help="Print the JSON Schema of the file, for completion in editors.",
                target="aijobs.cli.config_commands:schema",
            ),
            "init": Entry(
                help="Write a small, commented configuration file to start from.",
                target="aijobs.cli.config_commands:init",
            ),
        },
    ),
    "db": Entry(
        help="Make the store, bring it to this version, look whether it is whole.",
        section=SETUP,
        commands={
            "upgrade": Entry(
                help="Make the store, or bring an older one to this version.",
                target="aijobs.cli.db_command:upgrade",
            ),
            "check": Entry(
                help="Look whether the store is there, of this version, and whole; nothing is changed.",
                target="aijobs.cli.db_command:check",
            ),
        },
    ),
    "retry": Entry(
        help="Run one dead letter again, or let a held job go on.",
        target="aijobs.cli.deadletter_commands:retry",
        section=JOBS,
    ),
    "deadletter": Entry(
        help="Look through the dead letters, and settle them.",
        section=JOBS,
        commands={
            "list": Entry(
                help="List dead letters, the latest first.",
                target="aijobs.cli.deadletter_commands:deadletter_list",
            ),
            "show": Entry(
                help="Show everything about one.", target="aijobs.cli.deadletter_commands:deadletter_show"
            ),
            "replay": Entry(
                help="Run some again: a preview, a canary, then batches.",
                target="aijobs.cli.replay_commands:replay",
            ),
            "replays": Entry(help="List plans and replays.", target="aijobs.cli.replay_commands:replay_list"),
            "abort": Entry(help="End a replay for good.", target="aijobs.cli.replay_commands:replay_abort"),
            "close": Entry(
                help="Say that some will not be replayed, and why.",
                target="aijobs.cli.deadletter_commands:deadletter_close",
            ),
        },
    ),
    "prune": Entry(
        help="Remove what has been kept long enough.",
        target="aijobs.cli.prune_command:prune",
        section=JOBS,
    ),
    "provider": Entry(
        help="Show how the providers are; hold and reset them.",
        section=CONTROL,
        commands={
            "list": Entry(
                help="Show every provider and what holds calls back.",
                target="aijobs.cli.provider_commands:provider_list",
            ),
            "show": Entry(help="Show one provider.", target="aijobs.cli.provider_commands:provider_show"),
            "reset": Entry(
                help="Say that a provider is well again.",
                target="aijobs.cli.provider_commands:provider_reset",
            ),
            "hold": Entry(
                help="Send nothing to a provider for now.",
                target="aijobs.cli.provider_commands:provider_hold",
            ),
        },
    ),
    "pause": Entry(
        help="Start no more jobs: of some types, below a priority, or at all.",
        target="aijobs.cli.switch_commands:pause",
        section=CONTROL,
    ),
    "resume": Entry(help="End a pause.", target="aijobs.cli.switch_commands:resume", section=CONTROL),
    "switch": Entry(
        help="Show and set switches: pauses, stale results, fallback.",
        section=CONTROL,
        commands={
            "list": Entry(
                help="Show every switch that is on.", target="aijobs.cli.switch_commands:switch_list"
            ),
            "set": Entry(
                help="Let the last results, or another provider, stand in.",
                target="aijobs.cli.switch_commands:switch_set",
            ),
        },
    ),
    "stats": Entry(
        help="Show how things stand, once; or tokens and cost.",
        target="aijobs.cli.stats_command:stats",
        section=SEEING,
    ),
    "diagnose": Entry(
        help="Say which layer keeps a job, or jobs, and what to do next.",
        target="aijobs.cli.diagnose_command:diagnose",
        section=SEEING,
    ),
    "metrics": Entry(
        help="Write the metrics in Prometheus' text format.",
        target="aijobs.cli.metrics_command:metrics",
        section=SEEING,
    ),
    "alerts": Entry(
        help="Evaluate the alert rules on the store, and tell who is to be told.",
        target="aijobs.cli.alerts_commands:alerts",
        section=SEEING,
        commands={
            "rules": Entry(
                help="Print them as a rules file for Prometheus.",
                target="aijobs.cli.alerts_commands:alerts_rules",
            ),
        },
    ),
    "top": Entry(
        help="Show how things stand, live; q quits.",
        target="aijobs.cli.top_command:top",
        section=SEEING,
    ),
    "dashboard": Entry(
        help="Print a Grafana dashboard over the metrics.",
        target="aijobs.cli.dashboard_command:dashboard",
        section=SEEING,
    ),
    "serve": Entry(
        help="Take webhooks, jobs and cron triggers over HTTP, and tell how jobs are.",
        target="aijobs.cli.serve_command:serve",
        section=SERVING,
    ),
    "result": Entry(
        help="Print the result of a job, or the last one of a user and type.",
        target="aijobs.cli.result_command:result",
        section=CONTROL,
    ),
    "shadow": Entry(
        help="Compare a candidate provider or model with the one in use.",
        section=CONTROL,
        commands={
            "report": Entry(
                help="Compare it by the jobs that went to both.",
                target="aijobs.cli.shadow_commands:shadow_report",
            ),
        },
    ),
    "webhook": Entry(
        help="Take webhook deliveries that another web server received.",
        section=SERVING,
        commands={
            "ingest": Entry(
                help="Take one delivery, from standard input.",
                target="aijobs.cli.webhook_command:webhook_ingest",
            ),
        },
    ),
    "doctor": Entry(
        help="Check this installation: configuration, store, clocks, workers, credentials.",
        target="aijobs.cli.doctor_command:doctor",
        section=SETUP,
    ),
    "demo": Entry(
        help="The whole story in a few seconds, on a temporary store.",
        target="aijobs.cli.demo_command:demo",
        section=SETUP,
    ),
    "drill": Entry(
        help="Put the promises to the test by force, on a temporary or a staging store.",
        target="aijobs.cli.drill_command:drill",
        section=SETUP,
    ),
    "simulate": Entry(
        help="Run a provider that is not there, with the faults you ask for.",
        target="aijobs.cli.simulate_command:simulate",
        section=SETUP,
    ),
}

HELP = "Run AI background jobs that are never lost, never run twice in effect, never “thinking” for ever."


def _show_version(value: bool | None) -> None:
    if value:
        typer.echo(f"aijobs {__version__}")
        raise typer.Exit


@notes(
    "aijobs demo",
    "aijobs config init --provider local --base-url http://127.0.0.1:8000/v1",
    "aijobs enqueue demo",
    "aijobs worker --drain",
    "aijobs inspect",
    "aijobs diagnose",
    exits=EXITS,
)
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Only read for its parameters."""


def build(commands: Mapping[str, Entry] = COMMANDS) -> Group:
    """The whole program as one group; nothing of *commands* is imported yet."""
    app = typer.Typer(add_completion=True, rich_markup_mode=None)
    app.command()(_root)
    own = typer.main.get_command(app).params
    for param in own:
        param.expose_value = False
    teach_shells(own)
    ordered = dict(sorted(commands.items(), key=lambda one: _SECTIONS.index(one[1].section)))
    group = Group(name="aijobs", entries=ordered, help=HELP, params=[*own, *global_parameters()])
    group.notes = _root.__dict__["notes"]
    return group
