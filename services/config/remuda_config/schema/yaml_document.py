"""Parses YAML into plain lists, mappings and scalars, each with its line.

Scalars keep their text, since `010` or `1e3` differ between a quantity, a number and a name. Only the first document is
read. Null items of lists are dropped; null values of mappings are None.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from remuda_config import limits
from remuda_config.problems import Finding, Path
from remuda_config.schema import libyaml

# The depth of a partition: text, list of partitions, partition.
PARTITION_DEPTH = 2
_TAG = "tag:yaml.org,2002:"
_KINDS = {_TAG + kind: kind for kind in ("str", "int", "float", "bool", "null", "timestamp")}
_TOO_MANY = f"the text unfolds into more than {limits.MAX_NODES} values (aliases?)"


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value of YAML. `kind`: its type (str, int, float, bool, timestamp). `plain`: written without quotes."""

    text: str
    kind: str
    plain: bool

    def __str__(self) -> str:
        return self.text if self.plain else repr(self.text)


Plain = dict[str, "Plain"] | list["Plain"] | Scalar | None


class NotYaml(Exception):
    """The text cannot be parsed: one problem, at a line."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line
        self.message = message


@dataclass(slots=True)
class YamlDocument:
    """A text of YAML, and the line of each of its values. `unplaced`: the text whose lines are not known yet. Only
    messages need them.
    """

    content: Plain
    lines: dict[Path, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    unplaced: str = ""

    def line(self, path: Path) -> int:
        """Returns the line of the path, or of the nearest path around it that the text has."""
        if self.unplaced:
            self.lines, self.unplaced = _read_with_lines(self.unplaced).lines, ""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 0)


def read_yaml(text: str) -> YamlDocument:
    """Reads a text. Duplicate keys and the like are findings, and the rest is read on. Raises NotYaml."""
    size = len(text.encode(errors="surrogatepass"))
    if size > limits.MAX_TEXT_BYTES:
        raise NotYaml(0, f"the text has {size} bytes, at most {limits.MAX_TEXT_BYTES} are read")
    text = text.removeprefix("\ufeff")
    content = libyaml.read(text, _scalar)
    return YamlDocument(content, unplaced=text) if content is not None else _read_with_lines(text)


def _scalar(text: str, tag: str, plain: bool) -> Scalar | None:
    kind = _KINDS.get(tag)
    if kind is None:
        raise libyaml.NotSimple
    return None if kind == "null" else Scalar(text, kind, plain)


def _read_with_lines(text: str) -> YamlDocument:
    document = YamlDocument(None)
    with _not_yaml(text):
        node = libyaml.compose(text) or _compose(text)
        if node is not None:
            document.content = _Reading(document).value(node, (), frozenset())
    return document


def compose(text: str) -> Node | None:
    """Returns the nodes of the first document, with their places in the text. Raises NotYaml."""
    with _not_yaml(text):
        return libyaml.compose(text) or _compose(text)


@contextlib.contextmanager
def _not_yaml(text: str) -> Iterator[None]:
    try:
        yield
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        hint = "; YAML takes blanks for indentation, no tabs" if "'\\t'" in str(error.problem) else ""
        raise NotYaml(mark.line + 1 if mark else 0, f"not YAML: {error.problem or error.context}{hint}") from error
    except YAMLError as error:
        raise NotYaml(_line_of(text, error), f"not YAML: {str(error).splitlines()[0]}") from error
    except RecursionError:
        raise NotYaml(0, "nested too deeply") from None


def _compose(text: str) -> Node | None:
    yaml = YAML(typ="safe", pure=True)
    yaml.Composer = _BoundedComposer
    return next(iter(yaml.compose_all(text)), None)


class _BoundedComposer(Composer):
    """Stops at the first value or partition above its bound."""

    def __init__(self, loader: Any = None) -> None:
        super().__init__(loader=loader)
        self._nodes = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self._nodes += 1
        if self._nodes > limits.MAX_NODES:
            raise NotYaml(self._line(), f"more than {limits.MAX_NODES} values")
        if self.depth == PARTITION_DEPTH and isinstance(index, int) and index >= limits.MAX_PARTITIONS:
            raise NotYaml(self._line(), f"more than {limits.MAX_PARTITIONS} partitions")
        return super().compose_node(parent, index)

    def _line(self) -> int:
        return int(self.parser.peek_event().start_mark.line) + 1


def _line_of(text: str, error: YAMLError) -> int:
    position = getattr(error, "position", None)  # characters YAML does not allow come with an offset instead of a mark
    return text.count("\n", 0, position) + 1 if isinstance(position, int) else 0


class _Reading:
    def __init__(self, document: YamlDocument) -> None:
        self.document = document
        self.nodes = 0

    def value(self, node: Node, path: Path, around: frozenset[int]) -> Plain:
        self.nodes += 1
        line = node.start_mark.line + 1
        if self.nodes > limits.MAX_NODES:
            raise NotYaml(line, _TOO_MANY)
        if len(path) > limits.MAX_DEPTH:
            raise NotYaml(line, f"nested more than {limits.MAX_DEPTH} levels deep")
        if id(node) in around:
            raise NotYaml(line, "an alias stands inside of what it is an alias for")
        self.document.lines.setdefault(path, line)
        if isinstance(node, ScalarNode):
            return self.scalar(node, path)
        around |= {id(node)}
        if isinstance(node, SequenceNode):
            return self.sequence(node, path, around)
        assert isinstance(node, MappingNode), node
        return self.mapping(node, path, around)

    def scalar(self, node: ScalarNode, path: Path) -> Plain:
        kind = _KINDS.get(str(node.tag))
        if kind is None:
            self.document.findings.append((path, f"the tag {node.tag} is not used here"))
            return None
        return None if kind == "null" else Scalar(str(node.value), kind, node.style is None)

    def sequence(self, node: SequenceNode, path: Path, around: frozenset[int]) -> list[Plain]:
        items: list[Plain] = []
        for item in node.value:
            place = (*path, len(items))
            self.document.lines.pop(place, None)  # left behind by a null item
            value = self.value(item, place, around)
            if value is not None:
                items.append(value)
        return items

    def mapping(self, node: MappingNode, path: Path, around: frozenset[int]) -> dict[str, Plain]:
        own: dict[str, Plain] = {}
        merged: list[Node] = []
        for key, value in node.value:
            line = key.start_mark.line + 1
            if key.tag == _TAG + "merge":
                merged += value.value if isinstance(value, SequenceNode) else [value]
            elif not isinstance(key, ScalarNode):
                self.document.findings.append((path, f"a key in line {line} is not a word"))
            elif key.value in own:
                first = self.document.lines[(*path, key.value)]
                self.document.findings.append(((*path, key.value), f"the key stands in lines {first} and {line}"))
            else:
                self.document.lines[(*path, key.value)] = line
                own[key.value] = self.value(value, (*path, key.value), around)
        return self.merge(own, merged, path, around)

    def merge(self, own: dict[str, Plain], merged: list[Node], path: Path, around: frozenset[int]) -> dict[str, Plain]:
        """`<<`: add the keys of other mappings that the own mapping lacks, the first mapping first."""
        for node in merged:
            if not isinstance(node, MappingNode):
                self.document.findings.append((path, "<< takes a mapping or a list of mappings"))
                continue
            lines = self.document.lines
            self.document.lines = {}
            value = self.value(node, path, around)
            found, self.document.lines = self.document.lines, lines
            new = {key: item for key, item in value.items() if key not in own} if isinstance(value, dict) else {}
            own.update(new)
            at = len(path)
            lines.update((place, line) for place, line in found.items() if len(place) > at and place[at] in new)
        return own
