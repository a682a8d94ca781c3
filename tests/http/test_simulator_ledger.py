"""What the simulator remembers of its calls: how many at once, and what was paid for."""

import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from aijobs.core.clock import seeded_chance
from aijobs.http.simulator import RunningSimulator, server, start_in_thread
from tests.support.asking import chat, echo, message, response
from tests.support.wait import eventually

SECRET = {"authorization": "Bearer sk-secret", "x-api-key": "sk-secret", "api-key": "sk-secret"}


def test_a_call_is_shown_with_its_times_and_without_text_or_credentials(http: httpx.Client) -> None:
    http.post("/v1/responses", json={"model": "m", "input": "private words"}, headers=SECRET)

    shown = http.get("/_calls")
    (call,) = shown.json()["calls"]

    assert (call["method"], call["path"], call["model"], call["status"]) == (
        "POST",
        "/v1/responses",
        "m",
        200,
    )
    assert call["at"] <= call["finished_at"]
    assert call["body_bytes"] == 37
    assert len(call["body_sha256"]) == 64
    assert "private" not in shown.text
    assert "sk-secret" not in shown.text


def test_ids_and_trace_context_are_shown(http: httpx.Client) -> None:
    sent = {"x-client-request-id": "aijobs-j1-2", "idempotency-key": "j1", "traceparent": "00-1-2-01"}

    http.post("/v1/echo", json={}, headers=sent)

    (call,) = http.get("/_calls").json()["calls"]
    assert (call["client_request_id"], call["idempotency_key"], call["job"]) == ("aijobs-j1-2", "j1", "j1")
    assert call["headers"]["traceparent"] == "00-1-2-01"


def test_later_calls_can_be_asked_for_alone(http: httpx.Client) -> None:
    for text in ("a", "b", "c"):
        response(http, text)

    assert [call["seq"] for call in http.get("/_calls", params={"after": "2"}).json()["calls"]] == [3]


def test_what_was_paid_for_is_counted_by_job_and_by_call(
    http: httpx.Client, simulator: RunningSimulator
) -> None:
    simulator.set_fault("429x1")
    for attempt in (1, 2, 3):
        headers = {"x-client-request-id": f"aijobs-j1-{attempt}"}
        http.post("/v1/responses", json={"model": "m", "input": "x"}, headers=headers)

    counts = http.get("/_calls").json()

    assert counts["submits_by_job"] == {"j1": 3}
    assert counts["billed_by_job"] == {"j1": 2}
    assert counts["billed_by_client_request"] == {"aijobs-j1-2": 1, "aijobs-j1-3": 1}
    assert (simulator.billed(), simulator.billed("j1"), simulator.billed("j2")) == (2, 2, 0)


def test_asking_what_became_of_it_costs_nothing(http: httpx.Client, simulator: RunningSimulator) -> None:
    response_id = response(http, background=True).json()["id"]
    http.get(f"/v1/responses/{response_id}")
    http.post(f"/v1/responses/{response_id}/cancel")

    assert simulator.billed() == 1
    assert [call.response_id for call in simulator.calls()] == [response_id] * 3


def test_the_most_at_once_is_known_by_key(simulator: RunningSimulator) -> None:
    def ask(key: str) -> None:
        with httpx.Client(base_url=simulator.url, trust_env=False) as http:
            response(http, fault="header_hang=0.4", simulator={"key": key}, safety_identifier=f"user-{key}")

    keys = ["a", "a", "a", "b"]
    with ThreadPoolExecutor(len(keys)) as threads:
        asking = [threads.submit(ask, key) for key in keys]
        eventually(lambda: simulator.peak() == 4)
        assert all(isinstance(one.exception(), httpx.RemoteProtocolError) for one in asking)

    assert (simulator.peak("key:a"), simulator.peak("key:b")) == (3, 1)
    assert (simulator.peak("user:user-a"), simulator.peak("model:m")) == (3, 4)
    assert eventually(lambda: simulator.snapshot()["in_flight"] == {})


def test_background_work_is_counted_while_it_runs(simulator: RunningSimulator, http: httpx.Client) -> None:
    ids = [response(http, background=True, fault="in_progress_forever").json()["id"] for _ in range(3)]

    assert simulator.snapshot()["running"] == {"all": 3, "model:m": 3}
    for response_id in ids:
        http.post(f"/v1/responses/{response_id}/cancel")

    assert simulator.snapshot()["running"] == {}
    assert (simulator.peak_running(), simulator.peak()) == (3, 1)


