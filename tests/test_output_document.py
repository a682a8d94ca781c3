"""docs/output.md names every command, and the JSON that it promises is the JSON that comes."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from aijobs.core.breaker import Breaker
from aijobs.core.errors import AijobsError
from aijobs.core.model import ErrorClass, Outcome, Status
from aijobs.services import webhooks  # noqa: F401  # its errors, too, are looked for
from tests.support.documents import blocks, text_of
from tests.support.every_command import ASKED, ELSEWHERE, PREVIEWED, Typist, commands
from tests.support.staged_store import Staged, stage

NO_SHAPE = {"dashboard", "config show", "config schema"}
"""Whose JSON is somebody else's format, or the configuration's."""
TEXT = text_of(Path("docs/output.md"))
_TOKEN = re.compile(r"\.\.\.|[\w$]+|[{}\[\]:,]")
_NAMED = {
    found[1]: " ".join(found[2].split())
    for found in re.finditer(r"^- `(\w+)`: `({[^`]+})`", TEXT, re.MULTILINE)
}


def _promised(command: str, *, preview: bool = False) -> Any:
    """The shape that stands beside a command; with *preview* the last one there."""
    line = re.search(rf"^- `aijobs {re.escape(command)}`(.*?)(?=^- |^#|\Z)", TEXT, re.MULTILINE | re.DOTALL)
    assert line, command
    known = "|".join(_NAMED)
    shapes = re.findall(rf"`({{[^`]+}}|{known})`", line[1])
    return _shape(shapes[-1 if preview else 0])


def _shape(text: str) -> Any:
    """A shape as written: a dict, a list of one, the name of another, or None for a plain value."""
    return _read(iter(_TOKEN.findall(text)))[0]


def _read(tokens: Iterator[str]) -> tuple[Any, str]:
    """One value, and the token after it."""
    token = next(tokens)
    if token == "[":
        inner, end = _read(tokens)
        assert end == "]"
        return [inner], next(tokens, "")
    if token != "{":
        return token, next(tokens, "")
    made: dict[str, Any] = {}
    while token != "}":
        name = next(tokens)
        token = next(tokens)
        made[name] = None
        if token == ":":
            made[name], token = _read(tokens)
    return made, next(tokens, "")


def _differences(promised: Any, got: Any, at: str = "") -> Iterator[str]:
    """Where *got* is not what was promised; null and an empty list are as good as anything."""
    if isinstance(promised, str):
        promised = _shape(_NAMED[promised])
    if promised is None or got is None or got in ([], {}):
        return
    if isinstance(promised, list):
        yield from _differences(promised[0], got[0], f"{at}[]")
        return
    if not isinstance(got, Mapping):
        yield f"{at}: no object"
        return
    if "..." not in promised and set(promised) != set(got):
        yield f"{at}: {sorted(set(promised) ^ set(got))}"
    for name, inner in promised.items():
        if name in got:
            yield from _differences(inner, got[name], f"{at}.{name}")


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Staged]:
    folder = tmp_path_factory.mktemp("staged")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield stage(folder)


def test_what_is_promised_of_each_command_is_what_comes(staged: Staged) -> None:
    ask = Typist(staged, "--json")
    wrong = {}

    calls = [(name, line, True) for name, line in PREVIEWED.items() if f"{name} --preview" not in ASKED]
    calls += [(name, line, False) for name, line in ASKED.items()]
    for name, line, preview in calls:
        got = ask(line).json
        promised = _shape("{...}") if name in NO_SHAPE else _promised(name, preview=preview)
        wrong[line] = list(_differences(promised, got))

    assert {line: found for line, found in wrong.items() if found} == {}


def test_an_error_looks_as_it_is_shown(staged: Staged) -> None:
    (shown,) = blocks(TEXT, "json")

    done = staged.run("inspect", "nope", "--json")

    assert (done.code, done.json) == (3, json.loads(shown))
    assert done.json["error"]["message"] in done.err


def test_every_command_is_named() -> None:
    assert [path for path in commands() if f"`aijobs {path}`" not in TEXT] == []


def test_what_is_promised_of_commands_that_are_not_asked_here_is_there() -> None:
    assert [name for name in ELSEWHERE if not _promised(name)] == []


def test_a_promise_that_is_not_kept_is_found() -> None:
    promised = _shape("{a, b: [{c}], d: {...}}")

    assert list(_differences(promised, {"a": 1, "b": [{"c": 2}], "d": {"e": 3}})) == []
    assert list(_differences(promised, {"a": 1, "b": [{"x": 2}]})) == [": ['d']", ".b[]: ['c', 'x']"]


def _words_of(name: str) -> set[str]:
    line = re.search(rf"^\| `?{name}`? \| (.+) \|$", TEXT, re.MULTILINE)
    assert line, name
    return set(re.findall(r"`(\w+)`", line[1]))


def test_the_lists_of_words_are_whole() -> None:
    assert _words_of("status") == set(Status)
    assert _words_of("outcome") == set(Outcome)
    assert _words_of("error_class") == set(ErrorClass)
    assert _words_of("breaker") == set(Breaker)


def _kinds(error: type[AijobsError]) -> Iterator[tuple[str, int]]:
    yield error.kind, error.exit_code
    for inner in error.__subclasses__():
        yield from _kinds(inner)


def test_every_kind_of_error_stands_beside_its_exit_code() -> None:
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| (\d+)", TEXT, re.MULTILINE)
    named = {kind: int(code) for kinds, code in rows for kind in re.findall(r"`(\w+)`", kinds)}

    assert {kind: code for kind, code in _kinds(AijobsError) if named.get(kind) != code} == {}
