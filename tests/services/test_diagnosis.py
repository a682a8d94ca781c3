"""Staged faults on both databases: each is told by its right layer, with evidence and a next step."""

from datetime import timedelta

import pytest
from sqlalchemy import delete

from aijobs.core.diagnosis import Layer
from aijobs.core.lifecycle import Parked
from aijobs.core.model import CallFacts, ErrorClass
from aijobs.core.switches import ALL, BELOW_PRIORITY, Switch, SwitchKind
from aijobs.services.coordinator import Coordinator
from aijobs.services.diagnosis import Diagnosing
from aijobs.services.provider_desk import ProviderDesk
from aijobs.store import history, workers
from aijobs.store.deliveries import Delivery, record
from aijobs.store.tables import job_results
from tests.support.jobs import claim_one, claim_some, ended, fail, new_job, settings_of, succeed

SECRET = "whsec_" + "QUJD" * 8
SECTIONS = {
    "providers": {
        "p": {"kind": "python", "callable": "builtins:str"},
        "bg": {"kind": "openai-responses", "api_key": "sk-x", "webhook_secret": SECRET, "concurrency": 1},
    },
    "types": {
        "t": {"provider": "p", "per_user": 1, "tier": "complex"},
        "one": {"provider": "p", "concurrency": 1},
        "careful": {"provider": "p", "on_unknown_outcome": "hold"},
        "b": {"provider": "bg", "background": True},
    },
    "notify": {"ops": {"kind": "log"}},
}


class Stage:
    """A store with a live worker, on which a fault is staged."""

    def __init__(self, store, clock, chance) -> None:
        self.store, self.clock, self.chance = store, clock, chance
        self.settings = settings_of(**SECTIONS)
        self.coordinator = Coordinator(store, self.settings, chance=chance)
        self.worker()

    def worker(self, types=None, name="w1") -> None:
        with self.store.write() as tx:
            workers.register(
                tx, name=name, host="h", pid=1, version="1", concurrency=5, types=types, now=self.clock.now()
            )

    def job(self, kind="t", **changes) -> str:
        new = new_job(self.chance.random(), type=kind, **changes)
        return self.coordinator.enqueue(new, actor="shop").job.id

    def running(self, kind="t", **changes):
        self.job(kind, **changes)
        return claim_one(self.coordinator)

    def throw(self, scope, value="on", lasting=None) -> None:
        from aijobs.store import switches

        switch = Switch(
            kind=SwitchKind.PAUSE, scope=scope, value=value, actor="ana", reason="maintenance",
            set_at=self.clock.now(), expires_at=self.clock.now() + lasting if lasting else None,
        )  # fmt: skip
        with self.store.write() as tx:
            switches.throw(tx, switch)

    def park(self, poll_in=timedelta(hours=9)):
        job = self.running("b")
        end = Parked(
            provider_job_id="resp_1", poll_at=self.clock.now() + poll_in, facts=CallFacts(provider="bg")
        )
        self.coordinator.finish([ended(job, end)])
        return job.id

    def deliver(self, *, job_id: str | None) -> None:
        now = self.clock.now()
        delivery = Delivery(
            provider="bg", delivery_id="msg_1", event_type="response.completed", provider_job_id="resp_1",
            job_id=job_id, body_hash="x", outcome="accepted" if job_id else "unmatched", sent_at=now,
            received_at=now, handled_at=now if job_id else None,
        )  # fmt: skip
        with self.store.write() as tx:
            record(tx, [delivery])

    def notify(self, job_id: str, **changes) -> None:
        row = {
            "id": "n1", "job_id": job_id, "round": 1, "target": "ops", "event": "succeeded",
            "state": "pending", "attempts": 0, "next_run_at": self.clock.now(),
            "created_at": self.clock.now(),
        }  # fmt: skip
        with self.store.write() as tx:
            history.add_notifications(tx, [row | changes])

    def look(self, job_id):
        return Diagnosing(self.store, self.settings).job(job_id)

    def whole(self):
        return Diagnosing(self.store, self.settings).system()


@pytest.fixture
def stage(store, clock, chance) -> Stage:
    return Stage(store, clock, chance)


# --- The faults: each gives the id of the job to look at ------------------------------------------


