"""The outbox on both databases: at least once, with one id, and a dead target holds nobody up."""

import json
import sys
from datetime import timedelta

import pytest
from standardwebhooks import Webhook

from aijobs.core.errors import StoreLocked
from aijobs.core.log_events import Level, LogEvent
from aijobs.core.model import ErrorClass
from aijobs.core.notifying import Told, next_step, private_address
from aijobs.services.coordinator import Coordinator
from aijobs.services.log_lines import LineLog
from aijobs.services.notifier import Notifier
from aijobs.store import jobs, outbox
from tests.support import hostile as peers
from tests.support.hostile import hostile
from tests.support.jobs import claim_one, fail, new_job, settings_of, succeed
from tests.support.receiver import receiver
from tests.support.workers import Heard

SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="


def wired(store, chance, targets, on=None) -> tuple[Coordinator, Notifier]:
    types = {"t": {"provider": "p", "notify": list(targets)}}
    settings = settings_of(types=types, notify=targets)
    coordinator = Coordinator(store, settings, chance=chance)
    return coordinator, Notifier(store, settings, chance=chance)


def webhook(url: str, **more: object) -> dict[str, object]:
    return {"kind": "webhook", "url": url, "secret": SECRET, "allow_private": True} | more


def finish_one(coordinator, value=1):
    coordinator.enqueue(new_job(value), actor="t")
    job = claim_one(coordinator)
    succeed(coordinator, job)
    return job


def notes(store, job):
    with store.read() as tx:
        return jobs.notifications_of(tx, job.id)


@pytest.fixture
def hook():
    with receiver() as kept:
        yield kept


def test_the_end_of_a_job_is_told_once_signed_and_without_its_content(store, chance, clock, hook):
    coordinator, notifier = wired(store, chance, {"ops": webhook(hook.url)})
    job = finish_one(coordinator, {"text": "a secret prompt"})

    first, second = notifier.run_once(), notifier.run_once()

    assert (first.delivered, second.tried) == (1, 0)
    (sent,) = hook.deliveries
    told = json.loads(sent.body)
    assert (told["type"], told["data"]["job_id"]) == ("job.succeeded", job.id)
    assert b"secret prompt" not in sent.body
    (note,) = notes(store, job)
    assert (note["state"], note["id"], note["attempts"]) == ("delivered", sent.headers["webhook-id"], 1)
    assert sent.headers["webhook-timestamp"] == str(int(clock.now().timestamp()))


def test_the_official_library_verifies_what_we_send(store, chance, clock, hook, monkeypatch):
    coordinator, notifier = wired(store, chance, {"ops": webhook(hook.url)})
    finish_one(coordinator)
    notifier.run_once()
    (sent,) = hook.deliveries

    monkeypatch.setattr(Webhook, "_Webhook__verify_timestamp", lambda self, value: clock.now(), raising=False)

    assert Webhook(SECRET).verify(sent.body, sent.headers)["type"] == "job.succeeded"


def test_the_line_in_the_log_has_the_level_that_its_target_names(store, chance, clock):
    targets = {"calm": {"kind": "log"}, "loud": {"kind": "log", "level": "error"}}
    coordinator, notifier = wired(store, chance, targets)
    lines: list[str] = []
    notifier.log = LineLog(lines.append, clock=clock, level=Level.WARNING)
    job = finish_one(coordinator)

    assert notifier.run_once().delivered == 2
    assert lines == [f"2026-01-01T00:00:00.000Z ERROR   job {job.id} (t) ended: succeeded"]


def test_a_receiver_that_is_down_for_a_day_is_told_in_the_end_and_by_one_id(store, chance, clock, hook):
    coordinator, notifier = wired(store, chance, {"ops": webhook(hook.url)})
    job = finish_one(coordinator)
    hook.statuses = [503] * 4 + [500] * 2

    rounds = 0
    while notes(store, job)[0]["state"] == "pending":
        notifier.run_once()
        clock.advance(timedelta(minutes=10))
        rounds += 1

    assert notes(store, job)[0]["state"] == "delivered"
    assert len(hook.deliveries) == 7
    assert len({one.headers["webhook-id"] for one in hook.deliveries}) == 1
    assert rounds > 60  # the waits grow to hours


