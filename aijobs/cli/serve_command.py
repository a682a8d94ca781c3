"""`aijobs serve`: webhooks, cron triggers, jobs and their state over HTTP."""

import signal
from typing import TYPE_CHECKING, Annotated

import typer

from aijobs.cli import early_signals
from aijobs.cli.command import notes
from aijobs.cli.context import Context, context_of
from aijobs.cli.logs import LogFormat, LogLines, line_log
from aijobs.cli.options import Host, Port
from aijobs.core.errors import Interrupted, UsageError
from aijobs.services.surroundings import allow_many_files

if TYPE_CHECKING:
    from aijobs.http.serve import Secrets, Server, Serving

_SHORTEST_SECRET = 16


RootPath = Annotated[
    str,
    typer.Option("--root-path", metavar="PATH", help="The prefix under which a proxy shows it: /aijobs."),
]


@notes(
    "aijobs serve --port 8080",
    "aijobs serve --host 0.0.0.0 --root-path /aijobs",
    exits={
        0: "stopped by SIGTERM; answers under way were finished",
        5: "the store cannot be reached at the start",
        130: "stopped by Ctrl-C",
    },
)
def serve(
    ctx: typer.Context,
    host: Host = "127.0.0.1",
    port: Port = 8080,
    root_path: RootPath = "",
    log_format: LogLines = LogFormat.TEXT,
) -> int:
    """Serve webhooks, cron triggers and jobs over HTTP. Put a proxy that speaks TLS in front.

    POST /webhooks/PROVIDER takes deliveries signed with the provider's webhook_secret. GET or POST /tick
    needs the bearer token CRON_SECRET; POST /jobs, GET /jobs/ID, POST /jobs/ID/cancel and GET /jobs/ID/events
    need AIJOBS_API_TOKEN; both come from the environment. What has no secret is off. GET /healthz and
    /readyz are for whoever runs it, GET /openapi.json describes what is on. It carries no job out: run
    workers beside it.
    """
    from aijobs.http.serve import Secrets

    context = context_of(ctx)
    allow_many_files()
    prefix = _prefix(root_path)
    secrets = Secrets.of(context.environ)
    store = context.create_store()
    for warning in store.warnings:
        context.printer.warn(warning)
    server = _server(
        context, secrets, host=host, port=port, prefix=prefix, as_json=log_format is LogFormat.JSON
    )
    _tell(context, secrets)
    try:
        stopped_by = server.run(ready=lambda: _announce(context, server))
    finally:
        early_signals.over()
    return Interrupted.exit_code if stopped_by == signal.SIGINT else 0


def _server(
    context: Context, secrets: "Secrets", *, host: str, port: int, prefix: str, as_json: bool
) -> "Server":
    from aijobs.http.listening import listen
    from aijobs.http.serve import Server, Serving

    try:
        listener = listen(host, port)
    except OSError as error:
        message = f"cannot listen on {host} port {port}: {error.strerror or error}"
        raise UsageError(message, hint="--port 0 takes a free one") from error

    log = line_log(context.printer, clock=context.clock, as_json=as_json)

    def make() -> "Serving":
        return Serving(
            context.store, context.settings, secrets=secrets, chance=context.chance, clock=context.clock,
            log=log, tracing=context.tracing(log),
        )  # fmt: skip

    return Server(make, listener, root_path=prefix)


def _prefix(text: str) -> str:
    prefix = text.rstrip("/")
    if prefix and (not prefix.startswith("/") or not prefix.isascii() or set(prefix) & set("?# {}")):
        raise UsageError("--root-path: write a path such as /aijobs")
    return prefix


def _tell(context: Context, secrets: "Secrets") -> None:
    """What is off and why; and a secret that can be guessed."""
    for name, value, what in (
        ("AIJOBS_API_TOKEN", secrets.api, "/jobs"),
        ("CRON_SECRET", secrets.cron, "/tick"),
    ):
        if value is None:
            context.printer.say(f"{what} is off: {name} is not set")
        elif len(value) < _SHORTEST_SECRET:
            context.printer.warn(f"{name} is shorter than {_SHORTEST_SECRET} characters: it can be guessed")
    named = [name for name, one in context.settings.providers.items() if one.webhook_secret]
    if named:
        context.printer.say(f"webhooks are taken for {', '.join(named)}")
    else:
        context.printer.say("/webhooks is off: no provider has a webhook_secret")


def _announce(context: Context, server: "Server") -> None:
    printer = context.printer
    printer.emit_record({"url": server.url}, lambda: printer.line(server.url))
    printer.flush()
