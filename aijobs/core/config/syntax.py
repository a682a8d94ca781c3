"""What PyYAML says of a file it cannot read, in words that help."""

import re
from typing import Any

from aijobs.core.errors import ConfigFault

_RESERVED = "*@%`&!|>"
_TAB = "indented by a tab: use spaces"
_PLAIN_WORDS = {
    "mapping values are not allowed": "a colon where none can stand: quote the value, mind the indentation",
    "sequence entries are not allowed": "a dash where no list can begin: put it on a line of its own",
    "did not find expected key": "the indentation does not fit what stands above it",
    "expected <block end>": "the indentation does not fit what stands above it",
    "expected node content": "a value is missing here, or a bracket stands in a wrong place",
    "mapping keys are not allowed": "a ? where no key can begin: quote the value",
    "comment or line break": "| and > begin a block of text on the next line: quote the value",
    "unexpected end of stream": "a quote that is never closed",
    "did not find expected ',' or": "a bracket that is never closed, or a comma is missing",
    "expected ',' or": "a bracket that is never closed, or a comma is missing",
    "unknown escape character": "an unknown \\ in double quotes: use single quotes, or \\\\",
    "exceeded maximum nesting depth": "nested too deep",
    "could not find expected ':'": "a key without its colon (or a value that needs quotes)",
}


def syntax_fault(error: Exception, text: str, file: str) -> ConfigFault:
    """The fault that ended the parsing of *text*."""
    context, problem = (
        getattr(error, "context", None) or "",
        getattr(error, "problem", None) or "nested too deep",
    )
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return ConfigFault(file, 0, 0, "", str(problem))
    begin = getattr(error, "context_mark", None)
    lines = text.splitlines() or [""]
    if "another document" in problem or "<document start>" in problem:
        return _at(mark, file, "a second document begins here: one file holds one document")
    if "tab character" in problem:
        return _at(mark, file, _TAB)
    if "alias" in context or "alias" in problem or "cannot start any token" in problem:
        spot = begin if "alias" in context and begin else mark
        return _reserved(spot, lines, file)
    if "${" in _line(lines, mark)[: mark.column + 1] and "flow" in context:
        return _at(mark, file, "inside { } and [ ] a ${NAME} must be quoted", hint='write "${NAME}"')
    words = next((ours for theirs, ours in _PLAIN_WORDS.items() if theirs in problem), None)
    spot = begin if begin and "flow" in context else mark
    return _at(spot, file, words or f"not readable as YAML: {problem}")


def _reserved(mark: Any, lines: list[str], file: str) -> ConfigFault:
    line = _line(lines, mark)
    if "\t" in line[: len(line) - len(line.lstrip())]:
        return _at(mark, file, _TAB)
    rest = line[mark.column :]
    value = (
        re.split(r"\s#|[,}\]]", rest, maxsplit=1)[0].strip()
        if "{" in line[: mark.column]
        else rest.split(" #")[0].strip()
    )
    sign = value[:1]
    what = (
        f'a value starting with {sign} must be quoted: "{value}"'
        if sign in _RESERVED
        else "not readable as YAML"
    )
    return _at(mark, file, what)


def _line(lines: list[str], mark: Any) -> str:
    return lines[mark.line] if mark.line < len(lines) else ""


def _at(mark: Any, file: str, message: str, *, hint: str | None = None) -> ConfigFault:
    return ConfigFault(file, mark.line + 1, mark.column + 1, "", message, hint)