@pytest.mark.parametrize(
    ("status", "state", "error"),
    [
        (410, "gone", "HTTP 410: not a success"),
        (302, "pending", "HTTP 302: a redirect, which is not followed"),
        (500, "pending", "HTTP 500: not a success"),
        (404, "pending", "HTTP 404: not a success"),
        (200, "delivered", None),
        (204, "delivered", None),
    ],
)
def test_what_the_receiver_answers_decides(store, chance, hook, status, state, error):
    coordinator, notifier = wired(store, chance, {"ops": webhook(hook.url)})
    job = finish_one(coordinator)
    hook.statuses = [status]

    notifier.run_once()

    (note,) = notes(store, job)
    assert (note["state"], note["last_error"], note["http_status"]) == (state, error, status)


def test_a_dead_target_does_not_hold_up_the_others(store, chance, hook):
    dead = webhook("http://127.0.0.1:9/nobody")
    coordinator, notifier = wired(store, chance, {"dead": dead, "alive": webhook(hook.url)})
    for number in range(30):
        finish_one(coordinator, number)

    reports = [notifier.run_once() for _ in range(3)]

    assert sum(report.delivered for report in reports) == 30
    assert sum(report.again for report in reports) == 30


def test_no_private_address_is_knocked_at_unless_allowed(store, chance, hook):
    coordinator, notifier = wired(store, chance, {"ops": webhook(hook.url, allow_private=False)})
    job = finish_one(coordinator)

    notifier.run_once()

    assert hook.deliveries == []
    assert "private network" in notes(store, job)[0]["last_error"]


def test_a_name_that_resolves_to_a_private_address_is_refused_too(store, chance):
    target = webhook("https://receiver.example/hook", allow_private=False)
    coordinator, notifier = wired(store, chance, {"ops": target})
    notifier.resolver = lambda host, port: ["93.184.216.34", "10.0.0.7"]
    job = finish_one(coordinator)

    notifier.run_once()

    assert "10.0.0.7" in notes(store, job)[0]["last_error"]


@pytest.mark.parametrize(
    ("address", "private"),
    [
        ("8.8.8.8", False), ("127.0.0.1", True), ("10.1.2.3", True), ("172.16.0.1", True),
        ("192.168.1.1", True), ("169.254.169.254", True), ("0.0.0.0", True), ("100.64.0.1", True),
        ("::1", True), ("fe80::1%eth0", True), ("fc00::1", True),
        ("64:ff9b::10.0.0.1", True), ("64:ff9b::8.8.8.8", False), ("2002:7f00:1::", True),
        ("::10.0.0.1", True), ("::ffff:127.0.0.1", True), ("2606:4700::1111", False), ("224.0.0.1", True),
    ],
)  # fmt: skip
def test_which_addresses_are_private(address, private):
    assert (private_address([address]) is not None) == private


def test_a_receiver_that_answers_a_byte_at_a_time_is_hung_up_on_when_the_time_is_over(store, chance):
    def drips_a_header(peer):
        peer.read_request()
        peer.send(b"HTTP/1.1 200 OK\r\nX-Long: ")
        while not peer.server.closing.wait(timeout=0.02):
            peer.sock.sendall(b"x")

    with hostile(drips_a_header) as server:
        coordinator, notifier = wired(store, chance, {"ops": webhook(server.url, timeout="300ms")})
        job = finish_one(coordinator)

        notifier.run_once()

    assert notes(store, job)[0]["last_error"] == "no answer within 0.3 s"


def test_a_redirect_is_not_followed_wherever_it_leads(store, chance, hook):
    moved = peers.response(status="307 Temporary Redirect", headers=(f"Location: {hook.url}",))
    with hostile(peers.answers(moved)) as server:
        coordinator, notifier = wired(store, chance, {"ops": webhook(server.url)})
        job = finish_one(coordinator)

        notifier.run_once()

    assert hook.deliveries == []
    assert notes(store, job)[0]["last_error"] == "HTTP 307: a redirect, which is not followed"