def asked_for_later(s):
    return s.job(run_at=s.clock.now() + timedelta(hours=3))


def refused_as_invalid(s):
    job = s.running()
    fail(s.coordinator, job, ErrorClass.INVALID_REQUEST)
    return job.id


def everything_paused(s):
    s.throw(ALL)
    return s.job()


def type_paused(s):
    s.throw("t")
    return s.job()


def below_the_priority(s):
    s.throw(BELOW_PRIORITY, "5")
    return s.job(priority=4)


def type_at_its_limit(s):
    s.running("one")
    return s.job("one")


def user_at_its_limit(s):
    s.running(user="ana")
    return s.job(user="ana")


def past_its_deadline(s):
    job = s.job(deadline=s.clock.now() + timedelta(minutes=1))
    s.clock.advance(timedelta(minutes=2))
    s.worker()
    return job


def long_in_line(s):
    job = s.job()
    s.clock.advance(timedelta(minutes=30))
    s.worker()
    return job


def no_worker(s):
    job = s.job()
    s.clock.advance(timedelta(minutes=5))
    return job


def worker_of_other_types(s):
    s.worker(types=["one"])
    return s.job()


def lease_expired(s):
    job = s.running()
    s.clock.advance(timedelta(minutes=2))
    s.worker()
    return job.id


def unknown_type(s):
    job = s.job()
    s.settings = settings_of(types={"other": {"provider": "p"}})
    return job


def lost_and_held(s):
    job = s.running("careful")
    s.clock.advance(timedelta(minutes=2))
    s.coordinator.rescue(limit=10)
    s.worker()
    return job.id


def nobody_polls(s):
    job = s.park(timedelta(seconds=2))
    s.clock.advance(timedelta(minutes=9))
    s.worker()
    return job


def cancel_not_noticed(s):
    job = s.running()
    s.coordinator.cancel(job.id, actor="ana", reason="x")
    s.clock.advance(timedelta(seconds=59))
    s.coordinator.renew({job.id: job.lock_token}, s.clock.now() + timedelta(seconds=60))
    s.clock.advance(timedelta(seconds=10))
    s.worker()
    return job.id


def breaker_open(s):
    for n in range(5):
        s.coordinator.enqueue(new_job(n, type="one"), actor="t")
        fail(s.coordinator, claim_one(s.coordinator), ErrorClass.UNAVAILABLE)
    return s.job()


def provider_held(s):
    ProviderDesk(s.store, s.settings).hold("p", actor="ana", reason="status page", lasting=None)
    return s.job()


def waits_for_its_retry(s):
    job = s.running()
    fail(s.coordinator, job, ErrorClass.UNAVAILABLE)
    return job.id


def out_of_attempts(s):
    job = s.running(max_attempts=1)
    fail(s.coordinator, job, ErrorClass.UNAVAILABLE)
    return job.id


def background_for_too_long(s):
    job = s.park()
    s.clock.advance(timedelta(hours=4))
    s.worker()
    return job


def webhook_found_no_job(s):
    job = s.park()
    s.deliver(job_id=None)
    return job


def result_gone(s):
    job = s.running()
    succeed(s.coordinator, job)
    with s.store.write() as tx:
        tx.execute(delete(job_results))
    return job.id


def notification_refused(s):
    job = s.running()
    succeed(s.coordinator, job)
    s.notify(job.id, state="failed", attempts=9, next_run_at=None, http_status=500)
    return job.id


def notification_overdue(s):
    job = s.running()
    succeed(s.coordinator, job)
    s.notify(job.id)
    s.clock.advance(timedelta(minutes=6))
    return job.id


