"""What Prometheus must make of the exported rules: of each a case in which it fires, and one in which not.

Values stand a minute apart, in promtool's notation: `0+2x15` is 0, 2, ... 30. A case is looked at in its last
minute. Counters rise for half an hour, because the trends compare the last quarter with the one before.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ENDED = 'aijobs_task_final_status_total{type="t",status="succeeded"}'
DEAD = 'aijobs_task_final_status_total{type="t",status="dead_letter"}'
WAITED = 'aijobs_queue_wait_seconds_sum{type="t"}'
STARTED = 'aijobs_queue_wait_seconds_count{type="t"}'
LIMITED = 'aijobs_attempts_total{type="t",provider="p",outcome="failed",error_class="rate_limited"}'
STUCK = 'aijobs_task_stuck_duration_seconds{type="t"}'
RETRIES = 'aijobs_task_retries_max{type="t"}'
OLDEST = 'aijobs_oldest_ready_age_seconds{type="t"}'
LOST = 'aijobs_leases_lost_total{type="t"}'
NEW_DEAD = 'aijobs_dead_letters_total{type="t",error_class="timeout"}'
WEBHOOK = "aijobs_webhook_delay_longest_seconds"


@dataclass(frozen=True, slots=True)
class Case:
    """*says* is the description of the alert after *minutes*; None: it is quiet."""

    alert: str
    severity: str
    minutes: int
    series: Mapping[str, str]
    says: str | None = None


CASES = (
    Case("Stuck", "P2", 2, {STUCK: "540+60x2"}, "11m 0s, above 10m"),
    Case("Stuck", "P2", 1, {STUCK: "540+60x2"}),
    Case("Retries", "P3", 1, {RETRIES: "2 3"}, "3 retries, above 2 retries of one job"),
    Case("Retries", "P3", 1, {RETRIES: "1 2"}),
    Case("FailureRate", "P1", 6, {ENDED: "0+9x6", DEAD: "0+1x6"}, "10%, above 5.0 %"),
    Case("FailureRate", "P1", 6, {ENDED: "0+24x6", DEAD: "0+1x6"}),
    Case("FailureRate", "P1", 6, {ENDED: "0+1x6", DEAD: "0+1x6"}),  # below the floor
    Case("FailureRate", "P1", 12, {ENDED: "0+9x12", DEAD: "0+5x5 25x6"}),  # over for longer than the window
    Case("QueueWait", "P2", 2, {OLDEST: "540+60x2"}, "11m 0s, above 10m"),
    Case("QueueWait", "P2", 1, {OLDEST: "540+60x2"}),
    Case(
        "QueueWaitRising", "P3", 30, {WAITED: "0+20x15 350+50x14", STARTED: "0+10x30"},
        "2.5 times the window before, above 2.0 times the window before",
    ),
    Case("QueueWaitRising", "P3", 30, {WAITED: "0+20x15 336+36x14", STARTED: "0+10x30"}),
    Case("QueueWaitRising", "P3", 30, {WAITED: "0+2x15 35+5x14", STARTED: "0+1x30"}),  # below the floor
    Case("SuccessFalling", "P2", 30, {ENDED: "0+8x30", DEAD: "0x15 2+2x14"}, "20%, above 10.0 %"),
    Case("SuccessFalling", "P2", 30, {ENDED: "0+19x30", DEAD: "0x15 1+1x14"}),
    Case(
        "RateLimitedRising", "P3", 30, {LIMITED: "0x15 1+1x14"},
        "15.0 times the window before, above 2.0 times the window before",
    ),
    Case("RateLimitedRising", "P3", 30, {LIMITED: "0+10x30"}),
    Case("RateLimitedRising", "P3", 30, {LIMITED: "0x21 1+1x8"}),  # below the floor
    Case("LeasesExpired", "P2", 20, {LOST: "0x9 1 2 3 4 4x7"}, "4, above 3"),
    Case("LeasesExpired", "P2", 20, {LOST: "0x9 1 2 3 3 3x7"}),
    Case("WebhookDelay", "P3", 1, {WEBHOOK: "300 360"}, "6m 0s, above 5m"),
    Case("WebhookDelay", "P3", 0, {WEBHOOK: "300 360"}),
    Case("DeadLetters", "P2", 5, {NEW_DEAD: "0x4 1"}, "1, above 0"),
    Case("DeadLetters", "P2", 5, {NEW_DEAD: "7x5"}),
)  # fmt: skip


def promtool_file(rules: str, summaries: Mapping[str, str]) -> dict[str, Any]:
    """The cases as promtool reads them; *rules* is the path of the rules file."""
    return {
        "rule_files": [rules],
        "evaluation_interval": "1m",
        "tests": [_test(case, summaries) for case in CASES],
    }


def _test(case: Case, summaries: Mapping[str, str]) -> dict[str, Any]:
    name = f"Aijobs{case.alert}"
    expected = {
        "exp_labels": {"severity": case.severity},
        "exp_annotations": {"summary": summaries[name], "description": case.says},
    }
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in case.series.items()],
        "alert_rule_test": [
            {
                "alertname": name,
                "eval_time": f"{case.minutes}m",
                "exp_alerts": [] if case.says is None else [expected],
            }
        ],
    }