def test_the_name_of_a_receiver_is_looked_up_once_and_that_address_is_called(store, chance, hook):
    port = int(hook.url.rpartition(":")[2].partition("/")[0])
    coordinator, notifier = wired(store, chance, {"ops": webhook(f"http://receiver.example:{port}/hook")})
    answers = iter([["127.0.0.1"]])  # a second question, as for a name that is bound anew, has no answer
    notifier.resolver = lambda host, port: next(answers)
    finish_one(coordinator)

    report = notifier.run_once()

    assert report.delivered == 1
    assert hook.deliveries[0].headers["host"] == f"receiver.example:{port}"


def test_a_name_that_no_resolver_can_take_is_a_failed_delivery(store, chance):
    target = webhook(f"https://{'a' * 64}.example/hook")
    coordinator, notifier = wired(store, chance, {"ops": target})
    job = finish_one(coordinator)

    report = notifier.run_once()

    assert report.again == 1
    assert notes(store, job)[0]["last_error"]


@pytest.mark.parametrize(("code", "state"), [(0, "delivered"), (3, "pending")])
def test_a_command_gets_the_event_on_stdin_and_its_status_decides(store, chance, tmp_path, code, state):
    out = tmp_path / "told.json"
    script = f"import sys; open({str(out)!r}, 'w').write(sys.stdin.read()); sys.exit({code})"
    target = {"kind": "command", "command": [sys.executable, "-c", script]}
    coordinator, notifier = wired(store, chance, {"cmd": target})
    job = finish_one(coordinator)

    notifier.run_once()

    assert json.loads(out.read_text())["data"]["job_id"] == job.id
    assert notes(store, job)[0]["state"] == state


def test_a_command_that_hangs_is_ended_with_its_children(store, chance):
    target = {"kind": "command", "command": ["/bin/sh", "-c", "sleep 600 & wait"], "timeout": "200ms"}
    coordinator, notifier = wired(store, chance, {"cmd": target})
    job = finish_one(coordinator)

    notifier.run_once()

    assert "did not end" in notes(store, job)[0]["last_error"]


def test_a_command_that_is_not_there_is_a_failure_not_a_crash(store, chance):
    coordinator, notifier = wired(
        store, chance, {"cmd": {"kind": "command", "command": ["/no/such/program"]}}
    )
    job = finish_one(coordinator)

    notifier.run_once()

    assert "cannot be started" in notes(store, job)[0]["last_error"]


def test_each_round_of_a_job_is_told_by_itself(store, chance, hook):
    coordinator, notifier = wired(store, chance, {"ops": webhook(hook.url)})
    coordinator.enqueue(new_job(), actor="t")
    job = claim_one(coordinator)
    fail(coordinator, job, ErrorClass.INVALID_REQUEST)
    coordinator.reopen(job.id, actor="ana", reason="fixed")
    succeed(coordinator, claim_one(coordinator))

    notifier.run_once()

    assert [json.loads(one.body)["type"] for one in hook.deliveries] == ["job.dead_letter", "job.succeeded"]
    assert len({one.headers["webhook-id"] for one in hook.deliveries}) == 2


def test_a_deliverer_that_died_is_followed_by_another_and_its_late_word_is_dropped(store, chance, clock):
    coordinator, _ = wired(store, chance, {"ops": webhook("http://127.0.0.1:9/")})
    job = finish_one(coordinator)
    lease = timedelta(minutes=1)
    with store.write() as tx:
        (first,) = outbox.take(tx, "ops", clock.now(), 10, lease)
        nobody_else = outbox.take(tx, "ops", clock.now(), 10, lease)
    clock.advance(lease)
    with store.write() as tx:
        (second,) = outbox.take(tx, "ops", clock.now(), 10, lease)
    told = Told(delivered=True)
    step = next_step(
        told, attempts=1, created_at=clock.now(), give_up_after=lease, now=clock.now(), chance=chance
    )

    with store.write() as tx:
        late = outbox.finish(tx, first, told, step, clock.now())
        current = outbox.finish(tx, second, told, step, clock.now())

    assert nobody_else == []
    assert (late, current) == (False, True)
    assert notes(store, job)[0]["attempts"] == 2


