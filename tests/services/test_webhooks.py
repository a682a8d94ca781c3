"""Webhook intake on both databases: once, in any order, early, late, and never a step back."""

import itertools
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from threading import Barrier

import pytest

from aijobs.core.clock import seeded_chance
from aijobs.core.errors import NotFound, StoreError, StoreUnreachable
from aijobs.core.lifecycle import Parked
from aijobs.core.model import NO_CALL
from aijobs.core.signature import sign
from aijobs.core.signing_key import decode_key
from aijobs.services.coordinator import Coordinator
from aijobs.services.coordinator.inbox import receive
from aijobs.services.webhooks import LONGEST_BODY, WebhookRefusedError, Webhooks
from aijobs.store import deliveries, rollups
from aijobs.store.engine import open_store
from tests.support.blocked import waits_for_a_lock
from tests.support.invariants import violations
from tests.support.jobs import claim_one, claim_some, ended, history, new_job, present, settings_of, succeed
from tests.support.kept import count_unmatched
from tests.support.wait import eventually

SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
KEY = decode_key(SECRET)
PROVIDERS = {
    "p": {"kind": "openai-responses", "api_key": "k", "webhook_secret": SECRET},
    "other": {"kind": "openai-responses", "api_key": "k", "webhook_secret": SECRET},
    "bare": {"kind": "openai-responses", "api_key": "k"},
}


def wired(store, seed=1) -> Webhooks:
    settings = settings_of(providers=PROVIDERS)
    return Webhooks(Coordinator(store, settings, chance=seeded_chance(seed)), settings)


@pytest.fixture
def webhooks(store):
    return wired(store)


@pytest.fixture
def coordinator(webhooks):
    return webhooks.coordinator


def body_of(kind: object = "response.completed", provider_job_id: object = "resp_1", **more: object) -> bytes:
    return json.dumps({"object": "event", "type": kind, "data": {"id": provider_job_id}} | more).encode()


def deliver(webhooks, delivery_id="wh_1", body=None, provider="p", **event):
    sent = body_of(**event) if body is None else body
    headers = sign(delivery_id, sent, keys=[KEY], now=webhooks.coordinator.clock.now())
    return webhooks.intake(provider, headers, sent)


def read(webhooks, delivery_id, provider="p", **event):
    sent = body_of(**event)
    headers = sign(delivery_id, sent, keys=[KEY], now=webhooks.coordinator.clock.now())
    return webhooks.read(provider, headers, sent)


def at_the_provider(coordinator, provider_job_id="resp_1"):
    """A job whose work has begun at its provider, and that is not parked yet."""
    coordinator.enqueue(new_job(), actor="t")
    job = claim_one(coordinator)
    coordinator.save_provider_job_id(job, provider_job_id, NO_CALL)
    return job


def parked(coordinator, clock, provider_job_id="resp_1"):
    job = at_the_provider(coordinator, provider_job_id)
    coordinator.finish([parking(job, clock, clock.now(), provider_job_id)])
    return job


def parking(job, clock, began, provider_job_id="resp_1"):
    """The end of an attempt, or of a look, that leaves the work to the provider for five minutes more."""
    poll_at = clock.now() + timedelta(minutes=5)
    return ended(job, Parked(provider_job_id=provider_job_id, poll_at=poll_at), at=began)


def park(coordinator, clock, job, began):
    (answer,) = coordinator.finish([parking(job, clock, began)])
    assert answer.applied


def test_a_delivery_makes_the_next_look_at_its_job_due_at_once(webhooks, coordinator, clock):
    job = parked(coordinator, clock)
    before = claim_some(coordinator)

    answer = deliver(webhooks)
    (claim,) = claim_some(coordinator)

    assert (before, answer.outcome, answer.job_id) == ([], "accepted", job.id)
    assert (claim.resume, claim.job.id) == (True, job.id)


def test_a_copy_of_a_delivery_does_nothing(store, webhooks, coordinator, clock):
    job = parked(coordinator, clock)
    deliver(webhooks)
    claimed = claim_one(coordinator)

    copy = deliver(webhooks)

    assert (copy.outcome, copy.job_id, copy.contradicts) == ("duplicate", job.id, False)
    assert present(store, job.id) == claimed


def test_a_later_copy_with_a_new_timestamp_is_still_a_copy(webhooks, coordinator, clock):
    parked(coordinator, clock)
    deliver(webhooks)
    clock.advance(timedelta(minutes=5))

    assert deliver(webhooks).outcome == "duplicate"


def test_the_same_id_with_another_body_is_a_contradiction_and_the_first_stands(webhooks, coordinator, clock):
    job = parked(coordinator, clock)
    deliver(webhooks)

    other = deliver(webhooks, kind="response.failed", provider_job_id="resp_2")

    assert (other.outcome, other.contradicts, other.job_id) == ("duplicate", True, job.id)


