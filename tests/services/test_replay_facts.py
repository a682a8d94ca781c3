"""What a plan is told of the providers it would call."""

from datetime import UTC, datetime

from aijobs.services.replay.facts import provider_facts
from aijobs.store.provider_states import ProviderState
from tests.support.jobs import settings_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_what_a_provider_last_said_of_its_limits_is_told_in_words() -> None:
    settings = settings_of(providers={"p": {"kind": "simulator"}})
    headers = '{"requests":{"limit":500,"remaining":0,"reset":"1s"},"tokens":{"remaining":12}}'

    facts = provider_facts(settings, "p", {"p": ProviderState(name="p", last_headers=headers)}, NOW)

    assert facts.limits == "p last said: requests: limit 500, remaining 0, reset 1s; tokens: remaining 12"


def test_a_provider_that_said_nothing_has_no_limits_told() -> None:
    facts = provider_facts(settings_of(), "p", {}, NOW)

    assert facts.limits is None
