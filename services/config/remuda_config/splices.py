"""Inserts, replaces and removes keys and items of a YAML text by the places of its nodes. Pure.

A new key of a block goes on lines of its own behind the last one, a new key of a flow mapping (`{...}`) behind its
last one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")
_OTHER_KIND = re.compile(r"(?i)null|true|false|yes|no|on|off|[-+.]?[0-9].*|\.(inf|nan)")
_DASH = re.compile(r"^ *-", re.MULTILINE)

Content = str | Mapping[str, Any] | list[Any]  # scalars as they stand in the text


def scalar(text: str, is_text: bool = True) -> str:
    """The text as a scalar of YAML. `is_text`: quoted where it would be another kind of value without quotes."""
    if _PLAIN.fullmatch(text) and not (is_text and _OTHER_KIND.fullmatch(text)):
        return text
    return "'" + text.replace("'", "''") + "'"


def flow(content: Content) -> str:
    """The content on one line."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "[" + ", ".join(map(flow, content)) + "]"
    return "{" + ", ".join(f"{scalar(key)}: {flow(value)}" for key, value in content.items()) + "}"


def block(content: Mapping[str, Any], indent: int) -> str:
    """The content on lines of its own."""
    margin, lines = " " * indent, ""
    for key, value in content.items():
        if isinstance(value, str):
            lines += f"{margin}{scalar(key)}: {value}\n"
        elif isinstance(value, list):
            lines += f"{margin}{scalar(key)}:\n" + "".join(item(one, indent + 2) for one in value)
        else:
            lines += f"{margin}{scalar(key)}:\n{block(value, indent + 2)}"
    return lines


def item(content: Mapping[str, Any], indent: int) -> str:
    return " " * indent + "- " + block(content, indent + 2).lstrip(" ")


class Text:
    """Each verb returns the text with one change."""

    def __init__(self, text: str) -> None:
        self._text = text

    def replace_value(self, mapping: MappingNode, key: str, value: str) -> str:
        """The value of a key that has a scalar."""
        _, node = _entry(mapping, key)
        start, end = node.start_mark.index, self._end(node)
        line_break = "\n" if node.style in ("|", ">") and self._text[end - 1 : end] == "\n" else ""
        return self._splice(start, end, value + line_break)

    def add_key(self, mapping: MappingNode, key: str, content: Content) -> str:
        """A key that the mapping does not have, or has without a value."""
        found = next(((name, node) for name, node in mapping.value if name.value == key), None)
        if mapping.flow_style and found is not None:
            start = self._after_colon(found[0])
            return self._splice(start, max(start, self._end(found[1])), f" {flow(content)}")
        if mapping.flow_style:
            return self._add_to_flow(mapping, f"{scalar(key)}: {flow(content)}")
        column = mapping.value[0][0].start_mark.column
        lines = self._broken(block({key: content}, column))
        if found is not None:
            _, end = self._lines_of(*found)
            return self._splice(found[0].start_mark.index, end, lines.lstrip(" "))
        return self._insert_lines(self._end(mapping), lines)

    def remove_key(self, mapping: MappingNode, key: str) -> str:
        """A key with its value, which is not the only one of the mapping."""
        place = next(place for place, (name, _) in enumerate(mapping.value) if name.value == key)
        entries = [(name.start_mark.index, self._end_of_entry(name, value)) for name, value in mapping.value]
        if mapping.flow_style:
            return self._remove_from_flow(entries, place)
        start, end = self._lines_of(*mapping.value[place])
        if self._text[start : entries[place][0]].strip():  # behind a dash, which stays
            return self._splice(entries[place][0], entries[place + 1][0], "")
        return self._splice(start, end, "")

    def add_item(self, sequence: SequenceNode, content: Mapping[str, Any]) -> str:
        if sequence.flow_style:
            return self._add_to_flow(sequence, flow(content))
        return self._insert_lines(self._end(sequence), self._broken(item(content, sequence.start_mark.column)))

    def remove_item(self, sequence: SequenceNode, place: int) -> str:
        """An item of several, with the comment above it."""
        node = sequence.value[place]
        if sequence.flow_style:
            return self._remove_from_flow([(one.start_mark.index, self._end(one)) for one in sequence.value], place)
        dash = self._dash_of(sequence, place)
        start = self._line_start(dash)
        margin = self._text[start:dash]
        while (above := self._line_start(start - 1)) < start and self._text.startswith(f"{margin}#", above):
            start = above
        return self._splice(start, self._line_end(self._end(node)), "")

    def _dash_of(self, sequence: SequenceNode, place: int) -> int:
        """Between two items, there are blank lines and comments, which may contain dashes."""
        if not place:
            return int(sequence.start_mark.index)
        found = _DASH.search(self._text, self._line_end(self._end(sequence.value[place - 1])))
        assert found is not None
        return found.end() - 1

    def _splice(self, start: int, end: int, inserted: str) -> str:
        return self._text[:start] + inserted + self._text[end:]

    def _insert_lines(self, behind: int, lines: str) -> str:
        at = self._line_end(behind)
        if self._text[at - 1 : at] != "\n":
            lines = self._broken("\n") + lines
        return self._splice(at, at, lines)

    def _broken(self, lines: str) -> str:
        """With the line breaks of the text."""
        return lines.replace("\n", "\r\n") if "\r\n" in self._text else lines

    def _add_to_flow(self, node: Any, content: str) -> str:
        at = self._end_of_last(node) if node.value else node.start_mark.index + 1
        return self._splice(at, at, f", {content}" if node.value else content)

    def _remove_from_flow(self, entries: list[tuple[int, int]], place: int) -> str:
        if place + 1 < len(entries):
            return self._splice(entries[place][0], entries[place + 1][0], "")
        return self._splice(entries[place - 1][1], entries[place][1], "") if place else self._splice(*entries[0], "")

    def _lines_of(self, key: Node, value: Node) -> tuple[int, int]:
        return self._line_start(key.start_mark.index), self._line_end(self._end_of_entry(key, value))

    def _end_of_last(self, node: MappingNode | SequenceNode) -> int:
        last: Any = node.value[-1]
        return self._end_of_entry(*last) if isinstance(node, MappingNode) else self._end(last)

    def _end_of_entry(self, key: Node, value: Node) -> int:
        return max(self._end(value), self._after_colon(key)) if not _is_absent(value) else self._after_colon(key)

    def _end(self, node: Any) -> int:
        """Behind the last character of a node. The comments behind it are not part of it."""
        start: int = node.start_mark.index
        if isinstance(node, MappingNode | SequenceNode) and not node.flow_style:
            return self._end_of_last(node) if node.value else start
        end: int = node.end_mark.index
        if isinstance(node, ScalarNode) and node.style in ("|", ">"):
            return max(len(self._text[:end].rstrip()), start + 1)
        return end

    def _after_colon(self, key: Any) -> int:
        end: int = key.end_mark.index
        return self._text.index(":", end) + 1

    def _line_start(self, at: int) -> int:
        return self._text.rfind("\n", 0, max(at, 0)) + 1

    def _line_end(self, at: int) -> int:
        found = self._text.find("\n", at)
        return len(self._text) if found < 0 else found + 1


def _entry(mapping: MappingNode, key: str) -> Any:
    return next((name, value) for name, value in mapping.value if name.value == key)


def _is_absent(value: Any) -> bool:
    return isinstance(value, ScalarNode) and value.start_mark.index == value.end_mark.index
