"""`metrics`, and a worker that serves them."""

import socket
from itertools import accumulate

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.collector import collector


def test_the_text_goes_to_stdout_or_in_one_step_to_a_file(run_cli, tmp_path):
    shown = run_cli("metrics")
    written = run_cli("metrics", "--output", str(tmp_path / "a.prom"))

    assert shown.code == written.code == 0
    assert shown.out.endswith("\n")
    assert list(text_string_to_metric_families(shown.out))
    assert written.out == ""
    assert (tmp_path / "a.prom").read_text() == shown.out


def test_as_json_it_is_what_the_text_says(run_cli):
    run_cli("enqueue", "demo")
    run_cli("worker", "--drain", "-q")

    text, told = run_cli("metrics").out, run_cli("metrics", "--json").json["metrics"]

    read = {(one.name, tuple(sorted(one.labels.items()))): one.value
            for family in text_string_to_metric_families(text) for one in family.samples}  # fmt: skip
    said = {(one["name"], tuple(sorted(one["labels"].items()))): one["value"]
            for family in told for one in family["samples"]}  # fmt: skip
    assert said == read
    assert any(value for value in said.values())
    assert {family["type"] for family in told} == {"counter", "gauge", "histogram"}


def test_a_file_is_not_written_as_json(run_cli, tmp_path):
    assert run_cli("metrics", "--json", "--output", str(tmp_path / "a.prom")).code == 2
    assert not (tmp_path / "a.prom").exists()


def test_what_is_pushed_to_opentelemetry_is_what_the_text_says(run_cli, monkeypatch):
    run_cli("enqueue", "demo")
    run_cli("worker", "--drain", "-q")
    with collector() as one:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", one.url)
        pushed = run_cli("metrics", "--push", "--json", environ={"OTEL_EXPORTER_OTLP_ENDPOINT": one.url})

    read = {(sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(run_cli("metrics").out)
            for sample in family.samples}  # fmt: skip
    told = dict(line for metric in one.metrics for line in _lines_of(metric))
    moving = {series for series in read if "age_seconds" in series[0]}
    assert (pushed.code, pushed.json["pushed"] >= len(one.metrics) > 20) == (0, True)
    assert {series: value for series, value in told.items() if series not in moving} == {
        series: value for series, value in read.items() if series not in moving
    }
    assert {metric.WhichOneof("data") for metric in one.metrics} == {"sum", "gauge", "histogram"}
    assert all(
        m.sum.is_monotonic and m.sum.aggregation_temporality == 2 for m in one.metrics if m.HasField("sum")
    )


def _lines_of(metric):
    """What Prometheus' text would say of it."""
    kind = metric.WhichOneof("data")
    for point in getattr(metric, kind).data_points:
        labels = {one.key: one.value.string_value for one in point.attributes}
        if kind != "histogram":
            yield _line(metric.name, labels, point.as_double)
            continue
        bounds = [f"{bound:g}" for bound in point.explicit_bounds] + ["+Inf"]
        for bound, below in zip(bounds, accumulate(point.bucket_counts), strict=True):
            yield _line(f"{metric.name}_bucket", {**labels, "le": bound}, below)
        yield _line(f"{metric.name}_sum", labels, point.sum)
        yield _line(f"{metric.name}_count", labels, point.count)


def _line(name, labels, value):
    return (name, tuple(sorted(labels.items()))), value


def test_an_endpoint_that_does_not_take_the_metrics_is_one_line_and_exit_1(run_cli, monkeypatch):
    with collector() as one:
        one.status = 400
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", f"{one.url}/v1/metrics")
        run = run_cli("metrics", "--push", environ={"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": one.url})

    assert (run.code, run.out) == (1, "")
    error, hint = run.err.splitlines()
    assert error.startswith("error: the OTLP endpoint did not take the metrics: ")
    assert "400" in error
    assert hint.startswith("hint: ")


def test_an_endpoint_that_cannot_be_one_is_told_by_kind_without_its_value(run_cli, monkeypatch):
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": "nowhere-s3cret", "OTEL_EXPORTER_OTLP_TIMEOUT": "soon"}
    for name, value in environ.items():
        monkeypatch.setenv(name, value)

    run = run_cli("metrics", "--push", environ=environ)

    assert run.code == 1
    assert run.err.startswith("error: the OTLP endpoint did not take the metrics: MissingSchema\n")
    assert "s3cret" not in run.err


def test_metrics_are_pushed_nowhere_by_accident(run_cli, tmp_path):
    to = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
    nowhere = run_cli("metrics", "--push")
    both = run_cli("metrics", "--push", "--output", str(tmp_path / "a.prom"))

    off = run_cli("metrics", "--push", environ={**to, "OTEL_SDK_DISABLED": "true"})
    none = run_cli("metrics", "--push", environ={**to, "OTEL_METRICS_EXPORTER": "none"})

    assert (nowhere.code, both.code, off.code, none.code) == (2, 2, 2, 2)
    assert "OTEL_SDK_DISABLED" in off.err
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in nowhere.err


@pytest.mark.parametrize(
    ("variable", "value", "there_is"),
    [
        ("OTEL_METRICS_EXPORTER", "prometheus", "otlp"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "http/protobuf"),
        ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "http/json", "http/protobuf"),
    ],
)
def test_a_way_to_send_that_is_not_there_is_told_with_its_variable_and_what_to_do(
    run_cli, variable, value, there_is
):
    to = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}

    run = run_cli("metrics", "--push", environ={**to, variable: value})

    assert (run.code, run.out) == (2, "")
    assert run.err.splitlines() == [
        f"error: the metrics cannot be sent: {variable} is '{value}', and aijobs has only {there_is}",
        f"hint: set {variable}={there_is}, or unset it",
    ]


def test_a_worker_whose_port_is_taken_says_so_and_works(run_cli):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        run = run_cli("worker", "--drain", "--metrics-port", port, "--json")

    assert run.code == 0
    assert f"warning: no metrics on 127.0.0.1:{port}" in run.err


def test_a_worker_says_where_its_metrics_are(run_cli):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])

    run = run_cli("worker", "--drain", "--metrics-port", port)

    assert f"metrics on http://127.0.0.1:{port}/metrics" in run.err
