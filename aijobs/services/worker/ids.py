"""What our calls are named by: one id an attempt, one key a series of attempts."""

from aijobs.core.model import Job


def client_request_id(job: Job) -> str:
    """`aijobs-<job>-<attempt>`: sent with the call and kept with the attempt, to match a provider's log."""
    return f"aijobs-{job.id}-{job.attempts}"


def idempotency_key(job: Job) -> str:
    """The same for every attempt of one round: a provider that honours it does the work once.

    A replay is meant to do the work anew, so it has a key of its own.
    """
    return f"aijobs-{job.id}" if job.round == 1 else f"aijobs-{job.id}-r{job.round}"


def traceparent_as_given(job: Job) -> str | None:
    """Where a job's calls belong in a trace when nobody traces here: where the job itself does."""
    return job.traceparent
