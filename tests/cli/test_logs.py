"""What a command that runs on and on says: every line of its log is one of ours."""

import json
import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest

from aijobs.cli.context import Context
from aijobs.cli.logs import line_log


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    """The store's; what commands of this test hang on it is taken away afterwards."""
    found = logging.getLogger("aijobs.store")
    handlers = list(found.handlers)
    yield found
    found.handlers = handlers


def test_a_warning_of_the_store_is_one_line_of_the_log(
    logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):  # two commands in one process
        context = Context(environ={})
        line_log(context.printer, clock=context.clock, as_json=True)

    logger.warning("%s: nobody to listen to", "the store")

    (line,) = map(json.loads, capsys.readouterr().err.splitlines())
    assert (line["level"], line["event"]) == ("warning", "store_warning")
    assert line["text"] == "the store: nobody to listen to"


def test_the_driver_adds_no_lines_of_its_own() -> None:
    program = (
        "import logging, aijobs.store.engine\n"
        "logging.getLogger('psycopg').warning('error ignored terminating')\n"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stderr == ""
