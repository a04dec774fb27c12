"""The domain that others avoid for the group that has waited longest for one (semantics section 21, "Avoided").

Domains that are kept empty for a group make everybody wait longer, the group as well. So nothing is kept: the nodes of
one domain come behind all others, and what runs there ends in time. Which domain it is stands in the state; this module
follows it, and knows the groups that may get one by age. It does not choose (`cycle.avoid`).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

from remuda_proto.constants import TOPOLOGY_HOST

from ..rules.topology import Path, host_of
from ..state import Partition, PendingAsk
from .domains import Domain, Domains, Shape
from .node_groups import NodeEntry
from .nodes import NodeIndex

# (application ID, name of the group in it)
GroupKey = tuple[str, str]
# When the ask came, its number, and the ask: no two asks have the same number.
Age = tuple[int, int, PendingAsk]


class Avoidance:
    def __init__(self, partition: Partition, domains: Domains, nodes: NodeIndex) -> None:
        """Empty: `node_changed` adds nodes."""
        self._partition = partition
        self._domains = domains
        self._nodes = nodes
        # The domain that is avoided, for which group, and its nodes.
        self.path: Path | None = None
        self.key: GroupKey = ("", "")
        self.nodes: dict[NodeEntry, None] = {}
        # Groups with required levels that have pending asks, by the age of the oldest one.
        self.by_age: list[Age] = []
        self._listed: dict[GroupKey, Age] = {}
        self._read()

    def _read(self) -> None:
        fact = self._partition.avoided
        self.path, self.key = None, ("", "")
        if fact is not None:
            self.path = host_of(fact.domain[0]) if fact.level == TOPOLOGY_HOST else fact.domain
            self.key = (fact.application_id, fact.group)

    # The nodes

    def follow(self) -> None:
        """Follow the state: another domain is avoided, or none. O(nodes of both domains)."""
        self._read()
        domain = self.domain
        now = dict(domain.nodes) if domain is not None else {}
        for entry in [entry for entry in self.nodes if entry not in now]:
            self._set(entry, False)
        for entry in now:
            self._set(entry, True)

    def node_changed(self, entry: NodeEntry) -> None:
        """Follow a node that is new, or that may be in another domain."""
        if self.path is not None:
            standing = self._domains.standing[entry]
            self._set(entry, any(domain.path == self.path for domain in standing.chain))

    def node_removed(self, entry: NodeEntry) -> None:
        self.nodes.pop(entry, None)

    def _set(self, entry: NodeEntry, avoided: bool) -> None:
        if avoided:
            self.nodes[entry] = None
        else:
            self.nodes.pop(entry, None)
        if entry.avoided != avoided:
            self._nodes.avoid(entry, avoided)

    # Domains

    @property
    def domain(self) -> Domain | None:
        """The domain that is avoided; None: there is none, or it has no nodes any more."""
        return self._domains.find(self.path) if self.path is not None else None

    def room(self, key: GroupKey, shape: Shape, domain: Domain) -> int:
        """The count of the shape in the domain for a group, without nodes that the group avoids."""
        avoided = self.domain if key != self.key else None
        return shape.count(domain) if avoided is None else shape.count_without(domain, avoided)

    # Groups

    def note(self, key: GroupKey, oldest: PendingAsk | None) -> None:
        """Note the oldest pending ask of a group that requires a level. None: it has no such ask."""
        known = self._listed.get(key)
        age = (oldest.at_ms, oldest.seq, oldest) if oldest is not None else None
        if known == age:
            return
        if known is not None:
            del self._listed[key]
            del self.by_age[bisect_left(self.by_age, known[:2], key=_without_ask)]
        if age is not None:
            self._listed[key] = age
            insort(self.by_age, age, key=_without_ask)

    def waiting_since(self, until_ms: int) -> Iterator[PendingAsk]:
        """The oldest asks of groups that have waited since then at the latest, the oldest first."""
        for at_ms, _, ask in self.by_age:
            if at_ms > until_ms:
                return
            yield ask


def _without_ask(age: Age) -> tuple[int, int]:
    return age[:2]
