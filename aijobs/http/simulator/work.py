"""Responses and their life on the server: queued, in progress, ended; polled, cancelled, deleted."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from aijobs.core.faults import Fault
from aijobs.http.simulator.answers import output, usage
from aijobs.http.simulator.request import Api, Asked, Body

_KEPT_UNSTORED = timedelta(minutes=10)
_KEPT_RESPONSES = 50_000

_ERRORS = {
    "failed_server_error": ("server_error", "The server had an error while processing your request."),
    "failed_context": ("context_length_exceeded", "Your input exceeds the context window of this model."),
    "failed_429_in_200": ("rate_limit_exceeded", "Rate limit reached. Please try again in {number}s."),
}
_ENDS = {
    "incomplete_max": "incomplete",
    "incomplete_filter": "incomplete",
    "failed_server_error": "failed",
    "failed_context": "failed",
    "failed_429_in_200": "failed",
    "failed_null": "failed",
    "cancelled_by_provider": "cancelled",
    "expired": "expired",
}
ENDLESS = frozenset({"queued_forever", "in_progress_forever"})


@dataclass(slots=True, kw_only=True)
class Work:
    """One response. *status* is what the server knows, `shown` what it says when asked."""

    id: str
    asked: Asked
    created_at: datetime
    fault: Fault | None
    status: str = "queued"
    ended_at: datetime | None = None
    polls: int = 0
    on_end: list[Callable[[], None]] = field(default_factory=list)

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen."""
        return self.ended_at is not None

    @property
    def fault_name(self) -> str:
        """The name of what is wrong with this work; "" when nothing is."""
        return self.fault.name if self.fault else ""

    @property
    def ends_by_polls(self) -> int | None:
        """The poll that ends it, when polls do."""
        if self.fault_name != "complete_after_n_polls":
            return None
        return int(self.fault.number) if self.fault and self.fault.number else 3

    def begin(self) -> None:
        """The model starts on it."""
        if not self.ended and self.fault_name != "queued_forever":
            self.status = "in_progress"

    def end(self, now: datetime, status: str | None = None) -> None:
        """It is over; does nothing when it already was."""
        if self.ended or (self.fault_name in ENDLESS and status is None):
            return
        self.status = status or _ENDS.get(self.fault_name, "completed")
        self.ended_at = now
        for listener in self.on_end:
            listener()

    def poll(self, now: datetime) -> Body:
        """What the server says when asked once more."""
        self.polls += 1
        if self.ends_by_polls is not None and self.polls >= self.ends_by_polls:
            self.end(now)
        return self.shown()

    def shown(self) -> Body:
        """The response object."""
        status = self._shown_status()
        said, cut = output(self.asked)
        if status == "completed" and cut:
            status = "incomplete"
        done = status in ("completed", "incomplete")
        text = said if status == "completed" or cut or self.fault_name == "incomplete_max" else ""
        return {
            **_constants(self.asked),
            "id": self.id,
            "created_at": int(self.created_at.timestamp()),
            "completed_at": int(self.ended_at.timestamp()) if done and self.ended_at else None,
            "status": status,
            "error": self._error() if status == "failed" else None,
            "incomplete_details": self._incomplete() if status == "incomplete" else None,
            "output": [_message(self.id, text, status)] if done and text else [],
            "usage": usage(Api.RESPONSES, self.asked.text, text) if done else None,
        }

    def _shown_status(self) -> str:
        if self.fault_name == "stale_snapshot":
            return "in_progress"
        if self.fault_name == "cancelled_then_completed" and self.ended:
            return "cancelled" if self.polls <= 1 else "completed"
        return self.status

    def _error(self) -> Body | None:
        if self.fault_name not in _ERRORS:
            return None
        code, message = _ERRORS[self.fault_name]
        number = self.fault.number if self.fault and self.fault.number is not None else 1.5
        return {"code": code, "message": message.format(number=f"{number:g}")}

    def _incomplete(self) -> Body:
        return {"reason": "content_filter" if self.fault_name == "incomplete_filter" else "max_output_tokens"}


def _constants(asked: Asked) -> Body:
    given = asked.body
    return {
        "object": "response",
        "background": asked.background,
        "instructions": given.get("instructions"),
        "max_output_tokens": given.get("max_output_tokens"),
        "metadata": given.get("metadata") or {},
        "model": asked.model,
        "parallel_tool_calls": True,
        "previous_response_id": given.get("previous_response_id"),
        "reasoning": {"effort": None, "summary": None},
        "service_tier": given.get("service_tier", "default"),
        "store": given.get("store", True),
        "temperature": 1.0,
        "text": given.get("text", {"format": {"type": "text"}}),
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": given.get("truncation", "disabled"),
    }


def _message(response_id: str, text: str, status: str) -> Body:
    return {
        "id": response_id.replace("resp_", "msg_"),
        "type": "message",
        "role": "assistant",
        "status": "completed" if status == "completed" else "incomplete",
        "content": [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}],
    }


class Works:
    """The responses the server still has; of very many the newest."""

    def __init__(self) -> None:
        self._by_id: dict[str, Work] = {}

    def __iter__(self) -> Iterator[Work]:
        return iter(self._by_id.values())

    def add(self, work: Work) -> None:
        """Keep *work*."""
        self._by_id[work.id] = work
        if len(self._by_id) > _KEPT_RESPONSES:
            del self._by_id[next(iter(self._by_id))]

    def get(self, response_id: str, now: datetime) -> Work | None:
        """The response, or None: never there, deleted, or not stored and gone ten minutes after its end."""
        work = self._by_id.get(response_id)
        if work and work.ended_at and work.asked.body.get("store") is False:
            return work if now - work.ended_at <= _KEPT_UNSTORED else None
        return work

    def delete(self, response_id: str) -> None:
        """Forget it."""
        self._by_id.pop(response_id, None)
