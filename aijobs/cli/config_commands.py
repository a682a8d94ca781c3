"""`aijobs config check|show|schema|init`."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from aijobs.cli.command import notes
from aijobs.cli.config_templates import CHOICES, LOCAL_URL, VARIABLES, render
from aijobs.cli.context import Context, context_of
from aijobs.core.errors import Conflict, UsageError
from aijobs.services.surroundings import CONFIG_FILE
from aijobs.services.text_files import write_atomically


@notes(
    "aijobs config check",
    "aijobs --config prod.yaml config check --json",
    exits={0: "no faults; there may be warnings", 2: "the configuration has faults, all of them listed"},
)
def check(ctx: typer.Context) -> None:
    """Look the configuration over and list every fault.

    Starts nothing, connects to nothing. Warnings are about what is allowed but seldom meant, and about time
    budgets that do not fit into each other.
    """
    from aijobs.core.config import load
    from aijobs.core.config.checks import check as warnings_of

    context = context_of(ctx)
    path = context.config_path
    settings = load(path, environ=context.environ, database=context.database, thorough=True)
    warnings = warnings_of(settings, now=context.clock.now())
    for warning in warnings:
        context.printer.warn(str(warning))
    counts = {name: len(getattr(settings, name)) for name in ("providers", "types", "schedules", "notify")}
    document: dict[str, Any] = {
        "file": str(path) if path else None,
        "faults": [],
        "warnings": [{"path": one.path, "message": one.message} for one in warnings],
        **counts,
    }
    summary = ", ".join(_many(count, name) for name, count in counts.items())
    where = path or f"no {CONFIG_FILE}: the defaults"
    context.printer.emit(
        document, lambda: context.printer.sentence(f"{where}: no faults; with what is built in: {summary}")
    )


def _many(count: int, section: str) -> str:
    """`1 type`, `2 types`; of types and providers there is always the built-in one."""
    noun = "notification target" if section == "notify" else section.removesuffix("s")
    return f"{count} {noun}" + ("" if count == 1 else "s")


@notes(
    "aijobs config show",
    "aijobs config show --json",
    exits={0: "the configuration", 2: "the configuration has faults"},
)
def show(ctx: typer.Context) -> None:
    """Print the configuration as it is in force, defaults included.

    Flags, environment and file are merged; secrets are shown as ***.
    """
    from aijobs.core.config.writing import shown, to_yaml

    context = context_of(ctx)
    document = shown(context.settings)
    context.printer.emit(document, lambda: context.printer.body(to_yaml(document).rstrip("\n")))


@notes("aijobs config schema > aijobs.schema.json", exits={0: "the schema"})
def schema(ctx: typer.Context) -> None:
    """Print the JSON Schema of the file, for completion in editors.

    With the YAML language server, write as the file's first line:

    \b
    # yaml-language-server: $schema=aijobs.schema.json
    """
    import json

    from aijobs.core.config.writing import schema as made

    context = context_of(ctx)
    document = made()
    context.printer.emit(document, lambda: context.printer.raw(json.dumps(document, indent=2) + "\n"))


@notes(
    "aijobs config init --provider openai",
    "aijobs config init --provider local --base-url http://127.0.0.1:8000/v1 --model qwen3",
    "aijobs config init --provider simulator --output practice.yaml",
    exits={0: "the file is written", 4: "the file is there already"},
)
def init(
    ctx: typer.Context,
    provider: Annotated[
        str | None,
        typer.Option("--provider", metavar="NAME", help=f"One of: {', '.join(CHOICES)}. Asked if left out."),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="In place of the usual one.")
    ] = None,
    base_url: Annotated[
        str | None,
        typer.Option(
            "--base-url", metavar="URL", help="Where the provider is, up to and with /v1, if elsewhere."
        ),
    ] = None,
    output: Annotated[
        str, typer.Option("--output", metavar="FILE", help="Where to; - is stdout.")
    ] = CONFIG_FILE,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that is there.")] = False,
) -> None:
    """Write a small, commented configuration file to start from."""
    context = context_of(ctx)
    chosen = _chosen(provider)
    if chosen == "local" and provider is None and base_url is None:
        base_url = _asked("Where does it listen?", default=LOCAL_URL)
    text = render(chosen, model=model, base_url=base_url)
    if output == "-":
        context.printer.raw(text)
        return
    _write(Path(output).expanduser(), text, force=force)
    document = {"file": output, "provider": chosen, "environment": list(VARIABLES[chosen])}
    context.printer.emit(document, lambda: context.printer.line(f"wrote {output}"))
    if chosen == "local" and base_url is None:
        url = context.environ.get("LOCAL_AI_URL") or LOCAL_URL
        context.printer.say(f"it calls {url}; LOCAL_AI_URL in the environment or --base-url says otherwise")
    _say_what_is_next(context, chosen, output)


def _chosen(provider: str | None) -> str:
    if provider is None:
        if not sys.stdin.isatty():
            raise UsageError(
                "which provider? There is no terminal to ask on.", hint=f"--provider {'|'.join(CHOICES)}"
            )
        provider = _asked(f"Provider ({', '.join(CHOICES)})", default=CHOICES[0])
    if provider not in CHOICES:
        from aijobs.core.settings import closest

        near = closest(provider, CHOICES)
        hint = f"did you mean {near!r}?" if near else f"one of: {', '.join(CHOICES)}"
        raise UsageError(f"no such provider: {provider}", hint=hint)
    return provider


def _asked(question: str, *, default: str) -> str:
    return str(typer.prompt(question, default=default, err=True)).strip()


def _write(path: Path, text: str, *, force: bool) -> None:
    """All of the file or nothing; never over another one without being told to."""
    if path.exists() and not force:
        raise Conflict(f"{path} is there already", hint="--force overwrites it, --output names another")
    write_atomically(path, text)


def _say_what_is_next(context: Context, provider: str, output: str) -> None:
    missing = [name for name in VARIABLES[provider] if not context.environ.get(name)]
    for name in missing:
        context.printer.say(f"set {name} in the environment")
    named = "" if output == CONFIG_FILE else f" --config {output}"
    context.printer.say(f"next: aijobs{named} config check")
    context.printer.say(f"then: aijobs{named} db upgrade       (makes the store)")
    context.printer.say(f"      aijobs{named} doctor --probe   (asks the provider, by one free call)")
