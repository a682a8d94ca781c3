"""`aijobs enqueue`: accept one job, or many from a file."""

import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aijobs.cli import words
from aijobs.cli.command import notes
from aijobs.cli.context import Context, context_of
from aijobs.cli.inputs import read_input
from aijobs.cli.options import Actor
from aijobs.core.durations import format_duration
from aijobs.core.errors import Interrupted, UsageError
from aijobs.core.model import Job, NewJob, Status
from aijobs.services.shapes import enqueued_shape
from aijobs.services.submission import Request, new_job, poll_after

if TYPE_CHECKING:
    from aijobs.services.coordinator import Enqueued
    from aijobs.services.last_results import LastResult


TypeName = Annotated[str | None, typer.Argument(metavar="TYPE", help="The job type.")]
Dash = Annotated[str | None, typer.Argument(metavar="-", help="Read the input from stdin.")]
InputText = Annotated[
    str | None, typer.Option("--input", metavar="JSON", help="The input, a JSON object; {} if left out.")
]
InputFile = Annotated[
    str | None, typer.Option("--input-file", metavar="FILE", help="Read the input from a file.")
]
Key = Annotated[
    str | None,
    typer.Option("--key", metavar="KEY", help="Idempotency key: one job a (user, type, key)."),
]
ForUser = Annotated[str | None, typer.Option("--user", metavar="USER", help="For whom.")]
Priority = Annotated[
    int | None, typer.Option("--priority", metavar="N", help="Higher goes first (-1000 to 1000; its type's).")
]
Delay = Annotated[
    str | None, typer.Option("--delay", metavar="D", help="Not before this time has passed: 90s, 1h30m.")
]
NotBefore = Annotated[
    str | None, typer.Option("--at", metavar="T", help="Not before this time: ISO 8601, UTC if no zone.")
]
Deadline = Annotated[
    str | None,
    typer.Option("--deadline", metavar="D", help="Give up after this time: 2h, or ISO 8601 (its type's)."),
]
MaxAttempts = Annotated[
    int | None,
    typer.Option("--max-attempts", metavar="N", help="Attempts before it is given up (its type's)."),
]
RequestId = Annotated[
    str | None, typer.Option("--request-id", metavar="R", help="Your own id of this request.")
]
JsonLines = Annotated[
    str | None,
    typer.Option("--jsonl", metavar="FILE", help="Many jobs, one JSON object a line; - reads stdin."),
]
KeepGoing = Annotated[
    bool, typer.Option("--keep-going", help="With --jsonl: take the good lines, leave out the others.")
]
Wait = Annotated[bool, typer.Option("--wait", help="Wait for the end and print the result.")]
Timeout = Annotated[
    str | None,
    typer.Option(
        "--timeout", metavar="D", help="With --wait: no longer than this, as 2m. Else: till it ends."
    ),
]


@notes(
    """aijobs enqueue demo --input '{"text": "hello"}' --key order-7781 --user ana""",
    "aijobs enqueue summarize --input-file article.json --wait --timeout 2m",
    "aijobs enqueue --jsonl jobs.jsonl",
    exits={
        0: "accepted, or its key was known already (the same job is named); with --wait: it succeeded",
        1: "with --wait: it did not succeed in time; with --keep-going: some lines were left out",
        3: "no such job type",
        4: "the key belongs to a job with another input, or to one that died or was cancelled",
        5: "the store cannot be reached",
    },
)
def enqueue(
    ctx: typer.Context,
    type_name: TypeName = None,
    dash: Dash = None,
    value: InputText = None,
    input_file: InputFile = None,
    key: Key = None,
    user: ForUser = None,
    priority: Priority = None,
    delay: Delay = None,
    at: NotBefore = None,
    deadline: Deadline = None,
    max_attempts: MaxAttempts = None,
    request_id: RequestId = None,
    jsonl: JsonLines = None,
    keep_going: KeepGoing = False,
    wait: Wait = False,
    timeout: Timeout = None,
    actor: Actor = None,
) -> int:
    """Accept a job, or many from a file.

    A key makes it safe to ask again: within a user and a type, the same key with the same input names the
    job that exists already. Keys are trimmed, compared by case and in Unicode NFC, and at most 255 characters
    long.

    While stale results are switched on for the type, the JSON answer also carries the user's last result as
    `stale_result`, with its age; `result` is never an old one.

    A line of --jsonl has the names type, input, key, user, priority, delay, at, deadline, max_attempts,
    request_id and traceparent. What it leaves out is taken from the options. All lines are taken or none,
    unless --keep-going.

    TRACEPARENT in the environment (W3C trace context) says in which trace the job belongs; it is kept, sent
    with each call, and shown by inspect.
    """
    context = context_of(ctx)
    given = _given(context, type=type_name, user=user, priority=priority, delay=delay, at=at,
                   deadline=deadline, max_attempts=max_attempts)  # fmt: skip
    if jsonl is not None:
        _alone("--jsonl", {"--input": value, "--input-file": input_file, "-": dash, "--key": key,
                           "--request-id": request_id, "--wait": wait or None})  # fmt: skip
        from aijobs.cli.bulk import enqueue_lines

        return enqueue_lines(context, jsonl, given, actor=context.actor(actor), keep_going=keep_going)
    limit = _limit_of_one(type_name, timeout, keep_going=keep_going, wait=wait)
    body = read_input(value, input_file, dash, limits=context.settings.limits, printer=context.printer)
    request = Request(input=body, key=key, request_id=request_id, **given)
    return _enqueue_one(context, request, actor=context.actor(actor), wait=wait, timeout=limit)