def test_a_rate_limit_is_kept(simulator: RunningSimulator, http: httpx.Client) -> None:
    simulator.set_fault("rate_limit=2")

    answers = [response(http, str(n)) for n in range(3)]

    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert answers[2].headers["retry-after"] == "1"


def test_a_limit_on_calls_at_once_is_kept(simulator: RunningSimulator) -> None:
    simulator.set_fault("concurrency_limit=2")
    simulator.set_latency(0.5)

    def ask(number: int) -> int:
        with httpx.Client(base_url=simulator.url, trust_env=False) as http:
            return response(http, str(number)).status_code

    with ThreadPoolExecutor(4) as threads:
        codes = sorted(threads.map(ask, range(4)))

    assert codes == [200, 200, 429, 429]


@pytest.mark.parametrize("ask", [response, chat, message, echo])
def test_a_fault_strikes_each_job_as_often_as_it_says(
    simulator: RunningSimulator, http: httpx.Client, ask: Any
) -> None:
    simulator.set_fault("429x2,500x1")

    codes = {job: [ask(http, job).status_code for _ in range(4)] for job in ("one", "two")}

    assert codes == {"one": [429, 429, 500, 200], "two": [429, 429, 500, 200]}


def test_counts_of_a_requests_own_fault_are_kept_too(http: httpx.Client) -> None:
    assert [response(http, fault="429x2").status_code for _ in range(3)] == [429, 429, 200]


def test_a_requests_own_fault_replaces_the_servers(simulator: RunningSimulator, http: httpx.Client) -> None:
    simulator.set_fault("500")

    assert response(http, fault="ok").status_code == 200
    assert response(http, fault="429").status_code == 429
    assert response(http).status_code == 500


def test_chance_decides_over_a_fault() -> None:
    with (
        start_in_thread(fault="500:0.5", chance=seeded_chance(3)) as simulator,
        httpx.Client(base_url=simulator.url, trust_env=False) as http,
    ):
        codes = [response(http, str(number)).status_code for number in range(60)]

    assert 15 < codes.count(500) < 45
    assert codes.count(200) == 60 - codes.count(500)


def test_faults_and_latency_change_while_it_runs(http: httpx.Client, simulator: RunningSimulator) -> None:
    changed = http.post("/_faults", json={"fault": "503_overloaded", "latency": "1ms-2ms", "poll_after": 0.5})

    assert changed.json()["fault"] == "503_overloaded"
    assert changed.json()["latency_seconds"] == [0.001, 0.002]
    assert response(http).status_code == 503
    assert http.get("/_faults").json()["catalogue"]["rst"]
    assert http.post("/_faults", json={"fault": None, "poll_after": None}).json()["fault"] == ""
    assert response(http).status_code == 200


def test_webhooks_are_configured_while_it_runs(http: httpx.Client) -> None:
    on = http.post("/_faults", json={"webhook_url": "http://127.0.0.1:9/"}).json()
    off = http.post("/_faults", json={"webhook_url": None}).json()

    assert (on["webhook_url"], off["webhook_url"]) == ("http://127.0.0.1:9/", None)


@pytest.mark.parametrize(
    "wanted", [{"fault": "no_such"}, {"latency": "soon"}, {"nonsense": 1}, [], {"webhook_url": "ftp://x"}]
)
def test_a_change_that_means_nothing_changes_nothing(
    http: httpx.Client, simulator: RunningSimulator, wanted: object
) -> None:
    simulator.set_fault("429")

    refused = http.post("/_faults", json=wanted)

    assert refused.status_code == 400
    assert refused.json()["error"]
    assert http.get("/_faults").json()["fault"] == "429"


@pytest.mark.parametrize(
    "wrong", [{"fault": "429s"}, {"latency": "soon"}, {"webhook_url": "http://x", "webhook_secret": "x"}]
)
def test_a_simulator_that_was_asked_for_nonsense_does_not_start(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"fault|latency|base64|decodes"):
        start_in_thread(**wrong)  # type: ignore[arg-type]


