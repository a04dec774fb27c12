"""Changes single keys of a text of queues.yaml. Every other character of the text stays as it is. Pure.

An edit is a mapping: `do` (set, unset, add, remove), `queue` (such as root.prod), `partition` (default: default); for
set and unset `key`, for set `value`. `add` may have `values`, a mapping from keys to values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from remuda_config import limits
from remuda_config.schema import NotYaml, compose
from remuda_config.splices import Text, flow, scalar
from remuda_proto.bounds import shown

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
    """Why the edits cannot be made: the edit that is wrong, or the text that cannot be edited."""


def edit(text: str, edits: Sequence[Mapping[str, Any]]) -> str:
    """The text after all edits, made one after the other. Raises NotEditable."""
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


__all__ = ["KEYS", "NotEditable", "edit", "flow"]