def _given(
    context: Context, *, delay: str | None, at: str | None, deadline: str | None, **plain: object
) -> dict[str, Any]:
    """What was said of the job or jobs, by the names of a Request; what was not said is left out."""
    options = plain | {
        "delay": words.duration(delay, "--delay"),
        "at": words.instant(at, "--at"),
        "deadline": words.duration_or_instant(deadline, "--deadline"),
        "traceparent": context.environ.get("TRACEPARENT"),
    }
    return {name: option for name, option in options.items() if option is not None}


def _limit_of_one(
    type_name: str | None, timeout: str | None, *, keep_going: bool, wait: bool
) -> timedelta | None:
    """How long to wait for the end of a single job; None: till it comes, or not at all."""
    if type_name is None:
        raise UsageError("the job type is missing", hint="aijobs enqueue TYPE, or --jsonl FILE")
    limit = words.duration(timeout, "--timeout")
    if keep_going:
        raise UsageError("--keep-going goes with --jsonl only")
    if timeout is not None and not wait:
        raise UsageError("--timeout goes with --wait only")
    return limit


def _enqueue_one(
    context: Context, request: Request, *, actor: str, wait: bool, timeout: timedelta | None
) -> int:
    new_job(request, context.settings, now=context.clock.now())  # refused before a store is made for it
    store = context.create_store()
    new = new_job(request, context.settings, now=store.clock.now())
    answer = _accepted(context, new, actor=actor)
    job, result = answer.job, answer.result
    if wait:
        job = _wait(context, job, timeout)
        with store.read() as tx:
            from aijobs.store.jobs import result_of

            result = result_of(tx, job.id)
    stale = _stand_in(context, job)
    _print(context, job, duplicate=answer.duplicate, result=result, waited=wait, stale=stale)
    return 0 if not wait or job.status is Status.SUCCEEDED else 1


def _accepted(context: Context, new: NewJob, *, actor: str) -> "Enqueued":
    """The answer of the store. Ctrl-C may come while it commits, and then nobody has heard it."""
    try:
        return context.coordinator.enqueue(new, actor=actor)
    except KeyboardInterrupt:
        if new.key is None:
            hint = f"look before you ask again: aijobs inspect --type {new.type}"
        else:
            hint = "its key makes it safe to run the command again"
        raise Interrupted("interrupted; the job may have been accepted", hint=hint) from None


def _stand_in(context: Context, job: Job) -> "LastResult | None":
    """An earlier result, while stale results are switched on for the type."""
    if not context.settings.type(job.type).stale_results.allowed:
        return None
    from aijobs.services.last_results import LastResults

    return LastResults(context.store, context.settings).stand_in(job)


def _wait(context: Context, job: Job, timeout: timedelta | None) -> Job:
    from aijobs.services.waiting import find, wait_until_final

    context.printer.say(f"waiting for job {job.id}; Ctrl-C ends the waiting, not the job")
    try:
        return wait_until_final(context.store, job.id, timeout=timeout)
    except TimeoutError:
        return find(context.store, job.id)


def _print(
    context: Context, job: Job, *, duplicate: bool, result: str | None, waited: bool,
    stale: "LastResult | None",
) -> None:  # fmt: skip
    printer = context.printer
    after = poll_after(job, context.settings, now=context.clock.now())
    printer.emit(
        enqueued_shape(job, duplicate=duplicate, poll_after=after, result=result, stale=stale),
        lambda: printer.line(job.id),
    )
    if stale is not None and not printer.json:
        old = format_duration(timedelta(seconds=round(stale.age.total_seconds())))
        printer.warn(f"stale results are on: job {stale.job_id} has one, {old} old; see aijobs result")
    if duplicate:
        printer.say(
            f"the key was known: this is job {job.id} ({job.status}), created {job.created_at:%F %T}Z"
        )
    if waited and result is not None and not printer.json:
        printer.body(result)
    elif waited and job.status is not Status.SUCCEEDED:
        why = f": {job.last_error_class}" if job.last_error_class else ""
        printer.warn(f"job {job.id} is {job.status}{why}; see aijobs diagnose {job.id}")
    elif not duplicate and after is not None and sys.stderr.isatty():
        printer.say(f"{job.type} job accepted; see aijobs inspect {job.id}")


def _alone(option: str, others: dict[str, object]) -> None:
    """Refuse options that make no sense beside *option*."""
    for name, value in others.items():
        if value is not None:
            raise UsageError(f"{name} does not go with {option}")