L = Layer
FAULTS = [
    (asked_for_later, L.CLIENT, "due"),
    (refused_as_invalid, L.CLIENT, "attempts"),
    (everything_paused, L.QUEUE, "pause"),
    (type_paused, L.QUEUE, "pause"),
    (below_the_priority, L.QUEUE, "pause"),
    (type_at_its_limit, L.QUEUE, "limits"),
    (user_at_its_limit, L.QUEUE, "limits"),
    (past_its_deadline, L.QUEUE, "deadline"),
    (long_in_line, L.QUEUE, "line"),
    (no_worker, L.WORKER, "worker"),
    (worker_of_other_types, L.WORKER, "worker"),
    (lease_expired, L.WORKER, "lease"),
    (unknown_type, L.WORKER, "type"),
    (lost_and_held, L.WORKER, "held"),
    (nobody_polls, L.WORKER, "polls"),
    (cancel_not_noticed, L.WORKER, "cancel"),
    (breaker_open, L.PROVIDER, "provider"),
    (provider_held, L.PROVIDER, "provider"),
    (waits_for_its_retry, L.PROVIDER, "due"),
    (out_of_attempts, L.PROVIDER, "attempts"),
    (background_for_too_long, L.PROVIDER, "run time"),
    (webhook_found_no_job, L.WEBHOOK, "webhook"),
    (result_gone, L.RESULT, "result"),
    (notification_refused, L.NOTIFICATION, "notification ops"),
    (notification_overdue, L.NOTIFICATION, "notification ops"),
]


@pytest.mark.parametrize(("fault", "layer", "check"), FAULTS, ids=[fault.__name__ for fault, *_ in FAULTS])
def test_a_staged_fault_is_told_by_its_layer(stage, fault, layer, check):
    found = stage.look(fault(stage))

    wrong = [one for one in found.findings if not one.ok]
    assert (found.layer, wrong[0].check) == (layer, check), found.summary
    assert found.next_steps


def test_every_layer_is_among_the_staged_faults():
    assert {layer for _, layer, _ in FAULTS} == set(Layer)


def wait(s):
    return s.job()


def run(s):
    return s.running().id


def run_in_the_background(s):
    return s.park()


def done(s):
    job = s.running()
    succeed(s.coordinator, job)
    s.notify(job.id, state="delivered", attempts=1, next_run_at=None, delivered_at=s.clock.now())
    return job.id


def stopped(s):
    job = s.job()
    s.coordinator.cancel(job, actor="ana", reason="x")
    return job


@pytest.mark.parametrize("healthy", [wait, run, run_in_the_background, done, stopped])
def test_of_a_job_that_is_well_nothing_is_wrong(stage, healthy):
    found = stage.look(healthy(stage))

    assert (found.ok, found.layer, found.next_steps) == (True, None, ()), found.summary


def test_the_evidence_names_the_limit_the_person_and_the_worker(stage):
    assert "runs the limit of 1 of type t" in stage.look(user_at_its_limit(stage)).summary

    stage.throw("t")
    assert "ana: maintenance" in stage.look(stage.job()).summary


# --- The whole ------------------------------------------------------------------------------------


def schedules_are_overdue(s):
    from aijobs.core.ticking import State
    from aijobs.services.scheduler import rule_of
    from aijobs.store import schedules

    s.settings = settings_of(schedules={"m": {"cron": "* * * * *", "timezone": "UTC", "type": "t"}})
    rule = rule_of("m", s.settings.schedule("m"))
    with s.store.write() as tx:
        schedules.begin(tx, "m", State(fingerprint=rule.fingerprint, seen_at=s.clock.now()), s.clock.now())
    s.clock.advance(timedelta(minutes=20))


def test_a_schedule_that_no_tick_has_seen_is_named_and_not_wrong(stage):
    stage.settings = settings_of(schedules={"m": {"cron": "* * * * *", "timezone": "UTC", "type": "t"}})

    (found,) = [one for one in stage.whole().findings if one.check == "schedule m"]

    assert found.ok
    assert "no tick has seen schedule m yet" in found.evidence


def unmatched_for_long(s):
    s.deliver(job_id=None)
    s.clock.advance(timedelta(minutes=6))


WHOLE = [
    (schedules_are_overdue, L.CLIENT, "schedule m"),
    (everything_paused, L.QUEUE, "pause t"),
    (lost_and_held, L.QUEUE, "held"),
    (long_in_line, L.QUEUE, "backlog"),
    (no_worker, L.WORKER, "workers"),
    (worker_of_other_types, L.WORKER, "workers"),
    (breaker_open, L.PROVIDER, "provider p"),
    (background_for_too_long, L.PROVIDER, "stuck b"),
    (unmatched_for_long, L.WEBHOOK, "webhooks"),
    (notification_overdue, L.NOTIFICATION, "notifications ops"),
]


