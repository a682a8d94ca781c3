"""Metrics on both databases: read from the store when asked, few labels, counters that never fall."""

import threading
import urllib.error
import urllib.request
from datetime import timedelta

import pytest
from prometheus_client.parser import text_string_to_metric_families

from aijobs.core.errors import StoreUnreachable, UsageError
from aijobs.core.lifecycle import Succeeded
from aijobs.core.model import CallFacts, ErrorClass, Usage
from aijobs.services.coordinator import Coordinator
from aijobs.services.metrics import CONTENT_TYPE, Metrics
from aijobs.services.metrics_server import serve_metrics
from aijobs.services.pruner import Pruner
from aijobs.store.deliveries import Delivery
from tests.support.jobs import claim_one, ended, fail, new_job, settings_of, succeed


@pytest.fixture
def settings():
    types = {"t": {"provider": "p", "model": "gpt-9"}}
    return settings_of(types=types, retention={"succeeded": "1d"})


@pytest.fixture
def coordinator(store, settings, chance):
    return Coordinator(store, settings, chance=chance)


@pytest.fixture
def scrape(store, settings):
    """The samples as {name: [(labels, value)]}."""

    def read(of=None):
        text = Metrics(store, of or settings).text()
        found: dict[str, list[tuple[dict[str, str], float]]] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                found.setdefault(sample.name, []).append((sample.labels, sample.value))
        return found

    return read


def value(found, name, **labels):
    """The one sample that has these labels among its own."""
    (only,) = [value for have, value in found[name] if labels.items() <= have.items()]
    return only


def start(coordinator, n=1, **changes):
    coordinator.enqueue(new_job(n, **changes), actor="t")
    return claim_one(coordinator)


def test_an_empty_store_reports_noughts_not_nothing(scrape):
    found = scrape()

    assert value(found, "aijobs_jobs", type="t", status="ready") == 0
    assert value(found, "aijobs_oldest_ready_age_seconds", type="t") == 0
    assert value(found, "aijobs_task_stuck_duration_seconds", type="t") == 0
    assert value(found, "aijobs_oldest_dead_letter_age_seconds") == 0
    assert value(found, "aijobs_task_final_status_total", type="t", status="dead_letter") == 0
    assert value(found, "aijobs_dead_letters_total", type="t", error_class="internal") == 0
    assert value(found, "aijobs_attempts_total", type="t", error_class="rate_limited") == 0
    assert "aijobs_success_rate" not in found


def test_the_names_of_what_is_asked_for_are_there(scrape, coordinator):
    succeed(coordinator, start(coordinator))
    fail(coordinator, start(coordinator, 2), ErrorClass.NETWORK)

    found = scrape()

    assert value(found, "aijobs_task_execution_duration_seconds_count", outcome="succeeded") == 1
    assert value(found, "aijobs_model_call_retry_count_total", provider="p", error_class="network") == 1
    assert value(found, "aijobs_task_final_status_total", type="t", status="succeeded") == 1
    assert value(found, "aijobs_queue_wait_seconds_bucket", type="t", le="+Inf") == 2
    assert value(found, "aijobs_success_rate", type="t") == 1
    assert value(found, "aijobs_task_retries_max", type="t") == 1
    assert value(found, "aijobs_provider_breaker_state", provider="p", state="closed") == 1
    assert value(found, "aijobs_provider_paused", provider="p") == 0


def test_a_drained_queue_goes_back_to_nought_and_ages_rise_without_any_worker(scrape, coordinator, clock):
    job = start(coordinator)
    clock.advance(timedelta(minutes=20))
    stuck = scrape()
    fail(coordinator, job, ErrorClass.INVALID_REQUEST)
    clock.advance(timedelta(days=1))
    idle = scrape()

    assert value(stuck, "aijobs_task_stuck_duration_seconds", type="t") == 1200
    assert value(idle, "aijobs_task_stuck_duration_seconds", type="t") == 0
    assert value(idle, "aijobs_oldest_dead_letter_age_seconds") == 86400
    assert value(idle, "aijobs_dead_letters_open", type="t") == 1


def test_counters_never_fall_when_what_they_counted_is_pruned(scrape, store, settings, coordinator, clock):
    succeed(coordinator, start(coordinator))
    before = scrape()
    clock.advance(timedelta(days=40))
    Pruner(store, settings).run()

    after = scrape()

    counters = [name for name in before if name.endswith(("_total", "_bucket", "_count", "_sum"))]
    assert all(after[name] == before[name] for name in counters)
    assert value(after, "aijobs_task_final_status_total", type="t", status="succeeded") == 1


