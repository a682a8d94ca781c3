"""The official clients can read the simulator: they are the judges of its objects, errors and signatures."""

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx
import openai
import pytest
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from aijobs.http.simulator import TEST_SECRET, RunningSimulator
from tests.support.asking import chat, message, response
from tests.support.receiver import receiver
from tests.support.wait import eventually


@pytest.fixture
def gpt(simulator: RunningSimulator) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=f"{simulator.url}/v1", api_key="sk-test", max_retries=0, webhook_secret=TEST_SECRET
    ) as client:
        yield client


@pytest.fixture
def claude(simulator: RunningSimulator) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=simulator.url, api_key="sk-test", max_retries=0) as client:
        yield client


def asked(client: openai.OpenAI, **more: Any) -> Response:
    return client.responses.create(model="gpt-test", input="Tell me of the sea. It is wide.", **more)


def test_openai_reads_a_foreground_response(gpt: openai.OpenAI) -> None:
    answer = asked(gpt, metadata={"aijobs_job_id": "j-1"})

    assert answer.status == "completed"
    assert "Tell me of the sea." in answer.output_text
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.input_tokens + answer.usage.output_tokens > 0
    assert answer.metadata == {"aijobs_job_id": "j-1"}
    assert answer._request_id


def test_openai_follows_a_background_response_to_its_end(gpt: openai.OpenAI) -> None:
    begun = asked(gpt, background=True, extra_headers={"x-simulator-fault": "complete_after_n_polls=2"})

    first, second = gpt.responses.retrieve(begun.id), gpt.responses.retrieve(begun.id)

    assert [begun.status, first.status, second.status] == ["queued", "in_progress", "completed"]
    assert second.output_text


def test_openai_cancels_a_background_response(gpt: openai.OpenAI) -> None:
    begun = asked(gpt, background=True, extra_headers={"x-simulator-fault": "in_progress_forever"})

    cancelled = gpt.responses.cancel(begun.id)

    assert cancelled.status == "cancelled"
    assert gpt.responses.retrieve(begun.id).status == "cancelled"


def test_openai_deletes_a_response(gpt: openai.OpenAI) -> None:
    answer = asked(gpt)

    gpt.responses.delete(answer.id)

    with pytest.raises(openai.NotFoundError):
        gpt.responses.retrieve(answer.id)


def test_openai_reads_a_chat_completion(gpt: openai.OpenAI) -> None:
    answer = gpt.chat.completions.create(model="gpt-test", messages=[{"role": "user", "content": "Hello."}])

    assert answer.choices[0].finish_reason == "stop"
    assert "Hello." in str(answer.choices[0].message.content)
    assert answer.usage is not None
    assert answer.usage.total_tokens > 0


def test_openai_parses_structured_output(gpt: openai.OpenAI) -> None:
    schema = {
        "type": "object",
        "properties": {"title": {"type": "string"}, "score": {"type": "integer"}, "tags": {"type": "array"}},
        "required": ["title", "score"],
    }

    answer = asked(gpt, text={"format": {"type": "json_schema", "name": "note", "schema": schema}})

    said = json.loads(answer.output_text)
    assert isinstance(said["title"], str)
    assert isinstance(said["score"], int)


def test_openai_lists_the_models(gpt: openai.OpenAI) -> None:
    assert "simulated-1" in [model.id for model in gpt.models.list()]


@pytest.mark.parametrize(
    ("fault", "error", "code"),
    [
        ("400", openai.BadRequestError, None),
        ("400_context", openai.BadRequestError, "context_length_exceeded"),
        ("400_policy", openai.BadRequestError, "content_policy_violation"),
        ("401", openai.AuthenticationError, "invalid_api_key"),
        ("403", openai.PermissionDeniedError, None),
        ("404", openai.NotFoundError, "model_not_found"),
        ("409", openai.ConflictError, None),
        ("422_budget", openai.UnprocessableEntityError, "422"),
        ("429", openai.RateLimitError, "rate_limit_exceeded"),
        ("429_slow_down", openai.RateLimitError, "slow_down"),
        ("429_insufficient_quota", openai.RateLimitError, "insufficient_quota"),
        ("429_credit_balance_exhausted", openai.RateLimitError, "credit_balance_exhausted"),
        ("500", openai.InternalServerError, "server_error"),
        ("503_overloaded", openai.InternalServerError, "server_is_overloaded"),
        ("529", openai.InternalServerError, "server_is_overloaded"),
    ],
)
def test_openai_raises_the_right_error(
    gpt: openai.OpenAI, fault: str, error: type[openai.APIStatusError], code: str | None
) -> None:
    with pytest.raises(error) as caught:
        asked(gpt, extra_headers={"x-simulator-fault": fault})

    assert caught.value.code == code
    assert caught.value.request_id