def test_a_reset_forgets_calls_responses_and_counts(simulator: RunningSimulator, http: httpx.Client) -> None:
    simulator.set_fault("429x1")
    response(http)
    response(http, fault="500x1")
    response_id = response(http).json()["id"]

    assert http.post("/_reset").status_code == 204

    assert http.get("/_calls").json()["calls"] == []
    assert http.get(f"/v1/responses/{response_id}").status_code == 404
    assert response(http).status_code == 429
    assert response(http, fault="500x1").status_code == 500


def test_echo_pays_once_for_an_idempotency_key(http: httpx.Client, simulator: RunningSimulator) -> None:
    def ask(key: str) -> httpx.Response:
        return http.post("/v1/echo", json={"x": [1, "ü"]}, headers={"idempotency-key": key})

    first, again, other = ask("k1"), ask("k1"), ask("k2")

    assert first.json()["received"] == {"x": [1, "ü"]}
    assert again.json() == first.json()
    assert again.headers["idempotent-replayed"] == "true"
    assert other.json()["id"] != first.json()["id"]
    assert simulator.billed() == 2


def test_echo_pays_once_even_when_the_first_answer_was_lost(
    http: httpx.Client, simulator: RunningSimulator
) -> None:
    headers = {"idempotency-key": "k", "x-simulator-fault": "close_before_headersx1"}
    with pytest.raises(httpx.RemoteProtocolError):
        http.post("/v1/echo", json={}, headers=headers)

    assert http.post("/v1/echo", json={}, headers=headers).status_code == 200
    assert simulator.billed("k") == 1


def test_inference_pays_again_whatever_the_key(http: httpx.Client, simulator: RunningSimulator) -> None:
    for _ in range(2):
        http.post("/v1/responses", json={"model": "m", "input": "x"}, headers={"idempotency-key": "k"})

    assert simulator.billed("k") == 2


def test_unknown_paths_and_methods_are_answered_tidily(http: httpx.Client) -> None:
    assert http.get("/v1/nothing").status_code == 404
    assert http.get("/v1/responses").status_code == 405


def test_closing_hangs_up_on_whoever_waits(simulator: RunningSimulator) -> None:
    own = start_in_thread(fault="header_hang", latency=0)
    outcome: list[bytes] = []

    def wait() -> None:
        with socket.create_connection(("127.0.0.1", own.port)) as connection:
            body = json.dumps({"model": "m", "input": "x"})
            head = f"POST /v1/responses HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
            connection.sendall((head + body).encode())
            outcome.append(connection.recv(100))

    waiting = threading.Thread(target=wait)
    waiting.start()
    eventually(lambda: own.peak() == 1)
    own.close()
    waiting.join(5)

    assert outcome == [b""]
    assert not waiting.is_alive()


def test_a_closed_simulator_still_tells_what_it_was_asked() -> None:
    with start_in_thread() as own, httpx.Client(base_url=own.url, trust_env=False) as http:
        response(http)
    own.close()

    assert [call.status for call in own.calls()] == [200]
    with pytest.raises(httpx.ConnectError):
        httpx.post(f"{own.url}/v1/echo", json={}, trust_env=False)


def test_answers_in_two_pieces_do_not_wait_for_nagle() -> None:
    with server.listen("127.0.0.1", 0) as listener:
        assert listener.proto == socket.IPPROTO_TCP


def test_closing_forgets_webhooks_that_are_still_to_come() -> None:
    with (
        start_in_thread(webhook_url="http://127.0.0.1:9/") as own,
        httpx.Client(base_url=own.url, trust_env=False) as http,
    ):
        response(http, background=True, fault="webhook_late=60")
        response(http, background=True, simulator={"latency": 60})
        eventually(lambda: own.snapshot()["running"] == {"all": 1, "model:m": 1})

    assert own.snapshot()["webhooks"] == []


def test_a_port_that_is_taken_is_an_error(simulator: RunningSimulator) -> None:
    with pytest.raises(OSError, match="in use"):
        start_in_thread(port=simulator.port)


def test_a_thousand_slow_calls_wait_side_by_side() -> None:
    with start_in_thread(latency=1) as own:
        connections = []
        try:
            for _ in range(1000):
                connection = socket.create_connection(("127.0.0.1", own.port))
                connections.append(connection)
                connection.sendall(
                    b"POST /v1/echo HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}"
                )
            heads = [connection.recv(12) for connection in connections]
        finally:
            for connection in connections:
                connection.close()

    assert set(heads) == {b"HTTP/1.1 200"}
    assert own.peak() > 500
