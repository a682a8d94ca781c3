"""The simulator's webhooks: others' libraries agree with them, except where they are wrong on purpose."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from aijobs.core.clock import SystemClock
from aijobs.core.signature import Refused, Verified, verify
from aijobs.core.signing_key import decode_key
from aijobs.http.simulator import TEST_SECRET, RunningSimulator
from tests.support.asking import response
from tests.support.receiver import Received, Receiver, receiver
from tests.support.wait import eventually


def run(
    simulator: RunningSimulator, http: httpx.Client, inbox: Receiver, fault: str = "", *, count: int = 1
) -> tuple[str, list[Received]]:
    """One background response from its beginning to its *count* webhooks."""
    simulator.set_webhook(inbox.url)
    response_id = str(response(http, background=True, fault=fault).json()["id"])
    eventually(lambda: len(inbox.deliveries) >= count)
    return response_id, list(inbox.deliveries)


def verdict(delivery: Received) -> str:
    """What our own receiver would say."""
    result = verify(delivery.headers, delivery.body, keys=[decode_key(TEST_SECRET)], now=SystemClock().now())
    return "verified" if isinstance(result, Verified) else str(result.kind)


def test_a_webhook_is_thin_and_signed(simulator: RunningSimulator, http: httpx.Client) -> None:
    with receiver() as inbox:
        response_id, (delivery,) = run(simulator, http, inbox)

    body: dict[str, Any] = Webhook(TEST_SECRET).verify(delivery.body, delivery.headers)
    assert body["type"] == "response.completed"
    assert body["data"] == {"id": response_id}
    assert delivery.headers["webhook-id"].startswith("wh_")
    assert delivery.headers["webhook-id"] != body["id"]
    assert verdict(delivery) == "verified"


def test_it_is_signed_with_the_secret_that_was_given(simulator: RunningSimulator, http: httpx.Client) -> None:
    secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
    with receiver() as inbox:
        simulator.set_webhook(inbox.url, secret)
        response(http, background=True)
        (delivery,) = eventually(lambda: inbox.deliveries)

    assert Webhook(secret).verify(delivery.body, delivery.headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(TEST_SECRET).verify(delivery.body, delivery.headers)


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("failed_server_error", "response.failed"),
        ("incomplete_max", "response.incomplete"),
        ("cancelled_by_provider", "response.cancelled"),
        ("webhook_unknown_type", "response.pondered"),
    ],
)
def test_the_event_says_how_it_ended(
    simulator: RunningSimulator, http: httpx.Client, fault: str, kind: str
) -> None:
    with receiver() as inbox:
        _, (delivery,) = run(simulator, http, inbox, fault)

    assert json.loads(delivery.body)["type"] == kind
    assert verdict(delivery) == "verified"


def test_cancelling_sends_a_webhook_too(simulator: RunningSimulator, http: httpx.Client) -> None:
    with receiver() as inbox:
        simulator.set_webhook(inbox.url)
        response_id = response(http, background=True, fault="in_progress_forever").json()["id"]
        http.post(f"/v1/responses/{response_id}/cancel")
        (delivery,) = eventually(lambda: inbox.deliveries)

    assert json.loads(delivery.body)["type"] == "response.cancelled"


def test_foreground_responses_and_endless_ones_send_nothing(
    simulator: RunningSimulator, http: httpx.Client
) -> None:
    with receiver() as inbox:
        simulator.set_webhook(inbox.url)
        response(http)
        response(http, background=True, fault="queued_forever")
        response(http, background=True, fault="webhook_never")
        last = response(http, background=True).json()["id"]
        (delivery,) = eventually(lambda: inbox.deliveries)

    assert json.loads(delivery.body)["data"] == {"id": last}


def test_a_webhook_may_come_before_the_answer(simulator: RunningSimulator, http: httpx.Client) -> None:
    with receiver() as inbox:
        simulator.set_webhook(inbox.url)

        begun = response(http, background=True, fault="webhook_before_response")

        (delivery,) = inbox.deliveries
    assert begun.json()["status"] == "queued"
    assert json.loads(delivery.body)["data"] == {"id": begun.json()["id"]}


def test_a_duplicate_has_the_same_id_and_body(simulator: RunningSimulator, http: httpx.Client) -> None:
    with receiver() as inbox:
        _, (first, second) = run(simulator, http, inbox, "webhook_duplicate", count=2)

    assert first.body == second.body
    assert first.headers["webhook-id"] == second.headers["webhook-id"]


def test_a_late_contradiction_has_an_id_of_its_own(simulator: RunningSimulator, http: httpx.Client) -> None:
    with receiver() as inbox:
        _, deliveries = run(simulator, http, inbox, "webhook_out_of_order", count=2)

    assert [json.loads(d.body)["type"] for d in deliveries] == ["response.completed", "response.failed"]
    assert len({d.headers["webhook-id"] for d in deliveries}) == 2


def test_a_late_webhook_comes_after_the_work_is_done(simulator: RunningSimulator, http: httpx.Client) -> None:
    with receiver() as inbox:
        simulator.set_webhook(inbox.url)
        late = response(http, background=True, fault="webhook_late=0.3").json()["id"]
        prompt = response(http, background=True).json()["id"]
        eventually(lambda: len(inbox.deliveries) == 2)

    assert [json.loads(d.body)["data"]["id"] for d in inbox.deliveries] == [prompt, late]


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("webhook_bad_sig", "bad_signature"),
        ("webhook_garbage_sig", "bad_signature"),
        ("webhook_old_ts", "stale"),
        ("webhook_old_ts=301", "stale"),
        ("webhook_old_ts=200", "verified"),
        ("webhook_two_sigs", "verified"),
    ],
)
def test_signatures_are_wrong_in_the_way_that_was_asked_for(
    simulator: RunningSimulator, http: httpx.Client, fault: str, expected: str
) -> None:
    with receiver() as inbox:
        _, (delivery,) = run(simulator, http, inbox, fault)

    assert verdict(delivery) == expected
    if expected == "verified":
        Webhook(TEST_SECRET).verify(delivery.body, delivery.headers)
    else:
        with pytest.raises((WebhookVerificationError, ValueError)):
            Webhook(TEST_SECRET).verify(delivery.body, delivery.headers)


def test_two_signatures_are_those_of_a_rotation(simulator: RunningSimulator, http: httpx.Client) -> None:
    with receiver() as inbox:
        _, (delivery,) = run(simulator, http, inbox, "webhook_two_sigs")

    retired, good = delivery.headers["webhook-signature"].split(" ")
    assert retired != good
    only_retired = {**delivery.headers, "webhook-signature": retired}
    result = verify(only_retired, delivery.body, keys=[decode_key(TEST_SECRET)], now=SystemClock().now())
    assert isinstance(result, Refused)


def test_a_delivery_that_is_not_taken_comes_again_under_its_id(
    simulator: RunningSimulator, http: httpx.Client
) -> None:
    with receiver() as inbox:
        inbox.statuses = [500, 302]
        _, deliveries = run(simulator, http, inbox, count=3)
        sent = eventually(lambda: (s := simulator.snapshot()["webhooks"]) and len(s) == 3 and s)  # type: ignore[arg-type]

    assert len({d.headers["webhook-id"] for d in deliveries}) == 1
    assert [entry["status"] for entry in sent] == [500, 302, 204]  # type: ignore[attr-defined]


def test_nobody_listening_is_written_down(simulator: RunningSimulator, http: httpx.Client) -> None:
    simulator.set_webhook("http://127.0.0.1:9/nobody")

    response(http, background=True)

    (first, *_) = eventually(lambda: simulator.snapshot()["webhooks"])  # type: ignore[misc]
    assert first["status"] is None


def test_the_timestamp_is_the_attempts_own(simulator: RunningSimulator, http: httpx.Client) -> None:
    with receiver() as inbox:
        _, (delivery,) = run(simulator, http, inbox)

    sent = datetime.fromtimestamp(int(delivery.headers["webhook-timestamp"]), UTC)
    assert abs(sent - SystemClock().now()) < timedelta(seconds=30)
