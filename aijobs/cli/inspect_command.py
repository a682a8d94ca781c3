"""`aijobs inspect`: a list of jobs, or everything about one."""

import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aijobs.cli import words
from aijobs.cli.command import notes
from aijobs.cli.context import Context, context_of, unknown_type
from aijobs.cli.filters import ErrorClassFilter, Held, Statuses
from aijobs.cli.options import KeyFilter, Limit, Since, TypeFilter, UserFilter
from aijobs.cli.plain import instant
from aijobs.cli.printer import Printer
from aijobs.cli.shapes import execution_shape, job_detail_shape, row_shape
from aijobs.core.durations import format_duration
from aijobs.core.errors import UsageError, no_job
from aijobs.core.ids import is_id
from aijobs.core.model import Execution, Job
from aijobs.core.timeline import Moment, timeline
from aijobs.core.timeouts import Chosen
from aijobs.services.shapes import JOB_FIELDS, job_shape

if TYPE_CHECKING:
    from aijobs.store.jobs import Filter

LOOK_EVERY = 1.0
"""Seconds between two looks of --watch."""

_COLUMNS = ("ID", "TYPE", "USER", "STATUS", "ATTEMPTS", "NEXT", "LAST ERROR", "CREATED")


JobId = Annotated[str | None, typer.Argument(metavar="JOB", help="The id of one job.")]
After = Annotated[
    str | None, typer.Option("--after", metavar="CURSOR", help="Go on behind this cursor (an id).")
]
Watch = Annotated[bool, typer.Option("--watch", help="Show again whenever it has changed.")]
Reveal = Annotated[
    bool, typer.Option("--reveal", help="With JOB: show input and result, which may be private.")
]


@notes(
    "aijobs inspect --status failed --status dead_letter --since 2h",
    "aijobs inspect --held",
    "aijobs inspect 019b7d6e-… --reveal",
    "aijobs inspect 019b7d6e-… --watch",
    exits={0: "shown", 3: "no such job", 5: "the store cannot be reached"},
)
def inspect(
    ctx: typer.Context,
    job_id: JobId = None,
    status: Statuses = None,
    type_name: TypeFilter = None,
    user: UserFilter = None,
    key: KeyFilter = None,
    error_class: ErrorClassFilter = None,
    since: Since = None,
    held: Held = False,
    limit: Limit = 50,
    after: After = None,
    watch: Watch = False,
    reveal: Reveal = False,
) -> None:
    """List jobs, newest first, or show everything about one.

    A job of a type with `on_unknown_outcome: hold` is held when nobody knows whether its call was made: NEXT
    then says "held", and nothing happens until `aijobs retry JOB` lets it go on (the provider may do the work
    twice) or `aijobs cancel JOB` closes it.

    STATUS is pending, processing, failed, succeeded, dead_letter or cancelled. With --json a list is
    {jobs, next_cursor}; one job is {job, executions, timeline, input, result, timeout, notifications}, where
    timeout is how long one call of its type is given now, and why.
    """
    context = context_of(ctx)
    filters = (status, type_name, user, key, error_class, since, after)
    if job_id is not None:
        if held or any(value is not None for value in filters):
            raise UsageError("filters do not go with JOB")
        _show(context, watch=watch, look=lambda: _one(context, job_id, reveal=reveal))
        return
    if reveal:
        raise UsageError("--reveal goes with JOB only")
    if after is not None and not is_id(after):
        raise UsageError(
            f"--after: {after!r} is no cursor", hint="the page before ends with it (next_cursor)"
        )
    from aijobs.store.jobs import Filter

    wanted = Filter(
        statuses=tuple(status or ()),
        type=type_name,
        user=user,
        key=None if key is None else key.strip(),
        error_class=error_class,
        since=words.past(since, "--since", now=context.store.clock.now()),
        held=held,
    )
    _show(context, watch=watch, look=lambda: _list(context, wanted, limit=limit, after=after))


_View = tuple[dict[str, Any], Callable[[], object], bool]
"""The document, how to print it, and whether it is final."""


def _show(context: Context, *, watch: bool, look: Callable[[], _View]) -> None:
    document, plain, final = look()
    if not watch:
        context.printer.emit(document, plain)
        return
    context.printer.screen(document, plain)
    never = threading.Event()
    while not final:
        never.wait(LOOK_EVERY)
        seen = document
        document, plain, final = look()
        if document != seen:
            context.printer.screen(document, plain)


def _list(context: Context, wanted: "Filter", *, limit: int, after: str | None) -> _View:
    from aijobs.store.jobs import page

    with context.store.read() as tx:
        found = page(tx, wanted, limit + 1, after)  # one more tells whether there is more
    more = len(found) > limit
    found = found[:limit]
    cursor = found[-1].id if more else None
    document = {"jobs": [job_shape(job) for job in found], "next_cursor": cursor}

    def plain() -> None:
        if wanted.since:
            context.printer.say(f"created since {instant(wanted.since)}")
        context.printer.table(
            _COLUMNS, map(_row, found), empty="no jobs" + unknown_type(context, wanted.type)
        )
        if cursor:
            context.printer.say(f"there are more: --after {cursor}")

    return document, plain, False


