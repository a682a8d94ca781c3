"""`aijobs config check|show|schema|init`: what they print, what they return, and that they start nothing."""

import json
from pathlib import Path

import jsonschema
import pytest

from aijobs.cli.config_templates import CHOICES, VARIABLES, render
from aijobs.core.config.checks import check
from tests.support.command_line import CommandLine
from tests.support.config_file import SIGNING_SECRET, ConfigFile

SECRET = "sk-demo-0123456789abcdef"
FAULTY = "worker: {leese: 5s}\nconcurrency: {global: -1}\ntypes:\n  t: {provider: nope}\n"


def test_check_lists_every_fault_and_returns_2(run_bare: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "aijobs.yaml").write_text(FAULTY)

    result = run_bare("config", "check")

    assert result.code == 2
    assert result.out == ""
    assert result.err.splitlines() == [
        "error: aijobs.yaml:1:10: worker.leese: unknown key 'leese' (did you mean 'lease'?)",
        "error: aijobs.yaml:2:23: concurrency.global: must be at least 0 (from 0 to 100000)",
        "error: aijobs.yaml:4:17: types.t.provider: no provider named 'nope' (there are: simulator)",
    ]


def test_check_as_json_lists_the_faults_with_their_places(run_bare: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "aijobs.yaml").write_text(FAULTY)

    error = run_bare("config", "check", "--json").json["error"]

    assert error["kind"] == "config"
    assert error["faults"][0] == {
        "file": "aijobs.yaml",
        "line": 1,
        "column": 10,
        "path": "worker.leese",
        "message": "unknown key 'leese'",
        "hint": "did you mean 'lease'?",
    }
    assert [fault["line"] for fault in error["faults"]] == [1, 2, 4]


def test_check_of_a_good_file_says_what_is_in_it_and_starts_nothing(
    run_bare: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "team.yaml").write_text("types: {t: {provider: simulator}}\nnotify: {n: {kind: log}}\n")

    result = run_bare("--config", "team.yaml", "config", "check")

    assert result.code == 0
    counts = "1 provider, 2 types, 0 schedules, 1 notification target"
    assert result.out == f"team.yaml: no faults; with what is built in: {counts}\n"
    assert [path.name for path in tmp_path.iterdir()] == ["team.yaml"]


def test_check_without_a_file_looks_at_the_defaults(run_bare: CommandLine) -> None:
    result = run_bare("config", "check")

    assert result.code == 0
    assert result.out.startswith("no aijobs.yaml: the defaults: no faults")


def test_a_file_that_was_named_must_be_there(run_bare: CommandLine) -> None:
    result = run_bare("config", "check", environ={"AIJOBS_CONFIG": "gone.yaml"})

    assert result.code == 2
    assert result.err.splitlines() == [
        "error: gone.yaml: no such file",
        "hint: aijobs config init --output FILE writes one to start from",
    ]


@pytest.mark.parametrize("text", ["", "# nothing but this\n"])
def test_check_warns_of_a_file_in_which_nothing_stands(
    run_bare: CommandLine, tmp_path: Path, text: str
) -> None:
    (tmp_path / "aijobs.yaml").write_text(text)

    result = run_bare("config", "check")

    assert result.code == 0
    assert "warning: aijobs.yaml: nothing stands in it" in result.err


def test_check_warns_apart_from_faults(run_bare: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "aijobs.yaml").write_text(
        'schedules: {s: {type: demo, cron: "0 0 13 * 5"}}\ntimeouts: {client: 5s, gateway: 30s}\n'
    )

    plain, as_json = run_bare("config", "check"), run_bare("config", "check", "--json")

    assert (plain.code, as_json.code) == (0, 0)
    assert "warning: timeouts.gateway: 30s is longer than client (5s)" in plain.err
    assert "warning: schedules.s.cron: " in plain.err
    assert {warning["path"] for warning in as_json.json["warnings"]} == {
        "timeouts.gateway",
        "schedules.s.cron",
    }
    assert as_json.json["faults"] == []