@pytest.mark.parametrize("order", list(itertools.permutations(["completed", "failed", "cancelled"])))
def test_no_order_of_deliveries_moves_a_finished_job(store, webhooks, coordinator, clock, order):
    job = parked(coordinator, clock)
    deliver(webhooks, "wh_0", kind=f"response.{order[0]}")
    succeed(coordinator, claim_one(coordinator))
    finished = present(store, job.id)

    later = [deliver(webhooks, f"wh_{kind}", kind=f"response.{kind}") for kind in order[1:]]

    assert [answer.outcome for answer in later] == ["accepted"] * 2
    assert present(store, job.id) == finished
    assert claim_some(coordinator) == []
    assert len(history(store, job.id)) == 1


def test_a_delivery_that_comes_before_we_know_the_providers_id_is_matched_when_we_do(
    store, webhooks, coordinator, clock
):
    coordinator.enqueue(new_job(), actor="t")
    job = claim_one(coordinator)

    early = deliver(webhooks)
    poll_at = clock.now() + timedelta(hours=1)
    coordinator.finish([ended(job, Parked(provider_job_id="resp_1", poll_at=poll_at))])
    (claim,) = claim_some(coordinator)

    assert (early.outcome, early.job_id) == ("unmatched", None)
    assert claim.job.id == job.id
    with store.read() as tx:
        assert count_unmatched(tx) == 0


def test_a_delivery_that_comes_before_the_job_is_parked_makes_its_first_look_due(
    webhooks, coordinator, clock
):
    job = at_the_provider(coordinator)
    began = clock.now()
    clock.advance(timedelta(seconds=1))

    answer = deliver(webhooks)
    clock.advance(timedelta(seconds=1))
    park(coordinator, clock, job, began)

    assert (answer.outcome, answer.job_id) == ("accepted", job.id)
    assert [claim.resume for claim in claim_some(coordinator)] == [True]


def test_a_delivery_that_comes_while_the_provider_is_asked_makes_one_more_look_due_and_no_third(
    webhooks, coordinator, clock
):
    first = parked(coordinator, clock)
    clock.advance(timedelta(minutes=6))
    asked = claim_one(coordinator)
    clock.advance(timedelta(seconds=1))

    deliver(webhooks)
    clock.advance(timedelta(seconds=1))
    park(coordinator, clock, asked, first.claimed_at)
    again = claim_one(coordinator)
    park(coordinator, clock, again, first.claimed_at)

    assert claim_some(coordinator) == []


def test_a_delivery_does_not_make_every_later_look_due(webhooks, coordinator, clock):
    first = parked(coordinator, clock)
    clock.advance(timedelta(minutes=1))
    deliver(webhooks)

    looks = 0
    for _ in range(20):
        clock.advance(timedelta(seconds=1))
        for claim in claim_some(coordinator):
            looks += 1
            park(coordinator, clock, claim.job, first.claimed_at)  # which is when its attempt began

    assert looks == 1


def test_a_copy_whose_first_was_just_pruned_is_a_copy_all_the_same(store, webhooks, clock, monkeypatch):
    deliver(webhooks)
    monkeypatch.setattr(deliveries, "record", lambda *_: frozenset())  # which saw it before it was gone
    clock.advance(timedelta(minutes=1))
    copy = read(webhooks, "wh_2")

    (answer,) = webhooks.record([copy])

    assert (answer.outcome, answer.contradicts, answer.job_id) == ("duplicate", False, None)


def test_a_delivery_that_comes_at_the_instant_in_which_its_job_is_parked_is_not_missed(
    store, webhooks, coordinator, clock
):
    job = at_the_provider(coordinator)
    delivery = read(webhooks, "wh_1")

    with ThreadPoolExecutor(1) as pool:
        with store.write() as tx:
            finishing = coordinator._machinery.finishing
            finishing.finish(tx, [parking(job, clock, clock.now())], clock.now())
            told = pool.submit(webhooks.record, [delivery])
            eventually(lambda: told.done() or waits_for_a_lock(store))
        (answer,) = told.result()

    assert (answer.outcome, answer.job_id) == ("accepted", job.id)
    assert [claim.job.id for claim in claim_some(coordinator)] == [job.id]


def test_a_delivery_about_to_be_committed_is_seen_by_whoever_parks_its_job(
    store, webhooks, coordinator, clock
):
    job = at_the_provider(coordinator)
    delivery = read(webhooks, "wh_1")

    with ThreadPoolExecutor(1) as pool:
        with store.write() as tx:
            receive(tx, [delivery], clock.now())
            parks = pool.submit(park, coordinator, clock, job, clock.now())
            eventually(lambda: parks.done() or waits_for_a_lock(store))
        parks.result()

    assert [claim.job.id for claim in claim_some(coordinator)] == [job.id]


