"""The file as plain data with a position for every value: what PyYAML composes, read by stricter rules.

Works on nodes, not on Python objects, because those have lost duplicate keys, positions and spelling.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from aijobs.core.config.environment import UnresolvedError, expand
from aijobs.core.config.scalars import PLAIN, Scalar, resolve, tagged
from aijobs.core.config.syntax import syntax_fault
from aijobs.core.errors import ConfigFault

Path = tuple[str | int, ...]
_Pair = tuple[yaml.ScalarNode, yaml.Node]
MOST_VALUES = 50_000
"""Values in a file, aliases counted each time: a few nested aliases can stand for billions."""
DEEPEST = 60


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a value stands (from 1), and how it was spelled if it is a scalar without quotes."""

    line: int
    column: int
    spelled: str | None = None


@dataclass(slots=True)
class Document:
    """The data of one file. *values* and *keys* hold the spots of values and of the keys before them."""

    file: str
    data: dict[str, Any] = field(default_factory=dict)
    values: dict[Path, Spot] = field(default_factory=dict)
    keys: dict[Path, Spot] = field(default_factory=dict)
    sources: dict[Path, str] = field(default_factory=dict)  # scalars before ${NAME} was replaced
    faults: list[ConfigFault] = field(default_factory=list)
    broken: set[Path] = field(default_factory=set)  # what has a fault already: saying more would only confuse

    def fault(self, path: Path, message: str, *, spot: Spot | None = None, hint: str | None = None) -> None:
        """Note a fault at *path*."""
        spot = spot or self.spot(path)
        known = ConfigFault(self.file, spot.line, spot.column, path_text(path), message, hint)
        if known not in self.faults:
            self.faults.append(known)

    def spot(self, path: Path) -> Spot:
        """The best place to point at for *path*: the scalar, else its key, else the nearest thing around."""
        for length in range(len(path), 0, -1):
            part = path[:length]
            value, key = self.values.get(part), self.keys.get(part)
            if value and (key is None or (part in self.sources and value.spelled != "")):
                return value
            if key:
                return key
        return Spot(0, 0)


def path_text(path: Path) -> str:
    """`types.summarize.notify[0]`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.lstrip(".")


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Composes nodes only; a scalar without quotes keeps its text and is read by our own rules."""

    def resolve(self, kind: type, value: str | None, implicit: Any) -> str:
        if kind is yaml.ScalarNode and implicit[0]:
            return PLAIN
        return str(super().resolve(kind, value, implicit))


def read(text: str, *, file: str, environ: Mapping[str, str]) -> Document:
    """The document in *text*. Faults are collected in it; a syntax fault ends it there."""
    document = Document(file)
    try:
        root = _Loader(text).get_single_node()
    except (yaml.YAMLError, RecursionError) as error:
        document.faults.append(syntax_fault(error, text, file))
        return document
    if root is None or (
        isinstance(root, yaml.ScalarNode) and root.tag == PLAIN and resolve(root.value) is None
    ):
        return document
    if not isinstance(root, yaml.MappingNode):
        what = "a list" if isinstance(root, yaml.SequenceNode) else "text"
        document.fault((), f"the file holds {what}: sections like `providers:` are needed", spot=_spot(root))
        return document
    document.data = _Reader(document, environ).mapping(root, ())
    return document


class _Reader:
    """Turns nodes into data, noting spots and faults."""

    def __init__(self, document: Document, environ: Mapping[str, str]) -> None:
        self.document = document
        self.environ = environ
        self.count = 0
        self.full = False  # once is enough to say it
        self.open: list[yaml.Node] = []

    def value(self, node: yaml.Node, path: Path) -> Any:
        self.document.values[path] = _spot(node)
        self.count += 1
        if isinstance(node, yaml.ScalarNode):
            return self.scalar(node, path)
        refusal = self._refusal(node)
        if refusal:
            self._refuse(node, path, refusal)
            return None
        self.open.append(node)
        try:
            if isinstance(node, yaml.MappingNode):
                return self.mapping(node, path)
            return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
        finally:
            self.open.pop()

    def scalar(self, node: yaml.ScalarNode, path: Path) -> Scalar:
        text: str = node.value
        self.document.sources[path] = text
        try:
            expanded = expand(text, self.environ, url=path == ("database",))
            if node.tag == PLAIN:
                return resolve(text) if expanded is text else expanded
            return expanded if node.tag.endswith(":str") else tagged(node.tag, expanded)
        except (UnresolvedError, ValueError) as error:
            self._refuse(node, path, str(error))
            return None

    def mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key_node, value_node in self._pairs(node, path):
            at = (*path, key_node.value)
            self.document.keys[at] = _spot(key_node)
            data[key_node.value] = self.value(value_node, at)
        return data

    def _pairs(self, node: yaml.MappingNode, path: Path) -> list[_Pair]:
        """The mapping's own keys, each once, then what `<<` brings in and is not there yet."""
        own: dict[str, _Pair] = {}
        merges: list[yaml.Node] = []
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._refuse(key_node, path, "a key must be a word, not a list or mapping")
            elif key_node.value in own:
                line = own[key_node.value][0].start_mark.line + 1
                message = f"duplicate key {key_node.value!r}: it stands on line {line} already"
                self.document.fault((*path, key_node.value), message, spot=_spot(key_node))
            else:
                own[key_node.value] = (key_node, value_node)
                if key_node.value == "<<" and key_node.tag == PLAIN:
                    merges.append(own.pop("<<")[1])
        for source in merges:
            for pair in self._merged(source, path):
                own.setdefault(pair[0].value, pair)
        return list(own.values())

    def _merged(self, source: yaml.Node, path: Path) -> list[_Pair]:
        """Of `<<: *base` or a list of those: earlier ones win."""
        pairs: list[_Pair] = []
        for one in source.value if isinstance(source, yaml.SequenceNode) else [source]:
            refusal = self._refusal(one)
            if refusal or not isinstance(one, yaml.MappingNode):
                self._refuse(one, path, refusal or "<< takes a mapping, or a list of mappings")
                continue
            self.open.append(one)
            pairs += self._pairs(one, path)
            self.open.pop()
        return pairs

    def _refusal(self, node: yaml.Node) -> str | None:
        if any(node is one for one in self.open):
            return "an alias that holds itself"
        if len(self.open) >= DEEPEST:
            return f"nested deeper than {DEEPEST} levels"
        if self.count > MOST_VALUES:
            return f"the file holds more than {MOST_VALUES} values, counting aliases each time"
        if node.tag and not node.tag.endswith((":map", ":seq", PLAIN)):
            return "tags are not used here: remove it"
        return None

    def _refuse(self, node: yaml.Node, path: Path, message: str) -> None:
        self.document.broken.add(path)
        if self.count <= MOST_VALUES or not self.full:
            self.full = self.count > MOST_VALUES
            self.document.fault(path, message, spot=_spot(node))


def _spot(node: yaml.Node) -> Spot:
    mark = node.start_mark
    plain = isinstance(node, yaml.ScalarNode) and node.tag == PLAIN
    return Spot(mark.line + 1, mark.column + 1, node.value if plain else None)