def test_check_finds_faults_in_templates_and_schemas_that_other_commands_do_not_look_for(
    run_bare: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "aijobs.yaml").write_text(
        "types: {t: {provider: simulator, prompt: '{{ x', input_schema: {type: objekt}}}"
    )

    result = run_bare("config", "check")

    assert result.code == 2
    assert "types.t.prompt: template, line 1" in result.err
    assert "types.t.input_schema: not a JSON Schema" in result.err
    assert run_bare("config", "show").code == 0


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_show_prints_what_is_in_force_without_any_secret(
    run_bare: CommandLine, tmp_path: Path, form: tuple[str, ...]
) -> None:
    (tmp_path / "aijobs.yaml").write_text(
        """\
database: postgresql://user:${PW}@host/db
worker: {lease: 90s}
providers:
  p: {kind: openai-chat, api_key: "${KEY}", webhook_secret: "${HOOK}", headers: {X-Token: "${KEY}"}}
notify: {n: {kind: webhook, url: "https://x.example/a", secret: "${HOOK}"}}
"""
    )

    result = run_bare(
        "config", "show", *form, environ={"KEY": SECRET, "HOOK": SIGNING_SECRET, "PW": "hunter2!"}
    )

    assert result.code == 0
    assert not any(secret in result.out + result.err for secret in (SECRET, SIGNING_SECRET, "hunter2"))
    if form:
        assert result.json["database"] == "postgresql://user:***@host/db"
        assert result.json["worker"]["lease"] == "1m30s"
        assert result.json["providers"]["p"]["api_key"] == "***"
        assert result.json["types"].keys() == {"demo"}
    else:
        assert "api_key: '***'" in result.out
        assert "  lease: 1m30s\n" in result.out


def test_a_fault_in_a_secret_is_told_without_the_secret(run_bare: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "aijobs.yaml").write_text(
        "providers:\n  p: {kind: openai-chat, webhook_secret: '${HOOK}', api_key: '${KEY}', rate: '${KEY}'}\n"
        f"  q: {{kind: openai-chat, api_key: {SECRET}}}\n"
    )

    for form in ((), ("--json",), ("-v",)):
        result = run_bare("config", "check", *form, environ={"HOOK": f"v1,{SECRET}", "KEY": SECRET})
        assert result.code == 2
        assert SECRET not in result.out + result.err


@pytest.mark.parametrize(
    ("flag", "environ", "expected"),
    [
        (None, {}, "sqlite:///file.db"),
        (None, {"AIJOBS_DATABASE": "sqlite:///environment.db"}, "sqlite:///environment.db"),
        ("sqlite:///flag.db", {"AIJOBS_DATABASE": "sqlite:///environment.db"}, "sqlite:///flag.db"),
    ],
)
def test_a_flag_goes_over_the_environment_and_that_over_the_file(
    run_bare: CommandLine, tmp_path: Path, flag: str | None, environ: dict[str, str], expected: str
) -> None:
    (tmp_path / "aijobs.yaml").write_text("database: sqlite:///file.db\n")
    flags = ("--database", flag) if flag else ()

    result = run_bare(*flags, "config", "show", "--json", environ=environ)

    assert result.json["database"] == expected


def test_without_file_flag_and_environment_the_default_holds(run_bare: CommandLine) -> None:
    assert run_bare("config", "show", "--json").json["database"] == "sqlite:///aijobs.db"


def test_schema_prints_the_schema_with_and_without_json(run_bare: CommandLine) -> None:
    plain, as_json = run_bare("config", "schema"), run_bare("config", "schema", "--json")

    assert plain.code == as_json.code == 0
    assert json.loads(plain.out) == as_json.json
    assert as_json.json["title"] == "aijobs configuration"
    jsonschema.Draft202012Validator.check_schema(as_json.json)


@pytest.mark.parametrize("provider", CHOICES)
def test_init_writes_a_file_that_passes_its_own_check(
    run_bare: CommandLine, tmp_path: Path, provider: str
) -> None:
    environ = dict.fromkeys(VARIABLES[provider], "sk-demo-1")

    written = run_bare("config", "init", "--provider", provider)
    bare, checked = run_bare("config", "check"), run_bare("config", "check", environ=environ)

    assert written.code == 0
    assert written.out == "wrote aijobs.yaml\n"
    assert (checked.code, checked.err) == (0, "")
    assert bare.code == (2 if environ else 0)
    assert all(name in bare.err and name in written.err for name in environ)
    assert (tmp_path / "aijobs.yaml").read_text().count("#") > 5
    assert (tmp_path / "aijobs.yaml").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("provider", CHOICES)
