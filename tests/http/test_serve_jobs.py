"""Jobs over HTTP: accepted, asked after, stopped, followed; and what guards all that."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from aijobs.core.errors import StoreUnreachable
from aijobs.core.log_events import LogEvent
from aijobs.core.model import ErrorClass, Status
from aijobs.core.switches import SwitchKind
from aijobs.http.serve import Bounds, Secrets
from aijobs.services.coordinator import Coordinator
from aijobs.services.switching import Switching
from aijobs.store import jobs
from aijobs.store.engine import Store
from tests.support.clock import ManualClock
from tests.support.jobs import claim_one, fail, present, settings_of, succeed
from tests.support.serving import ALL, CRON, TOKEN, Served, serving
from tests.support.wait import eventually

TYPES = {
    "t": {"provider": "p", "tier": "simple", "input_schema": {"type": "object", "maxProperties": 3}},
    "long": {"provider": "p", "tier": "complex", "stale_results": {"allowed": True}},
}
SETTINGS = settings_of(
    types=TYPES,
    schedules={"often": {"cron": "* * * * *", "timezone": "UTC", "type": "t", "overlap": "allow"}},
)


@pytest.fixture
def served(store: Store) -> Iterator[Served]:
    with serving(store, settings=SETTINGS, bounds=Bounds(heartbeat=0.2, body=0.5)) as one:
        yield one


@pytest.fixture
def coordinator(store: Store, chance: Any) -> Coordinator:
    return Coordinator(store, SETTINGS, chance=chance)


def post(served: Served, **values: Any) -> httpx.Response:
    return served.http.post("/jobs", json={"type": "t", **values})


# --- In -------------------------------------------------------------------------------------------


def test_a_job_is_accepted_and_says_when_to_ask(served: Served, store: Store) -> None:
    answer = post(served, input={"n": 1}, user="ana", key="k1", priority=5)

    assert answer.status_code == 202
    value = answer.json()
    assert {name: value[name] for name in ("status", "type", "user", "key", "duplicate", "result")} == {
        "status": "pending", "type": "t", "user": "ana", "key": "k1", "duplicate": False, "result": None,
    }  # fmt: skip
    assert answer.headers["location"] == f"/jobs/{value['id']}"
    assert int(answer.headers["retry-after"]) >= value["poll_after_seconds"] > 0
    job = present(store, value["id"])
    assert (job.priority, job.created_by) == (5, "http")


def test_a_job_belongs_to_the_trace_of_its_request(served: Served, store: Store) -> None:
    own, other = (f"00-{letter * 32}-{'b' * 16}-01" for letter in "ac")
    body = {"type": "t", "request_id": "r-1"}

    by_header = served.http.post("/jobs", json=body, headers={"traceparent": own}).json()["id"]
    by_body = served.http.post("/jobs", json=body | {"traceparent": other}, headers={"traceparent": own})
    garbled = served.http.post("/jobs", json=body, headers={"traceparent": "00-xyz"}).json()["id"]

    assert (present(store, by_header).traceparent, present(store, by_header).request_id) == (own, "r-1")
    assert present(store, by_body.json()["id"]).traceparent == other
    assert present(store, garbled).traceparent is None


def test_long_work_is_asked_after_less_often(served: Served) -> None:
    short, long = post(served), post(served, type="long")

    assert short.json()["poll_after_seconds"] < long.json()["poll_after_seconds"]
    assert int(short.headers["retry-after"]) < int(long.headers["retry-after"])


def test_a_known_key_is_the_same_job_and_then_its_result(served: Served, coordinator: Coordinator) -> None:
    first = post(served, key="k").json()
    again = post(served, key="k")
    succeed(coordinator, claim_one(coordinator), '{"x":1}')
    after = post(served, key="k")

    assert (again.status_code, again.json()["id"], again.json()["duplicate"]) == (200, first["id"], True)
    assert (after.status_code, after.json()["result"]) == (200, {"x": 1})
    assert "retry-after" not in after.headers


def test_while_stale_results_are_on_the_last_one_comes_along_marked(
    served: Served, store: Store, coordinator: Coordinator, clock: ManualClock
) -> None:
    first = post(served, type="long", user="ana").json()["id"]
    succeed(coordinator, claim_one(coordinator), '{"n": 1}')
    clock.advance(seconds=30)

    off = post(served, type="long", user="ana").json()
    Switching(store, SETTINGS).turn_on(
        SwitchKind.STALE_RESULTS, "long", actor="eve", reason="outage", lasting=None
    )
    on = post(served, type="long", user="ana").json()

    assert (off["stale_result"], on["result"]) == (None, None)
    told = on["stale_result"]
    assert (told["job_id"], told["age_seconds"], told["stale"], told["result"]) == (first, 30, True, {"n": 1})


def test_the_header_is_a_key_too_and_must_not_contradict(served: Served) -> None:
    header = {"idempotency-key": "k"}

    first = served.http.post("/jobs", json={"type": "t"}, headers=header)
    again = post(served, key="k")
    other = served.http.post("/jobs", json={"type": "t", "key": "j"}, headers=header)

    assert (first.status_code, again.status_code, other.status_code) == (202, 200, 422)


def test_the_key_in_the_header_is_utf8_as_it_is_in_the_body(served: Served) -> None:
    in_body = post(served, key="bestellung-ä-🎉")
    in_header = served.http.post(
        "/jobs", json={"type": "t"}, headers={"idempotency-key": "bestellung-ä-🎉".encode()}
    )
    no_text = served.http.post("/jobs", json={"type": "t"}, headers={"idempotency-key": b"k\xff"})

    assert (in_header.status_code, in_header.json()["id"]) == (200, in_body.json()["id"])
    assert (no_text.status_code, no_text.json()["error"]["kind"]) == (422, "usage")


def test_two_different_keys_in_two_headers_are_refused(served: Served) -> None:
    twice = [("idempotency-key", "a"), ("idempotency-key", "b")]

    assert served.http.post("/jobs", json={"type": "t"}, headers=twice).status_code == 422
    assert served.http.post("/jobs", json={"type": "t"}, headers=[twice[0], twice[0]]).status_code == 202


def test_a_key_with_another_input_is_a_conflict(served: Served) -> None:
    post(served, key="k", input={"n": 1})

    answer = post(served, key="k", input={"n": 2})

    assert (answer.status_code, answer.json()["error"]["kind"]) == (409, "key_conflict")


@pytest.mark.parametrize(
    "values",
    [
        {"type": "nothing"},
        {"type": None},
        {"type": 7},
        {"input": [1]},
        {"input": {"a": 1, "b": 2, "c": 3, "d": 4}},
        {"priority": 10**9},
        {"priority": "high"},
        {"delay": "soon"},
        {"delay": "5m", "at": "2030-01-01T00:00:00Z"},
        {"key": ""},
        {"key": "a\u0000b"},
        {"colour": "red"},
        {"max_attempts": 0},
        {"deadline": "2020-01-01T00:00:00Z"},
    ],
)
def test_what_the_command_line_refuses_is_422_here(served: Served, store: Store, values: Any) -> None:
    answer = post(served, **values)

    assert answer.status_code == 422
    assert answer.json()["error"]["message"]
    with store.read() as tx:
        assert jobs.counts(tx) == {}


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"nul", b'{"type":"t","type":"t"}', b"\xff", b'{"a":' * 500 + b"1" + b"}" * 500],
)
def test_what_is_no_json_object_is_400(served: Served, body: bytes) -> None:
    answer = served.http.post("/jobs", content=body, headers={"content-type": "application/json"})

    assert (answer.status_code, answer.json()["error"]["kind"]) == (400, "invalid_input")


def test_another_kind_of_body_and_too_much_of_it_are_refused(served: Served) -> None:
    form = served.http.post("/jobs", data={"type": "t"})
    giant = served.raw(
        f"POST /jobs HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\n"
        f"content-length: {1 << 30}\r\n\r\n".encode()
    )

    assert form.status_code == 415
    assert giant.startswith(b"HTTP/1.1 413")


# --- After ----------------------------------------------------------------------------------------


def test_a_job_is_shown_with_its_result_once_it_has_one(served: Served, coordinator: Coordinator) -> None:
    path = post(served).headers["location"]
    before = served.http.get(path)
    succeed(coordinator, claim_one(coordinator), '{"text":"\\ud800 å"}')
    after = served.http.get(path)

    assert (before.json()["status"], before.json()["result"]) == ("pending", None)
    assert "retry-after" in before.headers
    assert (after.json()["status"], after.json()["result"]) == ("succeeded", {"text": "\ud800 å"})
    assert "retry-after" not in after.headers
    assert after.headers["cache-control"] == "no-store"


def test_nobody_elses_input_is_shown(served: Served) -> None:
    path = post(served, input={"secret": "swordfish"}).headers["location"]

    assert "swordfish" not in served.http.get(path).text


@pytest.mark.parametrize("job_id", ["nothing", "%00", "a" * 5000, "..%2f..%2fetc", "é"])
def test_a_job_that_is_not_there_is_404(served: Served, job_id: str) -> None:
    for path in (f"/jobs/{job_id}", f"/jobs/{job_id}/events"):
        assert served.http.get(path).status_code == 404
    assert served.http.post(f"/jobs/{job_id}/cancel").status_code == 404


def test_a_waiting_job_is_cancelled_at_once_and_only_once(served: Served, store: Store) -> None:
    job_id = post(served).json()["id"]

    first = served.http.post(f"/jobs/{job_id}/cancel", json={"reason": "not needed"})
    again = served.http.post(f"/jobs/{job_id}/cancel")

    assert (first.status_code, first.json()["status"]) == (200, "cancelled")
    assert (again.status_code, again.json()["error"]["kind"]) == (409, "already_finished")
    with store.read() as tx:
        (event,) = jobs.events_of(tx, job_id)
    assert (event["actor"], event["reason"]) == ("http", "not needed")


def test_a_reason_that_says_nothing_or_is_no_text_cancels_nothing(served: Served, store: Store) -> None:
    job_id = post(served).json()["id"]

    for reason in ("", "   ", "a\0b", "x" * 1001, 7):
        answer = served.http.post(f"/jobs/{job_id}/cancel", json={"reason": reason})
        assert (answer.status_code, answer.json()["error"]["kind"]) == (422, "usage"), reason

    assert present(store, job_id).status is Status.PENDING
    assert served.http.post(f"/jobs/{job_id}/cancel", json={"reason": None}).status_code == 200


def test_a_running_job_is_asked_to_stop(served: Served, coordinator: Coordinator) -> None:
    job_id = post(served).json()["id"]
    claim_one(coordinator)

    answer = served.http.post(f"/jobs/{job_id}/cancel")

    assert (answer.status_code, answer.json()["status"]) == (202, "processing")
    assert answer.json()["cancel_requested_at"]


# --- Following ------------------------------------------------------------------------------------


def read_events(served: Served, job_id: str, *, last: str | None = None) -> list[dict[str, Any]]:
    headers = {"last-event-id": last} if last else {}
    with served.http.stream("GET", f"/jobs/{job_id}/events", headers=headers) as answer:
        assert answer.status_code in (200, 204)
        text = "".join(answer.iter_text())
    blocks = [
        dict(line.split(": ", 1) for line in block.split("\n")) for block in text.split("\n\n") if block
    ]
    return [block | {"data": json.loads(block["data"])} for block in blocks if "data" in block]


def in_background(work: Any) -> list[Any]:
    found: list[Any] = []
    threading.Thread(target=lambda: found.append(work()), daemon=True).start()
    return found


def test_a_job_is_followed_to_its_end(served: Served, coordinator: Coordinator, clock: ManualClock) -> None:
    job_id = post(served).json()["id"]
    found = in_background(lambda: read_events(served, job_id))
    clock.advance(seconds=1)
    fail(coordinator, claim_one(coordinator), ErrorClass.NETWORK)
    clock.advance(seconds=60)
    succeed(coordinator, claim_one(coordinator))

    (events,) = eventually(lambda: found)

    attempts = [one["data"]["outcome"] for one in events if one["event"] == "attempt"]
    assert attempts == ["failed", "succeeded"]
    assert (events[-1]["event"], events[-1]["data"]["status"]) == ("job", "succeeded")


def test_who_comes_back_gets_what_was_missed_and_nothing_twice(
    served: Served, coordinator: Coordinator, clock: ManualClock
) -> None:
    job_id = post(served).json()["id"]
    clock.advance(seconds=1)
    fail(coordinator, claim_one(coordinator), ErrorClass.NETWORK)
    clock.advance(seconds=1)
    coordinator.cancel(job_id, actor="ana", reason="enough")
    everything = read_events(served, job_id)

    rest = read_events(served, job_id, last=everything[0]["id"])
    nothing = served.http.get(f"/jobs/{job_id}/events", headers={"last-event-id": everything[-1]["id"]})

    assert [one["event"] for one in everything] == ["event", "attempt", "job"]
    assert rest == everything[1:]
    assert nothing.status_code == 204


def test_a_quiet_stream_shows_that_it_is_alive(served: Served) -> None:
    job_id = post(served).json()["id"]

    with served.http.stream("GET", f"/jobs/{job_id}/events") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert any(": alive" in text for text in answer.iter_text())


def test_streams_are_bounded(store: Store) -> None:
    with serving(store, settings=SETTINGS, bounds=Bounds(streams=1)) as served:
        path = f"/jobs/{post(served).json()['id']}/events"
        with served.http.stream("GET", path) as first:
            texts = first.iter_text()
            next(texts)
            assert served.http.get(path).status_code == 503
        assert eventually(lambda: served.http.head(path).status_code == 200)


def test_stopping_ends_the_streams(store: Store) -> None:
    with httpx.Client(trust_env=False) as http:
        with serving(store, settings=SETTINGS) as served:
            url = f"{served.url}/jobs/{post(served).json()['id']}/events"
            stream = http.stream("GET", url, headers=served.http.headers)
            texts = stream.__enter__().iter_text()
            next(texts)

        rest = "".join(texts)  # it has an end, or reading would time out
        stream.__exit__(None, None, None)

    assert "event: job" in rest


# --- Cron -----------------------------------------------------------------------------------------

WITH_CRON = {"authorization": f"Bearer {CRON}"}


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_tick_makes_the_jobs_that_fell_due_once(
    served: Served, clock: ManualClock, store: Store, method: str
) -> None:
    clock.advance(seconds=30)
    begin = served.http.request(method, "/tick", headers=WITH_CRON).json()["created"]
    clock.advance(seconds=60)

    first = served.http.request(method, "/tick", headers=WITH_CRON)
    again = served.http.request(method, "/tick", headers=WITH_CRON)

    assert first.status_code == again.status_code == 200
    assert len(first.json()["created"]) == 1
    assert again.json()["created"] == []
    with store.read() as tx:
        assert jobs.counts(tx) == {("t", Status.PENDING): len(begin) + 1}


def test_looking_does_not_tick(served: Served, store: Store, clock: ManualClock) -> None:
    clock.advance(seconds=30)
    assert served.http.head("/tick", headers=WITH_CRON).status_code == 405
    with store.read() as tx:
        assert jobs.counts(tx) == {}


# --- Guards ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": ""},
        {"authorization": "Bearer"},
        {"authorization": "Bearer wrong"},
        {"authorization": f"Basic {TOKEN}"},
        {"authorization": f"Bearer {TOKEN}x"},
        {"authorization": b"Bearer \xff\xfe"},
        {"authorization": f"Bearer {CRON}"},
        [("authorization", f"Bearer {TOKEN}"), ("authorization", "Bearer wrong")],
    ],
)
def test_without_the_one_right_token_there_is_no_answer(served: Served, headers: Any) -> None:
    with httpx.Client(base_url=served.url, trust_env=False) as stranger:
        for method, path in (
            ("POST", "/jobs"), ("GET", "/jobs/x"), ("POST", "/jobs/x/cancel"), ("GET", "/jobs/x/events"),
        ):  # fmt: skip
            answer = stranger.request(method, path, headers=headers)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"


def test_each_token_opens_its_own_door_only(served: Served) -> None:
    assert served.http.get("/tick").status_code == 401
    assert served.http.get("/jobs/x", headers=WITH_CRON).status_code == 401


def test_what_has_no_secret_is_not_there(store: Store) -> None:
    with serving(store, secrets=Secrets()) as served:
        for method, path in (("POST", "/jobs"), ("GET", "/jobs/x"), ("GET", "/tick"), ("POST", "/tick")):
            assert served.http.request(method, path).status_code == 404
        assert set(served.http.get("/openapi.json").json()["paths"]) == {
            "/healthz",
            "/metrics",
            "/readyz",
            "/webhooks/{provider}",
        }


def test_blank_secrets_are_none() -> None:
    assert Secrets.of({"CRON_SECRET": " ", "AIJOBS_API_TOKEN": ""}) == Secrets()
    assert ALL.api is not None
    assert ALL.api not in repr(ALL)


# --- The house ------------------------------------------------------------------------------------


def test_health_needs_no_store_and_readiness_does(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    good = served.http.get("/readyz").status_code

    def away(*_: object) -> None:
        raise StoreUnreachable("it is away")

    monkeypatch.setattr(jobs, "get", away)

    assert good == 200
    assert served.http.get("/readyz").status_code == 503
    assert served.http.get("/healthz").json() == {"status": "ok"}
    assert served.http.get("/jobs/x").headers["retry-after"]


def test_prometheus_reads_the_metrics(served: Served) -> None:
    answer = served.http.get("/metrics")

    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert "# TYPE aijobs_" in answer.text


def test_a_defect_is_500_without_its_text_and_the_log_says_where(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("swordfish")

    monkeypatch.setattr(jobs, "get", broken)
    answer = served.http.get("/jobs/x")

    assert (answer.status_code, "swordfish" in answer.text) == (500, False)
    (said,) = served.log.fields_of(LogEvent.REQUEST_FAILED)
    assert said["route"] == "/jobs/{job_id}"
    assert "swordfish" not in str(said)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/jobs/x/nothing", 404),
        ("GET", "/jobs/", 404),
        ("GET", "/jobs", 405),
        ("DELETE", "/jobs/x", 405),
        ("POST", "/healthz", 405),
        ("HEAD", "/healthz", 200),
    ],
)
def test_wrong_addresses_and_methods_are_told_so(served: Served, method: str, path: str, status: int) -> None:
    answer = served.http.request(method, path)

    assert answer.status_code == status
    if status >= 400:
        assert answer.json()["error"]["kind"] in ("not_found", "method_not_allowed")


@pytest.mark.parametrize("prefix", ["", "/below"])
def test_behind_a_prefix_it_works_whether_or_not_the_proxy_takes_it_away(store: Store, prefix: str) -> None:
    with (
        serving(store, settings=SETTINGS, root_path="/below") as served,
        httpx.Client(headers=served.http.headers, trust_env=False) as http,
    ):
        base = f"http://127.0.0.1:{served.port}{prefix}"
        made = http.post(f"{base}/jobs", json={"type": "t"})

        assert made.headers["location"].startswith("/below/jobs/")
        assert http.get(f"{base}/jobs/{made.json()['id']}").status_code == 200
        assert http.get(f"{base}/openapi.json").json()["servers"] == [{"url": "/below"}]


def test_a_full_backlog_is_too_many_requests_and_says_when_to_come_again(store: Store) -> None:
    settings = settings_of(types={"t": {"provider": "p", "backlog": 1}})
    with serving(store, settings=settings) as served:
        post(served, input={"n": 1})

        answer = post(served, input={"n": 2})

    assert (answer.status_code, answer.json()["error"]["kind"]) == (429, "backlog_full")
    assert int(answer.headers["retry-after"]) > 0
