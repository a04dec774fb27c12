"""Changes single keys of a text of queues.yaml. Every other character of the text stays as it is. Pure.

An edit is a mapping: `do` (set, unset, add, remove), `queue` (such as root.prod), `partition` (default: default); for
set and unset `key`, for set `value`. `add` may have `values`, a mapping from keys to values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from remuda_proto.bounds import shown

from . import limits
from .schema import NotYaml, compose

# Keys whose rest is the name of a resource or of a property, the longest first, and where that is in a queue.
_NAMED = {
    "childtemplate.properties": ("childtemplate", "properties"),
    "childtemplate.guaranteed": ("childtemplate", "resources", "guaranteed"),
    "resources.guaranteed": ("resources", "guaranteed"),
    "childtemplate.max": ("childtemplate", "resources", "max"),
    "resources.max": ("resources", "max"),
    "guaranteed": ("resources", "guaranteed"),
    "properties": ("properties",),
    "max": ("resources", "max"),
}
_SINGLE = {
    "maxapplications": ("maxapplications",),
    "submitacl": ("submitacl",),
    "adminacl": ("adminacl",),
    "parent": ("parent",),
    "childtemplate.maxapplications": ("childtemplate", "maxapplications"),
}
KEYS = ", ".join([*_SINGLE, "max.RESOURCE", "guaranteed.RESOURCE", "properties.NAME", "childtemplate.max.RESOURCE"])


class NotEditable(ValueError):
    """The edits cannot be made. The message names the edit that is wrong, or says why the text cannot be edited."""


def edit(text: str, edits: Sequence[Mapping[str, Any]]) -> str:
    """Returns the text after all edits, made one after the other. Raises NotEditable."""
    if len(edits) > limits.MAX_EDITS:
        raise NotEditable(f"{len(edits):,} edits, expected at most {limits.MAX_EDITS:,}")
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    text = text[len(mark) :]
    for one in edits:
        try:
            document = compose(text)
        except NotYaml as error:
            raise NotEditable(f"the text is not YAML: {error.message}") from error
        _check_no_aliases(document)
        text = _edited(Text(text), document, one)
    return mark + text


def _check_no_aliases(document: Node | None) -> None:
    """An edit of what is shared would change several queues."""
    seen: set[int] = set()
    pending = [document]
    while pending:
        node = pending.pop()
        if isinstance(node, MappingNode):
            children = [child for entry in node.value for child in entry]
        else:
            children = list(node.value) if isinstance(node, SequenceNode) else []
        if id(node) in seen or str(getattr(node, "tag", "")).endswith(":merge"):
            raise NotEditable("the text has aliases (&, *, <<): one edit would change several places")
        seen.add(id(node))
        pending += children


def _edited(text: Text, document: Node | None, one: Mapping[str, Any]) -> str:
    do, path = one.get("do"), one.get("queue")
    if not isinstance(path, str) or not path:
        raise NotEditable(f"queue: expected a path such as root.prod, found {shown(str(path))}")
    partition = _partition(document, str(one.get("partition") or "default"))
    match do:
        case "set":
            return _set(text, _queue(partition, path), str(one.get("key")), one.get("value"))
        case "unset":
            return _unset(text, _queue(partition, path), path, str(one.get("key")))
        case "add":
            return _add(text, partition, path, one.get("values") or {})
        case "remove":
            return _remove(text, partition, path)
    raise NotEditable(f"do: expected set, unset, add or remove, found {shown(str(do))}")


def _set(text: Text, queue: MappingNode, key: str, value: Any) -> str:
    *around, last = _place_of(key)
    written = _written(key, last, value)
    holder, missing = _descend(queue, around)
    found = _value(holder, last) if not missing else None
    if found is None:
        nested: Any = {last: written}
        for name in reversed(missing):
            nested = {name: nested}
        return text.add_key(holder, *next(iter(nested.items())))
    if not isinstance(found, ScalarNode):
        raise NotEditable(f"{shown(key)} has several values in the text, expected one")
    return text.replace_value(holder, last, written)


def _unset(text: Text, queue: MappingNode, path: str, key: str) -> str:
    *around, last = _place_of(key)
    holder, missing = _descend(queue, around)
    if missing or _value(holder, last) is None:
        raise NotEditable(f"{shown(key)} is not set in {shown(path)}")
    holders = [queue]
    for name in around:
        inner = _value(holders[-1], name)
        assert isinstance(inner, MappingNode)
        holders.append(inner)
    while len(holders) > 1 and len(holders[-1].value) == 1:  # the mapping would be empty
        holders.pop()
        last = around[len(holders) - 1]
    return text.remove_key(holders[-1], last)


def _add(text: Text, partition: MappingNode, path: str, values: Any) -> str:
    above, _, name = path.rpartition(".")
    if not above:
        raise NotEditable(f"queue {shown(path)}: expected a path below root")
    if not isinstance(values, Mapping):
        raise NotEditable("values: expected a mapping from keys to values")
    parent = partition if _is_implied(partition, above) else _queue(partition, above)
    if _index(_children(parent), name) is not None:
        raise NotEditable(f"queue {shown(path)} is in the configuration")
    made: dict[str, Any] = {"name": scalar(name)}
    for key, value in values.items():
        *around, last = _place_of(str(key))
        inner = made
        for step in around:
            inner = inner.setdefault(step, {})
        inner[last] = _written(str(key), last, value)
    found = _value(parent, "queues")
    if isinstance(found, SequenceNode) and (found.value or found.flow_style):
        return text.add_item(found, made)
    return text.add_key(parent, "queues", [made])


def _remove(text: Text, partition: MappingNode, path: str) -> str:
    above, _, name = path.rpartition(".")
    if not above:
        raise NotEditable(f"{shown(path)}: the root queue cannot be removed")
    parent = partition if _is_implied(partition, above) else _queue(partition, above)
    place = _index(_children(parent), name)
    if place is None:
        raise NotEditable(f"queue {shown(path)} is not in the configuration")
    if len(_children(parent)) > 1:
        return text.remove_item(_value(parent, "queues"), place)
    if parent is partition:
        raise NotEditable(f"queue {shown(path)} is the only one of its partition")
    return text.remove_key(parent, "queues")


def _partition(document: Node | None, name: str) -> MappingNode:
    partitions = _value(document, "partitions") if isinstance(document, MappingNode) else None
    for partition in partitions.value if isinstance(partitions, SequenceNode) else ():
        if isinstance(partition, MappingNode) and (_text(partition, "name") or "default").lower() == name.lower():
            return partition
    raise NotEditable(f"partition {shown(name)} is not in the configuration")


def _queue(partition: MappingNode, path: str) -> MappingNode:
    """The queue of a path. Raises NotEditable."""
    names = path.split(".")
    if names[0].lower() != "root":
        raise NotEditable(f"queue {shown(path)}: expected a path that begins with root")
    if not _is_implied(partition, "root"):
        found: MappingNode = _children(partition)[0]
    elif len(names) == 1:
        raise NotEditable("the text has no queue root, which would hold this key")
    else:
        found = partition
    for depth, name in enumerate(names[1:], 2):
        place = _index(_children(found), name)
        if place is None:
            raise NotEditable(f"queue {shown('.'.join(names[:depth]))} is not in the configuration")
        found = _children(found)[place]
    return found


def _is_implied(partition: MappingNode, path: str) -> bool:
    """Whether the path is that of a root queue that the text does not have."""
    top = _children(partition)
    return path.lower() == "root" and not (len(top) == 1 and _text(top[0], "name").lower() == "root")


def _children(parent: MappingNode) -> list[MappingNode]:
    found = _value(parent, "queues")
    children = found.value if isinstance(found, SequenceNode) else []
    if not all(isinstance(one, MappingNode) for one in children):
        raise NotEditable("a queue of the text is not a mapping")
    return list(children)


def _index(queues: list[MappingNode], name: str) -> int | None:
    return next((place for place, one in enumerate(queues) if _text(one, "name").lower() == name.lower()), None)


def _value(mapping: MappingNode, key: str) -> Any:
    """The node of a key; None: there is none, or it has no value."""
    found = next((value for name, value in mapping.value if name.value == key), None)
    return None if found is not None and str(found.tag).endswith(":null") else found


def _text(mapping: MappingNode, key: str) -> str:
    found = _value(mapping, key)
    return str(found.value) if isinstance(found, ScalarNode) else ""


def _descend(queue: MappingNode, around: Sequence[str]) -> tuple[MappingNode, Sequence[str]]:
    """The innermost mapping that is there, and the names of those that are missing in it."""
    for depth, name in enumerate(around):
        inner = _value(queue, name)
        if inner is None or (isinstance(inner, MappingNode) and not inner.value and not inner.flow_style):
            return queue, around[depth:]
        if not isinstance(inner, MappingNode):
            raise NotEditable(f"{name} is no mapping in the text")
        queue = inner
    return queue, ()


def _place_of(key: str) -> tuple[str, ...]:
    if key in _SINGLE:
        return _SINGLE[key]
    for prefix, place in _NAMED.items():
        if key.startswith(prefix + ".") and len(key) > len(prefix) + 1:
            return (*place, key[len(prefix) + 1 :])
    raise NotEditable(f"key {shown(key)}: expected one of {KEYS}")


def _written(key: str, last: str, value: Any) -> str:
    """The value as it stands in the text. Flags, counts and quantities are without quotes."""
    if isinstance(value, bool):
        value = str(value).lower()
    if not isinstance(value, str | int):
        raise NotEditable(f"value of {shown(key)}: expected a text or a number")
    text = str(value)
    if any(not character.isprintable() for character in text + last):
        raise NotEditable(f"value of {shown(key)}: {shown(text)} has characters that cannot be printed")
    is_text = "properties" in key.split(".")[:2] or last in ("submitacl", "adminacl")
    return scalar(text, is_text)


_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")
_OTHER_KIND = re.compile(r"(?i)null|true|false|yes|no|on|off|[-+.]?[0-9].*|\.(inf|nan)")
_DASH = re.compile(r"^ *-", re.MULTILINE)

Content = str | Mapping[str, Any] | list[Any]  # scalars as they stand in the text


def scalar(text: str, is_text: bool = True) -> str:
    """Returns the text as a scalar of YAML. `is_text`: quoted where it would be another kind of value without
    quotes.
    """
    if _PLAIN.fullmatch(text) and not (is_text and _OTHER_KIND.fullmatch(text)):
        return text
    return "'" + text.replace("'", "''") + "'"


def flow(content: Content) -> str:
    """Returns the content on one line."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "[" + ", ".join(map(flow, content)) + "]"
    return "{" + ", ".join(f"{scalar(key)}: {flow(value)}" for key, value in content.items()) + "}"


def block(content: Mapping[str, Any], indent: int) -> str:
    """Returns the content on lines of its own."""
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
    """A YAML text whose keys and items are inserted, replaced and removed by the places of its nodes.

    Each method returns the text with one change. A new key of a block goes on lines of its own behind the last key, a
    new key of a flow mapping (`{...}`) behind the last key of the mapping.
    """

    def __init__(self, text: str) -> None:
        self._text = text

    def replace_value(self, mapping: MappingNode, key: str, value: str) -> str:
        """Replaces the value of a key that has a scalar."""
        _, node = _entry(mapping, key)
        start, end = node.start_mark.index, self._end(node)
        line_break = "\n" if node.style in ("|", ">") and self._text[end - 1 : end] == "\n" else ""
        return self._splice(start, end, value + line_break)

    def add_key(self, mapping: MappingNode, key: str, content: Content) -> str:
        """Adds a key that the mapping does not have, or has without a value."""
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
        """Removes a key with its value, which is not the only key of the mapping."""
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
        """Removes an item of several, with the comment above it."""
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
