"""Writes docs/configuration.md from the schema: `python -m tests.support.config_reference`."""

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_args

from aijobs.core.config.writing import schema
from aijobs.core.settings import Kind, NotifySettings, ProviderSettings
from aijobs.core.settings.fields import Section

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "configuration.md"
EXAMPLE = ROOT / "config.example.yaml"
WIDTH = 110

ENTRIES = {"providers": "NAME", "types": "NAME", "schedules": "NAME", "notify": "NAME", "prices": "MODEL"}
"""The parts whose keys are names of your own."""
TABLES = ("retry", "alerts.rules")
"""The parts that are rows of one shape, each with defaults of its own."""
NO_EXAMPLE = ("database", "retry", "keys", "limits", "alerts", "retention")

HEAD = """# Configuration

Every option, with its format, its default and its meaning. This page is made from the schema of the
configuration by `python -m tests.support.config_reference`; a test compares the two.
[config.example.yaml](../config.example.yaml) has the same options as a file to copy from.

The file is `aijobs.yaml` in the working directory, or the one that `--config` or `AIJOBS_CONFIG` names. With
none at all everything has its default. A flag goes before the environment, the environment before the file.

```bash
aijobs config init --provider simulator --output aijobs.yaml
aijobs config check
aijobs config show
aijobs config schema > aijobs.schema.json
```

`check` names every fault with file, line and column, and warns of what is allowed and seldom meant; `show`
prints what is in force, secrets masked; `schema` is for editors.

| format | written as |
| --- | --- |
| duration | with its units: `250ms`, `90s`, `5m`, `1h30m`, `2d`; a bare number is refused |
| rate | a count over one unit: `5/s`, `500/m`, `10000/h`, `10000/d` |
| secret | `${NAME}` from the environment, or `file:PATH` relative to the file; never in the file itself |
| name | letters, digits and `. _ -`, a letter or digit first, 100 at most |
| mapping | YAML that is valid JSON: names and values |

`${NAME}` may stand in any value, `${NAME:-default}` with a default; `$$` is a dollar sign. What is put in is
data, and is not read as YAML again. `no`, `off`, `on` and `yes` are text: write `true` or `false`. An empty
value is the same as leaving the option out. An unknown option is a fault, with the nearest known one as a
hint. Workers take up a changed file by themselves within half a minute, or at SIGHUP; a faulty one is refused
with a line in the log, and the old stays. So is one that is empty or gone, and a change is taken only when
the file says the same two seconds later, for it may be read while it is written. Best is never to write in
place: write the new file beside the old one and rename it (`mv`), as many editors and configuration managers
do by themselves or when told so. A `tick` reads it once, and `aijobs serve` when it starts.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A section of the page: where it stands in the file, and the schema of what is there."""

    path: str
    about: str
    schema: Mapping[str, Any]


def page() -> str:
    """The whole text."""
    return "\n".join([HEAD, *(line for part in _parts() for line in _section(part))]).rstrip() + "\n"


@cache
def _schema() -> dict[str, Any]:
    return schema()


def _parts() -> Iterator[Part]:
    whole = _schema()
    plain = {name: one for name, one in whole["properties"].items() if _inner(one) is None}
    yield Part(path="", about="", schema={"properties": plain})
    for name, one in whole["properties"].items():
        if name not in plain:
            path = f"{name}.{ENTRIES[name]}" if name in ENTRIES else name
            yield from _below(path, one.get("description", ""), _inner(one) or {})


def _below(path: str, about: str, found: Mapping[str, Any]) -> Iterator[Part]:
    yield Part(path=path, about=about, schema=found)
    if path in TABLES:
        rest = [inner for inner in found["properties"].items() if not _is_row(inner[1])]
    else:
        rest = list(found["properties"].items())
    for name, one in rest:
        inner = _inner(one)
        if inner is not None:
            yield from _below(f"{path}.{name}", one.get("description", ""), inner)


def _is_row(one: Mapping[str, Any]) -> bool:
    return str(one.get("$ref", "")).endswith(("/ClassRetry", "/AlertRule"))


