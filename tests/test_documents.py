"""The documents: their links lead somewhere, and every command and option that they name exists."""

import shlex
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine
from tests.support.config_reference import PAGE, page
from tests.support.documents import DOCUMENTS, anchors, blocks, links, named, text_of, typed, unknown

ROOT = Path(__file__).resolve().parents[1]


def _leads_nowhere(document: Path, link: str) -> bool:
    name, _, place = link.partition("#")
    target = ((ROOT / document).parent / name).resolve() if name else ROOT / document
    if not target.exists():
        return True
    return bool(place) and place not in anchors(text_of(target.relative_to(ROOT)))


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_every_link_leads_somewhere(document: Path) -> None:
    assert [link for link in links(text_of(document)) if _leads_nowhere(document, link)] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_every_command_and_option_that_is_named_exists(document: Path) -> None:
    calls = [words for words in named(text_of(document)) if words[-1:] != ["..."]]

    assert {shlex.join(words): unknown(words) for words in calls if unknown(words)} == {}


def test_what_is_wrong_in_a_document_is_found() -> None:
    text = "See [x](docs/nowhere.md), [y](#no-such-place); `aijobs frob`, `aijobs stats --frob`\n"
    text += "```bash\nA=1 aijobs deadletter replay --all --frob | tee log --append\n```\n"

    assert [link for link in links(text) if _leads_nowhere(Path("README.md"), link)] == links(text)
    assert len(links(text)) == 2
    assert [unknown(words) for words in named(text)] == [["--frob"], ["frob"], ["--frob"]]


def test_the_configuration_reference_is_what_the_schema_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m tests.support.config_reference"


def test_what_the_configuration_reference_shows_runs_in_an_empty_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (shown,) = blocks(PAGE.read_text(encoding="utf-8"), "bash")

    done = [CommandLine(database=None)(*words) for words in typed(shown)]

    assert [(one.code, one.err if one.code else "") for one in done] == [(0, "")] * 4
