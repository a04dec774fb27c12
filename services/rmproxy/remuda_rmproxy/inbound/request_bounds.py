"""Enforces the bounds of `remuda_proto.bounds` on parsed messages of si.v1. Pure.

A registration or configuration update above a bound is refused as a whole. In other requests, each item is truncated to
just above its bounds: nothing large is forwarded, and the core refuses the item with the reason. A small message cannot
exceed any bound, so for nearly all items only the size is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from google.protobuf.descriptor import Descriptor

from remuda_proto import bounds
from remuda_proto.bounds import Bound, Items, Nested, Text, TextMap, Texts

Truncate = Callable[[Any], None]


def violations(message: Any) -> Iterator[str]:
    """Yields a reason for each field of a registration or configuration update that is above its bound."""
    for name, bound in bounds.of_message(message.DESCRIPTOR.name):
        value = getattr(message, name)
        problem = None
        if isinstance(bound, Text):
            problem = bounds.too_long(name, value, bound.most)
        elif isinstance(bound, TextMap):
            problem = bounds.problem_of_map(name, value, bound)
        if problem:
            yield problem


def truncate_items(items: Any, what: str) -> str | None:
    """Truncate each item of a request to just above its bounds. Returns the reason to refuse a request with too many
    items, or None."""
    if problem := bounds.too_many(what, len(items), bounds.ITEMS):
        return problem
    if len(items):
        truncate, safe_bytes = TRUNCATE_BY_TYPE[items[0].DESCRIPTOR.name]
        for item in items:
            if item.ByteSize() > safe_bytes:
                truncate(item)
    return None


def _truncate_text(name: str, bound: Text) -> Truncate:
    def truncate(message: Any) -> None:
        text = getattr(message, name)
        if bounds.exceeds(text, bound.most):
            setattr(message, name, bounds.shortened(text, bound.most) if bound.cut else _just_above(text, bound.most))

    return truncate


def _just_above(text: str, most: int) -> str:
    """The shortest beginning of the text that is above the bound."""
    return text[: len(bounds.shortened(text, most)) + 1]


def _truncate_texts(name: str, bound: Texts) -> Truncate:
    def truncate(message: Any) -> None:
        texts = getattr(message, name)
        kept, size = [], 0
        for text in texts[: bound.most + 1]:
            kept.append(_just_above(text, bound.each) if bounds.exceeds(text, bound.each) else text)
            size += bounds.size_of(kept[-1])
            if size > bound.total:
                break
        texts[:] = kept

    return truncate


def _truncate_map(name: str, bound: TextMap) -> Truncate:
    def truncate(message: Any) -> None:
        entries = getattr(message, name)
        if bounds.problem_of_map(name, entries, bound) is None:
            return
        kept: dict[str, str] = {}
        size = 0
        for key in sorted(entries):
            value = entries[key]
            key = _just_above(key, bound.key) if bounds.exceeds(key, bound.key) else key
            kept[key] = _just_above(value, bound.value) if bounds.exceeds(value, bound.value) else value
            size += bounds.size_of(key) + bounds.size_of(kept[key])
            if size > bound.total or len(kept) > bound.most:
                break
        entries.clear()
        entries.update(kept)

    return truncate


def _truncate_amounts(name: str, bound: Items) -> Truncate:
    """For a map from names to messages: the resources of a Resource."""

    def truncate(message: Any) -> None:
        entries = getattr(message, name)
        if len(entries) <= bound.most and not any(bounds.exceeds(key, bound.key) for key in entries):
            return
        kept = {key: entries[key].value for key in sorted(entries)[: bound.most + 1]}
        entries.clear()
        for key, value in kept.items():
            entries[_just_above(key, bound.key) if bounds.exceeds(key, bound.key) else key].value = value

    return truncate


def _truncate_elements(name: str, bound: Items, truncate_one: Truncate) -> Truncate:
    def truncate(message: Any) -> None:
        elements = getattr(message, name)
        del elements[bound.most + 1 :]
        for element in elements:
            truncate_one(element)

    return truncate


def _truncate_nested(name: str, truncate_one: Truncate) -> Truncate:
    def truncate(message: Any) -> None:
        if message.HasField(name):
            truncate_one(getattr(message, name))

    return truncate


def _truncate_of_field(descriptor: Descriptor, name: str, bound: Bound) -> Truncate | None:
    field: Any = descriptor.fields_by_name[name]
    if isinstance(bound, Text):
        return _truncate_text(name, bound)
    if isinstance(bound, Texts):
        return _truncate_texts(name, bound)
    if isinstance(bound, TextMap):
        return _truncate_map(name, bound)
    if isinstance(bound, Nested):
        return _truncate_nested(name, _truncate_of_message(field.message_type)[0])
    if isinstance(bound, Items) and bound.key:
        return _truncate_amounts(name, bound)
    return (
        _truncate_elements(name, bound, _truncate_of_message(field.message_type)[0])
        if isinstance(bound, Items)
        else None
    )


def _truncate_of_message(descriptor: Descriptor) -> tuple[Truncate, int]:
    """The function that truncates a message of this type, and the size up to which it changes nothing."""
    parts = [
        part
        for name, bound in bounds.of_message(descriptor.name)
        if (part := _truncate_of_field(descriptor, name, bound)) is not None
    ]

    def truncate(message: Any) -> None:
        message.DiscardUnknownFields()
        for part in parts:
            part(message)

    return truncate, _safe_bytes(descriptor)


def _safe_bytes(descriptor: Descriptor) -> int:
    """No text is longer than its message. An element takes at least two bytes, an entry of a map four."""
    least = bounds.ITEMS
    for name, bound in bounds.of_message(descriptor.name):
        field: Any = descriptor.fields_by_name[name]
        if isinstance(bound, Text):
            least = min(least, bound.most)
        elif isinstance(bound, Texts):
            least = min(least, 2 * bound.most, bound.each)
        elif isinstance(bound, TextMap):
            least = min(least, 4 * bound.most, bound.key, bound.value)
        elif isinstance(bound, Items):
            least = min(least, 4 * bound.most, bound.key) if bound.key else min(least, 2 * bound.most)
        if isinstance(bound, Nested) or (isinstance(bound, Items) and not bound.key):
            least = min(least, _safe_bytes(field.message_type))
    return least


def _item_types() -> Iterator[Descriptor]:
    from remuda_proto.si.v1 import si_pb2 as si

    for message in (si.AllocationAsk, si.Allocation, si.AllocationRelease, si.AllocationAskRelease,
                    si.AddApplicationRequest, si.RemoveApplicationRequest, si.NodeInfo):  # fmt: skip
        yield message.DESCRIPTOR


TRUNCATE_BY_TYPE: dict[str, tuple[Truncate, int]] = {
    descriptor.name: _truncate_of_message(descriptor) for descriptor in _item_types()
}