@pytest.mark.parametrize(("fault", "layer", "check"), WHOLE, ids=[fault.__name__ for fault, *_ in WHOLE])
def test_the_whole_names_the_layer_too(stage, fault, layer, check):
    fault(stage)

    found = stage.whole()

    wrong = [one for one in found.findings if not one.ok]
    assert (found.layer, wrong[0].check) == (layer, check), found.findings


def test_an_expired_lease_is_nobodys_fault_while_a_worker_lives_to_take_it_over(stage):
    lease_expired(stage)

    assert stage.whole().ok
    stage.clock.advance(timedelta(minutes=5))
    assert stage.whole().layer is Layer.WORKER


def test_an_idle_store_without_workers_is_well(store):
    assert Diagnosing(store, settings_of()).system().ok


def test_claims_are_not_disturbed_by_looking(stage):
    job = wait(stage)

    stage.look(job)
    stage.whole()

    assert [claim.job.id for claim in claim_some(stage.coordinator, 2)] == [job]


@pytest.mark.parametrize(
    ("scope", "value", "option"),
    [(ALL, "on", "--all"), ("t", "on", "t"), (BELOW_PRIORITY, "5", "--below-priority")],
)
def test_a_pause_is_told_with_who_until_when_and_the_command_that_ends_it(stage, scope, value, option):
    job = stage.job()
    stage.throw(scope, value, lasting=timedelta(hours=2))

    diagnosing = Diagnosing(stage.store, stage.settings)
    told = [diagnosing.job(job), diagnosing.system()]

    for one in told:
        evidence = next(finding.evidence for finding in one.findings if not finding.ok)
        assert "ana" in evidence
        assert "maintenance" in evidence
        assert "until 2026-01-01T02:00:00Z" in evidence
        assert f"aijobs resume {option} --reason '...'" in one.next_steps


def test_a_provider_that_a_person_holds_is_told_without_an_end_and_how_to_reset_it(stage):
    job_id = provider_held(stage)

    diagnosing = Diagnosing(stage.store, stage.settings)
    for told in (diagnosing.system(), diagnosing.job(job_id)):
        evidence = [one.evidence for one in told.findings if one.check in ("provider", "provider p")]
        assert evidence == ["p is not called now: held: status page, until a person resets it"]
        assert "aijobs provider reset p --reason '...'" in told.next_steps


def test_a_breaker_that_is_open_is_told_with_what_opened_it_and_the_job_to_look_at(stage, clock):
    stage.job(priority=-5)
    clock.advance(timedelta(minutes=20))  # the backlog is late, too, and no worker more would help
    stage.worker(name="w2")
    breaker_open(stage)

    told = stage.whole()

    (evidence,) = [one.evidence for one in told.findings if one.check == "provider p"]
    assert "; the last failure there: unavailable" in evidence
    failed = told.next_steps[0].removeprefix("aijobs diagnose ")
    assert stage.look(failed).layer is L.PROVIDER
    assert "aijobs stats" in told.next_steps
    assert not any("--concurrency" in step for step in told.next_steps)


def test_a_provider_that_is_held_for_its_quota_is_told_with_its_next_probe(stage):
    fail(stage.coordinator, stage.running(), ErrorClass.QUOTA_EXHAUSTED)

    told = Diagnosing(stage.store, stage.settings).system()

    (evidence,) = [one.evidence for one in told.findings if one.check == "provider p"]
    assert "p is not called now: held: the quota is used up" in evidence
    assert evidence.endswith(", next probe at 2026-01-01T00:05:00Z")


def test_a_dead_letter_is_told_with_what_was_said_and_what_takes_its_cause_away(stage):
    stage.job()
    job = claim_one(stage.coordinator)
    fail(stage.coordinator, job, ErrorClass.AUTH)

    told = Diagnosing(stage.store, stage.settings).job(job.id)

    assert "after 1 attempt: " in told.summary
    assert told.next_steps[1].startswith("mend the key behind providers.p.api_key")
    assert told.next_steps[-1] == f"aijobs retry {job.id} --reason '...'"
