"""Drill: one wish, asked for many times at once, is one job, one bill, one result, one notification."""

import json
from collections.abc import Sequence

from aijobs.core.errors import AijobsError, KeyConflict, StoreLocked, StoreUnreachable
from aijobs.core.model import Outcome, Status
from aijobs.services.drill.at_once import at_once
from aijobs.services.drill.ground import ACTOR, Ground
from aijobs.services.drill.report import Account, Check
from aijobs.services.submission import Request, new_job

_AT_ONCE = 8
_KEY = "order-7781"
_WISH = {"order": 7781}

_Answer = tuple[str, bool] | AijobsError
"""The id of the job and whether it was known; or the refusal."""


def idempotency(ground: Ground) -> Account:
    """Eight submissions at the same instant, two workers, then a late one and one with another input."""
    ground.configure({"work": {}})
    ground.provider.set_latency("300ms")
    ground.ready(ground.worker("work"), ground.worker("work"))
    answers = at_once(_AT_ONCE, lambda: _submit(ground, _WISH))
    ids = sorted({answer[0] for answer in answers if isinstance(answer, tuple)})
    ground.until(lambda: ground.final(ids))
    other = _submit(ground, {"order": 7782})
    late = ground.run(
        "enqueue", ground.type("work"), "--user", ground.user("ana"), "--key", _KEY, "--input",
        json.dumps(_WISH), "--json",
    )  # fmt: skip
    return Account(
        did=f"one order was submitted {_AT_ONCE} times at the same instant with the same key, to two worker "
        "processes; once more when it was done, by `aijobs enqueue`; and once with another input",
        checks=(
            _one_job(answers, ids),
            _one_effect(ground, ids),
            _known_when_done(ids, late.document()),
            Check(
                expected="the same key with another input is refused",
                saw=f"refused: {other}" if isinstance(other, AijobsError) else f"accepted as job {other[0]}",
                ok=isinstance(other, KeyConflict),
            ),
        ),
    )


def _submit(ground: Ground, wish: object) -> _Answer:
    request = Request(type=ground.type("work"), input=wish, user=ground.user("ana"), key=_KEY)
    try:
        new = new_job(request, ground.settings, now=ground.store.clock.now())
        answer = ground.coordinator.enqueue(new, actor=ACTOR)
    except (StoreUnreachable, StoreLocked):
        raise
    except AijobsError as error:
        return error
    return answer.job.id, answer.duplicate


def _one_job(answers: Sequence[_Answer], ids: Sequence[str]) -> Check:
    faults = [str(answer) for answer in answers if isinstance(answer, AijobsError)]
    first = sum(isinstance(answer, tuple) and not answer[1] for answer in answers)
    refused = f"; {len(faults)} were refused ({faults[0]})" if faults else ""
    return Check(
        expected="one submission makes the job, the others are told its id",
        saw=f"jobs: {len(ids)}; {first} of {len(answers)} submissions made one{refused}",
        ok=(len(ids), first, len(faults)) == (1, 1, 0),
    )


def _one_effect(ground: Ground, ids: Sequence[str]) -> Check:
    """Over all jobs there came to be."""
    calls = sum(call.method == "POST" for call in ground.provider.calls())
    billed = ground.provider.billed()
    well = sum(one.outcome is Outcome.SUCCEEDED for job_id in ids for one in ground.attempts(job_id))
    told = sum(ground.told(job_id) for job_id in ids)
    ended = all(job.status is Status.SUCCEEDED for job in ground.jobs(ids))
    return Check(
        expected="one call, one bill, one result, one notification",
        saw=f"calls: {calls}, bills: {billed}, results: {well}, notifications: {told}",
        ok=ended and (calls, billed, well, told) == (1, 1, 1, 1),
    )


def _known_when_done(ids: Sequence[str], said: dict[str, object]) -> Check:
    same = [said.get("id")] == list(ids)
    result = "its result" if said.get("result") else "no result"
    known = f"{'the same' if same else 'another'} job, {result}" if said else "no answer"
    return Check(
        expected="asked again when it is done, the same job answers with its result",
        saw=known,
        ok=same and said.get("duplicate") is True and bool(said.get("result")),
    )
