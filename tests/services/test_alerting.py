"""Alerts on the store: since when, told once within the silence, tried again when nobody was told."""

import threading
from datetime import timedelta

import pytest

from aijobs.core.errors import StoreError
from aijobs.core.model import ErrorClass
from aijobs.core.notifying import Told
from aijobs.services.alerting import Alerting
from aijobs.services.coordinator import Coordinator
from aijobs.store import alert_states
from tests.support.blocked import waits_for_a_lock
from tests.support.jobs import claim_one, fail, new_job, settings_of
from tests.support.wait import eventually

NOTIFY = {"ops": {"kind": "log"}, "page": {"kind": "log"}}
SETTINGS = settings_of(notify=NOTIFY, alerts={"notify": ["ops", "page"], "silence": "30m"})


class Heard:
    """Targets of which some are deaf."""

    def __init__(self, *deaf: str) -> None:
        self.deaf, self.said = deaf, []

    def __call__(self, name: str, message_id: str, body: bytes) -> Told:
        self.said.append((name, body))
        return Told(delivered=name not in self.deaf)


@pytest.fixture
def look(store):
    def run(heard):
        found = {one.alert.rule: one for one in Alerting(store, SETTINGS, tell=heard).run()}
        return found["dead_letters"]

    return run


@pytest.fixture
def die(store, chance):
    coordinator = Coordinator(store, SETTINGS, chance=chance)

    def once():
        coordinator.enqueue(new_job({"prompt": "planted"}), actor="t")
        fail(coordinator, claim_one(coordinator), ErrorClass.INVALID_REQUEST)

    return once


def test_what_fires_is_told_to_every_target_once_within_the_silence(look, die, clock):
    heard = Heard()
    die()

    first = look(heard)
    clock.advance(timedelta(minutes=10))
    second = look(heard)

    assert (first.alert.firing, first.news, first.told) == (True, True, ("ops", "page"))
    assert (second.alert.firing, second.news, second.told) == (True, False, ())
    assert second.since == clock.now() - timedelta(minutes=10)
    assert second.silenced_until == clock.now() + timedelta(minutes=20)
    assert [name for name, _ in heard.said] == ["ops", "page"]


def test_after_the_silence_it_is_told_again_while_it_lasts(look, die, clock):
    heard = Heard()
    die()
    look(heard)
    clock.advance(timedelta(minutes=31))
    die()

    assert look(heard).news


def test_what_flaps_is_not_told_each_time(look, die, clock):
    heard = Heard()
    die()
    look(heard)
    clock.advance(timedelta(minutes=16))
    over = look(heard)
    die()
    again = look(heard)

    assert (over.alert.firing, over.since) == (False, None)
    assert (again.alert.firing, again.news, again.since) == (True, False, clock.now())


def test_when_nobody_could_be_told_the_next_look_tries_again(look, die):
    die()

    first = look(Heard("ops", "page"))
    second = look(Heard("ops"))
    third = look(Heard())

    assert (first.told, first.failed) == ((), ("ops", "page"))
    assert (second.news, second.told, second.failed) == (True, ("page",), ("ops",))
    assert not third.news


def test_the_message_holds_the_rule_and_nothing_of_any_job(look, die):
    heard = Heard()
    die()
    look(heard)

    body = heard.said[0][1].decode()
    assert '"rule":"dead_letters"' in body
    assert "planted" not in body


def test_two_evaluations_at_once_wait_for_each_other_and_both_end_well(store, clock):
    now, firing = clock.now(), ["dead_letters", "queue_wait"]
    with store.write() as tx:
        alert_states.note(tx, firing, now)
    ended, faults = threading.Event(), []

    def other():
        try:
            with store.write() as tx:
                alert_states.note(tx, ["queue_wait"], now)
                alert_states.claim(tx, "queue_wait", now, now)
        except StoreError as fault:
            faults.append(fault)
        ended.set()

    thread = threading.Thread(target=other)
    with store.write() as tx:
        alert_states.note(tx, ["dead_letters"], now)
        thread.start()
        eventually(lambda: waits_for_a_lock(store))
        alert_states.claim(tx, "dead_letters", now, now)
    thread.join(10)

    assert (ended.is_set(), faults) == (True, [])
