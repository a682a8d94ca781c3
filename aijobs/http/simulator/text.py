"""What the simulated model says: a plausible function of what it was asked, and of nothing else."""

import json
import re
from typing import Any
from zlib import crc32

_OPENINGS = (
    "In short:",
    "The main point:",
    "Here is the gist.",
    "To sum up:",
    "What matters most:",
)
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s*")
_LONGEST = 160


def answer(asked: str) -> str:
    """A short answer to *asked*: an opening chosen by its checksum, its first sentence, and its length."""
    flat = " ".join(asked.split())
    first = _SENTENCE_END.split(flat, maxsplit=1)[0]
    if len(first) > _LONGEST:
        first = first[:_LONGEST].rstrip() + "…"
    opening = _OPENINGS[crc32(flat.encode("utf-8", "replace")) % len(_OPENINGS)]
    return f"{opening} {first or 'there was nothing to read.'} ({count_words(flat)} read)"


def count_words(text: str) -> int:
    """Words between blanks; in text without blanks (Chinese, Japanese) the characters."""
    words = text.split()
    return len(text) if len(words) == 1 and len(text) > 30 else len(words)


def count_tokens(text: str) -> int:
    """About one token for each four bytes of UTF-8, and never none for some text."""
    return -(-len(text.encode("utf-8", "replace")) // 4)


def json_answer(asked: str, schema: object = None) -> str:
    """The answer as JSON text: an instance of *schema* as far as it is simple, else an object of our own."""
    if isinstance(schema, dict):
        value = _instance(schema, answer(asked))
    else:
        value = {"answer": answer(asked), "words": count_words(asked)}
    return json.dumps(value, ensure_ascii=False)


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _instance(wanted: object, text: str) -> object:
    schema = _object(wanted)
    if "const" in schema:
        return schema["const"]
    if isinstance(choices := schema.get("enum"), list) and choices:
        return choices[crc32(text.encode("utf-8", "replace")) % len(choices)]
    kind = schema.get("type", "object" if "properties" in schema else "string")
    match kind[0] if isinstance(kind, list) and kind else kind:
        case "object":
            return {name: _instance(part, text) for name, part in _object(schema.get("properties")).items()}
        case "array":
            return [_instance(schema.get("items"), text)]
        case "integer" | "number":
            return schema.get("minimum", count_words(text))
        case "boolean":
            return True
        case "null":
            return None
        case _:
            return text
