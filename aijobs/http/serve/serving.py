"""What the routes have in common: the store's services, the secrets, the bounds."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from aijobs.core.clock import Chance, Clock
from aijobs.core.log_events import Log
from aijobs.core.settings import Settings
from aijobs.http.serve.group_commit import GroupCommit
from aijobs.http.serve.late_notes import LateNotes
from aijobs.http.serve.store_faults import StoreFaults
from aijobs.http.serve.threads import Threads, may_commit
from aijobs.services.coordinator import Coordinator
from aijobs.services.metrics import Metrics
from aijobs.services.refusals import Refusals
from aijobs.services.tracing import Tracing
from aijobs.services.webhooks import Webhooks
from aijobs.store.engine import Store

CRON_VARIABLE = "CRON_SECRET"
TOKEN_VARIABLE = "AIJOBS_API_TOKEN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Secrets:
    """Who may do what. None: the routes behind it are off, not open."""

    cron: str | None = field(default=None, repr=False)
    api: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Self:
        """As the environment has them; blank is none."""
        cron, api = (environ.get(name, "").strip() or None for name in (CRON_VARIABLE, TOKEN_VARIABLE))
        return cls(cron=cron, api=api)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How long, in seconds, and how many."""

    body: float = 10.0  # until a whole body has arrived
    head: float = 10.0  # until a whole header has arrived
    read: float = 30.0  # within which a client has to go on reading its answer
    store: float = 5.0  # until the store has answered; providers give a webhook some ten seconds
    heartbeat: float = 15.0  # between two signs of life in an event stream
    streams: int = 200  # event streams at once
    connections: int = 1000  # for one more, the one goes that kept us waiting longest; 503 if none waits
    deliveries: int = 1000  # webhooks that wait to be written; 503 for one more
    refusals: float = 5.0  # between two writes of what was refused
    threads: int = 4
    retry_after: int = 5  # what is said when the store is away


class Serving:
    """One server at work. Belongs to its event loop."""

    def __init__(
        self, store: Store, settings: Settings, *, secrets: Secrets, chance: Chance, log: Log,
        clock: Clock | None = None, bounds: Bounds | None = None, tracing: Tracing | None = None,
    ) -> None:  # fmt: skip
        self.store = store
        store.before_commit = may_commit
        self.settings = settings
        self.secrets = secrets
        self.log = log
        self.clock = clock or store.clock
        self.bounds = bounds or Bounds()
        self.coordinator = Coordinator(store, settings, chance=chance, clock=clock, tracing=tracing)
        self.webhooks = Webhooks(self.coordinator, settings)
        self.threads = Threads(self.bounds.threads, patience=self.bounds.store)
        self.inbox = GroupCommit(
            self.webhooks.record, self.threads, most=self.bounds.deliveries, patience=self.bounds.store
        )
        self.metrics = Metrics(store, settings)
        self.scraping = asyncio.Lock()
        self.stopping = asyncio.Event()
        self.streams = 0
        self.faults = StoreFaults(log, self.clock)
        self.refused = LateNotes(
            Refusals(store, settings), self.threads, clock=self.clock, log=log, every=self.bounds.refusals,
            stopping=self.stopping,
        )  # fmt: skip

    @property
    def takes_webhooks(self) -> bool:
        """Whether a provider has a secret by which its deliveries can be believed."""
        return any(provider.webhook_secret for provider in self.settings.providers.values())