def _row(job: Job) -> tuple[object, ...]:
    error = f"{job.last_error_class} {job.last_error_code or ''}".strip() if job.last_error_class else None
    attempts = f"{job.attempts}/{job.max_attempts}"
    when = "held" if job.hold_reason else job.next_run_at or job.locked_until
    return job.id, job.type, job.user, job.status, attempts, when, error, job.created_at


@dataclass(frozen=True, slots=True, kw_only=True)
class _Detail:
    """Everything about one job, read in one transaction."""

    job: Job
    executions: list[Execution]
    moments: list[Moment]
    notifications: list[dict[str, Any]]
    timeout: Chosen | None
    texts: dict[str, str | None]


def _one(context: Context, job_id: str, *, reveal: bool) -> _View:
    found = _detail(context, job_id)
    timeout = found.timeout
    document: dict[str, Any] = {
        "job": job_detail_shape(found.job),
        "executions": [execution_shape(one) for one in found.executions],
        "timeline": [asdict(moment) for moment in found.moments],
        **_bodies(found.texts, reveal=reveal),
        "timeout": timeout and {"seconds": timeout.value.total_seconds(), "reason": timeout.reason},
        "notifications": [row_shape(row, without=("job_id", "lock_token")) for row in found.notifications],
    }
    plain = partial(_print_one, context.printer, found, document, reveal=reveal)
    return document, plain, found.job.status.final


def _detail(context: Context, job_id: str) -> _Detail:
    from aijobs.services.time_limits import time_limit
    from aijobs.store import jobs

    with context.store.read() as tx:
        job = jobs.get(tx, job_id)
        if job is None:
            raise no_job(job_id)
        executions = jobs.executions_of(tx, job_id)
        notifications = jobs.notifications_of(tx, job_id)
        moments = timeline(
            job,
            executions=executions,
            events=jobs.events_of(tx, job_id),
            dead_letters=jobs.dead_letters_of(tx, job_id),
            notifications=notifications,
        )
        timeout = time_limit(tx, context.settings, job.type) if job.type in context.settings.types else None
        texts = {"input": jobs.payload_of(tx, job_id), "result": jobs.result_of(tx, job_id)}
    return _Detail(
        job=job, executions=executions, moments=moments, notifications=notifications, timeout=timeout,
        texts=texts,
    )  # fmt: skip


def _print_one(printer: Printer, found: _Detail, document: dict[str, Any], *, reveal: bool) -> None:
    job, timeout = found.job, found.timeout
    fields = document["job"].items()
    lines = [(name, value) for name, value in fields if name in JOB_FIELDS or value is not None]
    if timeout:
        lines.append(("timeout", f"{format_duration(timeout.value)} a call ({timeout.reason})"))
    printer.fields(lines)
    if job.hold_reason:
        printer.say(
            f"held for a person: aijobs retry {job.id} --reason ... lets it go on, "
            f"aijobs cancel {job.id} --reason ... closes it"
        )
    printer.section("attempts", len(found.executions))
    printer.table(_EXECUTIONS, [_execution(one) for one in document["executions"]])
    printer.section("timeline", len(found.moments))
    printer.table(("AT", "WHAT", "BY", "DETAIL"), [(m.at, m.what, m.actor, m.detail) for m in found.moments])
    for name, text in found.texts.items():
        hidden = "none" if text is None else f"hidden, {len(text)} characters; --reveal shows it"
        printer.section(name, None if reveal and text is not None else hidden)
        if reveal and text is not None:
            printer.body(text)


def _bodies(texts: dict[str, str | None], *, reveal: bool) -> dict[str, object]:
    import json

    bodies: dict[str, object] = {}
    for name, text in texts.items():
        bodies[name] = json.loads(text) if reveal and text is not None else None
        bodies[f"has_{name}"] = text is not None
    return bodies


_EXECUTIONS = (
    "ROUND",
    "ATTEMPT",
    "OUTCOME",
    "ERROR",
    "HTTP",
    "PROVIDER",
    "MODEL",
    "WORKER",
    "SECONDS",
    "TOKENS",
)


def _execution(one: dict[str, Any]) -> tuple[object, ...]:
    error = " ".join(part for part in (one["error_class"], one["error_code"]) if part) or None
    known = (one["input_tokens"], one["output_tokens"])
    tokens = None if known == (None, None) else "/".join("?" if n is None else str(n) for n in known)
    seconds = one["elapsed_seconds"]
    if seconds is None or one["provider_job_id"]:  # in the background the last call only asked after it
        seconds = (one["finished_at"] - one["started_at"]).total_seconds()
    attempt = f"{one['attempt']} (shadow)" if one["shadow"] else one["attempt"]
    provider = f"{one['provider']} (fallback)" if one["fallback"] else one["provider"]
    return (
        one["round"], attempt, one["outcome"], error, one["http_status"], provider, one["model"],
        one["worker"], f"{seconds:.2f}", tokens,
    )  # fmt: skip
