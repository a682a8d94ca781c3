"""The simulator without its sockets: decides what each request is answered, and keeps what it was asked."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from email.utils import format_datetime
from typing import Any

from aijobs.core.clock import Chance, Clock
from aijobs.core.faults import Fault, FaultTable, Stage, parse_faults
from aijobs.http.simulator.answers import BENDABLE, GOOD, bend, content_type
from aijobs.http.simulator.ledger import CallRecord, Ledger, labels
from aijobs.http.simulator.refusals import is_refusal, refuse, refuse_plainly
from aijobs.http.simulator.reply import JSON, Reply, as_json
from aijobs.http.simulator.request import NO_LATENCY, Api, Asked, Body, Latency, Refused
from aijobs.http.simulator.webhooks import Courier, Delivery, WebhookTarget, event, plan
from aijobs.http.simulator.wire import is_wire
from aijobs.http.simulator.work import ENDLESS, Work, Works

_QUEUED_SHARE = 0.2  # of a background response's time before it is in progress

_NOT_SERVED = {
    "401": "Incorrect API key provided.",
    "403": "Your project may not do this.",
}
_WORK_AS_REPLY = {
    # what a fault of the work looks like in an API that has no response objects
    "incomplete_max": "finish_length",
    "incomplete_filter": "finish_filter",
    "failed_server_error": "500",
    "failed_context": "400_context",
    "failed_429_in_200": "200_error_obj",
    "failed_null": "500",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatorSettings:
    """How the simulator behaves towards everyone who asks for nothing else.

    *poll_after* (seconds) is sent as a hint with unfinished background responses; None sends none. *models*
    are the only ones it has; none named, it has whatever is asked for.
    """

    fault: str = ""
    latency: Latency = NO_LATENCY
    webhook: WebhookTarget | None = None
    poll_after: float | None = None
    models: tuple[str, ...] = ()


class Simulator:
    """A provider that is not there. Used by one event loop; `start_in_thread` gives it one."""

    def __init__(
        self,
        settings: SimulatorSettings,
        *,
        clock: Clock,
        chance: Chance,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.pause = pause
        self._clock, self._chance = clock, chance
        self._tasks: set[asyncio.Task[None]] = set()
        self.configure(settings)
        self.reset()

    def configure(self, settings: SimulatorSettings) -> None:
        """Behave so from now on; counts of faults begin anew. Raises ValueError on an unknown fault."""
        self._table = FaultTable(parse_faults(settings.fault), self._chance)
        self._tables: dict[str, FaultTable] = {}
        self.settings = settings

    def reset(self) -> None:
        """Forget every call and every response."""
        self.ledger = Ledger(self._clock)
        self._works = Works()
        self._once: dict[str, Reply] = {}
        self._courier = Courier(self._clock, self.ledger, self.pause)
        self.configure(self.settings)

    def close(self) -> None:
        """Stop what still runs in the background."""
        for task in self._tasks:
            task.cancel()

    def new_id(self) -> str:
        """An id nobody had before."""
        return f"{self._chance.getrandbits(96):024x}"

    # --- Asking for work --------------------------------------------------------------------------

    async def submit(self, asked: Asked, record: CallRecord) -> Reply:
        """The answer to a call that asks for work."""
        self.ledger.begin(record, asked)
        self._check_model(asked)
        kept = self._once.get(asked.idempotency_key or "") if asked.api is Api.ECHO else None
        if kept:
            return replace(kept, headers={**kept.headers, "idempotent-replayed": "true"}, billed=False)
        fault = self._pick(Stage.SUBMIT, asked)
        record.fault = str(fault) if fault else None
        await self._take_time(asked, fault)
        reply = await self._answer(asked, fault)
        if asked.api is Api.ECHO and asked.idempotency_key and reply.billed:
            self._once[asked.idempotency_key] = replace(reply, wire=None)
        return reply

    def check_caller(self, fault: str | None) -> None:
        """Refuse to tell of the models to whom every call is refused for who he is, or while nothing works.

        *fault* is what the caller orders instead of ours. What strikes only now and then, or only so often,
        is left for the calls that ask for work. Raises Refused.
        """
        try:
            faults = parse_faults(self.settings.fault if fault is None else fault)
        except ValueError as error:
            raise Refused(400, f"simulator: {error}", param="simulator") from None
        for one in faults:
            always = one.stage is Stage.SUBMIT and one.times is None and one.chance is None
            status = one.name[:3]
            if always and is_refusal(one.name) and (status in ("401", "403") or status.startswith("5")):
                raise Refused(int(status), _NOT_SERVED.get(status, "The server had an error."))

    def _check_model(self, asked: Asked) -> None:
        if self.settings.models and asked.model and asked.model not in self.settings.models:
            message = f"The model '{asked.model[:80]}' does not exist or you do not have access to it."
            raise Refused(404, message, param="model", code="model_not_found")

    async def _take_time(self, asked: Asked, fault: Fault | None) -> None:
        seconds = 0.0 if asked.background else self._latency(asked)
        if fault and fault.name == "slow":
            seconds += 2.0 if fault.number is None else fault.number
        if seconds:
            await self.pause(seconds)

    def _latency(self, asked: Asked) -> float:
        return (asked.orders.latency or self.settings.latency).draw(self._chance)

    def _pick(self, stage: Stage, asked: Asked) -> Fault | None:
        return self._table_of(asked).pick(stage, asked.job, holds=self._holds)

    def _table_of(self, asked: Asked) -> FaultTable:
        if asked.orders.fault is None:
            return self._table
        if asked.orders.fault not in self._tables:
            self._tables[asked.orders.fault] = FaultTable(parse_faults(asked.orders.fault), self._chance)
        return self._tables[asked.orders.fault]

    def _holds(self, fault: Fault) -> bool:
        limit = 5 if fault.number is None else fault.number
        match fault.name:
            case "rate_limit":
                return not self.ledger.admit(limit)
            case "concurrency_limit":
                return self.ledger.in_flight.now["all"] > limit
            case _:
                return True

    async def _answer(self, asked: Asked, fault: Fault | None) -> Reply:
        if fault and is_refusal(fault.name):
            return refuse(fault, asked, self._clock.now())
        if asked.api is Api.RESPONSES:
            return await self._respond(asked, fault)
        work = self._pick(Stage.WORK, asked)
        if not fault and work and work.name in _WORK_AS_REPLY:
            fault = replace(work, name=_WORK_AS_REPLY[work.name], stage=Stage.SUBMIT)
            if is_refusal(fault.name):
                return refuse(fault, asked, self._clock.now())
        good = GOOD[asked.api](asked, self.new_id(), int(self._clock.now().timestamp()))
        return self._made_of(good, asked, fault)

    def _made_of(self, good: Body, asked: Asked, fault: Fault | None) -> Reply:
        """*good* as it leaves the house: bent, or to be broken on the wire, or just so."""
        answer_id = str(good["id"])
        if fault and fault.name in BENDABLE:
            headers = {"content-type": content_type(fault.name)}
            return Reply(
                headers=headers, body=bend(fault.name, asked, good), billed=True, response_id=answer_id
            )
        wire = fault if fault and is_wire(fault.name) else None
        return Reply(headers=JSON, body=as_json(good), wire=wire, billed=True, response_id=answer_id)

    # --- Responses --------------------------------------------------------------------------------

    async def _respond(self, asked: Asked, fault: Fault | None) -> Reply:
        work = Work(
            id=f"resp_{self.new_id()}",
            asked=asked,
            created_at=self._clock.now(),
            fault=self._pick(Stage.WORK, asked),
        )
        self._works.add(work)
        if not asked.background:
            work.begin()
            work.end(self._clock.now())
            return self._made_of(work.shown(), asked, fault)
        reply = self._made_of(work.shown(), asked, fault)
        await self._start(work)
        return replace(reply, headers={**reply.headers, **self._poll_hint(work)})

    async def _start(self, work: Work) -> None:
        keys = labels(work.asked)
        self.ledger.running.up(keys)
        work.on_end.append(lambda: self.ledger.running.down(keys))
        early = self._announce(work)
        if early is not None:
            work.end(self._clock.now())
            await early
        elif work.ends_by_polls is not None or work.fault_name in ENDLESS:
            work.begin()
        else:
            seconds, loop = self._latency(work.asked), asyncio.get_running_loop()
            loop.call_later(seconds * _QUEUED_SHARE, work.begin)
            loop.call_later(seconds, lambda: work.end(self._clock.now()))

    def _announce(self, work: Work) -> Awaitable[None] | None:
        """Have webhooks sent when *work* ends; or what to await first, for one that precedes the answer."""
        target = self.settings.webhook
        if not target:
            return None
        fault = self._pick(Stage.WEBHOOK, work.asked)
        if fault and fault.name == "webhook_before_response":
            return self._send(work, target, fault)
        work.on_end.append(lambda: self._spawn(self._send(work, target, fault)))
        return None

    async def _send(self, work: Work, target: WebhookTarget, fault: Fault | None) -> None:
        if fault and fault.name == "webhook_late":
            await self.pause(2.0 if fault.number is None else fault.number)
        kind = f"response.{work.status}"
        body = event(self.new_id(), kind, response_id=work.id, ended_at=work.ended_at or self._clock.now())
        first = Delivery(id=f"wh_{self.new_id()}", type=kind, body=body, signers=(target.secret,))
        for delivery in plan(fault, first, target.secret):
            await self._courier.deliver(target.url, delivery, response_id=work.id)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _poll_hint(self, work: Work) -> dict[str, str]:
        if self.settings.poll_after is None or work.ended:
            return {}
        return {"openai-poll-after-ms": f"{self.settings.poll_after * 1000:g}"}

    async def poll(self, response_id: str, record: CallRecord) -> Reply:
        """The answer to the question what became of a response."""
        work = self._find(response_id, record)
        fault = self._pick(Stage.POLL, work.asked)
        record.fault = str(fault) if fault else None
        return await self._about(work, fault, lambda now: work.poll(now))

    async def cancel(self, response_id: str, record: CallRecord) -> Reply:
        """The answer to the request to stop a response."""
        work = self._find(response_id, record)
        fault = self._pick(Stage.CANCEL, work.asked)
        record.fault = str(fault) if fault else None
        if not fault and not work.asked.background:
            raise Refused(400, "Only responses created in the background can be cancelled.")
        return await self._about(work, fault, lambda now: self._cancelled(work, now))

    def _cancelled(self, work: Work, now: datetime) -> Body:
        if work.fault_name == "cancelled_then_completed":
            work.end(now, "completed")
            work.polls = 0
        else:
            work.end(now, "cancelled")
        return work.shown()

    def delete(self, response_id: str, record: CallRecord) -> Reply:
        """The answer to the request to forget a response."""
        work = self._find(response_id, record)
        self._works.delete(work.id)
        return Reply(headers=JSON, body=as_json({"id": work.id, "object": "response", "deleted": True}))

    def _find(self, response_id: str, record: CallRecord) -> Work:
        record.response_id = response_id
        work = self._works.get(response_id, self._clock.now())
        if not work:
            raise Refused(404, f"Response with id '{response_id[:80]}' not found.", code="not_found")
        record.job, record.model, record.key = work.asked.job, work.asked.model, work.asked.orders.key
        return work

    async def _about(self, work: Work, fault: Fault | None, look: Callable[[datetime], Body]) -> Reply:
        if fault and fault.name == "slow":
            await self.pause(2.0 if fault.number is None else fault.number)
        if fault and is_refusal(fault.name):
            return refuse(fault, work.asked, self._clock.now())
        reply = self._made_of(look(self._clock.now()), work.asked, fault)
        return replace(reply, billed=False, headers={**reply.headers, **self._poll_hint(work)})

    # --- What every answer carries ----------------------------------------------------------------

    def refused(self, api: Api, refused: Refused, request_id: str) -> Reply:
        """The answer to a request the real API would not take."""
        return refuse_plainly(api, refused, request_id)

    def signed(self, reply: Reply, api: Api, request_id: str) -> Reply:
        """*reply* with the headers its API puts on everything."""
        return replace(reply, headers={**self._common(api, request_id), **reply.headers})

    def _common(self, api: Api, request_id: str) -> Mapping[str, str]:
        date = format_datetime(self._clock.now(), usegmt=True)
        if api is Api.MESSAGES:
            return {
                "date": date, "request-id": request_id, "anthropic-organization-id": "simulated",
                "anthropic-ratelimit-requests-limit": "500", "anthropic-ratelimit-requests-remaining": "499",
            }  # fmt: skip
        if api is Api.ECHO:
            return {"date": date, "x-request-id": request_id}
        return {
            "date": date, "x-request-id": request_id, "openai-organization": "simulated",
            "openai-version": "2020-10-01", "openai-processing-ms": "1",
            "x-ratelimit-limit-requests": "500", "x-ratelimit-remaining-requests": "499",
            "x-ratelimit-reset-requests": "120ms", "x-ratelimit-limit-tokens": "30000",
            "x-ratelimit-remaining-tokens": "29000", "x-ratelimit-reset-tokens": "2s",
        }  # fmt: skip
