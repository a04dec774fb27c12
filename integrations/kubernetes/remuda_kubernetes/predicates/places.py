"""Things that are where nodes have certain labels, found by the labels of a node: few are looked at, of however many
there are. Pure."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from heapq import merge
from typing import Any, Final, Generic, NamedTuple, TypeVar

from remuda_kubernetes.api.objects import LabelSelector, NodeSelector, NodeSelectorTerm, Requirement
from remuda_kubernetes.predicates.on_node import NOTHING, Labels

HOST: Final = "kubernetes.io/hostname"


K = TypeVar("K", bound=tuple[Any, ...])


class Place(NamedTuple):
    """The nodes where these labels have these values. Without any, all nodes."""

    labels: tuple[str, ...] = ()
    values: tuple[str, ...] = ()


EVERYWHERE: Final = Place()


class Placed(Generic[K]):
    """Keys at places, in their order."""

    def __init__(self) -> None:
        self._places: dict[K, tuple[Place, ...]] = {}
        self._at: dict[tuple[str, ...], dict[tuple[str, ...], list[K]]] = {}

    def __bool__(self) -> bool:
        return bool(self._places)

    def put(self, key: K, places: Iterable[Place]) -> None:
        """A key that is there moves."""
        self.remove(key)
        self._places[key] = of = tuple(dict.fromkeys(places))
        for place in of:
            insort(self._at.setdefault(place.labels, {}).setdefault(place.values, []), key)

    def remove(self, key: K) -> None:
        for labels, values in self._places.pop(key, ()):
            there = self._at[labels]
            keys = there[values]
            del keys[bisect_left(keys, key)]
            if not keys:
                del there[values]
            if not there:
                del self._at[labels]

    def near(self, node: Labels, least: K | None = None) -> Iterator[K]:
        """The keys at places of the node, from `least`, each once."""
        found: list[list[K]] = []
        for labels, there in self._at.items():
            values = tuple(node.get(one) or "" for one in labels)
            if keys := there.get(values):
                found.append(keys)
        before = None
        for key in merge(*(_from(keys, least) for keys in found)):
            if key != before:
                yield key
            before = key


def _from(keys: list[K], least: K | None) -> Iterator[K]:
    start = 0 if least is None else bisect_left(keys, least)
    return (keys[index] for index in range(start, len(keys)))


def places_of_terms(selector: NodeSelector | None) -> Iterator[Place]:
    """Places that have all nodes that the selector selects, and maybe more. None: all nodes."""
    if selector is None:
        yield EVERYWHERE
        return
    for term in selector.node_selector_terms:
        one = _narrowest(term)
        if one is None:
            yield EVERYWHERE
        else:
            yield from (Place((one.key,), (value,)) for value in one.values)


def _narrowest(term: NodeSelectorTerm) -> Requirement | None:
    """The requirement of the term that the fewest nodes meet, as far as that can be said without nodes. None: a node
    without labels may meet all of them."""
    named = [one for one in term.match_expressions if one.operator == "In" and "" not in one.values]
    return min(named, key=lambda one: (one.key != HOST, len(one.values)), default=None)


def place_of_labels(selector: LabelSelector | None) -> Place:
    """A place that has all nodes that the selector selects, and maybe more."""
    labels = sorted(((selector.match_labels if selector is not None else None) or NOTHING).items())
    if any(not value for _, value in labels):
        return EVERYWHERE
    return Place(tuple(key for key, _ in labels), tuple(value for _, value in labels))
