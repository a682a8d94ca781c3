"""Refused webhooks on both databases: counted in memory, written seldom, told by metrics and by `doctor`."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from aijobs.core.clock import Chance
from aijobs.core.errors import StoreUnreachable
from aijobs.core.settings import Settings
from aijobs.core.signature import Refusal, sign
from aijobs.core.signing_key import decode_key
from aijobs.services.coordinator import Coordinator
from aijobs.services.doctor import Finding, examine
from aijobs.services.metrics import Metrics
from aijobs.services.pruner import Pruner
from aijobs.services.refusals import CAUSES, NO_SECRET, Refusals
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


def deliver(
    store: Store, settings: Settings, chance: Chance, name: str = "wh_1", body: bytes = body_of()
) -> None:
    """A delivery that is rightly signed."""
    webhooks = Webhooks(Coordinator(store, settings, chance=chance), settings)
    headers = sign(name, body, keys=[decode_key(SECRET)], now=store.clock.now())
    webhooks.intake("p", headers, body)


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

    did: list[object] = []

    def slow(tx: Any, rows: Any) -> None:
        refused.note("p", "stale", clock.now())
        did.extend((refused.write(), refused.pending))  # as another thread, meanwhile
        add(tx, rows)

    monkeypatch.setattr(table, "add", slow)
    refused.note("p", "stale", clock.now())
    did.append(refused.write())

    assert did == [False, 2, True]
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
    found = findings(store, settings)
    clock.advance(timedelta(hours=1))

    assert quiet == {}
    bad, stale = found["webhooks p bad_signature"], found["webhooks p stale"]
    assert (bad.ok, stale.ok) == (False, False)
    assert bad.evidence == (
        "4 deliveries refused since 00:00 UTC, the last at 00:05: no signature fits a configured secret, "
        "no good one within the hour"
    )
    assert stale.evidence.startswith(
        "2 deliveries refused since 00:10 UTC, the last at 00:10: rightly signed"
    )
    assert "webhook_secret" in str(bad.hint)
    assert "webhook_tolerance, which is 5m" in str(stale.hint)
    assert findings(store, settings) == {}


def test_a_forged_delivery_beside_good_ones_is_told_and_is_no_fault(
    store: Store, settings: Settings, refused: Refusals, clock: ManualClock, chance: Chance
) -> None:
    refused.note("p", "bad_signature", clock.now())
    refused.write()
    alone = findings(store, settings)
    clock.advance(2 * MINUTE)
    deliver(store, settings, chance)
    beside = findings(store, settings)

    assert [one.ok for one in (*alone.values(), *beside.values())] == [False, True]
    assert beside["webhooks p bad_signature"].evidence.endswith("the last good one at 00:02")


def test_what_was_refused_after_the_last_good_delivery_is_a_fault_if_it_is_more_than_one_or_lasts(
    store: Store, settings: Settings, refused: Refusals, clock: ManualClock, chance: Chance
) -> None:
    def refuse() -> Finding:
        refused.note("p", "bad_signature", clock.now())
        refused.write()
        return findings(store, settings)["webhooks p bad_signature"]

    refuse()
    clock.advance(5 * MINUTE)
    deliver(store, settings, chance)
    beside = refuse()  # within the minute of the good one: nobody knows which was first
    clock.advance(6 * MINUTE)
    single, more = refuse(), refuse()
    deliver(store, settings, chance, "wh_2", body_of("response.created"))  # of no job, and good
    good = findings(store, settings)["webhooks p bad_signature"]
    clock.advance(MINUTE)
    refuse()
    clock.advance(5 * MINUTE)
    lasting = findings(store, settings)["webhooks p bad_signature"]

    assert [one.ok for one in (beside, single, more, good, lasting)] == [True, True, False, True, False]
    assert more.evidence == (
        "2 deliveries refused since 00:11 UTC, the last at 00:11: no signature fits a configured secret, "
        "the last good one at 00:05"
    )
    assert good.evidence.startswith("4 deliveries refused since 00:00 UTC")
    assert lasting.evidence.startswith("1 delivery refused since 00:12 UTC")


def test_rubbish_to_an_address_without_a_secret_is_no_fault(
    store: Store, settings: Settings, refused: Refusals, clock: ManualClock
) -> None:
    for name in ("bare", "nobody"):
        refused.note(name, NO_SECRET, clock.now())
    refused.write()
    with store.write() as tx:
        table.add(tx, [(clock.now(), "of a drill", "stale", 1)])

    found = findings(store, settings)
    assert {name: one.ok for name, one in found.items()} == {
        "webhooks bare no_secret": True,
        "webhooks other no_secret": True,
    }
    assert "webhook_secret" in str(found["webhooks bare no_secret"].hint)


def test_every_reason_has_its_words_and_the_document_says_the_same() -> None:
    text = (Path(__file__).parents[2] / "docs" / "serving.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| [\d, ]+ \| (.+) \| (.+) \|$", text, re.MULTILINE)

    assert set(CAUSES) == {*Refusal, NO_SECRET}
    assert {name: (what.replace("`", ""), do.replace("`", "")) for name, what, do in rows} == {
        name: (cause.words, cause.serve) for name, cause in CAUSES.items()
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
