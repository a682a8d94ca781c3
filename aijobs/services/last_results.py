"""The last result of a user and type, marked with its age: asked for, or standing in while that is on.

A result is *stale* when a newer job of the same user and type was accepted after it. A stale one is given
only where the type's configuration allows it, never older than it says, and never without its age.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from aijobs.core.durations import format_duration
from aijobs.core.errors import Conflict, NotFound
from aijobs.core.model import Job, Status
from aijobs.core.settings import Settings
from aijobs.core.switches import SwitchKind, types_of
from aijobs.services.waiting import find
from aijobs.store import last_results, switches
from aijobs.store.engine import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class LastResult:
    """A result of an earlier job; *result* is JSON text, `value` what it says."""

    job_id: str
    result: str
    finished_at: datetime
    age: timedelta
    stale: bool

    @property
    def value(self) -> Any:
        """The result as the JSON value it is."""
        return json.loads(self.result)


class LastResults:
    """Looks for last results in one store, by one configuration."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store = store
        self.settings = settings

    def find(self, type_name: str, user: str, *, stale_ok: bool) -> LastResult:
        """The last result. With *stale_ok* also one that newer jobs were accepted after.

        Raises NotFound (no such type, no result, or only one too old) and Conflict (stale, and the type does
        not allow it).
        """
        rules = self.settings.type(type_name).stale_results
        if stale_ok and not rules.allowed:
            raise Conflict(
                f"stale results are not allowed for type {type_name}",
                hint=f"set types.{type_name}.stale_results.allowed in the configuration",
            )
        found = self._look(type_name, user)
        whose = f"of type {type_name} for {user or 'nobody in particular'}"
        if found is None:
            ask = "" if user else "--user says whose it is; "
            hint = f"{ask}nothing has succeeded yet, or retention has dropped it"
            raise NotFound(f"no result {whose}", hint=hint)
        if not found.stale:
            return found
        if not stale_ok:
            wait = f"'aijobs inspect --type {type_name} --limit 1' shows how the newer one is"
            hint = "--stale-ok takes the older one" if rules.allowed else wait
            raise NotFound(
                f"no current result {whose}: a newer job was accepted after the last one", hint=hint
            )
        if found.age > rules.max_age:
            raise NotFound(
                f"the last result {whose} is {_words(found.age)} old; "
                f"{format_duration(rules.max_age)} is allowed"
            )
        return found

    def of_job(self, job_id: str) -> tuple[Job, LastResult]:
        """The result of that one job, however old it is: whoever names a job means it.

        Raises NotFound: there is no such job, or it has no result.
        """
        job = find(self.store, job_id)
        with self.store.read() as tx:
            success = last_results.success_of(tx, job_id)
            newest = last_results.newest(tx, job.type, job.user)
        if success is None:
            why = "retention has dropped it" if job.status is Status.SUCCEEDED else f"it is {job.status}"
            raise NotFound(f"job {job_id} has no result: {why}", hint=f"`aijobs diagnose {job_id}` says more")
        return job, self._aged(success, newest)

    def stand_in(self, job: Job) -> LastResult | None:
        """What may stand in for the result that *job* does not have yet, while the type's switch is on."""
        return self.stand_ins([job]).get(job.id)

    def stand_ins(self, jobs: Iterable[Job]) -> Mapping[str, LastResult]:
        """As `stand_in`, of many jobs, by their ids: one look for each user and type."""
        waiting = [job for job in jobs if self._allowed(job.type) and not job.status.final]
        if not waiting:
            return {}
        with self.store.read() as tx:
            now = self.store.clock.now()
            on = types_of(switches.in_force(tx, now), SwitchKind.STALE_RESULTS, now)
        wanted = {(job.type, job.user) for job in waiting if job.type in on}
        found = {key: self._look(*key) for key in sorted(wanted)}
        return {
            job.id: last for job in waiting
            if (last := found.get((job.type, job.user))) is not None
            and last.age <= self.settings.types[job.type].stale_results.max_age
        }  # fmt: skip

    def _allowed(self, type_name: str) -> bool:
        kind = self.settings.types.get(type_name)
        return kind is not None and kind.stale_results.allowed

    def _look(self, type_name: str, user: str) -> LastResult | None:
        with self.store.read() as tx:
            newest = last_results.newest(tx, type_name, user)
            current = last_results.success_of(tx, newest) if newest else None
            found = current or last_results.last_success(tx, type_name, user)
        return None if found is None else self._aged(found, newest)

    def _aged(self, found: last_results.Success, newest: str | None) -> LastResult:
        age = max(self.store.clock.now() - found.finished_at, timedelta(0))
        return LastResult(
            job_id=found.job_id, result=found.result, finished_at=found.finished_at, age=age,
            stale=newest != found.job_id,
        )  # fmt: skip


def _words(age: timedelta) -> str:
    return format_duration(timedelta(seconds=round(age.total_seconds())))
