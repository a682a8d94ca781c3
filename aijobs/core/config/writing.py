"""The configuration as it may be shown, and the schema a file must meet."""

from datetime import timedelta
from typing import Any

import yaml
from pydantic.json_schema import GenerateJsonSchema

from aijobs.core.durations import format_duration
from aijobs.core.settings import Settings

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_REFERENCE = {"type": "string", "pattern": r"\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\}"}
_DATA = frozenset({"default", "examples", "enum", "const", "required"})


def shown(settings: Settings) -> dict[str, Any]:
    """All of *settings*, defaults included, in the names and spellings of the file; secrets are masked."""
    document = settings.model_dump(mode="json", by_alias=True)
    for section, entries in (("providers", settings.providers), ("notify", settings.notify)):
        for name, entry in entries.items():
            for key in entry.foreign_keys:
                del document[section][name][key]
    return document


def to_yaml(document: dict[str, Any]) -> str:
    """*document* as YAML, without what is not set."""
    return yaml.safe_dump(_without_none(document), sort_keys=False, allow_unicode=True, width=110)


def schema() -> dict[str, Any]:
    """The JSON Schema of the file, for editors. ${NAME} may stand where text becomes something else."""
    made = Settings.model_json_schema(by_alias=True, schema_generator=_Generator)
    listed = made["properties"]["prices"]["additionalProperties"]
    made["properties"]["prices"]["additionalProperties"] = {"anyOf": [listed["items"], listed]}
    return {"$schema": DIALECT, **_with_references(made), "title": "aijobs configuration"}


class _Generator(GenerateJsonSchema):
    """Defaults in the file's own spelling, and no titles that only repeat the key."""

    def encode_default(self, dft: Any) -> Any:
        return format_duration(dft) if isinstance(dft, timedelta) else super().encode_default(dft)

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002  # as pydantic calls it
        return False


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(inner) for key, inner in value.items() if inner is not None}
    return [_without_none(inner) for inner in value] if isinstance(value, list) else value


def _with_references(part: Any) -> Any:
    if isinstance(part, list):
        return [_with_references(inner) for inner in part]
    if not isinstance(part, dict):
        return part
    made = {key: inner if key in _DATA else _with_references(inner) for key, inner in part.items()}
    if not _is_read_from_text(made):
        return made
    about = {key: made.pop(key) for key in ("description", "default") if key in made}
    return {"anyOf": [made, _REFERENCE], **about}


def _is_read_from_text(part: dict[str, Any]) -> bool:
    kind = part.get("type")
    if kind in ("integer", "number", "boolean"):
        return True
    return kind == "string" and any(
        isinstance(part.get(key), str | list) for key in ("pattern", "enum", "const")
    )
