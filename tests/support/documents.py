"""Reads the documents: their links, their shell blocks, and the commands and tests that they name."""

import ast
import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

from aijobs.cli.app import build
from aijobs.cli.context import Context

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = tuple(
    sorted(path.relative_to(ROOT) for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"))),
)
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
"""A test as a document names it: file and function."""
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_BREAKS = ("&", "|", ">", ">>", "<", "2>&1", "||", "&&", ";")


@cache
def text_of(path: Path) -> str:
    """A document, named from the top of the repository."""
    return (ROOT / path).read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    """What stands in the fences of that language."""
    return [body for name, body in _FENCE.findall(text) if name == language]


def prose(text: str) -> str:
    """The text without its fences."""
    return _FENCE.sub("", text)


def links(text: str) -> list[str]:
    """Where it links to within the repository: `FILE`, `FILE#PLACE`, `#PLACE`."""
    return [found for found in _LINK.findall(prose(text)) if "://" not in found and "mailto:" not in found]


def anchors(text: str) -> set[str]:
    """The places that its headings make."""
    titles = re.findall(r"^#+ (.+)$", prose(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def typed(text: str) -> list[list[str]]:
    """The words after `aijobs` in each line that calls it, up to a pipe; comments are left out."""
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True) if "aijobs" in line else []
        while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
            words.pop(0)
        if words and words[0] == "aijobs":
            end = next((n for n, word in enumerate(words) if word in _BREAKS), None)
            found.append(words[1:end])
    return found


def named(text: str) -> list[list[str]]:
    """The same of every call that *text* shows, in its shell blocks and in its prose."""
    spans = re.findall(r"`(aijobs [^`]+)`", prose(text))
    return typed("\n".join((*blocks(text, "bash"), *spans)))


def unknown(words: list[str]) -> list[str]:
    """What of *words* (after `aijobs`) is no command, and no option of its command."""
    group: Any = build()
    left = list(words)
    while left and left[0].startswith("-"):  # global options before the command
        left = left[1:] if "=" in left[0] or left[0] in ("-v", "-q", "--json", "--help") else left[2:]
    while left and getattr(group, "entries", {}) and not left[0].startswith("-"):
        if left[0] not in group.entries:
            return [] if group.invoke_without_command else [left[0]]
        group = group.commands[left.pop(0)]
    context = group.context_class(group, info_name="aijobs", obj=Context(environ={}))
    known = {name for param in group.get_params(context) for name in (*param.opts, *param.secondary_opts)}
    options = (word.partition("=")[0] for word in left if re.match(r"--?[a-z]", word))
    return [option for option in options if option not in known]


@cache
def _functions(path: Path) -> frozenset[str]:
    """The names of the functions in a file, read and not imported."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, kinds))


def missing(text: str) -> list[str]:
    """The tests that *text* names and nobody wrote."""
    return [
        f"{file}::{name}"
        for file, name in TEST.findall(text)
        if not (ROOT / file).is_file() or name not in _functions(ROOT / file)
    ]
