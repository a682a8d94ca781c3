"""Kind `openai-chat`: chat completions, of OpenAI, Azure, OpenRouter, LiteLLM, vLLM, Ollama, Gemini."""

from aijobs.core.envelope import at
from aijobs.core.model import Failure, Reply
from aijobs.providers.bodies import Body, messages_of, schema_request, with_request
from aijobs.providers.contract import Call
from aijobs.providers.endpoint import Endpoint, Request
from aijobs.providers.foreground import Foreground
from aijobs.providers.results import whole_answer


class ChatAdapter(Foreground):
    """Asks for one completion."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.name = endpoint.name
        self._endpoint = endpoint

    async def submit(self, call: Call) -> Reply:
        """Ask, and wait for the whole answer."""
        request = Request(method="POST", path="/chat/completions", body=request_body(call))
        exchange = await self._endpoint.ask(call, request)
        return exchange if isinstance(exchange, Failure) else whole_answer(call, exchange, more=_tools)


def request_body(call: Call) -> Body:
    """What asks for a completion."""
    ours: Body = {"model": call.model, "messages": messages_of(call)}
    if schema := schema_request(call):
        ours["response_format"] = {"type": "json_schema", "json_schema": schema}
    return with_request(call, ours, kept=("messages",))


def _tools(value: object) -> object:
    """The first choice's message if it calls tools."""
    choices = at(value, "choices")
    message = at(choices[0], "message") if isinstance(choices, list) and choices else None
    return message if at(message, "tool_calls") or at(message, "function_call") else None
