"""`config.example.yaml` loads, shows every option there is, and tells the truth about the defaults."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from aijobs.core.config import load
from aijobs.core.config.checks import check
from aijobs.core.config.document import read
from aijobs.core.config.writing import schema, shown, to_yaml
from aijobs.core.settings import Settings
from tests.support.config_file import SIGNING_SECRET, ConfigFile

EXAMPLE = Path(__file__).parents[2] / "config.example.yaml"
ENVIRON = {
    "OPENAI_API_KEY": "sk-demo-1",
    "ANTHROPIC_API_KEY": "sk-demo-2",
    "OPS_WEBHOOK_SECRET": SIGNING_SECRET,
    "GIT_COMMIT": "abc123",
}
_WITH_DEFAULTS = ("concurrency", "worker", "retry", "timeouts", "keys", "limits", "alerts", "retention")
_EITHER = re.compile(r"^ +#every:.*\n", re.MULTILINE)  # shown, but it excludes an option beside it


def _text() -> str:
    return EXAMPLE.read_text()


def _with_every_option() -> str:
    """The example with each `#option:` switched on."""
    text = re.sub(r"^(  \w+): null", r"\1: 5", _EITHER.sub("", _text()), flags=re.MULTILINE)
    lines = [re.sub(r"^( +)#(?=( *)[a-z_]+:)", r"\1", line) for line in text.splitlines()]
    return "\n".join(lines)


def _options(model: type[BaseModel]) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}


def _sections(part: BaseModel) -> Iterator[BaseModel]:
    """*part* and every section in it."""
    yield part
    for _, value in part:
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else (value,)
        for one in inner:
            for section in one if isinstance(one, tuple) else (one,):
                if isinstance(section, BaseModel):
                    yield from _sections(section)


def test_the_example_loads_as_it_is() -> None:
    settings = load(EXAMPLE, environ=ENVIRON, thorough=True)

    assert settings.providers.keys() >= {
        "openai",
        "local",
        "claude",
        "internal",
        "own-code",
        "practice",
        "simulator",
    }
    assert check(settings) == []


@pytest.mark.parametrize("section", _WITH_DEFAULTS)
def test_what_it_shows_as_defaults_are_the_defaults(section: str) -> None:
    settings = load(EXAMPLE, environ=ENVIRON)

    assert getattr(settings, section) == getattr(Settings(), section)


def test_every_option_there_is_stands_in_it(config: ConfigFile) -> None:
    settings = config.load(_with_every_option(), **ENVIRON)
    document = read(_with_every_option(), file="", environ=ENVIRON)

    written: dict[type[BaseModel], set[str]] = {}
    for section in _sections(settings):
        written.setdefault(type(section), set()).update(section.model_fields_set)
    missing = {
        model.__name__: names
        for model, seen in written.items()
        if (names := {name for name in model.model_fields if name not in seen} - {"every"})
    }

    assert missing == {}
    assert document.faults == []
    assert "#every: " in _text()
    assert {model.__name__ for model in written} == {*schema()["$defs"], "Settings"} - {"Kind"}


def test_a_value_that_is_not_the_default_says_what_the_default_is() -> None:
    settings = load(EXAMPLE, environ=ENVIRON)
    document = read(_text(), file="", environ=ENVIRON)
    lines = _text().splitlines()
    silent = []
    for path, spot in document.keys.items():
        field, value = _field_and_value(settings, path)
        if field is None or field.default is PydanticUndefined or isinstance(value, BaseModel | dict):
            continue
        if value != field.default and "default" not in lines[spot.line - 1]:
            silent.append(".".join(map(str, path)))

    excused = {"prices.gpt-5-mini.from", *(path for path in silent if path.split(".")[0] in _WITH_DEFAULTS)}
    assert [path for path in silent if path not in excused] == []


def _field_and_value(settings: Settings, path: tuple[str | int, ...]) -> tuple[Any, Any]:
    """The field that *path* sets, and its value; (None, None) inside free data and names."""
    field, value = None, settings
    for part in path:
        if isinstance(value, BaseModel):
            names = {option.alias or name: name for name, option in type(value).model_fields.items()}
            if part not in names:
                return None, None
            field = type(value).model_fields[names[str(part)]]
            value = getattr(value, names[str(part)])
        elif isinstance(value, dict) and part in value and isinstance(value[part], BaseModel | tuple):
            field = None
            value = value[part][0] if isinstance(value[part], tuple) else value[part]
        else:
            return None, None
    return field, value


def test_every_option_has_a_line_on_it() -> None:
    bare = [
        line
        for line in _text().splitlines()
        if re.match(r" *#?[a-z_-]+: [^{]", line) and not re.search(r"  +# \S", line)
    ]
    sections = [line for line in bare if not line.startswith("      ")]

    assert sections == []


def test_the_example_meets_the_schema(config: ConfigFile) -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    validator = jsonschema.Draft202012Validator(schema())

    for text in (_text(), _with_every_option()):
        document = read(text, file="", environ={})
        data = read(text, file="", environ={name: f"${{{name}}}" for name in ENVIRON}).data
        assert {fault.path.split(".")[-1] for fault in document.faults} <= {"api_key", "secret", "version"}
        assert [
            f"{list(error.absolute_path)}: {error.message}" for error in validator.iter_errors(data)
        ] == []


@pytest.mark.parametrize(
    "data",
    [
        {"typs": {}},
        {"worker": {"concurrency": 0}},
        {"worker": {"lease": 30}},
        {"worker": {"lease": "30"}},
        {"types": {"t": {}}},
        {"types": {"t": {"provider": "p", "tier": "hard"}}},
        {"providers": {"p": {"kind": "telepathy"}}},
        {"retry": {"auth": {"retries": 1}}},
    ],
)
def test_the_schema_refuses_what_the_loader_refuses(data: dict[str, Any]) -> None:
    assert list(jsonschema.Draft202012Validator(schema()).iter_errors(data))


@pytest.mark.parametrize(
    "data",
    [
        {"worker": {"concurrency": "${N}", "lease": "${LEASE:-60s}"}},
        {"types": {"t": {"provider": "p", "background": "${B}", "tier": "${T}"}}},
        {"retry": {"network": {"retries": 1}}},
        {"providers": {"p": {"kind": "openai-chat", "webhook_secret": "${S}", "headers": {"a": "b"}}}},
        {"prices": {"m": {"input": 1, "output": 1}, "n": [{"input": 1, "output": 1}]}},
        {"retention": {"succeeded": "forever"}},
    ],
)
def test_the_schema_takes_what_the_loader_takes(data: dict[str, Any]) -> None:
    assert [error.message for error in jsonschema.Draft202012Validator(schema()).iter_errors(data)] == []


def test_the_schema_spells_defaults_as_the_file_does() -> None:
    worker = schema()["$defs"]["WorkerSettings"]["properties"]

    assert worker["lease"]["default"] == "1m"
    assert "PT" not in json.dumps([part.get("default") for part in worker.values()])


def test_what_is_shown_can_be_loaded_again_and_means_the_same(config: ConfigFile) -> None:
    settings = load(EXAMPLE, environ=ENVIRON)
    text = to_yaml(shown(settings)).replace("'***'", "'${SECRET}'").replace("{{", "{{")

    again = config.load(text, SECRET=SIGNING_SECRET)

    assert SIGNING_SECRET not in text
    assert shown(again) == shown(settings)
