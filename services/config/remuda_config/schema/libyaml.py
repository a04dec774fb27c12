"""Reads or composes a text with libyaml, ten times as fast as in Python.

Only texts that are valid and within all bounds: for any other the answer is None, and the slow composer finds out what
is wrong. So there is one source of messages.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import yaml
from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from remuda_config import limits

_PARSER: Any = yaml._yaml.CParser if yaml.__with_libyaml__ else None
# Characters that libyaml, which reads YAML 1.1, and the slow composer judge differently: line breaks of YAML 1.1, tabs,
# byte order marks, the end of a document.
_JUDGED_DIFFERENTLY = re.compile(r"[\x85\u2028\u2029\t\ufeff]|^\.\.\.", re.MULTILINE)


def compose(text: str) -> Node | None:
    """Returns the node of the first document, a mapping. None: the text is for the slow composer."""
    node: Node | None = _parsed(text, _Composer)
    return node


def read(text: str, scalar: Callable[[str, str, bool], Any]) -> dict[str, Any] | None:
    """Returns the content of the first document, a mapping, without nodes.

    None: the text has anchors, tags or keys twice, or is for the slow composer. `scalar` makes a value of a text, its
    tag and whether it is plain, or raises NotSimple; None in a list is dropped.
    """
    content: dict[str, Any] | None = _parsed(text, lambda parser: _Reader(parser, scalar))
    return content


def _parsed(text: str, reader: Callable[[Any], _Composer | _Reader]) -> Any:
    if _PARSER is None or _JUDGED_DIFFERENTLY.search(text):
        return None
    try:
        parser = _PARSER(text)
        try:
            return reader(parser).document()
        finally:
            parser.dispose()
    except (yaml.YAMLError, NotSimple, UnicodeError):
        return None


class NotSimple(Exception):
    """The text has something that the slow composer has to judge."""


class _Composer:
    def __init__(self, parser: Any) -> None:
        self._parser = parser
        self._resolver = YAML(typ="safe", pure=True).resolver
        self._tags: dict[str, Any] = {}  # of plain scalars without a tag
        self._anchors: dict[str, Node] = {}
        self._nodes = 0

    def document(self) -> Node | None:
        parser = self._parser
        parser.get_event()  # the start of the stream
        start = parser.get_event()
        if not isinstance(start, yaml.DocumentStartEvent) or start.version is not None:
            return None
        node = self._node(parser.get_event(), 0)
        if not isinstance(node, MappingNode):
            return None
        parser.get_event()  # the end of the document: what follows it is not read
        return node

    def _node(self, event: Any, depth: int) -> Node:
        self._nodes += 1
        if self._nodes > limits.MAX_NODES or depth > limits.MAX_DEPTH:
            raise NotSimple
        kind = type(event)
        if kind is yaml.AliasEvent:
            if event.anchor not in self._anchors:
                raise NotSimple
            return self._anchors[event.anchor]
        if event.anchor in self._anchors:
            raise NotSimple
        if kind is yaml.ScalarEvent:
            if event.style in ("|", ">"):
                raise NotSimple
            node = ScalarNode(self._tag(event), event.value, event.start_mark, event.end_mark, event.style or None)
            if event.anchor is not None:
                self._anchors[event.anchor] = node
            return node
        return self._collection(event, kind is yaml.MappingStartEvent, depth)

    def _collection(self, event: Any, is_mapping: bool, depth: int) -> Node:
        content: list[Any] = []
        made = MappingNode if is_mapping else SequenceNode
        implicit = self._resolver.resolve(made, None, event.implicit)
        tag = implicit if event.tag is None or event.tag == "!" else self._resolver_tag(event.tag)
        node = made(tag, content, event.start_mark, None, event.flow_style)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        parser = self._parser
        while True:
            event = parser.get_event()
            if isinstance(event, yaml.CollectionEndEvent):
                node.end_mark = event.end_mark
                return node
            item = self._node(event, depth + 1)
            if not is_mapping:
                content.append(item)
                if depth == 1 and len(content) > limits.MAX_PARTITIONS:
                    raise NotSimple
            elif isinstance(item, ScalarNode):
                content.append((item, self._node(parser.get_event(), depth + 1)))
            else:
                raise NotSimple

    def _tag(self, event: Any) -> Any:
        if event.tag is not None and event.tag != "!":
            return self._resolver_tag(event.tag)
        plain, _ = event.implicit
        if not plain:
            return self._resolver.resolve(ScalarNode, event.value, event.implicit)
        tag = self._tags.get(event.value)
        if tag is None:
            tag = self._tags[event.value] = self._resolver.resolve(ScalarNode, event.value, event.implicit)
        return tag

    def _resolver_tag(self, tag: str) -> str:
        if not tag.startswith("tag:yaml.org,2002:"):
            raise NotSimple  # a tag of its own: refused with a message
        return tag


class _Reader:
    def __init__(self, parser: Any, scalar: Callable[[str, str, bool], Any]) -> None:
        self._next = parser.get_event
        self._scalar = scalar
        self._resolver = YAML(typ="safe", pure=True).resolver
        self._scalars: dict[tuple[str, bool], Any] = {}
        self._nodes = 0

    def document(self) -> dict[str, Any]:
        self._next()  # the start of the stream
        start = self._next()
        if not isinstance(start, yaml.DocumentStartEvent) or start.version is not None:
            raise NotSimple
        event = self._next()
        if type(event) is not yaml.MappingStartEvent:
            raise NotSimple
        content: dict[str, Any] = self._value(event, 0)
        self._next()  # the end of the document: what follows it is not read
        return content

    def _value(self, event: Any, depth: int) -> Any:
        self._nodes += 1
        kind = type(event)
        if self._nodes > limits.MAX_NODES or depth > limits.MAX_DEPTH or kind is yaml.AliasEvent:
            raise NotSimple
        if event.anchor is not None or event.tag is not None:
            raise NotSimple
        if kind is yaml.ScalarEvent:
            return self._value_of_scalar(event)
        return self._mapping(depth) if kind is yaml.MappingStartEvent else self._sequence(depth)

    def _value_of_scalar(self, event: Any) -> Any:
        if event.style in ("|", ">"):
            raise NotSimple
        known = (event.value, not event.style)
        if known not in self._scalars:
            tag = self._resolver.resolve(ScalarNode, event.value, event.implicit)
            self._scalars[known] = self._scalar(event.value, str(tag), not event.style)
        return self._scalars[known]

    def _mapping(self, depth: int) -> dict[str, Any]:
        content: dict[str, Any] = {}
        while type(event := self._next()) is not yaml.MappingEndEvent:
            self._nodes += 1
            key = event.value if type(event) is yaml.ScalarEvent else None
            if key is None or key in content or key == "<<" or event.anchor or event.tag or event.style in ("|", ">"):
                raise NotSimple
            content[key] = self._value(self._next(), depth + 1)
        return content

    def _sequence(self, depth: int) -> list[Any]:
        content = []
        while type(event := self._next()) is not yaml.SequenceEndEvent:
            content.append(self._value(event, depth + 1))
        if depth == 1 and len(content) > limits.MAX_PARTITIONS:
            raise NotSimple
        return [item for item in content if item is not None]
