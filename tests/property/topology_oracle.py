"""Section 21 of the semantics, word for word and slowly: where the next members of a group are placed.

Looks at the state only, never at the index: domains are enumerated, and members are placed one after the other on a
copy of what is free. Knows no devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product
from typing import Any

from remuda_core.rules.share import scales_of, weight
from remuda_core.state import Application, Node, Partition, PendingAsk

from . import leaving_oracle
from .node_oracle import is_full, refuses

PREFIX = "remuda/topology."
# Scores are means of floating-point numbers: so close together, they are the same.
DIGITS = 9


Counted = Callable[[list[str]], list[str]]


@dataclass(frozen=True)
class Member:
    """What the tags of an ask or an allocation say."""

    group: tuple[str, ...]
    required: str
    preferred: str
    spread: str
    slice_level: str
    slice_size: int
    size: int
    outer: str
    near: str = ""


def member_of(tags: Any, application: Application, task_group: str, key: str) -> Member | None:
    own = [name for name in ("required", "preferred", "spread", "slice") if PREFIX + name in tags]
    shared = [name for name in ("required", "preferred") if PREFIX + name in application.tags]
    if not own and not shared:
        return None
    outer = application.tags.get(PREFIX + "required", "")
    preferred = tags.get(PREFIX + "preferred", application.tags.get(PREFIX + "preferred", ""))
    size = int(tags.get(PREFIX + "size", "0"))
    if not own:
        return Member(("application",), outer, preferred, "", "", 0, size, "")
    level, _, slice_size = tags.get(PREFIX + "slice", "/0").partition("/")
    group = ("group", tags[PREFIX + "group"]) if PREFIX + "group" in tags else ("ask", key)
    if PREFIX + "group" not in tags and task_group:
        group = ("task group", task_group)
    required = tags.get(PREFIX + "required", "")
    return Member(
        group, required, preferred, tags.get(PREFIX + "spread", ""), level, int(slice_size), size,
        outer if outer != required else "", "" if outer else application.tags.get(PREFIX + "preferred", ""),
    )  # fmt: skip


def member(ask: PendingAsk) -> Member | None:
    return member_of(ask.ask.tags, ask.application, ask.ask.task_group, ask.ask.allocation_key)


def avoided_nodes(partition: Partition) -> set[str]:
    """The nodes of the domain that is avoided."""
    fact = partition.avoided
    if fact is None:
        return set()
    if fact.level == "host":
        return {fact.domain[0]} & partition.nodes.keys()
    names = [one.attribute for one in partition.settings.topology][: len(fact.domain)]
    nodes = partition.nodes.values()
    return {n.id for n in nodes if tuple(n.attributes.get(name, "") for name in names) == fact.domain}


def name_of(group: tuple[str, ...]) -> str:
    """The name of a group in facts."""
    return {"application": "a:", "group": "g:", "ask": "k:", "task group": "t:"}[group[0]] + "".join(group[1:])


class Cluster:
    """What is free on the nodes, and which domains there are, on a copy that is filled."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.levels = [(one.level, one.attribute) for one in partition.settings.topology]
        self.names = [name for name, _ in self.levels] + (["host"] if self.levels else [])
        self.nodes = partition.nodes
        self.free = {
            node.id: dict(node.available())
            for node in self.nodes.values()
            if node.reservation is None and node.kept is None and node.candidate and not is_full(partition, node)
        }
        self.left = {node_id: self.nodes[node_id].allocations_left for node_id in self.free}
        self.avoided = avoided_nodes(partition)

    def depth(self, level: str) -> int:
        return self.names.index(level) if level in self.names else -1

    def path(self, node: Node, level: str) -> tuple[str, ...] | None:
        if level == "host":
            return ("", node.id)
        found = []
        for name, attribute in self.levels:
            value = node.attributes.get(attribute, "")
            if not value:
                return None
            found.append(value)
            if name == level:
                return tuple(found)
        return None

    def domains(self, level: str, within: Iterable[str]) -> dict[tuple[str, ...], list[str]]:
        """All nodes of a level's domains, by path. "": one domain of all nodes."""
        found: dict[tuple[str, ...], list[str]] = {}
        for node_id in within:
            path = () if not level else self.path(self.nodes[node_id], level)
            if path is not None:
                found.setdefault(path, []).append(node_id)
        return found

    def fits(self, node_id: str, ask: PendingAsk) -> bool:
        bound = ask.ask.tags.get("si/requiredNode", "")
        if node_id not in self.free or self.left[node_id] <= 0 or bound not in ("", node_id) or refuses(ask, node_id):
            return False
        if not leaving_oracle.stays(self.nodes[node_id], ask):
            return False
        free = self.free[node_id]
        need = ask.ask.resource
        return all(need.get(name, 0) <= free.get(name, 0) for name in {*need, *free})

    def best(self, node_ids: Iterable[str], ask: PendingAsk) -> str | None:
        fine = [node_id for node_id in node_ids if self.fits(node_id, ask)]
        return min(fine, key=self.rank) if fine else None

    def rank(self, node_id: str) -> tuple[bool, float, str]:
        return (node_id in self.avoided, self.score(node_id), node_id)

    def score(self, node_id: str) -> float:
        node, weights = self.nodes[node_id], self.partition.settings.resource_weights
        used = total = 0.0
        for name, heavy in weights.items():
            if heavy > 0 and node.capacity.get(name, 0):
                used += heavy * (1 - self.free[node_id].get(name, 0) / node.capacity[name])
                total += heavy
        share = round(used / total, DIGITS) if total else 0.0
        return -share if self.partition.settings.node_sort == "binpacking" else share

    def take(self, node_id: str, ask: PendingAsk, times: int = 1) -> None:
        for name, amount in ask.ask.resource.items():
            self.free[node_id][name] = self.free[node_id].get(name, 0) - times * amount
        self.left[node_id] -= times

    def copies(self, node_ids: Iterable[str], ask: PendingAsk) -> int:
        """How many of an ask fit, one after the other."""
        count = 0
        for node_id in node_ids:
            here = 0
            while self.fits(node_id, ask):
                self.take(node_id, ask)
                here += 1
            if here:
                self.take(node_id, ask, -here)
            count += here
        return count

    def play(self, node_ids: Iterable[str], asks: list[PendingAsk]) -> list[str] | None:
        """The nodes of the asks, placed one after the other; None if they do not all fit."""
        ids, placed = list(node_ids), []
        for ask in asks:
            node_id = self.best(ids, ask)
            if node_id is None:
                break
            self.take(node_id, ask)
            placed.append(node_id)
        for ask, node_id in zip(asks, placed, strict=False):
            self.take(node_id, ask, -1)
        return placed if len(placed) == len(asks) else None

    def used(self, node_ids: Iterable[str]) -> int:
        capacity, allocated = Counter[str](), Counter[str]()
        for node_id in node_ids:
            capacity.update(self.nodes[node_id].capacity)
            allocated.update(self.nodes[node_id].allocated)
        return max((1000 * amount // (capacity[name] or 1) for name, amount in allocated.items()), default=0)


class Group:
    """A group as the state has it, seen from one of its asks."""

    def __init__(self, partition: Partition, ask: PendingAsk) -> None:
        found = member(ask)
        assert found is not None
        self.partition, self.application, self.wish, self.ask = partition, ask.application, found, ask
        self.cluster = Cluster(partition)
        known = partition.avoided
        its_own = known is not None and (known.application_id, known.group) == (
            ask.application.id,
            name_of(found.group),
        )
        self.avoids = set() if its_own else self.cluster.avoided
        self.asks = [one for one in ask.application.asks.values() if one.free and self._is_one(one)]
        self.outer_on = self._nodes(lambda other: bool(other.outer or other.near) or other.group == ("application",))
        self.on = self._nodes(lambda other: other.group == found.group)
        if found.group == ("application",):
            self.on = self.outer_on

    def beside(self, node_ids: Iterable[str]) -> list[str]:
        """Those that it does not avoid."""
        return [node_id for node_id in node_ids if node_id not in self.avoids]

    def _is_one(self, ask: PendingAsk) -> bool:
        from .oracle import awaits_place

        found = member(ask)
        return found is not None and found.group == self.wish.group and not awaits_place(ask)

    def _nodes(self, counts: Any) -> list[Node]:
        """The node of each allocation and each held room."""
        application = self.application
        made = [
            (one.node, member_of(one.fact.tags, application, one.fact.task_group, one.fact.allocation_key))
            for one in application.allocations.values()
        ]
        asked = [
            (one.node, member(application.asks[one.fact.allocation_key]))
            for one in self.partition.questions.values()
            if one.application is application
        ]
        return [node for node, found in (*made, *asked) if found is not None and counts(found)]

    def starting(self) -> list[PendingAsk]:
        """What is placed together next: one ask for each member, those of highest right first."""
        wish = self.wish
        members = [ask for ask in sorted(self.asks, key=lambda a: (-a.ask.priority, a.seq)) for _ in range(ask.free)]
        if not (wish.required or wish.slice_size or (wish.outer and not self.outer_on)):
            return [self.ask]
        if not self.on:
            count = wish.size or len(members)
        elif wish.slice_size and not self.incomplete():
            count = wish.slice_size
        else:
            return [self.ask]
        return members[:count] if len(members) >= count else []

    def incomplete(self) -> list[tuple[str, ...]]:
        counts = self.per(self.wish.slice_level, self.on)
        size = self.wish.slice_size
        return sorted((p for p in counts if counts[p] % size), key=lambda p: (-(counts[p] % size), p))

    def per(self, level: str, nodes: Iterable[Node]) -> Counter[tuple[str, ...]]:
        paths = (self.cluster.path(node, level) for node in nodes)
        return Counter(path for path in paths if path is not None)

    def bound(self) -> list[str] | None:
        """The nodes to which it is bound; None: there are none."""
        ids: list[str] = list(self.cluster.nodes)
        for level, nodes in ((self.wish.outer, self.outer_on), (self.wish.required, self.on)):
            if level and nodes:
                counts = self.per(level, nodes)
                if not counts:
                    return None
                most = min(counts, key=lambda path: (-counts[path], path))
                ids = self.cluster.domains(level, self.cluster.nodes).get(most, [])
        return ids


def next_members(partition: Partition, ask: PendingAsk) -> list[tuple[PendingAsk, str]]:
    """Where all of its next step goes, in the order in which it is placed; [] if it waits."""
    group = Group(partition, ask)
    wish, cluster = group.wish, group.cluster
    if any(level and level not in cluster.names for level in (wish.required, wish.slice_level, wish.outer)):
        return []
    asks, within = group.starting(), group.bound()
    if not asks or within is None or not quotas_allow(asks):
        return []
    begins = wish.required or wish.slice_size or (wish.outer and not group.outer_on)
    if not begins or (group.on and not _whole_slice(group)):
        chosen = one_member(group, within)
        node_id = cluster.best(chosen, ask)
        return [(ask, node_id)] if node_id is not None else []
    if comes_later(group):
        return []
    return slices(group, asks, within) if wish.slice_size else start(group, asks, within)


def _whole_slice(group: Group) -> bool:
    return bool(group.wish.slice_size) and not group.incomplete()


def comes_later(group: Group) -> bool:
    application = group.application
    if group.wish.size or not any(ask.ask.placeholder for ask in group.asks):
        return False
    asked = Counter(application.allocated_placeholder)
    for ask in application.asks.values():
        if ask.ask.placeholder:
            for _ in range(ask.pending + ask.asked):
                asked.update(ask.ask.resource)
    return any(asked[name] < amount for name, amount in application.placeholder_ask.items())


def beside(partition: Partition, ask: PendingAsk) -> set[str]:
    """The node on which a real ask replaces a placeholder that stands elsewhere: in the domain of its group."""
    group = Group(partition, ask)
    within = group.bound()
    if within is None or group.wish.slice_size:
        return set()
    base = group.wish.required or (group.wish.outer if group.outer_on else "")
    node_id = group.cluster.best(within_domain(group, within, base, 1), ask)
    return {node_id} if node_id is not None else set()


def fits_quotas(partition: Partition, ask: PendingAsk) -> bool:
    """What is placed next with the ask, or as much of it as was asked for."""
    group = Group(partition, ask)
    return quotas_allow(group.starting() or [one for one in group.asks for _ in range(one.free)] or [ask])


def quotas_allow(asks: list[PendingAsk]) -> bool:
    """All of them together fit under every maximum and limit."""
    from .oracle import below, held_for, limits_of

    total = Counter[str]()
    for ask in asks:
        total.update(ask.ask.resource)
    application = asks[0].application
    for queue in application.queue.path_to_root:
        for name, maximum in queue.settings.max.items():
            held = sum(held_for(other, name) for other in below(queue))
            if total[name] > maximum - queue.allocated.get(name, 0) - held:
                return False
    for limit, others in limits_of(application):
        for name, maximum in limit.max_resources.items():
            used = sum(o.allocated.get(name, 0) + o.allocated_placeholder.get(name, 0) for o in others)
            if total[name] > maximum - used - sum(held_for(other, name) for other in others):
                return False
    return True


def finer(cluster: Cluster, preferred: str, least: str) -> list[str]:
    """The levels from the preferred one up to, without, `least` ("": all nodes)."""
    names = cluster.names
    return names[cluster.depth(least) + 1 : cluster.depth(preferred) + 1][::-1] if preferred in names else []


def coarsest(group: Group) -> str:
    wish = group.wish
    return wish.required or wish.outer


def start(group: Group, asks: list[PendingAsk], within: list[str]) -> list[tuple[PendingAsk, str]]:
    cluster, scales = group.cluster, scales_of(group.partition.total)
    asks = sorted(asks, key=lambda a: (-weight(a.ask.resource, scales), -a.ask.priority, a.seq))
    kinds: dict[Any, list[PendingAsk]] = {}
    for ask in asks:
        kinds.setdefault(kind_of(ask), []).append(ask)
    in_order = [ask for each in kinds.values() for ask in each]
    bound = [each for each in kinds.values() if each[0].ask.tags.get("si/requiredNode")]
    key = (bound or list(kinds.values()))[0]
    levels = [*finer(cluster, group.wish.preferred, coarsest(group)), coarsest(group)]
    scopes = [*near(group, within, key[0], 0), within]
    for beside, scope, level in product((True, False), scopes, levels):
        fine = []
        for path, node_ids in cluster.domains(level, scope).items():
            copies = cluster.copies(node_ids, key[0])
            if beside != (cluster.copies(group.beside(node_ids), key[0]) >= len(key)):
                continue
            if copies >= len(key) and outer_fits(group, node_ids):
                placed = cluster.play(node_ids, in_order)
                if placed is not None:
                    fine.append((copies, -cluster.used(node_ids), path, node_ids, placed))
        if fine:
            _, _, path, node_ids, placed = min(fine)
            if len(kinds) == 1:
                return filled(group, in_order, node_ids, level)
            return list(zip(in_order, placed, strict=True))
    return []


def kind_of(ask: PendingAsk) -> Any:
    resource = tuple(sorted((name, amount) for name, amount in ask.ask.resource.items() if amount))
    return (resource, ask.ask.tags.get("si/requiredNode", ""), ask.refused, member(ask))


def filled(
    group: Group, asks: list[PendingAsk], node_ids: list[str], level: str | None = None
) -> list[tuple[PendingAsk, str]]:
    """One after the other; in a domain of a level, by what the group prefers there."""
    cluster, found = group.cluster, []
    for place, ask in enumerate(asks):
        inside = node_ids if level is None else within_domain(group, node_ids, level, len(asks) - place)
        node_id = cluster.best(inside, ask)
        assert node_id is not None
        group.on.append(cluster.nodes[node_id])
        cluster.take(node_id, ask)
        found.append((ask, node_id))
    return found


def outer_fits(group: Group, node_ids: list[str]) -> bool:
    """Of a level that all asks of the application share: its domain may have room for each kind of them."""
    wish, cluster = group.wish, group.cluster
    if not wish.outer or group.outer_on:
        return True
    path = cluster.path(cluster.nodes[node_ids[0]], wish.outer)
    return path is not None and all_fit(group, cluster.domains(wish.outer, cluster.nodes)[path])


def all_fit(group: Group, whole: list[str]) -> bool:
    """The nodes may have room for each kind of what the application asks for."""
    from .oracle import awaits_place

    needed: dict[Any, list[PendingAsk]] = {}
    for ask in group.application.asks.values():
        if ask.free and member(ask) is not None and not awaits_place(ask):
            needed.setdefault(kind_of(ask)[:3], []).extend([ask] * ask.free)
    return all(group.cluster.copies(whole, asks[0]) >= len(asks) for asks in needed.values())


def near(group: Group, within: list[str], key: PendingAsk, size: int) -> list[list[str]]:
    """Domains of the level that the application prefers for all its asks, if the start is at a finer one: those with
    most of its members; else those that may have room for all it asks for, the tightest first. `size`: of slices."""
    wish, cluster = group.wish, group.cluster
    bound = wish.required if group.on else ""
    if not cluster.depth(bound) < cluster.depth(wish.near) < cluster.depth(coarsest(group)):
        return []
    domains = cluster.domains(wish.near, within)
    if group.outer_on:
        counts = group.per(wish.near, group.outer_on)
        return [domains[path] for path in sorted(counts, key=lambda p: (-counts[p], p)) if path in domains]

    def room(node_ids: list[str]) -> int:
        if not size:
            return cluster.copies(node_ids, key)
        return sum(cluster.copies(ids, key) // size for ids in cluster.domains(wish.slice_level, node_ids).values())

    fine = [(room(ids), -cluster.used(ids), path) for path, ids in domains.items() if all_fit(group, ids)]
    return [domains[path] for _, _, path in sorted(fine)]


def one_member(group: Group, within: list[str]) -> list[str]:
    """The nodes of the domain for one more member."""
    wish, cluster, ask = group.wish, group.cluster, group.ask
    if wish.slice_size:
        domains = cluster.domains(wish.slice_level, within)
        fine = (domains[p] for p in group.incomplete() if p in domains and cluster.copies(domains[p], ask))
        return next(fine, [])
    base = wish.required or (wish.outer if wish.outer and group.outer_on else "")
    return within_domain(group, within, base, remaining(group))


def within_domain(group: Group, within: list[str], base: str, left: int) -> list[str]:
    """The nodes for one of `left` members within a domain of the level `base`."""
    wish, cluster, ask = group.wish, group.cluster, group.ask
    if cluster.depth(wish.preferred) > cluster.depth(base):
        best = preferred(group, within, base, left, group.beside)
        within = best if cluster.copies(group.beside(best), ask) else preferred(group, within, base, left, list)
        base = wish.preferred
    if cluster.depth(wish.spread) > cluster.depth(base):
        counts = group.per(wish.spread, group.on)
        fine_by = [
            (not cluster.copies(group.beside(node_ids), ask), counts[path], cluster.rank(best_node), node_ids)
            for path, node_ids in cluster.domains(wish.spread, within).items()
            if (best_node := cluster.best(node_ids, ask)) is not None
        ]
        if fine_by:
            within = min(fine_by)[3]
    return within


def remaining(group: Group) -> int:
    return sum(one.free for one in group.asks if kind_of(one) == kind_of(group.ask))


def preferred(group: Group, within: list[str], base: str, left: int, counted: Counted) -> list[str]:
    """`counted`: of the nodes of a domain those of which room counts."""
    cluster, ask, level = group.cluster, group.ask, group.wish.preferred
    for at in finer(cluster, level, base):
        domains = cluster.domains(at, within)
        if group.on:
            counts = group.per(at, group.on)
            known = sorted((p for p in counts if p in domains), key=lambda p: (-counts[p], p))
            found = next((domains[p] for p in known if cluster.copies(counted(domains[p]), ask)), None)
        else:
            found = tightest(cluster, domains, ask, left, counted)
        if found is not None:
            return found if at == level else closest(group, found, left, counted)
    return closest(group, within, left, counted)


def tightest(cluster: Cluster, domains: Any, ask: PendingAsk, count: int, counted: Counted) -> list[str] | None:
    fine = [
        (cluster.copies(node_ids, ask), -cluster.used(node_ids), path, node_ids)
        for path, node_ids in domains.items()
        if cluster.copies(counted(node_ids), ask) >= count
    ]
    return min(fine)[3] if fine else None


def closest(group: Group, within: list[str], left: int, counted: Counted) -> list[str]:
    cluster, ask = group.cluster, group.ask
    domains = cluster.domains(group.wish.preferred, within)
    found = tightest(cluster, domains, ask, left, counted)
    if found is not None:
        return found
    some = [
        (-copies, -cluster.used(node_ids), path, node_ids)
        for path, node_ids in domains.items()
        if (copies := cluster.copies(counted(node_ids), ask))
    ]
    return min(some)[3] if some else within


def slices(group: Group, asks: list[PendingAsk], within: list[str]) -> list[tuple[PendingAsk, str]]:
    """As few domains as possible for all slices, of members that are alike."""
    cluster, wish, size = group.cluster, group.wish, group.wish.slice_size
    if len(asks) % size:
        return []
    asks = sorted(asks, key=lambda a: (a.ask.allocation_key, a.seq))
    largest, count = asks[0], len(asks) // size
    levels = [*finer(cluster, wish.preferred, coarsest(group)), coarsest(group)]
    levels = [one for one in levels if cluster.depth(one) <= cluster.depth(wish.slice_level)]
    scopes = [*near(group, within, largest, size), within]
    for beside, scope, level in product((True, False), scopes, levels):
        fine = []
        for path, node_ids in cluster.domains(level, scope).items():
            racks = cluster.domains(wish.slice_level, node_ids)
            room = {rack: cluster.copies(ids, largest) for rack, ids in racks.items()}
            free = {rack: cluster.copies(group.beside(ids), largest) for rack, ids in racks.items()}
            whole = sum(copies // size for copies in room.values())
            if beside != (sum(copies // size for copies in free.values()) >= count):
                continue
            if whole >= count and outer_fits(group, node_ids):
                fine.append((whole, -cluster.used(node_ids), path, racks, room, free))
        if fine:
            *_, racks, room, free = min(fine, key=lambda one: one[:3])
            some = {rack: copies // size for rack, copies in free.items()}
            first = min(count, sum(some.values()))
            chosen = _racks(cluster, racks, room, some, size, first)
            rest = {rack: room[rack] // size - some[rack] for rack in racks}
            chosen += _racks(cluster, racks, room, rest, size, count - first)
            found: list[tuple[PendingAsk, str]] = []
            for rack in chosen:
                found += filled(group, asks[len(found) : len(found) + size], racks[rack])
            return found
    return []


def _racks(cluster: Cluster, racks: Any, room: Any, slices: Any, size: int, count: int) -> list[tuple[str, ...]]:
    """A rack for each of so many of its slices."""

    def rank(rack: tuple[str, ...]) -> tuple[Any, ...]:
        return (slices[rack], room[rack] % size, room[rack], -cluster.used(racks[rack]), rack)

    chosen: list[tuple[str, ...]] = []
    left = {rack for rack in racks if slices[rack]}
    while count:
        enough = [rack for rack in left if slices[rack] >= count]
        rack = min(enough, key=rank) if enough else min(left, key=lambda r: (-slices[r], rank(r)))
        times = min(count, slices[rack])
        chosen += [rack] * times
        left.discard(rack)
        count -= times
    return chosen


def step(partition: Partition, ask: PendingAsk) -> tuple[str, set[str]] | None:
    """The key of the ask that is placed first, and its node."""
    found = next_members(partition, ask)
    return (found[0][0].ask.allocation_key, {found[0][1]}) if found else None


def brokenness(partition: Partition, node: Node) -> tuple[Any, ...]:
    """Nodes in use first, then domains in use from the finest up, then those with the fewest empty nodes."""
    cluster = Cluster(partition)
    attributes = [attribute for _, attribute in cluster.levels]

    def path(one: Node) -> tuple[str, ...]:
        values = [one.attributes.get(attribute, "") for attribute in attributes]
        return tuple(values[: values.index("")] if "" in values else values)

    own = path(node)
    used = {one.id for one in cluster.nodes.values() if any(one.allocated.values())}
    unused = [
        not any(one.id in used and path(one)[:depth] == own[:depth] for one in cluster.nodes.values())
        for depth in range(len(own), -1, -1)
    ]
    whole = sum(path(cluster.nodes[i]) == own and i not in used for i in cluster.free)
    return (node.id not in used, tuple(unused), whole, own)
