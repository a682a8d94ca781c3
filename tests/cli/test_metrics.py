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


def test_there_is_no_json_of_it(run_cli):
    assert run_cli("metrics", "--json").code == 2


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
