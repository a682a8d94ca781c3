"""`metrics`, and a worker that serves them."""

import socket

from prometheus_client.parser import text_string_to_metric_families


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
