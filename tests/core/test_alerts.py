"""The alert rules: each fires on what it is for, is quiet below its bound and its floor, and says why."""

from datetime import UTC, datetime, timedelta

import pytest

from aijobs.core.alerts import DEFINITIONS, evaluate, prometheus_rules
from aijobs.core.overview import Load, Minute, Overview
from aijobs.core.settings.alerts import AlertRules
from tests.support.jobs import settings_of

NOW = datetime(2026, 1, 1, 12, 0, 30, tzinfo=UTC)
SETTINGS = settings_of(
    providers={"p": {"kind": "simulator"}},
    types={"t": {"provider": "p", "background": True, "background_options": {"max_run": "3h"}}},
)


def minute(ago: int = 1, **counts) -> Minute:
    return Minute(minute=NOW.replace(second=0) - timedelta(minutes=ago), type="t", **counts)


def seen(*minutes: Minute, **load) -> Overview:
    return Overview(now=NOW, loads={"t": Load(**load)}, minutes=minutes)


def ago(**span) -> datetime:
    return NOW - timedelta(**span)


LONG = 20  # minutes: within the window before
FIRING = [
    ("stuck", seen(running=1, oldest_running_at=ago(minutes=11))),
    ("stuck", seen(parked=1, oldest_parked_at=ago(hours=3, minutes=11))),
    ("retries", seen(minute(failed=1, most_retries=3))),
    ("failure_rate", seen(minute(succeeded=18, dead_letter=2))),
    ("queue_wait", seen(ready=1, oldest_ready_at=ago(minutes=11))),
    (
        "queue_wait_rising",
        seen(minute(LONG, started=20, waited_seconds=100), minute(started=20, waited_seconds=220)),
    ),
    ("success_falling", seen(minute(LONG, succeeded=20), minute(succeeded=16, dead_letter=4))),
    ("rate_limited_rising", seen(minute(LONG, rate_limited=4), minute(rate_limited=10))),
    ("leases_expired", seen(minute(lost=4))),
    ("webhook_delay", seen(minute(webhooks=1, longest_webhook_seconds=301))),
    ("dead_letters", seen(minute(dead_letter=1))),
]
QUIET = [
    ("stuck", seen(running=1, oldest_running_at=ago(minutes=9))),
    ("stuck", seen(parked=1, oldest_parked_at=ago(hours=2))),
    ("retries", seen(minute(failed=1, most_retries=2))),
    ("retries", seen(minute(6, failed=1, most_retries=3))),
    ("failure_rate", seen(minute(succeeded=19, dead_letter=1))),
    ("failure_rate", seen(minute(dead_letter=19))),  # too few to say anything
    ("failure_rate", seen(minute(6, dead_letter=20))),  # too long ago
    ("queue_wait", seen(ready=1, oldest_ready_at=ago(minutes=9))),
    (
        "queue_wait_rising",
        seen(minute(LONG, started=20, waited_seconds=0.1), minute(started=20, waited_seconds=4)),
    ),
    (
        "queue_wait_rising",
        seen(minute(LONG, started=19, waited_seconds=19), minute(started=20, waited_seconds=220)),
    ),
    ("success_falling", seen(minute(LONG, succeeded=20), minute(succeeded=19, dead_letter=1))),
    ("success_falling", seen(minute(succeeded=1, dead_letter=30))),
    ("rate_limited_rising", seen(minute(LONG, rate_limited=5), minute(rate_limited=10))),
    ("rate_limited_rising", seen(minute(rate_limited=9))),
    ("leases_expired", seen(minute(lost=3))),
    ("webhook_delay", seen(minute(webhooks=1, longest_webhook_seconds=299))),
    ("dead_letters", seen(minute(16, dead_letter=1))),
]


def firing(overview: Overview) -> set[str]:
    return {alert.rule for alert in evaluate(overview, SETTINGS) if alert.firing}


@pytest.mark.parametrize(("rule", "overview"), FIRING)
def test_a_rule_fires_on_what_it_is_for(rule, overview):
    assert rule in firing(overview)


@pytest.mark.parametrize(("rule", "overview"), QUIET)
def test_a_rule_is_quiet_below_its_bound_its_floor_and_outside_its_window(rule, overview):
    assert rule not in firing(overview)


def test_nothing_fires_on_an_idle_store():
    assert firing(seen()) == set()


def test_every_rule_of_the_configuration_is_defined_once_and_staged_here():
    names = [one.name for one in DEFINITIONS]

    assert sorted(names) == sorted(AlertRules.model_fields)
    assert {rule for rule, _ in FIRING} == {rule for rule, _ in QUIET} == set(names)


def test_the_loudest_come_first_and_say_what_was_measured():
    alerts = evaluate(seen(minute(succeeded=10, dead_letter=10)), SETTINGS)

    assert [alert.severity for alert in alerts] == sorted(alert.severity for alert in alerts)
    assert (alerts[0].rule, alerts[0].value, alerts[0].evidence) == ("failure_rate", 0.5, "50.0 %")


def test_a_rule_that_is_off_is_neither_evaluated_nor_exported():
    settings = settings_of(alerts={"rules": {"stuck": {"enabled": False}}})

    assert "stuck" not in {alert.rule for alert in evaluate(seen(), settings)}
    assert "AijobsStuck" not in str(prometheus_rules(settings))


def test_the_bounds_of_the_configuration_reach_both():
    rules = {"failure_rate": {"above": 0.5, "window": "10m", "min_samples": 7, "severity": "P2"}}
    settings = settings_of(alerts={"rules": rules})
    overview = seen(minute(9, succeeded=3, dead_letter=4))

    (alert,) = [one for one in evaluate(overview, settings) if one.rule == "failure_rate"]
    (exported,) = [
        rule
        for rule in prometheus_rules(settings)["groups"][0]["rules"]
        if rule["alert"] == "AijobsFailureRate"
    ]

    assert (alert.firing, alert.severity) == (True, "P2")
    assert "[600s]" in exported["expr"]
    assert exported["expr"].endswith(">= 7")
    assert "> 0.5 and" in exported["expr"]
    assert exported["labels"] == {"severity": "P2"}
