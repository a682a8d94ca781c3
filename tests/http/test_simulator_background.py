"""The life of a background response, and every way it can go wrong."""

from datetime import timedelta

import httpx
import pytest

from aijobs.http.simulator import RunningSimulator, start_in_thread
from tests.support.asking import response
from tests.support.clock import ManualClock
from tests.support.wait import eventually


def begin(http: httpx.Client, fault: str | None = None, **body: object) -> str:
    return str(response(http, fault=fault, background=True, **body).json()["id"])


def polled(http: httpx.Client, response_id: str) -> httpx.Response:
    return http.get(f"/v1/responses/{response_id}")


def statuses(http: httpx.Client, response_id: str, polls: int) -> list[str]:
    return [polled(http, response_id).json()["status"] for _ in range(polls)]


def test_the_answer_comes_before_the_work_is_done(http: httpx.Client) -> None:
    begun = response(http, background=True, fault="in_progress_forever").json()

    assert (begun["status"], begun["background"], begun["output"], begun["usage"]) == (
        "queued",
        True,
        [],
        None,
    )


def test_it_passes_through_its_states_in_time(simulator: RunningSimulator, http: httpx.Client) -> None:
    simulator.set_latency(0.3)
    response_id = begin(http)

    seen = []
    eventually(lambda: seen.append(polled(http, response_id).json()["status"]) or seen[-1] == "completed")

    assert list(dict.fromkeys(seen)) == ["queued", "in_progress", "completed"]


def test_the_latency_of_one_request_is_its_own(http: httpx.Client) -> None:
    slow = begin(http, simulator={"latency": 60})
    quick = begin(http)

    assert eventually(lambda: statuses(http, quick, 1) == ["completed"])
    assert statuses(http, slow, 1) != ["completed"]


@pytest.mark.parametrize(
    ("fault", "shown"),
    [
        ("queued_forever", ["queued", "queued", "queued"]),
        ("in_progress_forever", ["in_progress", "in_progress", "in_progress"]),
        ("stale_snapshot", ["in_progress", "in_progress", "in_progress"]),
        ("complete_after_n_polls", ["in_progress", "in_progress", "completed"]),
        ("complete_after_n_polls=2", ["in_progress", "completed", "completed"]),
    ],
)
def test_polls_see_what_the_fault_says(http: httpx.Client, fault: str, shown: list[str]) -> None:
    assert statuses(http, begin(http, fault), 3) == shown


@pytest.mark.parametrize(
    ("fault", "status", "code", "reason"),
    [
        ("incomplete_max", "incomplete", None, "max_output_tokens"),
        ("incomplete_filter", "incomplete", None, "content_filter"),
        ("failed_server_error", "failed", "server_error", None),
        ("failed_context", "failed", "context_length_exceeded", None),
        ("failed_429_in_200", "failed", "rate_limit_exceeded", None),
        ("failed_null", "failed", None, None),
        ("cancelled_by_provider", "cancelled", None, None),
        ("expired", "expired", None, None),
    ],
)
@pytest.mark.parametrize("background", [True, False])
def test_work_ends_as_the_fault_says(
    http: httpx.Client, fault: str, status: str, code: str | None, reason: str | None, background: bool
) -> None:
    response_id = response(http, fault=fault, background=background).json()["id"]

    body = eventually(lambda: (b := polled(http, response_id).json())["status"] == status and b)

    assert (body["error"] or {}).get("code") == code
    assert (body["incomplete_details"] or {}).get("reason") == reason


def test_a_rate_limit_inside_a_failed_response_says_when_to_come_back(http: httpx.Client) -> None:
    error = response(http, fault="failed_429_in_200=7").json()["error"]

    assert "try again in 7s" in error["message"]


def test_an_incomplete_response_keeps_its_text_and_usage(http: httpx.Client) -> None:
    body = response(http, fault="incomplete_max").json()

    assert body["output"][0]["content"][0]["text"]
    assert body["usage"]["output_tokens"] > 0


def test_the_response_may_be_unknown_for_a_while(http: httpx.Client) -> None:
    response_id = begin(http, "poll_404_then_ok")

    codes = [polled(http, response_id).status_code for _ in range(3)]

    assert codes == [404, 404, 200]


def test_the_response_may_be_unknown_for_ever(http: httpx.Client) -> None:
    response_id = begin(http, "poll_404_forever")

    assert [polled(http, response_id).status_code for _ in range(5)] == [404] * 5


def test_polls_may_fail_by_themselves(simulator: RunningSimulator, http: httpx.Client) -> None:
    response_id = begin(http)
    simulator.set_fault("poll_429=3x1,poll_503x1,poll_200_htmlx1")

    answers = [polled(http, response_id) for _ in range(4)]

    assert [answer.status_code for answer in answers] == [429, 503, 200, 200]
    assert answers[0].headers["retry-after"] == "3"
    assert answers[2].text.startswith("<!DOCTYPE")
    assert answers[3].json()["status"] == "completed"


