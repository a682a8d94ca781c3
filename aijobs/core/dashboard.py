"""The Grafana dashboard, as a value: panels over the exported metrics, for any Prometheus data source."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aijobs.core import totals as names

_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH, _HEIGHT, _COLUMNS = 8, 7, 24
_SCHEMA = 39  # the dashboard schema of Grafana 10 and later
_LEGEND = {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []}
_TOOLTIP = {"mode": "multi", "sort": "desc"}
_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "timeseries": {"legend": _LEGEND, "tooltip": _TOOLTIP},
    "state-timeline": {
        "legend": _LEGEND, "tooltip": _TOOLTIP, "showValue": "auto", "rowHeight": 0.9, "mergeValues": True,
    },
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One picture. *queries*: (PromQL, legend); *unit*: one of Grafana's; *states*: (value, word, colour)."""

    title: str
    queries: Sequence[tuple[str, str]]
    unit: str = "short"
    kind: str = "timeseries"
    states: Sequence[tuple[str, str, str]] = ()


def _rate(metric: str, by: str, labels: str = "") -> str:
    return f"sum by ({by}) (rate({metric}{labels}[$__rate_interval]))"


def _quantile(metric: str, share: float, by: str) -> str:
    return f"histogram_quantile({share}, sum by (le, {by}) (rate({metric}_bucket[$__rate_interval])))"


_ENDED = f'sum(increase({names.FINAL_STATUS}{{status=~"succeeded|dead_letter"}}[5m]))'
_DEAD = f'sum(increase({names.FINAL_STATUS}{{status="dead_letter"}}[5m]))'

PANELS = (
    Panel(title="Jobs that wait", queries=[('sum by (type) (aijobs_jobs{status="ready"})', "{{type}}")]),
    Panel(
        title="Oldest job that could run",
        queries=[("aijobs_oldest_ready_age_seconds", "{{type}}")],
        unit="s",
    ),
    Panel(
        title="Running and parked",
        queries=[('sum by (status) (aijobs_jobs{status=~"running|parked"})', "{{status}}")],
    ),
    Panel(
        title="Jobs that end",
        queries=[(_rate(names.FINAL_STATUS, "type, status"), "{{type}} {{status}}")],
        unit="ops",
    ),
    Panel(title="Failure rate, 5 minutes", queries=[(f"{_DEAD} / {_ENDED}", "failed")], unit="percentunit"),
    Panel(
        title="Time in the queue, 95 %",
        queries=[(_quantile(names.QUEUE_WAIT, 0.95, "type"), "{{type}}")],
        unit="s",
    ),
    Panel(
        title="Time of an attempt, 95 %",
        queries=[(_quantile(names.DURATION, 0.95, "type"), "{{type}}")],
        unit="s",
    ),
    Panel(
        title="Processing for too long",
        queries=[("aijobs_task_stuck_duration_seconds", "{{type}}")],
        unit="s",
    ),
    Panel(
        title="Retries by reason",
        queries=[(_rate(names.RETRIES, "provider, error_class"), "{{provider}} {{error_class}}")],
        unit="ops",
    ),
    Panel(
        title="Calls refused for their rate",
        queries=[(_rate(names.ATTEMPTS, "provider", '{error_class="rate_limited"}'), "{{provider}}")],
        unit="ops",
    ),
    Panel(
        title="Providers sent nothing",
        queries=[("aijobs_provider_paused", "{{provider}}")],
        kind="state-timeline",
        states=[("0", "called", "green"), ("1", "sent nothing", "red")],
    ),
    Panel(
        title="Breakers",
        queries=[("aijobs_provider_breaker_state == 1", "{{provider}} {{state}}")],
        kind="state-timeline",
        states=[("1", "so", "blue")],
    ),
    Panel(title="Dead letters, open", queries=[("aijobs_dead_letters_open", "{{type}}")]),
    Panel(title="Oldest dead letter", queries=[("aijobs_oldest_dead_letter_age_seconds", "age")], unit="s"),
    Panel(title="Leases that ran out", queries=[(_rate(names.LEASES_LOST, "type"), "{{type}}")], unit="ops"),
    Panel(
        title="Workers",
        queries=[("aijobs_workers", "{{state}}"), ("aijobs_worker_slots", "calls at once")],
    ),
    Panel(
        title="Webhooks",
        queries=[
            (_rate(names.DELIVERIES, "provider, result"), "{{provider}} {{result}}"),
            (_rate(names.REFUSALS, "provider, reason"), "{{provider}} refused: {{reason}}"),
        ],
        unit="ops",
    ),
    Panel(
        title="Delay of webhooks, 95 %",
        queries=[(_quantile(names.WEBHOOK_DELAY, 0.95, "provider"), "{{provider}}")],
        unit="s",
    ),
    Panel(
        title="Tokens",
        queries=[(_rate(names.TOKENS, "model, direction"), "{{model}} {{direction}}")],
        unit="ops",
    ),
    Panel(title="Cost in an hour", queries=[(f"sum by (model) (increase({names.COST}[1h]))", "{{model}}")]),
    Panel(title="Schedules overdue", queries=[("aijobs_schedule_overdue_seconds", "{{schedule}}")], unit="s"),
)


def dashboard() -> dict[str, Any]:
    """The dashboard as Grafana imports it."""
    return {
        "uid": "aijobs",
        "title": "aijobs",
        "tags": ["aijobs"],
        "schemaVersion": _SCHEMA,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "timezone": "utc",
        "time": {"from": "now-6h", "to": "now"},
        "annotations": {"list": []},
        "templating": {
            "list": [
                {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"}
            ]
        },
        "panels": [_panel(number, panel) for number, panel in enumerate(PANELS)],
    }


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    across = _COLUMNS // _WIDTH
    return {
        "id": number + 1,
        "type": panel.kind,
        "title": panel.title,
        "datasource": _SOURCE,
        "gridPos": {
            "x": number % across * _WIDTH, "y": number // across * _HEIGHT, "w": _WIDTH, "h": _HEIGHT,
        },
        "fieldConfig": {"defaults": _fields(panel), "overrides": []},
        "options": _OPTIONS[panel.kind],
        "targets": [
            {"refId": chr(ord("A") + n), "datasource": _SOURCE, "expr": expr, "legendFormat": legend}
            for n, (expr, legend) in enumerate(panel.queries)
        ],
    }  # fmt: skip


def _fields(panel: Panel) -> dict[str, Any]:
    words = {value: {"text": word, "color": colour} for value, word, colour in panel.states}
    mappings = [{"type": "value", "options": words}] if words else []
    return {"unit": panel.unit, "min": 0, "mappings": mappings}
