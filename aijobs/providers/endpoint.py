"""One remote API as configured: where it is, how calls to it are authorised, marked and judged."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final
from urllib.parse import urlsplit

from aijobs.core.answers import Usable, Working, read_answer
from aijobs.core.classifier import CallContext, Operation, TransportFault, classify_fault, failure_of
from aijobs.core.clock import Clock
from aijobs.core.envelope import Body, at, read_body
from aijobs.core.errors import InvalidInput
from aijobs.core.hints import rate_headers
from aijobs.core.model import CallFacts, ErrorClass, Failure
from aijobs.core.payload import clean_text, dump_json
from aijobs.core.settings import Kind, ProviderSettings
from aijobs.core.usage import normalise, usage_of
from aijobs.providers.bodies import text_of
from aijobs.providers.client import Client, Outgoing, Response
from aijobs.providers.contract import Call

IDEMPOTENCY_HEADER: Final = "Idempotency-Key"
"""Goes with every submit. Nowhere is it documented that OpenAI or Anthropic honour it; own services may."""

_REQUEST_IDS: Final = ("x-request-id", "request-id", "apim-request-id", "x-ms-request-id", "cf-ray")
_AZURE_HOSTS: Final = (".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com")
_LONGEST_ID: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to ask: a path below the base URL, and a body or none.

    *within* is a total limit of its own; *about* the provider's id of the work that is asked about.
    """

    method: str
    path: str
    body: object = None
    operation: Operation = Operation.SUBMIT
    within: timedelta | None = None
    about: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A response that arrived, and the context in which it is to be judged."""

    response: Response
    body: Body
    context: CallContext

    @property
    def facts(self) -> CallFacts:
        """What is known of the call, the HTTP status included."""
        return self.context.facts

    def read(self) -> Usable | Working | Failure:
        """What the response is, by the rules of its dialect."""
        return read_answer(
            self.context, status=self.response.status, headers=self.response.headers, body=self.body
        )


class Endpoint:
    """Sends one provider's requests. *dialect* is the kind by whose rules answers are read."""

    def __init__(
        self,
        name: str,
        settings: ProviderSettings,
        *,
        client: Client,
        clock: Clock,
        base_url: str,
        dialect: Kind | None = None,
        extra_headers: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.clock = clock
        self.settings = settings
        self._client = client
        self._base_url = base_url.rstrip("/")
        self._dialect = dialect or settings.kind
        self._headers = {**_fixed_headers(settings, base_url), **(extra_headers or {})}
        self._secrets = _secrets_of(settings)

    async def ask(self, call: Call, request: Request) -> Exchange | Failure:
        """Send *request* once. A Failure means that no response arrived."""
        try:
            outgoing = self._outgoing(call, request)
        except InvalidInput as error:
            return _unsendable(self._context(call, request), error)
        answer = await self._client.send(outgoing, deadline=request.within or call.timeout)
        if isinstance(answer, TransportFault):
            return classify_fault(answer, self._context(call, request))
        body = read_body(answer.body)
        facts = self._facts(call, request, answer, body.value)
        return Exchange(response=answer, body=body, context=self._context(call, request, facts))

    def _outgoing(self, call: Call, request: Request) -> Outgoing:
        return Outgoing(
            method=request.method,
            url=self._base_url + request.path,
            headers={**self._headers, **self._marks(call, request.operation)},
            body=None if request.body is None else dump_json(request.body),
            connect_timeout=self.settings.connect_timeout,
            max_response_bytes=self.settings.max_response_bytes,
        )

    def _marks(self, call: Call, operation: Operation) -> dict[str, str]:
        """What lets a call be found again in the logs of either side, and be told from a second one."""
        marks = {"X-Client-Request-Id": call.client_request_id}
        if call.traceparent:
            marks["traceparent"] = call.traceparent
        if operation is Operation.SUBMIT:
            marks[self.settings.idempotency_header or IDEMPOTENCY_HEADER] = call.idempotency_key
        return marks

    def _context(self, call: Call, request: Request, facts: CallFacts | None = None) -> CallContext:
        """How the outcome is to be judged; *facts* are what a response told."""
        return CallContext(
            kind=self._dialect,
            now=self.clock.now(),
            operation=request.operation,
            secrets=self._secrets,
            echo_of=partial(text_of, call),
            quota_patterns=self.settings.quota_patterns,
            expects_json=call.expects_json,
            facts=facts
            or CallFacts(
                provider=self.name,
                model=call.model,
                provider_job_id=request.about,
                client_request_id=call.client_request_id,
            ),
        )

    def _facts(self, call: Call, request: Request, response: Response, value: object) -> CallFacts:
        """What is known of the call once there is a response; *value* is the JSON of its body."""
        request_id = response.header(*_REQUEST_IDS)
        return CallFacts(
            provider=self.name,
            model=self._told(at(value, "model")) or call.model,
            http_status=response.status,
            provider_job_id=self._told(provider_job_id(value)) or request.about,
            provider_request_id=self._told(request_id),
            client_request_id=call.client_request_id,
            rate_limits=_rate_limits(response),
            owner=_owner(value),
            phase=response.phase,
            elapsed_seconds=response.elapsed_seconds,
            usage=normalise(
                self._dialect,
                usage_of(value),
                service_tier=at(value, "service_tier"),
                reported_cost=response.header("x-litellm-response-cost"),
            ),
        )

    def _told(self, text: object) -> str | None:
        """A name the provider gave, to be kept; none that repeats a credential."""
        if not isinstance(text, str) or not text or any(secret in text for secret in self._secrets):
            return None
        return clean_text(text, _LONGEST_ID)


def provider_job_id(value: object) -> str | None:
    """The id under which the provider keeps the answer or the work; None when it gives none of use."""
    found = at(value, "id")
    usable = isinstance(found, str) and 0 < len(found) <= _LONGEST_ID and found.isprintable()
    return found if isinstance(found, str) and usable else None


def _owner(value: object) -> str | None:
    """The job for which the work was begun, as we wrote it into the metadata."""
    found = at(value, "metadata", "aijobs_job_id")
    return found if isinstance(found, str) and 0 < len(found) <= _LONGEST_ID and found.isprintable() else None


def _rate_limits(response: Response) -> str | None:
    if not any("ratelimit" in name for name, _ in response.headers):
        return None
    said = rate_headers(response.headers)
    return dump_json(said) if said else None


def _unsendable(context: CallContext, error: InvalidInput) -> Failure:
    message = f"the request can't be written as JSON: {error.message}"
    return failure_of(
        context, ErrorClass.INVALID_REQUEST, code="unsendable", message=message, maybe_billed=False
    )


def _fixed_headers(settings: ProviderSettings, base_url: str) -> dict[str, str]:
    headers: dict[str, str] = {}
    if settings.api_key is not None:
        name, prefix = _credential_header(settings, base_url)
        headers[name] = prefix + settings.api_key.get_secret_value()
    if settings.organization:
        headers["OpenAI-Organization"] = settings.organization
    if settings.project:
        headers["OpenAI-Project"] = settings.project
    if settings.kind is Kind.ANTHROPIC:
        headers["anthropic-version"] = settings.anthropic_version
    return headers | {name: value.get_secret_value() for name, value in settings.headers.items()}


def _credential_header(settings: ProviderSettings, base_url: str) -> tuple[str, str]:
    if settings.auth_header:
        return settings.auth_header, ""
    if settings.kind is Kind.ANTHROPIC:
        return "x-api-key", ""
    if (urlsplit(base_url).hostname or "").endswith(_AZURE_HOSTS):
        return "api-key", ""
    return "Authorization", "Bearer "


def _secrets_of(settings: ProviderSettings) -> tuple[str, ...]:
    secrets = [header.get_secret_value() for header in settings.headers.values()]
    if settings.api_key is not None:
        secrets.append(settings.api_key.get_secret_value())
    return tuple(secrets)
