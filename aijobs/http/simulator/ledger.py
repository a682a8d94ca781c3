"""What the simulator was asked: every call with its times, how many ran at once, and what was paid for."""

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from hashlib import sha256

from aijobs.core.clock import Clock
from aijobs.http.simulator.reply import Reply
from aijobs.http.simulator.request import Asked
from aijobs.http.simulator.wire import breaks

_SHOWN = (
    "user-agent", "content-type", "traceparent", "anthropic-version", "openai-organization", "openai-project",
    "accept-encoding",
)  # fmt: skip


@dataclass(slots=True, kw_only=True)
class CallRecord:
    """One call. Never its text and never a credential: the body only as size and checksum."""

    seq: int
    at: datetime
    method: str
    path: str
    model: str = ""
    job: str = ""
    key: str | None = None
    client_request_id: str | None = None
    idempotency_key: str | None = None
    background: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    body_bytes: int = 0
    body_sha256: str = ""
    in_flight: int = 0  # this one included
    fault: str | None = None
    status: int | None = None  # None: not answered yet, or the connection broke
    billed: bool = False
    response_id: str | None = None
    finished_at: datetime | None = None
    counted_under: tuple[str, ...] = ()


@dataclass(slots=True)
class Gauge:
    """How many at once under each key, and the most there ever were."""

    now: Counter[str] = field(default_factory=Counter)
    peak: Counter[str] = field(default_factory=Counter)

    def up(self, keys: tuple[str, ...]) -> None:
        """One more begins."""
        for key in keys:
            self.now[key] += 1
            self.peak[key] = max(self.peak[key], self.now[key])

    def down(self, keys: tuple[str, ...]) -> None:
        """One ends."""
        for key in keys:
            self.now[key] -= 1


_KEPT = 100_000


class Ledger:
    """The calls since the start or the last reset; of very many the newest, while the counts are of all."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.calls: deque[CallRecord] = deque(maxlen=_KEPT)
        self.webhooks: deque[dict[str, object]] = deque(maxlen=_KEPT)
        self.in_flight = Gauge()
        self.running = Gauge()  # background work, from its acceptance to its end
        self.submits: Counter[str] = Counter()
        self.billed: Counter[str] = Counter()
        self.billed_by_client_request: Counter[str] = Counter()
        self._recent: deque[float] = deque()
        self._seq = 0

    @contextmanager
    def call(self, method: str, path: str) -> Iterator[CallRecord]:
        """One call from its arrival to its last byte."""
        self._seq += 1
        record = CallRecord(seq=self._seq, at=self._clock.now(), method=method, path=path)
        self.calls.append(record)
        try:
            yield record
        finally:
            record.finished_at = self._clock.now()
            self.in_flight.down(record.counted_under)

    def begin(self, record: CallRecord, asked: Asked) -> None:
        """*record* turned out to ask for work: it is in flight until the end of the call."""
        _note(record, asked)
        record.counted_under = labels(asked)
        self.submits[asked.job] += 1
        self.in_flight.up(record.counted_under)
        record.in_flight = self.in_flight.now["all"]

    def settle(self, record: CallRecord, reply: Reply) -> None:
        """Write down how *record* was answered, before it is: a caller that has its answer finds it here."""
        record.status = None if breaks(reply) else reply.status
        record.response_id = reply.response_id or record.response_id
        record.billed = reply.billed
        if reply.billed:
            self.billed[record.job] += 1
            self.billed_by_client_request[record.client_request_id or ""] += 1

    def admit(self, per_second: float) -> bool:
        """Whether one more call fits within *per_second*; counted when it does."""
        now = self._clock.monotonic()
        while self._recent and self._recent[0] <= now - 1:
            self._recent.popleft()
        if len(self._recent) >= per_second:
            return False
        self._recent.append(now)
        return True

    def snapshot(self, after: int = 0) -> dict[str, object]:
        """Everything as JSON can hold it; calls after number *after*."""
        return {
            "calls": [_shown(call) for call in self.calls if call.seq > after],
            "in_flight": dict(+self.in_flight.now),
            "peak_in_flight": dict(self.in_flight.peak),
            "running": dict(+self.running.now),
            "peak_running": dict(self.running.peak),
            "submits_by_job": dict(self.submits),
            "billed": self.billed.total(),
            "billed_by_job": dict(self.billed),
            "billed_by_client_request": dict(self.billed_by_client_request),
            "webhooks": list(self.webhooks),
        }


def labels(asked: Asked) -> tuple[str, ...]:
    """The keys a call is counted under: all, its model, its user where it names one, its own key."""
    metadata = asked.body.get("metadata")
    named = metadata.get("user_id") or metadata.get("user") if isinstance(metadata, dict) else None
    user = asked.body.get("safety_identifier") or asked.body.get("user") or named
    keys = ["all"]
    keys += [f"model:{asked.model}"] if asked.model else []
    keys += [f"user:{user}"] if isinstance(user, str) else []
    keys += [f"key:{asked.orders.key}"] if asked.orders.key else []
    return tuple(keys)


def _note(record: CallRecord, asked: Asked) -> None:
    """Fill in what became known once the call was understood."""
    record.model = asked.model
    record.job = asked.job
    record.key = asked.orders.key
    record.client_request_id = asked.client_request_id
    record.idempotency_key = asked.idempotency_key
    record.background = asked.background
    record.headers = {name: asked.headers[name] for name in _SHOWN if name in asked.headers}
    record.body_bytes = len(asked.raw)
    record.body_sha256 = sha256(asked.raw).hexdigest()


def _shown(call: CallRecord) -> dict[str, object]:
    shown = asdict(call)
    del shown["counted_under"]
    for name in ("at", "finished_at"):
        if moment := shown[name]:
            shown[name] = moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
    return shown
