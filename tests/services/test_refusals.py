"""Refused webhooks on both databases: counted in memory, written seldom, told by metrics and by `doctor`."""

from datetime import timedelta
from typing import Any

import pytest

from aijobs.core.clock import Chance
from aijobs.core.errors import StoreUnreachable
from aijobs.core.settings import Settings
from aijobs.core.signature import sign
from aijobs.core.signing_key import decode_key
from aijobs.services.coordinator import Coordinator
from aijobs.services.doctor import Finding, examine
from aijobs.services.metrics import Metrics
from aijobs.services.pruner import Pruner
from aijobs.services.refusals import NO_SECRET, Refusals
from aijobs.services.webhooks import Webhooks
from aijobs.store import refusals as table
from aijobs.store.engine import Store
from tests.support.clock import ManualClock
from tests.support.serving import SECRET, body_of, with_webhooks

MINUTE = timedelta(minutes=1)


@pytest.fixture
def settings() -> Settings:
    """A provider that takes webhooks, and one that does not."""
    keyed = {"kind": "openai-responses", "api_key": "k"}
    return with_webhooks(providers={"p": {**keyed, "webhook_secret": SECRET}, "bare": keyed})


@pytest.fixture
def refused(store: Store, settings: Settings) -> Refusals:
    return Refusals(store, settings)


def told(store: Store, settings: Settings) -> dict[tuple[str, str], float]:
    """What the metrics say was refused: by provider and reason, noughts left out."""
    families = {one.name: one for one in Metrics(store, settings).families()}
    samples = families["aijobs_webhook_refusals_total"].samples
    return {
        (dict(one.labels)["provider"], dict(one.labels)["reason"]): one.value for one in samples if one.value
    }


def findings(store: Store, settings: Settings) -> dict[str, Finding]:
    """What `doctor` says of webhooks, by check."""
    found = examine(lambda: settings, lambda: store)
    return {one.check: one for one in found if one.check.startswith("webhooks ")}


def deliver(store: Store, settings: Settings, chance: Chance, name: str = "wh_1") -> None:
    """A delivery that is rightly signed."""
    webhooks = Webhooks(Coordinator(store, settings, chance=chance), settings)
    headers = sign(name, body_of(), keys=[decode_key(SECRET)], now=store.clock.now())
    webhooks.intake("p", headers, body_of())


def away(*_: object, **__: object) -> Any:
    raise StoreUnreachable("away")


def test_ten_thousand_bad_deliveries_are_one_small_transaction(
    store: Store, settings: Settings, refused: Refusals, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []
    add = table.add
    monkeypatch.setattr(table, "add", lambda tx, rows: (written.append(len(rows)), add(tx, rows)))

    for n in range(10_000):
        refused.note(
            "p" if n % 2 else f"rubbish-{n}", ("bad_signature", "malformed")[n // 2 % 2], clock.now()
        )
    waiting = refused.pending
    refused.write()
    refused.write()

    assert (waiting, refused.pending, written) == (10_000, 0, [4])
    assert told(store, settings) == {
        ("p", "bad_signature"): 2500,
        ("p", "malformed"): 2500,
        ("other", "bad_signature"): 2500,
        ("other", "malformed"): 2500,
    }


def test_a_provider_that_takes_webhooks_has_a_nought_for_each_reason(
    store: Store, settings: Settings
) -> None:
    text = Metrics(store, settings).text()

    for reason in ("bad_signature", "malformed", "stale"):
        assert f'aijobs_webhook_refusals_total{{provider="p",reason="{reason}"}} 0\n' in text
    assert 'refusals_total{provider="bare"' not in text


def test_while_the_store_is_away_nothing_is_lost_and_nothing_grows(
    store: Store, settings: Settings, refused: Refusals, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "add", away)
    for _ in range(100):
        refused.note("p", "stale", clock.now())
        clock.advance(MINUTE)
        with pytest.raises(StoreUnreachable):
            refused.write()
    monkeypatch.undo()
    kept = len(refused._counted)
    refused.write()

    assert (kept, refused.pending) == (1, 0)
    assert told(store, settings) == {("p", "stale"): 100}


def test_who_comes_while_another_writes_writes_nothing(
    store: Store, settings: Settings, refused: Refusals, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = table.add

    def slow(tx: Any, rows: Any) -> None:
        refused.note("p", "stale", clock.now())
        refused.write()  # as another thread, meanwhile
        add(tx, rows)

    monkeypatch.setattr(table, "add", slow)
    refused.note("p", "stale", clock.now())
    refused.write()

    assert told(store, settings) == {("p", "stale"): 1}
    assert refused.pending == 1


def test_the_doctor_says_what_was_refused_since_when_and_what_to_look_at(
    store: Store, settings: Settings, refused: Refusals, clock: ManualClock
) -> None:
    quiet = findings(store, settings)
    for reason in ("bad_signature", "bad_signature", "stale"):
        for _ in range(2):  # two writes in a minute
            refused.note("p", reason, clock.now())
            refused.write()
        clock.advance(5 * MINUTE)
    texts = [one for one in examine(lambda: settings, lambda: store) if one.check == "webhooks p"]
    clock.advance(timedelta(hours=1))

    assert quiet == {}
    assert [one.ok for one in texts] == [False, False]
    assert texts[0].evidence == (
        "4 deliveries refused since 00:00 UTC, the last at 00:05: no signature fits a configured secret, "
        "none was taken since"
    )
    assert texts[1].evidence.startswith(
        "2 deliveries refused since 00:10 UTC, the last at 00:10: rightly signed"
    )
    assert "webhook_secret" in str(texts[0].hint)
    assert "webhook_tolerance, which is 5m" in str(texts[1].hint)
    assert findings(store, settings) == {}


def test_a_forged_delivery_beside_good_ones_is_told_and_is_no_fault(
    store: Store, settings: Settings, refused: Refusals, clock: ManualClock, chance: Chance
) -> None:
    deliver(store, settings, chance, "before")
    refused.note("p", "bad_signature", clock.now())
    refused.write()
    alone = findings(store, settings)
    clock.advance(2 * MINUTE)
    deliver(store, settings, chance, "after")

    assert not alone["webhooks p"].ok
    assert findings(store, settings)["webhooks p"].ok
    assert findings(store, settings)["webhooks p"].evidence.endswith("but others were taken since")


def test_rubbish_to_an_address_without_a_secret_is_no_fault(
    store: Store, settings: Settings, refused: Refusals, clock: ManualClock
) -> None:
    for name in ("bare", "nobody"):
        refused.note(name, NO_SECRET, clock.now())
    refused.write()
    with store.write() as tx:
        table.add(tx, [(clock.now(), "of a drill", "stale", 1)])

    assert {name: one.ok for name, one in findings(store, settings).items()} == {
        "webhooks bare": True,
        "webhooks other": True,
    }


def test_a_store_that_lacks_the_counts_keeps_the_doctor_from_nothing_else(
    store: Store, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "since", away)

    found = {one.check: one for one in examine(lambda: settings, lambda: store)}

    assert (found["webhooks"].ok, found["webhooks"].evidence) == (False, "away")
    assert "workers" in found


def test_pruning_forgets_the_minutes_and_not_the_total(
    store: Store, settings: Settings, refused: Refusals, clock: ManualClock
) -> None:
    refused.note("p", "stale", clock.now())
    refused.write()
    clock.advance(timedelta(days=15))
    Pruner(store, settings).run()

    with store.read() as tx:
        assert table.since(tx, clock.now() - timedelta(days=400)) == []
    assert told(store, settings) == {("p", "stale"): 1}
