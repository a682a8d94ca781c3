"""Everything about one job at one moment, as a value."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from aijobs.core.limits import Limits, Running
from aijobs.core.model import Execution, Job, Status
from aijobs.core.overview import ProviderSeen, WorkerSeen
from aijobs.core.settings import Settings
from aijobs.core.switches import Switch, SwitchKind, types_of


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverySeen:
    """A webhook delivery about the job: when it came, and whether it found the job."""

    outcome: str
    received_at: datetime
    event_type: str = ""
    job_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationSeen:
    """A notification about the end of the job."""

    target: str
    event: str
    state: str
    attempts: int
    next_run_at: datetime | None
    http_status: int | None
    created_at: datetime
    delivered_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSnapshot:
    """What the checks look at, read in one transaction."""

    now: datetime
    job: Job
    settings: Settings
    limits: Limits
    has_result: bool
    running: Sequence[Running] = ()
    providers: Sequence[ProviderSeen] = ()
    workers: Sequence[WorkerSeen] = ()
    switches: Sequence[Switch] = ()
    executions: Sequence[Execution] = ()
    deliveries: Sequence[DeliverySeen] = ()
    notifications: Sequence[NotificationSeen] = ()

    @property
    def waiting(self) -> bool:
        """Whether the job waits to be claimed; one that waits for a person does not."""
        return self.job.status in (Status.PENDING, Status.FAILED) and self.job.hold_reason is None

    @property
    def background(self) -> bool:
        """Whether a provider works on it by itself."""
        return self.job.status is Status.PROCESSING and self.job.provider_job_id is not None

    @property
    def provider_name(self) -> str | None:
        """The provider its next attempt would go to: that of the fallback while it is switched on."""
        kind = self.settings.types.get(self.job.type)
        on_fallback = self.job.type in types_of(self.switches, SwitchKind.FALLBACK, self.now)
        return kind.route(fallback=on_fallback)[0] if kind else None

    @property
    def provider(self) -> ProviderSeen | None:
        """What is known of the provider its next attempt would go to."""
        return next((one for one in self.providers if one.name == self.provider_name), None)

    @property
    def last(self) -> Execution | None:
        """Its latest attempt that has ended; shadows aside."""
        return next((one for one in reversed(self.executions) if not one.shadow), None)