def test_a_cancelled_response_stays_cancelled(http: httpx.Client) -> None:
    response_id = begin(http, "in_progress_forever")

    answer = http.post(f"/v1/responses/{response_id}/cancel")

    assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")
    assert statuses(http, response_id, 2) == ["cancelled", "cancelled"]


def test_cancelling_twice_or_too_late_returns_the_final_object(http: httpx.Client) -> None:
    response_id = begin(http, "complete_after_n_polls=1")
    polled(http, response_id)

    answers = [http.post(f"/v1/responses/{response_id}/cancel") for _ in range(2)]

    assert [(a.status_code, a.json()["status"]) for a in answers] == [(200, "completed")] * 2


def test_only_background_responses_can_be_cancelled(http: httpx.Client) -> None:
    response_id = response(http).json()["id"]

    assert http.post(f"/v1/responses/{response_id}/cancel").status_code == 400


def test_the_request_to_cancel_may_meet_a_conflict(http: httpx.Client) -> None:
    response_id = begin(http, "in_progress_forever,cancel_409x1")

    codes = [http.post(f"/v1/responses/{response_id}/cancel").status_code for _ in range(2)]

    assert codes == [409, 200]


def test_cancelled_may_turn_into_completed(http: httpx.Client) -> None:
    response_id = begin(http, "cancelled_then_completed", simulator={"latency": 60})

    cancelled = http.post(f"/v1/responses/{response_id}/cancel").json()

    assert cancelled["status"] == "cancelled"
    assert statuses(http, response_id, 3) == ["cancelled", "completed", "completed"]


def test_cancelled_may_turn_into_completed_however_often_it_was_asked_after(http: httpx.Client) -> None:
    response_id = begin(http, "cancelled_then_completed", simulator={"latency": 60})
    statuses(http, response_id, 3)

    cancelled = http.post(f"/v1/responses/{response_id}/cancel").json()

    assert cancelled["status"] == "cancelled"
    assert statuses(http, response_id, 2) == ["cancelled", "completed"]


def test_an_unknown_response_is_not_found(http: httpx.Client) -> None:
    for answer in (
        polled(http, "resp_x"),
        http.post("/v1/responses/resp_x/cancel"),
        http.delete("/v1/responses/x"),
    ):
        assert answer.status_code == 404
        assert "not found" in answer.json()["error"]["message"]


def test_a_deleted_response_is_gone(http: httpx.Client) -> None:
    response_id = begin(http)

    deleted = http.delete(f"/v1/responses/{response_id}").json()

    assert deleted == {"id": response_id, "object": "response", "deleted": True}
    assert polled(http, response_id).status_code == 404


@pytest.mark.parametrize(("store", "code"), [(False, 404), (True, 200)])
def test_what_is_not_stored_is_gone_ten_minutes_after_its_end(
    clock: ManualClock, store: bool, code: int
) -> None:
    with (
        start_in_thread(clock=clock) as simulator,
        httpx.Client(base_url=simulator.url, trust_env=False) as http,
    ):
        response_id = begin(http, store=store)
        eventually(lambda: statuses(http, response_id, 1) == ["completed"])
        clock.advance(timedelta(minutes=10))
        before = polled(http, response_id).status_code
        clock.advance(timedelta(seconds=1))

        assert before == 200
        assert polled(http, response_id).status_code == code


def test_unfinished_work_hints_when_to_ask_again() -> None:
    with (
        start_in_thread(poll_after=0.25) as simulator,
        httpx.Client(base_url=simulator.url, trust_env=False) as http,
    ):
        begun = response(http, background=True, fault="complete_after_n_polls=2")
        response_id = begun.json()["id"]
        first, second = polled(http, response_id), polled(http, response_id)

    assert begun.headers["openai-poll-after-ms"] == "250"
    assert first.headers["openai-poll-after-ms"] == "250"
    assert "openai-poll-after-ms" not in second.headers


def test_a_discount_window_needs_the_background(http: httpx.Client) -> None:
    window = {"background_options": {"completion_window": "2h"}}

    assert response(http, **window).status_code == 400
    assert response(http, background=True, **window).status_code == 200


def test_work_whose_answer_was_lost_still_runs(simulator: RunningSimulator, http: httpx.Client) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        response(http, background=True, fault="close_before_headers")

    (call,) = simulator.calls()
    assert call.response_id is not None
    assert eventually(lambda: statuses(http, str(call.response_id), 1) == ["completed"])
