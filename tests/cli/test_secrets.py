"""No command prints a secret, a prompt or a result back, whatever goes wrong."""

import pytest

from aijobs.core.clock import Chance
from aijobs.core.model import ErrorClass
from aijobs.core.redaction import redact
from aijobs.core.settings import Settings
from aijobs.services.coordinator import Coordinator
from aijobs.store.engine import Store
from tests.support.command_line import CommandLine
from tests.support.jobs import claim_one, fail

SECRET = "sk-demo-0123456789abcdef"


@pytest.fixture
def coordinator(store: Store, chance: Chance) -> Coordinator:
    return Coordinator(store, Settings(), chance=chance)


def test_an_input_that_is_refused_is_not_repeated(run_cli: CommandLine) -> None:
    for text in (
        f"{SECRET}",
        f'{{"a": "{SECRET}",}}',
        f'{{"a": "{SECRET}", "a": "{SECRET}"}}',
        f'["{SECRET}"]',
    ):
        for result in (
            run_cli("enqueue", "demo", "--input", text, "--json", "-v"),
            run_cli("enqueue", "--jsonl", "-", "--json", "-v", stdin=f"{text}\n"),
        ):
            assert result.code == 2
            assert SECRET not in result.out + result.err


def test_an_input_off_its_schema_is_not_repeated(run_cli: CommandLine) -> None:
    with open("aijobs.yaml", "w") as file:  # noqa: PTH123
        file.write(
            "types: {strict: {provider: simulator, input_schema: "
            "{type: object, required: [text], properties: {text: {type: string, maxLength: 3}}}}}\n"
        )

    result = run_cli("enqueue", "strict", "--input", f'{{"text": "{SECRET}"}}', "--json")

    assert result.code == 2
    assert "text: breaks the rule maxLength" in result.json["error"]["message"]
    assert SECRET not in result.out + result.err


def test_a_job_that_failed_shows_no_secret_anywhere(run_cli: CommandLine, coordinator: Coordinator) -> None:
    job_id = run_cli("enqueue", "demo", "--input", f'{{"key": "{SECRET}"}}').out.strip()
    message = redact(f"Incorrect API key provided: {SECRET}")
    fail(coordinator, claim_one(coordinator), ErrorClass.AUTH, message=message)

    for args in (("inspect",), ("inspect", job_id), ("doctor",), ("sweep",)):
        for result in (run_cli(*args), run_cli(*args, "--json"), run_cli(*args, "-v")):
            assert SECRET not in result.out + result.err


def test_the_doctor_tells_of_credentials_without_showing_them(run_cli: CommandLine) -> None:
    with open("aijobs.yaml", "w") as file:  # noqa: PTH123
        file.write(
            "providers: {openai: {kind: openai-responses, api_key: '${OPENAI_API_KEY}'}}\n"
            "types: {summarize: {provider: openai, model: m}}\n"
        )

    result = run_cli("doctor", "--json", "-v", environ={"OPENAI_API_KEY": SECRET})

    (check,) = [one for one in result.json["checks"] if one["check"] == "provider openai"]
    assert check["ok"] is True
    assert "API key present" in check["evidence"]
    assert SECRET not in result.out + result.err
    assert SECRET[:8] not in result.out + result.err
