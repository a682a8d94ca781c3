"""`aijobs webhook ingest`: the same intake, for those who have a web server already."""

import json
from datetime import datetime
from pathlib import Path

import pytest

from aijobs.core.signature import sign
from aijobs.core.signing_key import decode_key
from tests.support.clock import ManualClock
from tests.support.command_line import CommandLine, Result

SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
BODY = b'{"type":"response.completed","data":{"id":"resp_demo_1"}}'
CONFIG = """\
providers:
  openai: {kind: openai-responses, api_key: "${KEY}", webhook_secret: "${SECRET}"}
  bare: {kind: openai-responses, api_key: "${KEY}"}
types:
  t: {provider: openai, model: m, background: true}
"""


def ingest(run_cli: CommandLine, *args: str, stdin: bytes = BODY) -> Result:
    Path("aijobs.yaml").write_text(CONFIG)
    return run_cli("webhook", "ingest", *args, stdin=stdin, environ={"KEY": "sk-1", "SECRET": SECRET})


def signed(now: datetime, body: bytes = BODY, *, secret: str = SECRET, name: str = "wh_1") -> list[str]:
    words = []
    for header, value in sign(name, body, keys=[decode_key(secret)], now=now).items():
        words += ["--header", f"{header}: {value}"]
    return words


def test_a_delivery_is_taken_and_its_copy_recognised(run_cli: CommandLine, clock: ManualClock) -> None:
    first = ingest(run_cli, "openai", "--json", *signed(clock.now()))
    again = ingest(run_cli, "openai", "--json", *signed(clock.now()))

    assert first.code == again.code == 0
    assert first.json == {
        "provider": "openai",
        "delivery_id": "wh_1",
        "event_type": "response.completed",
        "job_id": None,
        "outcome": "unmatched",
    }
    assert again.json["outcome"] == "duplicate"


def test_headers_are_known_in_any_spelling(run_cli: CommandLine, clock: ManualClock) -> None:
    words = [word.upper() if word.startswith("webhook-id") else word for word in signed(clock.now())]
    words = [word.replace("WEBHOOK-ID: WH_1", "WEBHOOK-ID:wh_1 ") for word in words]

    done = ingest(run_cli, "openai", "--json", "--header", "content-type: application/json", *words)

    assert (done.code, done.json["outcome"]) == (0, "unmatched")


def test_the_body_is_verified_byte_for_byte(run_cli: CommandLine, clock: ManualClock) -> None:
    odd = b'{ "type":"response.completed",\r\n"data":{"id":"resp_\\u00e9"}, "n":1.0}\n'

    taken = ingest(run_cli, "openai", "--json", *signed(clock.now(), odd), stdin=odd)
    tidied = json.dumps(json.loads(odd)).encode()
    refused = ingest(run_cli, "openai", "--json", *signed(clock.now(), odd, name="wh_2"), stdin=tidied)

    assert (taken.code, refused.code) == (0, 1)
    assert refused.json["error"]["kind"] == "bad_signature"


@pytest.mark.parametrize(
    ("kind", "to_do", "headers"),
    [
        ("bad_signature", "is webhook_secret", lambda now: signed(now, secret="whsec_" + "QUJD" * 8)),
        ("stale", "is the clock", lambda now: signed(now.replace(year=now.year - 1))),
        ("malformed", "pass on the three headers", lambda now: signed(now)[2:]),
        ("malformed", "each once", lambda now: [*signed(now), "--header", "webhook-id: wh_1"]),
    ],
)
def test_a_refusal_is_exit_1_and_says_which_and_what_to_do(
    run_cli: CommandLine, clock: ManualClock, kind: str, to_do: str, headers: object
) -> None:
    refused = ingest(run_cli, "openai", "--json", *headers(clock.now()))  # type: ignore[operator]

    assert refused.code == 1
    assert refused.json["error"]["kind"] == kind
    assert to_do in refused.json["error"]["hint"]


@pytest.mark.parametrize("provider", ["nobody", "bare"])
def test_without_a_secret_there_is_no_such_provider(
    run_cli: CommandLine, clock: ManualClock, provider: str
) -> None:
    refused = ingest(run_cli, provider, "--json", *signed(clock.now()))

    assert (refused.code, refused.json["error"]["kind"]) == (3, "not_found")


def test_a_header_that_is_none_is_a_usage_error(run_cli: CommandLine) -> None:
    assert ingest(run_cli, "openai", "--header", "webhook-id wh_1").code == 2