def test_a_provider_speaks_of_its_own_work_only(webhooks, coordinator, clock):
    job = parked(coordinator, clock)

    foreign = deliver(webhooks, provider="other")
    hastened = claim_some(coordinator)
    own = deliver(webhooks)

    assert (foreign.outcome, foreign.job_id, hastened) == ("unmatched", None, [])
    assert (own.outcome, own.job_id) == ("accepted", job.id)


def test_an_early_delivery_waits_for_the_work_of_its_own_provider(store, webhooks, coordinator, clock):
    deliver(webhooks, provider="other")

    parked(coordinator, clock)

    assert claim_some(coordinator) == []
    with store.read() as tx:
        assert count_unmatched(tx) == 1


def test_a_delivery_of_a_response_nobody_knows_is_kept(store, webhooks, clock):
    answer = deliver(webhooks, provider_job_id="resp_sample")

    assert answer.outcome == "unmatched"
    with store.read() as tx:
        (kept,) = deliveries.unmatched(tx, clock.now(), 10)
    assert (kept.provider_job_id, kept.event_type) == ("resp_sample", "response.completed")


@pytest.mark.parametrize(
    "event",
    [
        {"kind": "batch.completed"},
        {"kind": "future.event"},
        {"kind": 5},
        {"kind": None},
        {"provider_job_id": None},
        {"provider_job_id": 7},
        {"provider_job_id": "x" * 5000},
        {"provider_job_id": "a\x1b[2J"},
        {"kind": "x\ny"},
    ],
)
def test_events_that_concern_no_job_are_written_down_and_ignored(store, webhooks, clock, event):
    answer = deliver(webhooks, **event)

    assert answer.outcome == "ignored"
    assert answer.event_type.isprintable()
    with store.read() as tx:
        assert deliveries.unmatched(tx, clock.now() + timedelta(days=1), 10) == []
    assert deliver(webhooks, **event).outcome == "duplicate"


@pytest.mark.parametrize(
    "body", [b"", b"not json", b"[]", b'"x"', b"null", b"\xff\xfe", b"[" * 100_000, b"x" * (LONGEST_BODY + 1)]
)
def test_a_signed_body_that_is_no_event_is_malformed(webhooks, body):
    with pytest.raises(WebhookRefusedError) as refused:
        deliver(webhooks, body=body)

    assert refused.value.kind == "malformed"


def test_a_wrong_signature_leaves_no_trace(store, webhooks, coordinator, clock):
    parked(coordinator, clock)
    headers = sign("wh_1", body_of(), keys=[b"another secret of 32 bytes......"], now=clock.now())

    with pytest.raises(WebhookRefusedError) as refused:
        webhooks.intake("p", headers, body_of())

    assert refused.value.kind == "bad_signature"
    assert claim_some(coordinator) == []
    assert deliver(webhooks).outcome == "accepted"


@pytest.mark.parametrize("provider", ["bare", "nobody"])
def test_without_a_secret_there_is_no_intake(webhooks, provider, clock):
    headers = sign("wh_1", body_of(), keys=[KEY], now=clock.now())

    assert not webhooks.accepts(provider)
    with pytest.raises(NotFound):
        webhooks.intake(provider, headers, body_of())


def test_a_delivery_that_could_not_be_written_down_is_not_accepted(webhooks, store, monkeypatch):
    def broken(*_: object) -> bool:
        raise StoreError("the store is away")

    monkeypatch.setattr(deliveries, "record", broken)
    with pytest.raises(StoreError):
        deliver(webhooks)
    monkeypatch.undo()

    assert deliver(webhooks).outcome == "unmatched"


def test_copies_that_arrive_at_the_same_instant_are_one_delivery(store, clock):
    parked(wired(store).coordinator, clock)
    start = Barrier(6)

    def send(number: int) -> str:
        own = open_store(store.url, clock=store.clock)
        try:
            webhooks = wired(own, number)
            start.wait()
            return deliver(webhooks).outcome
        finally:
            own.close()

    with ThreadPoolExecutor(6) as pool:
        outcomes = sorted(pool.map(send, range(6)))

    assert outcomes == ["accepted"] + ["duplicate"] * 5


