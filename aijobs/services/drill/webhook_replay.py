"""Drill: webhooks that come again, out of order, too old, or from somebody else."""

import http.client
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import urlsplit

from aijobs.core.model import Job, Status
from aijobs.core.signature import sign
from aijobs.services.drill.ground import Ground
from aijobs.services.drill.names import name_of
from aijobs.services.drill.report import Account, Check
from aijobs.store import deliveries

_COPIES = 6
_TIMEOUT = 30.0  # seconds, for one answer
_OLD = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    outcome: str


def webhook_replay(ground: Ground) -> Account:
    """A background job that only a webhook can end; its delivery comes six times at once, then worse."""
    never = {"poll_first": "10m", "poll_cap": "10m"}
    ground.configure({"work": {"background": True, "background_options": never}})
    url = ground.serve()
    ground.ready(ground.worker("work"))
    job = ground.enqueue("work", {"n": 1})
    ground.until(lambda: ground.job(job.id).parked_at)
    response = ground.job(job.id).provider_job_id or "none"
    ground.until(lambda: not ground.provider.snapshot()["running"])
    door = _Door(ground, url, response)
    copies = door.send(["first"] * _COPIES, "response.completed")
    ground.until(lambda: ground.final([job.id]))
    done = ground.job(job.id)
    looks = _looks(ground)
    late = door.send(["first"], "response.completed") + door.send(["late"], "response.failed")
    forged = door.send(["forged"], "response.failed", key=bytes(32))
    old = door.send(["old"], "response.failed", age=_OLD)
    ground.until(lambda: _looks(ground) > looks, patience=0.3)  # a worker that fell for it would look again
    return Account(
        did="a job in the background at the provider, a worker and `aijobs serve` as processes; a delivery "
        f"was posted {_COPIES} times at once and again after the end, then a contradiction, a forged one and "
        "an old one",
        checks=(
            _counted_once(ground, response, copies),
            _ended_once(ground, done, looks),
            _unmoved(done, ground.job(job.id), late, _looks(ground) - looks),
            Check(
                expected="a forged delivery and one that is too old are refused",
                saw=f"answered with {forged[0].status} and {old[0].status}",
                ok=(forged[0].status, old[0].status) == (401, 401),
            ),
        ),
    )


class _Door:
    """Posts deliveries about one response, signed as the provider signs them."""

    def __init__(self, ground: Ground, url: str, response: str) -> None:
        self._ground, self._response = ground, response
        self._host = urlsplit(url).netloc

    def send(
        self, ids: Sequence[str], kind: str, *, key: bytes | None = None, age: timedelta = timedelta(0)
    ) -> list[_Answer]:
        """Post a delivery under each of *ids*, all at once; how each was answered."""
        now = self._ground.store.clock.now()
        body = json.dumps(
            {
                "object": "event", "id": "evt_drill", "type": kind, "created_at": int(now.timestamp()),
                "data": {"id": self._response},
            }
        ).encode()  # fmt: skip
        keys = [key or self._ground.secret]
        with ThreadPoolExecutor(len(ids)) as pool:
            sent = [
                pool.submit(self._post, sign(self._id(one), body, keys=keys, now=now - age), body)
                for one in ids
            ]
            return [one.result() for one in sent]

    def _id(self, name: str) -> str:
        return name_of(self._ground.name, name)

    def _post(self, headers: Mapping[str, str], body: bytes) -> _Answer:
        """One POST; status 0 when nobody answers."""
        try:
            connection = http.client.HTTPConnection(self._host, timeout=_TIMEOUT)
            with closing(connection):
                path = f"/webhooks/{self._ground.name}"
                connection.request("POST", path, body, {**headers, "content-type": "application/json"})
                answer = connection.getresponse()
                said = json.loads(answer.read() or b"{}")
                return _Answer(answer.status, str(said.get("outcome", "")))
        except (OSError, http.client.HTTPException, ValueError):
            return _Answer(0, "")


def _looks(ground: Ground) -> int:
    """How often the provider was asked what became of its work."""
    return sum(call.method == "GET" for call in ground.provider.calls())


def _counted_once(ground: Ground, response: str, copies: Sequence[_Answer]) -> Check:
    outcomes = Counter(answer.outcome or f"HTTP {answer.status}" for answer in copies)
    with ground.store.read() as tx:
        kept = deliveries.about(tx, [response])
    inbox = [one for one in kept if one.event_type == "response.completed"]
    told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
    return Check(
        expected="of copies of one delivery one is accepted; the others are answered 200, no more",
        saw=f"{told}; {len(inbox)} kept in the inbox",
        ok=outcomes == {"accepted": 1, "duplicate": len(copies) - 1}
        and {answer.status for answer in copies} == {200}
        and len(inbox) == 1,
    )


def _ended_once(ground: Ground, job: Job, looks: int) -> Check:
    attempts, told = ground.attempts(job.id), ground.told(job.id)
    return Check(
        expected="the webhook ends the job: one look at the provider, one result, one notification",
        saw=f"the job is {job.status}; looks: {looks}, attempts: {len(attempts)}, notifications: {told}",
        ok=(job.status, looks, len(attempts), told) == (Status.SUCCEEDED, 1, 1, 1),
    )


def _unmoved(before: Job, after: Job, late: Sequence[_Answer], looks: int) -> Check:
    statuses = " and ".join(str(answer.status) for answer in late)
    return Check(
        expected="a copy and a contradiction that come after the end move nothing",
        saw=f"answered with {statuses}; the job is {after.status}, "
        f"{'as it was' if after == before else 'changed'}; more looks at the provider: {looks}",
        ok=after == before
        and after.status is Status.SUCCEEDED
        and all(answer.status == 200 for answer in late)
        and looks == 0,
    )
