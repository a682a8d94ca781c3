"""The OpenAPI document says what the server does."""

import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import httpx
import jsonschema
import pytest

from aijobs.core.model import Status
from aijobs.http.serve.app import _routes
from aijobs.services.coordinator import Coordinator
from aijobs.store.engine import Store
from tests.support.jobs import claim_one, succeed
from tests.support.serving import CRON, Served, serving, with_webhooks


@pytest.fixture
def served(store: Store) -> Iterator[Served]:
    with serving(store) as one:
        yield one


@pytest.fixture
def document(served: Served) -> dict[str, Any]:
    found: dict[str, Any] = served.http.get("/openapi.json").json()
    return found


def holds(document: dict[str, Any], answer: httpx.Response, path: str) -> None:
    """Check that *answer* is one of those that the document names for its route, and of that shape."""
    operation = document["paths"][path][answer.request.method.lower()]
    described = operation["responses"][str(answer.status_code)]
    schema = described["content"]["application/json"]["schema"]
    jsonschema.validate(answer.json(), schema | {"components": document["components"]})
    for name in described.get("headers", {}):
        assert name.lower() in answer.headers or answer.json()["status"] in [s for s in Status if s.final]


def test_every_reference_in_it_leads_somewhere(document: dict[str, Any]) -> None:
    names = set(re.findall(r"#/components/schemas/(\w+)", str(document)))

    assert names == set(document["components"]["schemas"])


def test_it_names_every_route_there_is_with_its_methods(
    document: dict[str, Any],
) -> None:
    everything = SimpleNamespace(takes_webhooks=True, secrets=SimpleNamespace(cron="x", api="x"))
    routes = {
        route.path: {method.lower() for method in route.methods or () if method != "HEAD"}
        for route in _routes(everything)  # type: ignore[arg-type]
        if route.path != "/openapi.json"
    }

    assert {path: set(operations) for path, operations in document["paths"].items()} == routes


def test_answers_have_the_shapes_it_promises(served: Served, document: dict[str, Any], chance: Any) -> None:
    coordinator = Coordinator(served.store, with_webhooks(), chance=chance)
    made = served.http.post("/jobs", json={"type": "t", "key": "k"})
    path = f"/jobs/{made.json()['id']}"

    holds(document, made, "/jobs")
    holds(document, served.http.post("/jobs", json={"type": "t", "key": "k"}), "/jobs")
    holds(document, served.http.post("/jobs", json={"type": "t", "key": "k", "input": {"n": 2}}), "/jobs")
    holds(document, served.http.post("/jobs", json={"type": "nothing"}), "/jobs")
    holds(document, served.http.post("/jobs", content=b"{"), "/jobs")
    holds(document, served.http.get(path), "/jobs/{job_id}")
    holds(
        document, served.http.post(f"{path}/cancel", headers={"authorization": "x"}), "/jobs/{job_id}/cancel"
    )
    succeed(coordinator, claim_one(coordinator))
    holds(document, served.http.get(path), "/jobs/{job_id}")
    holds(document, served.http.post(f"{path}/cancel"), "/jobs/{job_id}/cancel")
    holds(document, served.http.get("/jobs/nothing"), "/jobs/{job_id}")
    holds(document, served.http.post("/tick", headers={"authorization": f"Bearer {CRON}"}), "/tick")
    holds(document, served.deliver(), "/webhooks/{provider}")
    holds(document, served.deliver(headers={"webhook-signature": "v1,x"}), "/webhooks/{provider}")
    holds(document, served.http.get("/readyz"), "/readyz")
