"""What became of the attempts of one worker: counted, and told to the log."""

from collections import Counter
from datetime import timedelta

from aijobs.core.clock import Clock
from aijobs.core.lifecycle import Abandoned, Move, Parked, Succeeded
from aijobs.core.log_events import Log, LogEvent
from aijobs.core.model import Job, Status
from aijobs.services.coordinator import Claim, Ended, Finished
from aijobs.services.coordinator.values import BreakerChange
from aijobs.services.worker.leases import Key
from aijobs.services.worker.options import WorkerReport

_E = LogEvent


class Tally:
    """Running totals of one worker."""

    def __init__(self, worker: str, *, clock: Clock, log: Log) -> None:
        self._worker = worker
        self._clock = clock
        self._log = log
        self._count: Counter[str] = Counter()

    def report(self, *, stopped_by: str | None = None) -> WorkerReport:
        """The totals so far."""
        return WorkerReport(worker=self._worker, stopped_by=stopped_by, **self._count)

    def claimed(self, claim: Claim) -> None:
        """A job was leased to this worker to be started."""
        self._count["claimed"] += 1
        if self._log.wants(_E.JOB_CLAIMED):
            self._say(_E.JOB_CLAIMED, claim.job)
        self._breaker(claim.job, claim.breaker)

    def lost(self, key: Key, why: str) -> None:
        """A lease was gone before its attempt ended."""
        self._count["lost"] += 1
        self._log.emit(_E.LEASE_LOST, job=key[0], fence=key[1], why=why)

    def settled(self, ended: Ended, finished: Finished) -> None:
        """The end of an attempt was written, or refused because the lease is gone."""
        if not finished.applied:
            self.lost((ended.job.id, ended.job.lock_token), "its end came too late")
            return
        match finished.status:
            case Status.SUCCEEDED:
                self._succeeded(ended)
            case Status.FAILED:
                self._failed(ended.job, finished.move)
            case Status.DEAD_LETTER:
                self._dead(ended.job, finished.move)
            case Status.CANCELLED:
                self._count["cancelled"] += 1
                self._say(_E.JOB_CANCELLED, ended.job)
            case _:
                self._left_open(ended)
        self._breaker(ended.job, finished.breaker)

    def _breaker(self, job: Job, change: BreakerChange | None) -> None:
        """One line a change, at the worker whose call made it."""
        if change is not None:
            self._log.emit(
                change.event, provider=change.provider, why=change.why, until=change.until, job=job.id
            )

    def _succeeded(self, ended: Ended) -> None:
        self._count["succeeded"] += 1
        if self._log.wants(_E.JOB_SUCCEEDED):
            took = max(self._clock.now() - ended.started_at, timedelta(0))
            tokens = ended.end.facts.usage if isinstance(ended.end, Succeeded) else None
            self._say(
                _E.JOB_SUCCEEDED, ended.job, seconds=took,
                input_tokens=tokens and tokens.input_tokens, output_tokens=tokens and tokens.output_tokens,
            )  # fmt: skip

    def _failed(self, job: Job, move: Move | None) -> None:
        self._count["failed"] += 1
        event = _E.JOB_HELD if move is not None and move.hold else _E.JOB_RETRY
        self._say(event, job, **_why(move), next_at=move.next_run_at if move else None)

    def _dead(self, job: Job, move: Move | None) -> None:
        self._count["dead_letter"] += 1
        self._say(_E.JOB_DEAD_LETTER, job, **_why(move), reason=move.reason if move else None)

    def _left_open(self, ended: Ended) -> None:
        match ended.end:
            case Parked(provider_job_id=provider_job_id, poll_at=poll_at):
                if self._log.wants(_E.JOB_PARKED):
                    self._say(_E.JOB_PARKED, ended.job, provider_job_id=provider_job_id, next_at=poll_at)
            case Abandoned(reason=reason):
                self._count["handed_back"] += 1
                self._say(_E.JOB_HANDED_BACK, ended.job, reason=reason)
            case _:
                pass

    def _say(self, event: LogEvent, job: Job, **more: object) -> None:
        self._log.emit(event, level=None, job=job.id, type=job.type, attempt=job.attempts, **more)


def _why(move: Move | None) -> dict[str, object]:
    failure = move.failure if move else None
    return {
        "error_class": failure.error_class.value if failure else None,
        "error_code": failure.code if failure else None,
    }
