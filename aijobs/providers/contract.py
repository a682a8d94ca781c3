"""What a worker and a provider adapter say to each other: values and protocols only."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from aijobs.core.errors import AijobsError
from aijobs.core.model import Failure, Reply
from aijobs.core.payload import MAX_BYTES

if TYPE_CHECKING:
    from aijobs.core.settings import Settings


class CallFailed(AijobsError):  # the whole error tree is named without the suffix
    """A call made through :class:`PythonContext` failed; *failure* is classified like any other.

    A callable that lets it pass fails its attempt with exactly that failure: class, code, hint and all.
    """

    kind = "call_failed"

    def __init__(self, failure: Failure) -> None:
        super().__init__(
            f"{failure.error_class}: {failure.message}" if failure.message else failure.error_class
        )
        self.failure = failure


class SideEffect(Protocol):
    """One entry of a job's effects ledger while it is open."""

    @property
    def done(self) -> bool:
        """Whether an earlier attempt of this job finished this effect: then don't do it again."""
        ...

    @property
    def value(self) -> object:
        """What that attempt recorded; None when nothing was."""
        ...

    def record(self, value: object) -> None:
        """Keep *value* (JSON) with the effect, for the attempts that come after."""
        ...


class EffectGuard(AbstractContextManager[SideEffect], AbstractAsyncContextManager[SideEffect], Protocol):
    """Opens a ledger entry, and marks it done when the block ends without an exception.

    Plain functions write `with`, coroutines `async with` (which keeps the event loop free).
    """


class PythonContext(Protocol):
    """What a python job may ask of the worker that runs it."""

    @property
    def job_id(self) -> str:
        """The job's id."""
        ...

    @property
    def attempt(self) -> int:
        """Which attempt of this round it is, from 1."""
        ...

    @property
    def fence(self) -> int:
        """The lease's number; it grows with every claim, so that others can refuse a stale worker."""
        ...

    def cancelled(self) -> bool:
        """Whether somebody cancelled the job or the lease is lost: stop soon, and don't begin anything."""
        ...

    def side_effect(self, name: str) -> EffectGuard:
        """Guard an effect that must not happen twice (a mail, a charge); *name* is unique within the job."""
        ...

    def call(
        self,
        provider: str,
        *,
        model: str | None = None,
        prompt: str | None = None,
        input: object = None,  # noqa: A002  # the word of the configuration and of the providers
        request: Mapping[str, object] | None = None,
        timeout: timedelta | None = None,
    ) -> object:
        """Call a configured provider from a plain function and wait; answers what a job would store.

        Raises CallFailed.
        """
        ...

    async def acall(
        self,
        provider: str,
        *,
        model: str | None = None,
        prompt: str | None = None,
        input: object = None,  # noqa: A002  # as above
        request: Mapping[str, object] | None = None,
        timeout: timedelta | None = None,
    ) -> object:
        """The same from a coroutine."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One attempt's request, in our words.

    *timeout* bounds the whole call, from the first byte sent to the last byte read. *idempotency_key* stays
    the same over all attempts of one series; *client_request_id* is `aijobs-<job>-<attempt>`. *request* is
    the type's, merged into ours. With *expects_json* an answer that is no JSON is a failure;
    *response_format* is the JSON Schema to ask the provider for, where it has a way to be asked. A result of
    more than *result_bytes* of JSON is cut and says so.
    """

    job_id: str
    type: str
    attempt: int
    model: str | None
    prompt: str | None
    input: object
    request: Mapping[str, object]
    timeout: timedelta
    client_request_id: str
    idempotency_key: str
    traceparent: str | None = None
    background: bool = False
    completion_window: str | None = None
    expects_json: bool = False
    response_format: Mapping[str, object] | None = None
    result_bytes: int = MAX_BYTES
    context: PythonContext | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PollFailed:
    """Asking went wrong, so nothing is known of the work: it may still run, and must not be sent again.

    Not an outcome of the attempt. *gone* means the provider says it knows no such work (404): true for good
    only when it keeps saying so for a minute or more; *failure* is what the attempt ends with then.
    """

    failure: Failure
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Probed:
    """What a free call found: whether a provider takes our credentials, in words.

    Where nothing can be learnt it is *ok*, and *evidence* says that it is not known.
    """

    ok: bool
    evidence: str


class Adapter(Protocol):
    """One remote API. Only asyncio.CancelledError ever leaves it: every failure is a classified Failure.

    Each method keeps to `call.timeout` in total, sends its request at most once, and fills the reply's facts
    (phase, elapsed, ids) as far as they are known.
    """

    @property
    def name(self) -> str:
        """The provider's name in the configuration."""
        ...

    async def submit(self, call: Call) -> Reply:
        """Ask for the work. Pending when the provider goes on in the background, whatever was asked."""
        ...

    async def poll(self, call: Call, provider_job_id: str) -> Reply | PollFailed:
        """Ask what became of work that is Pending. A Failure is the work's own, PollFailed the question's."""
        ...

    async def cancel(self, call: Call, provider_job_id: str) -> Reply | PollFailed:
        """Ask to stop it, and tell what state it is really in.

        Done when it finished first, Failure of class `cancelled` when it stopped, Pending when it still runs.
        """
        ...

    async def close(self) -> None:
        """Let go of what the adapter holds; further calls are errors of the caller."""
        ...


class ProvidersByName(Protocol):
    """Where adapters come from."""

    def get(self, name: str) -> Adapter:
        """The adapter of the provider *name*. Raises NotFound, UsageError."""
        ...

    async def close(self) -> None:
        """Close all of them."""
        ...

    def configure(self, settings: "Settings") -> None:
        """Make adapters by new settings from now on."""
        ...