def _inner(one: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The section that an option holds, if it is no plain value."""
    for choice in (one, *one.get("anyOf", ())):
        entries = choice.get("additionalProperties")
        places = (choice, *([entries, *entries.get("anyOf", ())] if isinstance(entries, Mapping) else ()))
        for place in places:
            found = _schema()["$defs"].get(str(place.get("$ref", "")).rpartition("/")[2])
            if found is not None and "properties" in found:
                return dict(found)
    return None


# --- One section ------------------------------------------------------------------------------------


def _section(part: Part) -> Iterator[str]:
    if part.path:
        yield f"{'#' * min(2 + part.path.count('.') - _named(part.path), 4)} `{part.path}`\n"
        yield from _wrapped(_about(part))
    if part.path in TABLES:
        yield from _rows_of_one_shape(part)
    plain = {name: one for name, one in part.schema["properties"].items() if _inner(one) is None}
    if plain and part.path not in TABLES:
        yield from _options(part, plain)
    elif plain:
        yield "Beside them:\n"
        yield from _options(part, plain)
    top = part.path.partition(".")[0]
    if part.path in (top, f"{top}.{ENTRIES.get(top)}") and top not in NO_EXAMPLE and top:
        yield from _example(top)


def _named(path: str) -> int:
    return sum(name in ENTRIES.values() for name in path.split("."))


def _about(part: Part) -> str:
    """What its section says of itself, else the option's own line."""
    return str(part.schema.get("description") or part.about)


def _wrapped(text: str) -> Iterator[str]:
    words = " ".join(text.split())
    lines = re.findall(rf".{{1,{WIDTH}}}(?:\s|$)", words)
    yield "\n".join(line.rstrip() for line in lines) + "\n"


def _options(part: Part, options: Mapping[str, Any]) -> Iterator[str]:
    kinds = _kinds(part.path)
    yield "| option | format | default | " + ("kinds | " if kinds else "") + "meaning |"
    yield "| --- | --- | --- | " + ("--- | " if kinds else "") + "--- |"
    required = part.schema.get("required", ())
    for name, one in options.items():
        default = "required" if name in required else _default(one)
        only = f"{kinds[name]} | " if kinds else ""
        yield f"| `{name}` | {_format(one)} | {default} | {only}{_cell(one['description'])} |"
    yield ""


def _rows_of_one_shape(part: Part) -> Iterator[str]:
    """One row a rule, one column an option, and what the options mean."""
    rows = {name: one for name, one in part.schema["properties"].items() if _is_row(one)}
    shape = _inner(next(iter(rows.values()))) or {}
    options = shape["properties"]
    yield from _options(Part(path=f"{part.path}.RULE", about="", schema=shape), options)
    yield "With these defaults:\n"
    yield f"| rule | meaning | {' | '.join(f'`{name}`' for name in options)} |"
    yield "| --- | --- |" + " --- |" * len(options)
    for name, one in rows.items():
        own = one.get("default", {})
        cells = [_value(own.get(key, option.get("default"))) for key, option in options.items()]
        yield f"| `{name}` | {_cell(one['description'])} | {' | '.join(cells)} |"
    yield ""


def _kinds(path: str) -> dict[str, str]:
    """For which kinds each option is, where that differs."""
    sections: dict[str, tuple[type[Section], tuple[str, ...]]] = {
        "providers.NAME": (ProviderSettings, tuple(Kind)),
        "notify.NAME": (NotifySettings, get_args(NotifySettings.model_fields["kind"].annotation)),
    }
    if path not in sections:
        return {}
    section, kinds = sections[path]
    foreign = {kind: section.model_construct(kind=kind).foreign_keys for kind in kinds}  # type: ignore[attr-defined]
    taken = {name: [kind for kind in kinds if name not in foreign[kind]] for name in section.model_fields}
    return {name: "all" if len(those) == len(kinds) else ", ".join(those) for name, those in taken.items()}


def _example(top: str) -> Iterator[str]:
    """The part of the example that shows it, without its comments."""
    lines = EXAMPLE.read_text(encoding="utf-8").splitlines()
    begin = lines.index(f"{top}:")
    end = next((n for n in range(begin + 1, len(lines)) if re.match(r"\w", lines[n])), len(lines))
    kept = [line for line in lines[begin:end] if line.strip() and not line.lstrip().startswith("#")]
    yield "```yaml"
    yield from (re.sub(r"\s+# .*$", "", line) for line in kept)
    yield "```\n"


# --- One option -------------------------------------------------------------------------------------


def _format(one: Mapping[str, Any]) -> str:
    choices = [_one_format(choice) for choice in _choices(one)]
    return " or ".join(dict.fromkeys(filter(None, choices))) or "text"


def _choices(one: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """What may stand there, without null and ${NAME}, which may stand everywhere."""
    if "anyOf" in one:
        for inner in one["anyOf"]:
            yield from _choices(inner)
    elif "$ref" in one:
        yield from _choices(_schema()["$defs"][one["$ref"].rpartition("/")[2]])
    elif one.get("type") != "null" and not str(one.get("pattern", "")).startswith(r"\$\{"):
        yield one


def _one_format(one: Mapping[str, Any]) -> str:
    if "const" in one:
        return f"`{one['const']}`"
    if "enum" in one:
        return ", ".join(f"`{value}`" for value in one["enum"])
    match one.get("type"):
        case "boolean":
            return "`true`, `false`"
        case "integer" | "number":
            return _number(one)
        case "array":
            return f"list: {_format(one['items'])}" if one.get("items") else "list"
        case "object":
            values = one.get("additionalProperties")
            return "mapping of secrets" if isinstance(values, Mapping) else "mapping"
        case _:
            return _text(one)


def _number(one: Mapping[str, Any]) -> str:
    kind = "whole number" if one["type"] == "integer" else "number"
    low, high = one.get("minimum"), one.get("maximum")
    if "exclusiveMinimum" in one:
        return f"{kind} above {one['exclusiveMinimum']:g}, to {high:g}"
    if low is None or high is None:
        return kind + ("" if low is None else f", {low:g} or more")
    return f"{kind}, {low:,} to {high:,}" if one["type"] == "integer" else f"{kind}, {low:g} to {high:g}"


def _text(one: Mapping[str, Any]) -> str:
    if one.get("format") == "password":
        return "secret"
    if one.get("format") == "date":
        return "day, `2026-01-31`"
    pattern = str(one.get("pattern", ""))
    return "duration" if "ms)?" in pattern else "rate" if "smhd" in pattern else "text"


def _default(one: Mapping[str, Any]) -> str:
    if "default" not in one:
        return "empty" if any(choice.get("type") == "object" for choice in _choices(one)) else "none"
    return _value(one["default"])


def _value(value: object) -> str:
    if value is None:
        return "none"
    if value in ("", [], {}):
        return "empty"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, float) and value.is_integer():
        return f"`{value:g}`"
    return f"`{', '.join(map(str, value)) if isinstance(value, list) else value}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"wrote {PAGE.relative_to(ROOT)}\n")
