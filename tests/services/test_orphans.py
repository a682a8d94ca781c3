"""Work at a provider that nobody here has on record: found by its webhook, never paid for twice."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from aijobs.core.clock import Chance
from aijobs.core.lifecycle import Failed, Lost, Parked
from aijobs.core.log_events import LogEvent
from aijobs.core.model import NO_CALL, CallFacts, Done, ErrorClass, Failure, Job, Pending, Status, Usage
from aijobs.core.signature import sign
from aijobs.core.signing_key import decode_key
from aijobs.providers.contract import Adapter, Call, PollFailed
from aijobs.services.coordinator import Coordinator, Fate, Rescue, Settled
from aijobs.services.orphans import KEPT_FOR, PATIENCE, Orphans
from aijobs.services.sweeper import Sweeper
from aijobs.services.webhooks import Webhooks
from aijobs.services.worker.finder import look_once
from aijobs.store import deliveries, jobs
from aijobs.store.deliveries import Delivery
from aijobs.store.engine import Store
from tests.support.clock import ManualClock
from tests.support.jobs import (
    claim_one,
    claim_some,
    ended,
    fail,
    history,
    new_job,
    present,
    settings_of,
    succeed,
)
from tests.support.kept import count_unmatched
from tests.support.serving import SECRET, body_of
from tests.support.workers import Answer, Heard, Providers, ScriptedProvider

SETTINGS = settings_of(
    providers={
        "p": {"kind": "openai-responses", "api_key": "k", "webhook_secret": SECRET},
    },
    types={
        "t": {"provider": "p", "model": "m", "background": True},
        "held": {"provider": "p", "model": "m", "background": True, "on_unknown_outcome": "hold"},
    },
)
USAGE = Usage(input_tokens=11, output_tokens=22)


class Site:
    """A coordinator, its webhooks, and a provider that is asked after work."""

    def __init__(self, store: Store, clock: ManualClock, chance: Chance) -> None:
        self.store, self.clock = store, clock
        self.coordinator = Coordinator(store, SETTINGS, chance=chance)
        self.webhooks = Webhooks(self.coordinator, SETTINGS)
        self.log = Heard()
        self.orphans = Orphans(self.coordinator, log=self.log)

    def claimed(self, type_name: str = "t") -> Job:
        self.coordinator.enqueue(new_job(type=type_name), actor="test")
        return claim_one(self.coordinator)

    def lost(self, type_name: str = "t") -> Job:
        """A job whose worker died after its call: it failed, and waits to be tried again or for a person."""
        job = self.claimed(type_name)
        self.coordinator.finish([ended(job, Lost())])
        return present(self.store, job.id)

    def deliver(self, name: str = "wh_1", kind: str = "response.completed", work: str = "resp_1") -> str:
        body = body_of(kind, work)
        headers = sign(name, body, keys=[decode_key(SECRET)], now=self.clock.now())
        return self.webhooks.intake("p", headers, body).outcome

    def settle(self, answer: Answer) -> Settled:
        """Ask after the one delivery that is due."""
        self.clock.advance(PATIENCE)
        (delivery,) = self.orphans.due()
        reply = asyncio.run(self.orphans.look(delivery, ScriptedProvider(poll=lambda _: answer)))
        return self.orphans.settle(delivery, reply)

    def unmatched(self) -> int:
        with self.store.read() as tx:
            return count_unmatched(tx)

    def late(self, job_id: str) -> list[dict[str, Any]]:
        with self.store.read() as tx:
            return [one for one in jobs.events_of(tx, job_id) if one["kind"] == "late_outcome"]


@pytest.fixture
def site(store: Store, clock: ManualClock, chance: Chance) -> Site:
    return Site(store, clock, chance)


def facts(job: Job | None, work: str = "resp_1") -> CallFacts:
    return CallFacts(owner=job.id if job else None, provider_job_id=work, usage=USAGE)


def done(job: Job | None) -> Done:
    return Done(result='"done"', facts=facts(job))


def working(job: Job) -> Pending:
    return Pending(provider_job_id="resp_1", facts=facts(job))


def broken(job: Job) -> Failure:
    return Failure(error_class=ErrorClass.UNAVAILABLE, code="server_error", facts=facts(job))


@pytest.mark.parametrize("answer", [done, working])
@pytest.mark.parametrize("type_name", ["t", "held"])
def test_a_job_that_waits_takes_its_orphan_over_instead_of_paying_again(
    site: Site, answer: Callable[[Job], Answer], type_name: str
) -> None:
    job = site.lost(type_name)
    site.deliver()

    settled = site.settle(answer(job))
    (claim,) = claim_some(site.coordinator)

    assert settled == Settled(fate=Fate.ADOPTED, job_id=job.id)
    assert (claim.job.id, claim.resume, claim.job.provider_job_id) == (job.id, True, "resp_1")
    assert (claim.job.provider, claim.job.hold_reason) == ("p", None)
    assert succeed(site.coordinator, claim.job).applied
    assert [one["outcome"] for one in history(site.store, job.id)] == ["lost", "succeeded"]
    assert site.unmatched() == 0
    assert len(site.log.fields_of(LogEvent.ORPHAN_ADOPTED)) == 1


def test_a_second_delivery_of_the_same_work_changes_nothing(site: Site) -> None:
    job = site.lost()
    site.deliver()
    site.settle(done(job))
    adopted = present(site.store, job.id)

    assert site.deliver("wh_2") == "accepted"
    assert present(site.store, job.id).lock_token == adopted.lock_token


def test_two_who_look_at_once_adopt_once(site: Site) -> None:
    job = site.lost()
    site.deliver()
    site.clock.advance(PATIENCE)
    (delivery,) = site.orphans.due()

    first = site.coordinator.settle_delivery(delivery, done(job))
    second = site.coordinator.settle_delivery(delivery, done(job))

    assert (first.fate, second.fate) == (Fate.ADOPTED, Fate.KNOWN)
    assert present(site.store, job.id).attempts == 2


def test_two_who_look_at_once_note_a_late_outcome_once(site: Site) -> None:
    job = site.lost()
    site.deliver(kind="response.failed")
    site.clock.advance(PATIENCE)
    (delivery,) = site.orphans.due()

    fates = [site.coordinator.settle_delivery(delivery, broken(job)).fate for _ in range(2)]

    assert fates == [Fate.LATE, Fate.KNOWN]
    assert len(site.late(job.id)) == 1


def test_work_that_failed_is_noted_and_not_taken_over(site: Site) -> None:
    job = site.lost()
    site.deliver(kind="response.failed")

    settled = site.settle(broken(job))

    assert settled.fate is Fate.LATE
    assert present(site.store, job.id).status is Status.FAILED
    assert len(site.late(job.id)) == 1


def test_a_running_job_is_left_alone_and_looked_at_later(site: Site) -> None:
    job = site.claimed()
    site.deliver()

    settled = site.settle(done(job))
    at_once = site.orphans.due()
    site.clock.advance(timedelta(seconds=10))
    later = site.orphans.due()

    assert settled.fate is Fate.OPEN
    assert (at_once, len(later)) == ([], 1)
    assert present(site.store, job.id) == job


def test_what_came_after_a_cancel_is_noted_with_its_usage(site: Site) -> None:
    job = site.lost()
    site.coordinator.cancel(job.id, actor="ana", reason="enough")
    site.deliver()

    settled = site.settle(done(job))
    (event,) = site.late(job.id)

    assert settled.fate is Fate.LATE
    assert present(site.store, job.id).status is Status.CANCELLED
    detail = event["detail"] if isinstance(event["detail"], dict) else json.loads(event["detail"])
    assert detail == {
        "provider": "p", "provider_job_id": "resp_1", "outcome": "completed", "input_tokens": 11,
        "output_tokens": 22,
    }  # fmt: skip
    assert site.unmatched() == 0


@pytest.mark.parametrize("kind", ["response.completed", "response.failed"])
def test_known_work_that_completes_after_its_job_died_is_looked_at_for_what_it_cost(
    site: Site, kind: str
) -> None:
    job = site.claimed()
    parked = Parked(provider_job_id="resp_1", poll_at=site.clock.now())
    site.coordinator.save_provider_job_id(job, "resp_1", NO_CALL)
    site.coordinator.finish([ended(job, parked)])
    failed = Failure(error_class=ErrorClass.INVALID_REQUEST, facts=CallFacts(provider_job_id="resp_1"))
    site.coordinator.finish([ended(claim_one(site.coordinator), Failed(failure=failed))])

    assert site.deliver(kind=kind) == "accepted"
    assert site.unmatched() == (kind == "response.completed")
    if site.unmatched():
        assert site.settle(done(None)).fate is Fate.LATE
        assert len(site.late(job.id)) == 1
    assert present(site.store, job.id).status is Status.DEAD_LETTER


def test_the_ordinary_webhook_of_a_succeeded_job_needs_no_look(site: Site) -> None:
    job = site.claimed()
    site.coordinator.save_provider_job_id(job, "resp_1", NO_CALL)
    succeed(site.coordinator, job)

    assert site.deliver() == "accepted"
    assert site.unmatched() == 0


def test_work_of_nobody_is_asked_after_once_and_written_off_after_a_day(site: Site) -> None:
    site.deliver()

    settled = site.settle(done(None))
    site.clock.advance(KEPT_FOR - PATIENCE - timedelta(seconds=1))
    before = (site.orphans.due(), site.orphans.expire())
    site.clock.advance(timedelta(seconds=1))
    preview = site.orphans.expire(preview=True)
    expired = site.orphans.expire()

    assert settled.fate is Fate.UNKNOWN
    assert (before[0], before[1].found) == ([], 0)
    assert (preview.found, preview.repaired) == (1, 0)
    assert (expired.repaired, expired.ids) == (1, ("wh_1",))
    assert site.unmatched() == 0


def test_a_provider_that_cannot_be_asked_is_asked_again_with_growing_waits(site: Site) -> None:
    site.deliver()
    unreachable = PollFailed(failure=Failure(error_class=ErrorClass.NETWORK))
    waits = []

    for _ in range(4):
        site.settle(unreachable)
        began = site.clock.now()
        while not site.orphans.due():
            site.clock.advance(timedelta(seconds=1))
        waits.append((site.clock.now() - began).total_seconds())

    assert waits == sorted(waits)
    assert waits[-1] > 3 * waits[0]


def test_an_early_delivery_has_a_moment_before_it_is_asked_after(site: Site) -> None:
    site.deliver()
    site.clock.advance(PATIENCE - timedelta(seconds=1))

    assert site.orphans.due() == []


def test_one_pass_in_a_sweep_finds_orphans_and_writes_off_old_deliveries(site: Site) -> None:
    job = site.lost()
    site.deliver("wh_old", work="resp_old")
    site.clock.advance(KEPT_FOR)
    site.deliver()
    site.clock.advance(PATIENCE)
    provider = ScriptedProvider(poll=lambda _: done(job))

    def look(*, limit: int, preview: bool) -> Any:
        assert not preview
        return look_once(site.coordinator, Providers(provider), limit=limit, log=site.log)

    done_ = Sweeper(site.coordinator, orphans=look).sweep()

    assert done_["orphans"].ids == (job.id,)
    assert done_["deliveries"].found <= 1
    assert present(site.store, job.id).parked_at is not None


@dataclass
class Several(Providers):
    """A second provider, q, beside the one that has all other names."""

    other: Adapter | None = None

    def get(self, name: str) -> Adapter:
        return self.other if name == "q" and self.other else self.one


def look_once_at(site: Site, providers: Providers, *work: tuple[str, str]) -> Rescue:
    """One look at new deliveries, each given as (provider, id of the work)."""
    settings = settings_of(providers={name: {"kind": "simulator"} for name in ("p", "q")})
    now = site.clock.now()
    new = [
        Delivery(
            provider=provider, delivery_id=name, event_type="response.completed", provider_job_id=name,
            job_id=None, body_hash="x", outcome="unmatched", sent_at=None, received_at=now, handled_at=None,
        )
        for provider, name in work
    ]  # fmt: skip
    with site.store.write() as tx:
        deliveries.record(tx, new)
    site.clock.advance(PATIENCE)
    coordinator = Coordinator(site.store, settings, chance=site.coordinator.chance)
    return look_once(coordinator, providers, limit=10, log=site.log)


def test_a_provider_that_hangs_holds_up_no_other(site: Site) -> None:
    both = asyncio.Barrier(2)

    async def hang_until_the_other_is_asked(call: Call) -> Answer:
        async with asyncio.timeout(10):
            await both.wait()
        return done(None)

    provider, other = (ScriptedProvider(poll=hang_until_the_other_is_asked) for _ in range(2))

    found = look_once_at(site, Several(provider, other=other), ("p", "resp_1"), ("q", "resp_2"))

    assert (found.found, provider.count("poll"), other.count("poll")) == (2, 1, 1)


def test_a_provider_that_does_not_answer_is_asked_nothing_more_in_that_look(site: Site) -> None:
    def time_out(call: Call) -> Answer:
        site.clock.advance(seconds=30)
        return PollFailed(failure=Failure(error_class=ErrorClass.NETWORK))

    provider = ScriptedProvider(poll=time_out)

    found = look_once_at(site, Providers(provider), ("p", "resp_1"), ("p", "resp_2"), ("p", "resp_3"))

    assert (found.found, provider.count("poll")) == (1, 1)


def test_a_retry_that_failed_meanwhile_does_not_hide_the_orphan(site: Site) -> None:
    job = site.lost()
    site.deliver()
    site.clock.advance(timedelta(minutes=2))
    fail(site.coordinator, claim_one(site.coordinator), ErrorClass.NETWORK)

    assert site.settle(done(job)).fate is Fate.ADOPTED
