"""Asking providers, for nothing, whether they take our credentials."""

from datetime import timedelta
from typing import Any

import pytest

from aijobs.core.clock import SystemClock
from aijobs.core.settings import Settings
from aijobs.http.simulator import start_in_thread
from aijobs.providers.contract import Probed
from aijobs.providers.probing import probe
from tests.support import hostile as peers
from tests.support.adapters import SECRET
from tests.support.hostile import closed_port, hostile

MODEL_KINDS = ("openai-responses", "openai-chat", "anthropic")


def ask(*, within: float = 10, **provider: Any) -> Probed:
    """What a probe finds of one provider."""
    if provider["kind"] not in ("python", "simulator"):
        provider.setdefault("api_key", SECRET)
    settings = Settings.model_validate({"providers": {"p": provider}})
    limit = timedelta(seconds=within)
    return probe(settings, ["p"], clock=SystemClock(), within=limit)["p"]


@pytest.mark.parametrize("kind", MODEL_KINDS)
def test_the_list_of_models_is_asked_for_with_the_credentials_and_nothing_else(kind: str) -> None:
    with hostile(peers.answers_json({"data": []})) as server:
        found = ask(kind=kind, base_url=server.url)

        header = "x-api-key" if kind == "anthropic" else "authorization"
        assert [request.partition(b" HTTP")[0] for request in server.requests] == [b"GET /models"]
        assert SECRET in (server.header(header) or "")
        assert server.header("idempotency-key") is None
    assert (found.ok, found.evidence) == (True, "p takes the credentials (GET /models: 200)")


@pytest.mark.parametrize("kind", [*MODEL_KINDS, "http"])
@pytest.mark.parametrize("status", ["401 Unauthorized", "403 Forbidden"])
def test_a_refusal_is_one_and_tells_no_secret(kind: str, status: str) -> None:
    error = {"error": {"message": f"Incorrect API key provided: {SECRET}", "type": "invalid_request_error"}}
    with hostile(peers.answers_json(error, status=status)) as server:
        found = ask(kind=kind, base_url=server.url)

    assert not found.ok
    assert "refuses the credentials" in found.evidence
    assert status[:3] in found.evidence
    assert SECRET not in found.evidence


@pytest.mark.parametrize("status", ["429 Too Many", "500 Oops", "302 Found", "400 Bad"])
def test_an_answer_that_shows_nothing_is_not_taken_for_a_welcome(status: str) -> None:
    with hostile(peers.answers_json({}, status=status)) as server:
        found = ask(kind="openai-chat", base_url=server.url)

    assert (found.ok, "did not show" in found.evidence) == (False, True)


@pytest.mark.parametrize("kind", [*MODEL_KINDS, "http"])
def test_who_is_not_there_fails(kind: str) -> None:
    found = ask(kind=kind, base_url=f"http://127.0.0.1:{closed_port()}")

    assert (found.ok, "no connection" in found.evidence) == (False, True)


def test_who_does_not_answer_is_not_waited_for() -> None:
    with hostile(peers.hangs_before_headers) as server:
        found = ask(kind="openai-chat", base_url=server.url, within=0.2)

    assert (found.ok, "time" in found.evidence) == (False, True)


def test_a_server_without_a_list_of_models_leaves_it_open_and_says_so() -> None:
    with hostile(peers.answers_json({}, status="404 Not Found")) as server:
        found = ask(kind="openai-chat", base_url=server.url)

    assert (found.ok, "not known" in found.evidence) == (True, True)


def test_an_endpoint_of_ones_own_is_asked_only_what_does_nothing() -> None:
    with hostile(peers.answers_json({}, status="405 Method Not Allowed")) as server:
        found = ask(kind="http", base_url=server.url, path="/work")

        assert server.first_line() == "OPTIONS /work HTTP/1.1"
    assert (found.ok, "only a job shows" in found.evidence) == (True, True)


@pytest.mark.parametrize("provider", [{"kind": "python", "callable": "m:f"}, {"kind": "simulator"}])
def test_what_runs_inside_the_workers_is_not_asked(provider: dict[str, Any]) -> None:
    found = ask(**provider)

    assert (found.ok, "in the workers" in found.evidence.replace("inside", "in")) == (True, True)


@pytest.mark.parametrize(
    ("fault", "ok", "says"),
    [
        ("", True, "takes the credentials"),
        ("401", False, "refuses the credentials"),
        ("403", False, "refuses the credentials"),
        ("503", False, "503"),
        ("429", True, "takes"),  # is about work, and this is none
        ("401x3", True, "takes"),  # its three times are left for the jobs
        ("in_progress_forever", True, "takes"),
    ],
)
def test_the_simulator_answers_as_its_fault_says(fault: str, ok: bool, says: str) -> None:
    with start_in_thread() as simulator:
        found = ask(kind="simulator", base_url=simulator.url, **({"fault": fault} if fault else {}))

    assert (found.ok, says in found.evidence) == (ok, True), found.evidence


def test_many_are_asked_at_once_and_a_name_nobody_configured_fails() -> None:
    settings = Settings.model_validate({"providers": {"a": {"kind": "simulator"}}})

    found = probe(settings, ["a", "b"], clock=SystemClock())

    assert [(name, one.ok) for name, one in found.items()] == [("a", True), ("b", False)]
