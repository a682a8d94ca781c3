"""A share of the jobs that succeeded also goes to a candidate: beside the work, and never in its way.

Begun only when the real result is saved. Few at a time, and when there are more they are left out; given up
when the worker stops. A candidate that is unwell is left alone.
"""

import asyncio
from dataclasses import replace

from aijobs.core.clock import Clock
from aijobs.core.errors import AijobsError, StoreError
from aijobs.core.lifecycle import AttemptEnd, Failed, Succeeded
from aijobs.core.log_events import Log, LogEvent
from aijobs.core.model import Done, ErrorClass, Failure, Job, Pending
from aijobs.core.settings import Settings, ShadowSettings
from aijobs.core.shadowing import sampled
from aijobs.services.coordinator import Claim
from aijobs.services.shadowing import Shadowing
from aijobs.services.worker.calls import Calls
from aijobs.services.worker.lane import Lane
from aijobs.services.worker.leases import Key, key_of

MOST = 10
"""Shadow calls of one worker at once."""


class Shadows:
    """The shadow calls of one worker. Belongs to the event loop."""

    def __init__(
        self, settings: Settings, *, shadowing: Shadowing, calls: Calls, lane: Lane, clock: Clock, log: Log,
        worker: str,
    ) -> None:  # fmt: skip
        self.tasks: set[asyncio.Task[None]] = set()
        self._settings = settings
        self._shadowing = shadowing
        self._calls = calls
        self._lane = lane
        self._clock = clock
        self._log = log
        self._worker = worker
        self._kept: dict[Key, Claim] = {}
        self._closed = False

    def configure(self, settings: Settings) -> None:
        """Go by new settings from now on."""
        self._settings = self._shadowing.settings = settings

    def keep(self, claim: Claim, end: AttemptEnd) -> None:
        """An attempt has ended; what a shadow call of it needs is kept until its end is saved."""
        shadow = self._shadow_of(claim.job)
        if isinstance(end, Succeeded) and shadow is not None and sampled(claim.job.id, shadow.share):
            self._kept[key_of(claim.job)] = claim

    def settled(self, key: Key, end: AttemptEnd, *, applied: bool) -> None:
        """Its end was saved, or refused."""
        claim = self._kept.pop(key, None)
        if claim is None or not applied or self._closed or len(self.tasks) >= MOST:
            return
        shadow = self._shadow_of(claim.job)
        if shadow is not None and isinstance(end, Succeeded):
            task = asyncio.get_running_loop().create_task(self._run(claim, shadow, end.result))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    def close(self) -> None:
        """Give up what is under way and begin no more."""
        self._closed = True
        for task in self.tasks:
            task.cancel()

    async def _run(self, claim: Claim, shadow: ShadowSettings, real: str) -> None:
        job = replace(claim.job, provider=shadow.provider, model=shadow.model, provider_job_id=None)
        try:
            if await self._lane.run(lambda: self._shadowing.is_well(shadow.provider)):
                await self._ask(replace(claim, job=job), shadow, real)
        except StoreError:
            self._log.emit(LogEvent.SHADOW_LEFT_OUT, job=job.id, why="the store is away")
        except AijobsError as fault:
            self._log.emit(LogEvent.SHADOW_LEFT_OUT, job=job.id, why=type(fault).__name__)

    async def _ask(self, claim: Claim, shadow: ShadowSettings, real: str) -> None:
        began, call = self._clock.now(), self._calls.shadow_call(claim, shadow)
        adapter = self._calls.adapter_of(claim.job)
        reply = await adapter.submit(call)
        if isinstance(reply, Pending):
            await adapter.cancel(call, reply.provider_job_id)
            reply = Failure(
                error_class=ErrorClass.BAD_RESPONSE, code="pending", maybe_billed=True, facts=reply.facts,
                message="the candidate answers in the background only",
            )  # fmt: skip
        end = (
            Succeeded(result=reply.result, facts=reply.facts)
            if isinstance(reply, Done)
            else Failed(failure=reply)
        )
        await self._lane.run(
            lambda: self._shadowing.record(
                claim.job, end, real=real, worker=self._worker, started_at=began,
                client_request_id=call.client_request_id,
            )
        )  # fmt: skip

    def _shadow_of(self, job: Job) -> ShadowSettings | None:
        kind = self._settings.types.get(job.type)
        return kind.shadow if kind is not None else None
