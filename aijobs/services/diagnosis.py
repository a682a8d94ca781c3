"""Takes the snapshots that `core/diagnosis` looks at, each in one transaction that only reads."""

from aijobs.core.diagnosis import (
    DeliverySeen,
    Diagnosis,
    JobSnapshot,
    NotificationSeen,
    SystemSnapshot,
    diagnose_job,
    diagnose_system,
)
from aijobs.core.errors import no_job
from aijobs.core.limits import Running
from aijobs.core.settings import Settings
from aijobs.services.coordinator.claiming import limits_of
from aijobs.services.provider_desk import ProviderDesk
from aijobs.services.statistics import Statistics, provider_seen, workers_seen
from aijobs.store import backlog, claims, deliveries, jobs, switches
from aijobs.store.condition import condition_of
from aijobs.store.engine import Store, Tx

_FAILURES = 50
"""So many of the latest are looked through for what a provider that is not called died of."""
_NOTIFICATION = tuple(NotificationSeen.__dataclass_fields__)


class Diagnosing:
    """Finds the layer at fault."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store = store
        self.settings = settings

    def job(self, job_id: str) -> Diagnosis:
        """Why that job is where it is. Raises NotFound, StoreError."""
        with self.store.read() as tx:
            return diagnose_job(self._snapshot(tx, job_id))

    def system(self) -> Diagnosis:
        """How the whole is. Raises StoreError."""
        now = self.store.clock.now()
        with self.store.read() as tx:
            overview = Statistics(self.store, self.settings).look(tx, now)
            failures, running = backlog.failures(tx, _FAILURES), self._running(tx)
        return diagnose_system(
            SystemSnapshot(
                overview=overview,
                failures=failures,
                limits=limits_of(self.settings),
                running=running,
                settings=self.settings,
                store=self.store.location,
                skew_seconds=condition_of(self.store).skew_seconds,
            )
        )

    def _running(self, tx: Tx) -> list[Running]:
        return claims.running(tx, parked=self.settings.concurrency.parked == "counted")

    def _snapshot(self, tx: Tx, job_id: str) -> JobSnapshot:
        job = jobs.get(tx, job_id)
        if job is None:
            raise no_job(job_id)
        now = self.store.clock.now()
        executions = jobs.executions_of(tx, job_id)
        known = {one.provider_job_id for one in executions} | {job.provider_job_id}
        told = [
            {name: row[name] for name in _NOTIFICATION}
            for row in jobs.notifications_of(tx, job_id)
            if row["round"] == job.round
        ]
        return JobSnapshot(
            now=now,
            job=job,
            settings=self.settings,
            limits=limits_of(self.settings),
            has_result=jobs.has_result(tx, job_id),
            running=self._running(tx),
            providers=[provider_seen(one) for one in ProviderDesk(self.store, self.settings).look(tx, now)],
            workers=workers_seen(tx, now, self.settings.worker.lease),
            switches=switches.in_force(tx, now),
            executions=executions,
            deliveries=[
                DeliverySeen(
                    outcome=one.outcome,
                    received_at=one.received_at,
                    event_type=one.event_type,
                    job_id=one.job_id,
                )
                for one in deliveries.about(tx, [name for name in known if name])
            ],
            notifications=[NotificationSeen(**one) for one in told],
        )