def test_deliveries_written_together_are_answered_each_for_itself(store, webhooks, coordinator, clock):
    job = parked(coordinator, clock)
    deliver(webhooks, "wh_0", kind="response.failed")
    jobless = {"provider_job_id": "resp_sample"}

    answers = webhooks.record(
        [
            read(webhooks, "wh_1"),
            read(webhooks, "wh_2", **jobless),
            read(webhooks, "wh_1"),
            read(webhooks, "wh_0"),
            read(webhooks, "wh_3", kind="future.event"),
            read(webhooks, "wh_1", **jobless),
            read(webhooks, "wh_1", provider="other"),
        ]
    )

    assert [(one.outcome, one.job_id, one.contradicts) for one in answers] == [
        ("accepted", job.id, False),
        ("unmatched", None, False),
        ("duplicate", job.id, False),
        ("duplicate", job.id, True),
        ("ignored", None, False),
        ("duplicate", job.id, True),
        ("unmatched", None, False),
    ]
    assert violations(store) == []


def test_one_that_the_database_refuses_harms_none_of_those_written_with_it(
    store, webhooks, coordinator, clock
):
    job = parked(coordinator, clock)
    bad = replace(read(webhooks, "wh_bad"), event_type="no text: \ud800")
    found = [read(webhooks, f"wh_{n}", provider_job_id=f"resp_{n}") for n in range(5)]

    answers = webhooks.record([*found[:3], bad, *found[3:]])

    refused = answers.pop(3)
    assert isinstance(refused, Exception)
    assert [(one.outcome, one.job_id) for one in answers] == [
        ("accepted", job.id) if n == 1 else ("unmatched", None) for n in range(5)
    ]
    assert {deliver(webhooks, f"wh_{n}").outcome for n in range(5)} == {"duplicate"}


def test_a_store_that_is_away_is_asked_once_for_all(webhooks, monkeypatch):
    asked = []

    def away(*_: object) -> bool:
        asked.append("again")
        raise StoreUnreachable("the store is away")

    monkeypatch.setattr(deliveries, "record", away)
    answers = webhooks.record([read(webhooks, f"wh_{n}") for n in range(4)])

    assert [type(one) for one in answers] == [StoreUnreachable] * 4
    assert asked == ["again"]


def test_a_server_that_another_was_quicker_than_at_some_of_them_takes_the_rest(store, webhooks, clock):
    late = [read(webhooks, f"wh_{n}") for n in (3, 2, 1)]

    with ThreadPoolExecutor(1) as pool:
        with store.write() as tx:
            first = receive(tx, [read(webhooks, f"wh_{n}") for n in (1, 2)], clock.now())
            second = pool.submit(webhooks.record, late)
        outcomes = [one.outcome for one in second.result()]

    assert [one.reception for one in first] == ["unmatched"] * 2
    assert outcomes == ["unmatched", "duplicate", "duplicate"]


def test_how_old_a_delivery_may_be_is_the_providers_setting(store, clock):
    providers = {"p": PROVIDERS["p"] | {"webhook_tolerance": "20m"}}
    settings = settings_of(providers=providers)
    webhooks = Webhooks(Coordinator(store, settings, chance=seeded_chance(1)), settings)
    headers = sign("wh_1", body_of(), keys=[KEY], now=clock.now())

    clock.advance(timedelta(minutes=19))
    taken = webhooks.intake("p", headers, body_of())
    clock.advance(timedelta(minutes=2))
    with pytest.raises(WebhookRefusedError) as refused:
        webhooks.intake("p", headers, body_of())

    assert (taken.outcome, refused.value.kind) == ("unmatched", "stale")


@pytest.mark.parametrize(
    ("created_at", "seconds"), [(-3600, 3600), (0, 0), (60, 0), ("now", 0), (True, 0), (None, 0), (1e300, 0)]
)
def test_how_late_a_delivery_is_goes_by_the_event_however_often_it_was_sent(
    store, webhooks, coordinator, clock, created_at, seconds
):
    parked(coordinator, clock)
    now = clock.now().timestamp()
    exact = isinstance(created_at, int) and not isinstance(created_at, bool)

    deliver(webhooks, created_at=now + created_at if exact else created_at)

    with store.read() as tx:
        sums = rollups.sums(tx)
    assert sums["aijobs_webhook_delay_seconds_bucket", bucket_of(seconds)] == 1


def bucket_of(seconds: int) -> str:
    return json.dumps({"le": "0.1" if seconds == 0 else f"{seconds}", "provider": "p"}, separators=(",", ":"))


@pytest.mark.parametrize(
    ("kind", "event", "outcome"),
    [
        ("openai", "video.done", "ignored"),
        ("standard-webhooks", "video.done", "accepted"),
        ("standard-webhooks", "response.completed", "accepted"),
    ],
)
def test_of_other_providers_any_event_with_an_id_is_a_reason_to_look(store, clock, kind, event, outcome):
    providers = {"p": PROVIDERS["p"] | {"webhook_kind": kind}}
    settings = settings_of(providers=providers)
    webhooks = Webhooks(Coordinator(store, settings, chance=seeded_chance(1)), settings)
    parked(webhooks.coordinator, clock)

    assert deliver(webhooks, kind=event).outcome == outcome
