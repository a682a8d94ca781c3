"""Kind `anthropic`: the Messages API.

It wants `max_tokens`: DEFAULT_MAX_TOKENS unless the type's request says otherwise. No sampling parameters are
sent by default, because newer API versions refuse them. A JSON Schema is not asked for.
"""

from typing import Final

from aijobs.core.answers import is_more_than
from aijobs.core.envelope import at
from aijobs.core.model import Failure, Reply
from aijobs.providers.bodies import Body, messages_of, with_request
from aijobs.providers.contract import Call
from aijobs.providers.endpoint import Endpoint, Request
from aijobs.providers.foreground import Foreground
from aijobs.providers.results import whole_answer

DEFAULT_MAX_TOKENS: Final = 4096

_ONLY_TEXT: Final = frozenset({"text", "thinking", "redacted_thinking"})


class AnthropicAdapter(Foreground):
    """Asks for one message."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.name = endpoint.name
        self._endpoint = endpoint

    async def submit(self, call: Call) -> Reply:
        """Ask, and wait for the whole answer."""
        request = Request(method="POST", path="/messages", body=request_body(call))
        exchange = await self._endpoint.ask(call, request)
        return exchange if isinstance(exchange, Failure) else whole_answer(call, exchange, more=_blocks)


def request_body(call: Call) -> Body:
    """What asks for a message."""
    ours: Body = {"model": call.model, "max_tokens": DEFAULT_MAX_TOKENS, "messages": messages_of(call)}
    return with_request(call, ours, kept=("messages",))


def _blocks(value: object) -> object:
    """The content blocks if one of them is more than text."""
    blocks = at(value, "content")
    if not isinstance(blocks, list):
        return None
    return blocks if any(is_more_than(block, _ONLY_TEXT) for block in blocks) else None
