"""A server under test, on a real socket, over a store of the test's."""

import contextlib
import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx

from aijobs.core.clock import Clock, seeded_chance
from aijobs.core.settings import Settings
from aijobs.core.signature import sign
from aijobs.core.signing_key import decode_key
from aijobs.http.listening import listen
from aijobs.http.serve import Bounds, Secrets, Server, Serving
from aijobs.store.engine import Store
from tests.support.jobs import settings_of
from tests.support.workers import Heard

SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
TOKEN = "token-of-the-test"
CRON = "cron-of-the-test"
ALL = Secrets(cron=CRON, api=TOKEN)


def with_webhooks(**sections: Any) -> Settings:
    """Settings whose provider `p` takes webhooks."""
    given = {"providers": {"p": {"kind": "openai-responses", "api_key": "k", "webhook_secret": SECRET}}}
    return settings_of(**(given | sections))


def body_of(kind: object = "response.completed", provider_job_id: object = "resp_1") -> bytes:
    """A thin event."""
    return json.dumps({"object": "event", "type": kind, "data": {"id": provider_job_id}}).encode()


@dataclass
class Served:
    """A server at work, and a client of it that has the token."""

    url: str
    port: int
    http: httpx.Client
    log: Heard
    clock: Clock
    store: Store

    def deliver(self, body: bytes | None = None, *, name: str = "wh_1", **more: Any) -> httpx.Response:
        """Send a webhook, rightly signed unless *more* says otherwise."""
        content = body_of() if body is None else body
        signed = sign(name, content, keys=[decode_key(SECRET)], now=self.clock.now())
        headers = {"content-type": "application/json", **signed, **more.pop("headers", {})}
        return self.http.post("/webhooks/p", content=content, headers=headers, **more)

    def raw(self, data: bytes, *, patience: float = 5.0, half: bool = False) -> bytes:
        """Send bytes as they are, and read until the server hangs up or nothing comes for *patience*."""
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            connection.settimeout(patience)
            connection.sendall(data)
            if half:
                connection.shutdown(socket.SHUT_WR)
            received = b""
            with contextlib.suppress(TimeoutError, ConnectionResetError):
                while chunk := connection.recv(65536):
                    received += chunk
            return received


@contextlib.contextmanager
def serving(
    store: Store, *, settings: Settings | None = None, secrets: Secrets = ALL, bounds: Bounds | None = None,
    root_path: str = "",
) -> Iterator[Served]:  # fmt: skip
    """A server for as long as the block lasts."""
    log = Heard()

    def make() -> Serving:
        return Serving(
            store, settings or with_webhooks(), secrets=secrets, chance=seeded_chance(5), log=log,
            bounds=bounds,
        )  # fmt: skip

    listener = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    headers = {"authorization": f"Bearer {TOKEN}"}
    with (
        Server(make, listener, root_path=root_path, bounds=bounds) as server,
        httpx.Client(base_url=server.url, headers=headers, timeout=10, trust_env=False) as http,
    ):
        yield Served(server.url, port, http, log, store.clock, store)