def test_a_removed_type_disappears_and_is_counted_among_the_others(scrape, coordinator):
    start(coordinator)

    found = scrape(settings_of(types={"new": {"provider": "p"}}))

    assert {labels["type"] for labels, _ in found["aijobs_jobs"]} == {"new", "demo", "other"}
    assert value(found, "aijobs_jobs", type="other", status="running") == 1
    assert value(found, "aijobs_queue_wait_seconds_count", type="other") == 1


def test_odd_jobs_models_and_users_make_no_series(scrape, coordinator):
    def run(n):
        job = start(coordinator, n, user=f"user-{n}", key=f"key-{n}")
        facts = CallFacts(provider="p", model=f"strange-{n}", usage=Usage(input_tokens=1))
        coordinator.finish([ended(job, Succeeded(result="1", facts=facts))])

    run(0)
    before = sum(len(samples) for samples in scrape().values())
    for n in range(1, 20):
        run(n)
    found = scrape()

    assert sum(len(samples) for samples in found.values()) == before
    assert value(found, "aijobs_tokens_total", model="other", direction="input") == 20
    assert "user-" not in str(found)


def test_a_dated_edition_counts_as_its_model(scrape, coordinator):
    job = start(coordinator)
    facts = CallFacts(provider="p", model="gpt-9-2026-01-01", usage=Usage(output_tokens=7))
    coordinator.finish([ended(job, Succeeded(result="1", facts=facts))])

    assert value(scrape(), "aijobs_tokens_total", model="gpt-9", direction="output") == 7


def test_the_delay_of_a_webhook_is_measured_from_the_providers_event(scrape, coordinator, clock):
    now = clock.now()
    delivery = Delivery(
        provider="p", delivery_id="m", event_type="response.completed", provider_job_id="resp_1",
        job_id=None, body_hash="x", outcome="unmatched", sent_at=now - timedelta(seconds=40),
        received_at=now, handled_at=None,
    )  # fmt: skip
    coordinator.receive(delivery)

    found = scrape()

    assert value(found, "aijobs_webhook_delay_seconds_sum", provider="p") == 40
    assert value(found, "aijobs_webhook_delay_longest_seconds") == 40
    assert value(found, "aijobs_webhooks_unmatched") == 1


def test_scrapes_do_not_disturb_each_other(store, settings, coordinator):
    succeed(coordinator, start(coordinator))
    metrics = Metrics(store, settings)
    texts: list[str] = []
    threads = [threading.Thread(target=lambda: texts.append(metrics.text())) for _ in range(5)]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(texts) == 5
    assert len(set(texts)) == 1


# --- Where it goes --------------------------------------------------------------------------------


def test_a_file_is_replaced_in_one_step(store, settings, tmp_path):
    path = tmp_path / "aijobs.prom"
    path.write_text("old")

    Metrics(store, settings).write(path)

    assert list(text_string_to_metric_families(path.read_text()))
    assert [one.name for one in tmp_path.iterdir() if "prom" in one.name] == ["aijobs.prom"]
    assert path.stat().st_mode & 0o777 == 0o644
    with pytest.raises(UsageError):
        Metrics(store, settings).write(tmp_path / "nowhere" / "aijobs.prom")


def get(port: int, path: str = "/metrics"):
    return urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10)


def test_a_port_serves_the_same_text(store, settings):
    metrics = Metrics(store, settings)
    server = serve_metrics(metrics.text, host="127.0.0.1", port=0)
    try:
        with get(server.port) as answer:
            body, kind = answer.read().decode(), answer.headers["Content-Type"]
        with pytest.raises(urllib.error.HTTPError, match="404") as missing:
            get(server.port, "/elsewhere")
        missing.value.close()
    finally:
        server.close()

    assert (kind, body) == (CONTENT_TYPE, metrics.text())


def test_a_store_that_is_away_is_503_and_no_secret_is_told():
    def away() -> str:
        raise StoreUnreachable("postgresql://u:secret@h/d")

    server = serve_metrics(away, host="127.0.0.1", port=0)
    try:
        with pytest.raises(urllib.error.HTTPError, match="503") as refused:
            get(server.port)
        body = refused.value.read().decode()
        refused.value.close()
    finally:
        server.close()

    assert "secret" not in body


def test_a_port_in_use_is_an_error_and_one_given_back_works_at_once():
    first = serve_metrics(lambda: "", host="127.0.0.1", port=0)
    with pytest.raises(OSError, match="in use"):
        serve_metrics(lambda: "", host="127.0.0.1", port=first.port)
    get(first.port).close()
    first.close()

    again = serve_metrics(lambda: "", host="127.0.0.1", port=first.port)
    again.close()