@pytest.mark.parametrize("model", ["qwen3:8b", "gpt-5.1", "1.10", "no", "it's", "a/b", "${X}", "null"])
def test_a_model_of_any_name_is_written_so_that_it_is_read_back(
    tmp_path: Path, provider: str, model: str
) -> None:
    file = ConfigFile(tmp_path / "aijobs.yaml")

    settings = file.load(render(provider, model=model), **dict.fromkeys(VARIABLES[provider], "x"))

    assert settings.types["summarize"].model == model
    assert check(settings) == []


def test_init_overwrites_nothing_unless_told_to(run_bare: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "aijobs.yaml").write_text("mine")

    refused = run_bare("config", "init", "--provider", "simulator")
    kept = (tmp_path / "aijobs.yaml").read_text()
    forced = run_bare("config", "init", "--provider", "simulator", "--force", "--json")

    assert (refused.code, kept) == (4, "mine")
    assert "--force" in refused.err
    assert forced.code == 0
    assert forced.json == {"file": "aijobs.yaml", "provider": "simulator", "environment": []}
    assert [path.name for path in tmp_path.iterdir()] == ["aijobs.yaml"]


def test_init_asks_on_a_terminal_and_refuses_to_guess_without_one(
    run_bare: CommandLine, tmp_path: Path
) -> None:
    silent = run_bare("config", "init")
    asked = run_bare("config", "init", stdin="local\nhttp://gpu:8000/v1\n", terminal=True)

    assert silent.code == 2
    assert "--provider openai|anthropic|local|simulator" in silent.err
    assert asked.code == 0
    text = (tmp_path / "aijobs.yaml").read_text()
    assert "kind: openai-chat" in text
    assert 'base_url: "http://gpu:8000/v1"' in text


@pytest.mark.parametrize("provider", CHOICES)
def test_init_takes_the_address_of_a_server_of_ones_own(
    run_bare: CommandLine, tmp_path: Path, provider: str
) -> None:
    url = "http://127.0.0.1:8787/v1"

    written = run_bare("config", "init", "--provider", provider, "--base-url", url)

    settings = ConfigFile(tmp_path / "aijobs.yaml").load(
        (tmp_path / "aijobs.yaml").read_text(), **dict.fromkeys(VARIABLES[provider], "x")
    )
    used = settings.providers[settings.types["summarize"].provider]
    assert (written.code, used.base_url) == (0, url)


def test_init_says_where_it_will_look_for_a_local_server(run_bare: CommandLine) -> None:
    default = run_bare("config", "init", "--provider", "local", "--force")
    elsewhere = run_bare(
        "config", "init", "--provider", "local", "--force", environ={"LOCAL_AI_URL": "http://gpu/v1"}
    )

    assert "it calls http://127.0.0.1:11434/v1; LOCAL_AI_URL" in default.err
    assert "it calls http://gpu/v1" in elsewhere.err


def test_leaving_a_question_without_an_answer_is_an_interrupt(run_bare: CommandLine, tmp_path: Path) -> None:
    left = run_bare("config", "init", stdin="", terminal=True)

    assert left.code == 130
    assert left.err.endswith("error: interrupted\n")
    assert list(tmp_path.iterdir()) == []


def test_init_says_which_provider_it_does_not_know_and_where_it_cannot_write(run_bare: CommandLine) -> None:
    unknown = run_bare("config", "init", "--provider", "oracle")
    nowhere = run_bare("config", "init", "--provider", "local", "--output", "no/such/folder.yaml")

    assert (unknown.code, nowhere.code) == (2, 2)
    assert "no such provider: oracle" in unknown.err
    assert "cannot write to no/such: No such file" in nowhere.err


def test_init_can_write_to_stdout_and_to_another_file(run_bare: CommandLine, tmp_path: Path) -> None:
    shown = run_bare("config", "init", "--provider", "simulator", "--output", "-")
    other = run_bare("config", "init", "--provider", "simulator", "--output", "team.yaml")

    assert shown.out == render("simulator") == (tmp_path / "team.yaml").read_text()
    assert "next: aijobs --config team.yaml config check" in other.err
