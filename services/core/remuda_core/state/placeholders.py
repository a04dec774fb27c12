"""The placeholders of a task group that real asks can replace, the one kept longest first (semantics section 12)."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from typing import Generic, Protocol, TypeVar

from ..facts import Allocated


class Placeholder(Protocol):
    """The fields of an allocation that determine the order."""

    fact: Allocated
    at_ms: int
    asked_seq: int


P = TypeVar("P", bound=Placeholder)

# (at_ms, allocated by the core, uuid). The core's UUIDs of one millisecond are in the order of allocation.
_Key = tuple[int, bool, str]


def _key(placeholder: Placeholder) -> _Key:
    return placeholder.at_ms, placeholder.asked_seq > 0, placeholder.fact.uuid


class FreePlaceholders(Generic[P]):
    """Ordered by age. A placeholder whose replacement is cancelled returns to its old position."""

    __slots__ = ("_by_uuid", "_order")

    def __init__(self, placeholders: Iterable[P] = ()) -> None:
        self._by_uuid: dict[str, P] = {}
        self._order: list[_Key] = []
        for placeholder in placeholders:
            self.add_placeholder(placeholder)

    def add_placeholder(self, placeholder: P) -> None:
        key = _key(placeholder)
        self._by_uuid[placeholder.fact.uuid] = placeholder
        if not self._order or self._order[-1] < key:
            self._order.append(key)
        else:
            insort(self._order, key)

    def discard_placeholder(self, uuid: str) -> bool:
        """True if it was there."""
        placeholder = self._by_uuid.pop(uuid, None)
        if placeholder is not None:
            del self._order[bisect_left(self._order, _key(placeholder))]
        return placeholder is not None

    def __iter__(self) -> Iterator[P]:
        for _, _, uuid in self._order:
            yield self._by_uuid[uuid]

    def __len__(self) -> int:
        return len(self._order)

    def __contains__(self, uuid: str) -> bool:
        return uuid in self._by_uuid

    def uuids(self) -> tuple[str, ...]:
        return tuple(uuid for _, _, uuid in self._order)