@pytest.mark.parametrize("fault", ["close_before_headers", "rst", "not_http", "short_body"])
def test_openai_reports_a_broken_connection(gpt: openai.OpenAI, fault: str) -> None:
    with pytest.raises(openai.APIConnectionError):
        asked(gpt, extra_headers={"x-simulator-fault": fault})


def test_openai_retries_by_itself_unless_told_not_to(simulator: RunningSimulator) -> None:
    simulator.set_fault("429=0.01x2")
    with openai.OpenAI(base_url=f"{simulator.url}/v1", api_key="k", max_retries=2) as patient:
        answer = asked(patient, extra_headers={"x-client-request-id": "aijobs-j-1"})

    assert answer.status == "completed"
    assert [call.status for call in simulator.calls()] == [429, 429, 200]
    assert simulator.billed("j") == 1


def test_anthropic_reads_a_message(claude: anthropic.Anthropic) -> None:
    answer = claude.messages.create(
        model="claude-test", max_tokens=200, messages=[{"role": "user", "content": "Hello."}]
    )

    assert answer.stop_reason == "end_turn"
    assert answer.content[0].type == "text"
    assert "Hello." in answer.content[0].text
    assert answer.usage.output_tokens > 0
    assert answer._request_id


@pytest.mark.parametrize(
    ("fault", "error", "kind"),
    [
        ("400", anthropic.BadRequestError, "invalid_request_error"),
        ("401", anthropic.AuthenticationError, "authentication_error"),
        ("402", anthropic.APIStatusError, "billing_error"),
        ("403", anthropic.PermissionDeniedError, "permission_error"),
        ("404", anthropic.NotFoundError, "not_found_error"),
        ("413", anthropic.APIStatusError, "request_too_large"),
        ("429", anthropic.RateLimitError, "rate_limit_error"),
        ("500", anthropic.InternalServerError, "api_error"),
        ("504", anthropic.APIStatusError, "timeout_error"),
        ("529", anthropic.APIStatusError, "overloaded_error"),
    ],
)
def test_anthropic_raises_the_right_error(
    claude: anthropic.Anthropic, fault: str, error: type[anthropic.APIStatusError], kind: str
) -> None:
    with pytest.raises(error) as caught:
        claude.messages.create(
            model="m", max_tokens=9, messages=[{"role": "user", "content": "x"}],
            extra_headers={"x-simulator-fault": fault},
        )  # fmt: skip

    body = caught.value.body
    assert isinstance(body, dict)
    assert body["error"]["type"] == kind
    assert body["request_id"] == caught.value.request_id


def test_every_object_satisfies_the_sdks_own_model(http: httpx.Client) -> None:
    begun = response(http, background=True, fault="queued_forever").json()

    for shown in (response(http).json(), begun, response(http, fault="failed_server_error").json()):
        Response.model_validate(shown, strict=True)
    ChatCompletion.model_validate(chat(http).json(), strict=True)
    anthropic.types.Message.model_validate(message(http).json(), strict=True)


def test_openai_unwraps_the_webhook_of_a_response(gpt: openai.OpenAI, simulator: RunningSimulator) -> None:
    with receiver() as inbox:
        simulator.set_webhook(inbox.url)
        begun = asked(gpt, background=True)
        (delivery,) = eventually(lambda: inbox.deliveries)

    event = gpt.webhooks.unwrap(delivery.body, delivery.headers)

    assert event.type == "response.completed"
    assert event.data.id == begun.id
