"""Files of other schedulers as documents of YAML, each value with its file and line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.anchor import Anchor
from ruamel.yaml.comments import CommentedMap, CommentedSeq, merge_attrib
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.scalarstring import LiteralScalarString

from .. import limits


class NotReadable(Exception):
    """A file that cannot be translated; the message names file and line."""


@dataclass(frozen=True, slots=True)
class File:
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Document:
    """A document of YAML. `before`: lines of the file before its first line. `placed`: whether its lines are those of
    the file; a text inside of a quoted string has one line for all."""

    file: str
    content: Any
    before: int = 0
    placed: bool = True

    def at(self, container: Any, key: Any = None) -> str:
        """Returns `file:line` of a key, or of the container where the key has no line."""
        if not self.placed:
            return f"{self.file}:{self.before + 1}"
        position = getattr(container, "lc", None)
        if position is None:
            return self.file
        places = position.data or {}
        line = places[key][0] if key in places else position.line
        return f"{self.file}:{self.before + (line or 0) + 1}"

    def at_path(self, path: Iterable[str | int]) -> str:
        """Returns `file:line` of the last part of a path that the document has."""
        node, place = self.content, self.at(self.content)
        for part in path:
            place = self.at(node, part)
            try:
                node = node[part]
            except (KeyError, IndexError, TypeError):
                break
        return place


def documents(file: File) -> list[Document]:
    """Returns all documents of a file; the items of a Kubernetes `List` one by one. Raises NotReadable."""
    found: list[Document] = []
    for content in _load(file.text, file.name, 0):
        document = Document(file.name, content)
        if isinstance(content, CommentedMap) and str(content.get("kind", "")).endswith("List"):
            items = content.get("items")
            found += [Document(file.name, item) for item in (items if isinstance(items, CommentedSeq) else ())]
        else:
            found.append(document)
    return found


def inside(document: Document, container: CommentedMap, key: str) -> Document:
    """Returns the document that a value of another document holds as text. Raises NotReadable."""
    text = container[key]
    is_block = document.placed and isinstance(text, LiteralScalarString)
    before = document.before
    if document.placed:
        key_line, _, value_line, _ = container.lc.data[key]
        before += value_line + 1 if is_block else key_line
    loaded = list(_load(str(text), document.file, before))
    return Document(document.file, loaded[0] if loaded else None, before, is_block)


def yaml() -> YAML:
    """Reads and writes with comments, order and quotes."""
    both = YAML()
    both.preserve_quotes = True
    both.width = limits.DRAFT_COLUMNS
    both.indent(mapping=2, sequence=4, offset=2)
    return both


def _load(text: str, name: str, before: int) -> Iterator[Any]:
    if len(text) > limits.LARGEST_IMPORT_CHARACTERS:
        raise NotReadable(f"{name}: {len(text):,} characters, expected at most {limits.LARGEST_IMPORT_CHARACTERS:,}")
    try:
        for content in yaml().load_all(_without_leading_tabs(text)):
            yield _Unsharing(name).value(content)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = before + (mark.line + 1 if mark else 1)
        hint = "; this is a template of Helm: import the output of `helm template`" if "{{" in text else ""
        if "'\\t'" in str(error.problem):
            hint = "; YAML takes no tabs for indentation"
        raise NotReadable(f"{name}:{line}: not YAML: {error.problem or error.context}{hint}") from error
    except (YAMLError, ValueError) as error:
        raise NotReadable(f"{name}: not YAML: {str(error).splitlines()[0]}") from error
    except RecursionError:
        raise NotReadable(f"{name}: nested too deeply") from None


def _without_leading_tabs(text: str) -> str:
    """JSON may be indented by tabs, YAML may not."""
    return text.replace("\t", "  ") if text.lstrip()[:1] in ("{", "[") else text


class _Unsharing:
    """Copies a document so that each use of an alias is a value of its own: changing one leaves the others alone. Drops
    null entries of lists, which count as absent in queues.yaml."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._values = 0

    def value(self, node: Any) -> Any:
        self._values += 1
        if self._values > limits.MOST_IMPORTED_VALUES:
            raise NotReadable(f"{self._name}: more than {limits.MOST_IMPORTED_VALUES:,} values (aliases?)")
        if isinstance(node, CommentedMap):
            copy = CommentedMap()
            for key, value in node.items():
                copy[key if isinstance(key, str) else str(key)] = self.value(value)
            return _with_place(node, copy)
        if isinstance(node, CommentedSeq):
            return _with_place(node, CommentedSeq(self.value(item) for item in node if item is not None))
        return node


def _with_place(node: Any, copy: Any) -> Any:
    node.copy_attributes(copy)
    for shared in (Anchor.attrib, merge_attrib):
        if hasattr(copy, shared):
            delattr(copy, shared)
    return copy