def test_after_its_last_day_a_delivery_is_given_up(clock, chance):
    created = clock.now()
    failed = Told(delivered=False, error="down")
    states = []
    for attempts in range(1, 15):
        step = next_step(
            failed, attempts=attempts, created_at=created, give_up_after=timedelta(days=3), now=clock.now(),
            chance=chance,
        )  # fmt: skip
        states.append(step.state)
        if step.next_run_at is None:
            break
        clock.set(step.next_run_at)

    assert states[-1] == "failed"
    assert len(states) >= 9


def test_the_receivers_own_word_on_when_to_come_back_is_heeded(clock, chance):
    told = Told(delivered=False, hint=timedelta(hours=2))

    step = next_step(
        told,
        attempts=1,
        created_at=clock.now(),
        give_up_after=timedelta(days=3),
        now=clock.now(),
        chance=chance,
    )

    assert step.next_run_at == clock.now() + timedelta(hours=2)


class Receiver:
    """Stands for the way to a receiver: takes everything, and does something else at the first delivery."""

    def __init__(self, notifier: Notifier, first=lambda: None) -> None:
        self.ids: list[str] = []
        self.first = first
        notifier._post = self.take  # type: ignore[method-assign]

    def take(self, target, note_id, body) -> Told:
        self.ids.append(note_id)
        if len(self.ids) == 1:
            self.first()
        return Told(delivered=True, http_status=200)


def test_who_was_away_for_longer_than_its_lease_leaves_the_rest_to_others(store, chance, clock):
    coordinator, slept = wired(store, chance, {"ops": webhook("http://h.example/")})
    awake = Notifier(store, slept.settings, chance=chance, log=Heard())
    slept.log = Heard()
    for number in range(4):
        finish_one(coordinator, number)
    others = Receiver(awake)

    def sleep() -> None:
        clock.advance(timedelta(minutes=5))
        awake.run_once()

    own = Receiver(slept, sleep)

    late = slept.run_once()

    assert (len(own.ids), len(set(others.ids))) == (1, 4)
    assert late.tried == 0
    assert not slept.log.fields_of(LogEvent.NOTIFIED)  # of the one that was on its way the others have told
    assert len(awake.log.fields_of(LogEvent.NOTIFIED)) == 4


def test_a_store_that_is_locked_for_one_delivery_does_not_put_off_the_others(
    store, chance, clock, monkeypatch
):
    coordinator, notifier = wired(store, chance, {"ops": webhook("http://h.example/")})
    notifier.log = log = Heard()
    jobs_told = [finish_one(coordinator, number) for number in range(3)]
    receiver = Receiver(notifier)
    finish, faults = outbox.finish, [StoreLocked("locked"), None, None, StoreLocked("still locked")]

    def finish_if_free(*values):
        fault = faults.pop(0) if faults else None
        if fault:
            raise fault
        return finish(*values)

    monkeypatch.setattr(outbox, "finish", finish_if_free)

    looks = [notifier.run_once().delivered for _ in range(3)]

    assert looks == [2, 0, 1]
    assert len(receiver.ids) == len(set(receiver.ids)) == 3  # what could not be written is not sent again
    assert [notes(store, job)[0]["state"] for job in jobs_told] == ["delivered"] * 3
    (said,) = log.fields_of(LogEvent.NOTIFICATION_NOT_SAVED)
    assert said["error"] == "locked"


def test_what_cannot_be_written_is_given_up_with_its_lease(store, chance, clock, monkeypatch):
    coordinator, notifier = wired(store, chance, {"ops": webhook("http://h.example/")})
    finish_one(coordinator)
    receiver = Receiver(notifier)

    def locked(*values):
        raise StoreLocked("locked")

    monkeypatch.setattr(outbox, "finish", locked)
    notifier.run_once()
    clock.advance(timedelta(minutes=5))
    notifier.run_once()  # its last try, and the next delivery
    kept = list(notifier._unwritten)
    monkeypatch.undo()

    assert len(kept) == 1
    assert notifier.run_once().delivered == 1
    assert len(receiver.ids) == 2
