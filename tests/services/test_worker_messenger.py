"""A worker tells of its jobs' ends by itself; a receiver that does not answer delays no job."""

from aijobs.services.notifier import Notifier
from aijobs.services.worker.messenger import Messenger
from aijobs.store import jobs
from tests.support.jobs import new_job, present, settings_of
from tests.support.receiver import receiver
from tests.support.wait import eventually
from tests.support.workers import running


def telling(url: str):
    return settings_of(
        types={"t": {"provider": "p", "notify": ["ops"]}},
        notify={"ops": {"kind": "webhook", "url": url, "allow_private": True, "timeout": "5s"}},
    )


def told(store, job_id) -> list[str]:
    with store.read() as tx:
        return [note["state"] for note in jobs.notifications_of(tx, job_id)]


def test_the_end_of_a_job_is_told_by_the_worker_itself(store):
    with receiver() as hook, running(store, settings=telling(hook.url)) as run:
        job = run.coordinator.enqueue(new_job(), actor="t").job

        eventually(lambda: told(store, job.id) == ["delivered"])

    assert len(hook.deliveries) == 1


def test_a_receiver_that_is_not_there_delays_no_job(store):
    with running(store, settings=telling("http://127.0.0.1:9/")) as run:
        made = [run.coordinator.enqueue(new_job(n), actor="t").job for n in range(20)]

        eventually(lambda: all(present(store, job.id).status.final for job in made))

    assert {state for job in made for state in told(store, job.id)} == {"pending"}


def test_a_messenger_that_dies_says_so(store, chance, monkeypatch):
    notifier = Notifier(store, telling("http://127.0.0.1:9/"), chance=chance)
    monkeypatch.setattr(notifier, "run_once", lambda: 1 / 0)
    monkeypatch.setattr("threading.excepthook", lambda args: None)
    deaths: list[BaseException] = []
    messenger = Messenger(notifier, died=deaths.append)

    messenger.start()
    eventually(lambda: deaths)
    messenger.stop(timeout=5)

    assert isinstance(deaths[0], ZeroDivisionError)


def test_with_nobody_to_tell_no_thread_is_started(store, chance):
    messenger = Messenger(Notifier(store, settings_of(), chance=chance), died=lambda fault: None)

    messenger.start()

    assert not messenger._thread.is_alive()
    messenger.stop(timeout=0)
