"""The placement of groups that want something of the topology (semantics section 21).

    Groups    the groups of a partition (`GroupMembers`), which domains their next members are placed in, and what
              demands of groups wait for

Each group has demands of its own. A closed demand of a group opens when a domain may have room for what its next step
places: all members of a start, a slice, or one member. Closed demands that wait for the same are looked at together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import neg
from typing import Any, Final, NamedTuple

from remuda_proto.constants import TOPOLOGY_REQUIRED

from ..costs import cost_together
from ..limits import DOMAINS_TRIED, SHAPES_COUNTED
from ..rules.keyed import unlist
from ..rules.resource import Resource, add
from ..rules.topology import APPLICATION, Path, Wish, place_of
from ..settings import TopologyLevel
from ..state import Application, Node, PendingAsk, asked_together
from .avoidance import GroupKey
from .domains import ALL_LEVEL, Domain, Free, Shape, copies_in, placed_one_by_one
from .group_members import Group, GroupMembers, Index, wish_for
from .node_groups import Demand, NodeEntry

MORE_THAN_ALL_NODES: Final = "all nodes together have less than it asks for"
# How many members fit in a domain.
Room = Callable[[Domain], int]


class Awaited(NamedTuple):
    """The room that a closed demand waits for: so many copies, or slices, of a shape in one domain of `level` in
    `scope`."""

    shape: Shape
    level: int
    needed: int
    scope: Path


class Place(NamedTuple):
    """The place of the next member: a node, or the best node of a domain."""

    ask: PendingAsk
    shape: Shape
    domain: Domain
    node: NodeEntry | None = None
    # Of a start: how many members of the demand are placed from this one on. None: the domain is final.
    left: int = 0
    demand: Demand | None = None


class Step(NamedTuple):
    """The next step of a group, for `explain`: whether it `fits`; else what it needs in one domain of a level in
    `scope`, of which `missing` members were not asked for yet. `scope` None: its members are in no domain. `whole`: the
    level whose domain has to have room for all that the application asks for; "": none."""

    fits: bool
    unknown_level: str = ""
    starts: bool = False
    members: int = 1
    missing: int = 0
    level: int = ALL_LEVEL
    needed: int = 1
    scope: Domain | None = None
    shape: Shape | None = None
    whole: str = ""


class Start(NamedTuple):
    """The next placement of a group: the repeats of each ask, the same by their demands in the order of placement, the
    resources of all of them together, and the domains of which one has to hold all of them: those of `level` in one of
    `scopes`. `begins`: it is a start. `slice_size`: each so many of them are in one domain of `slice_level`. `shared`:
    the level that all asks of the application share, if the application starts with this group; -1: it does not.
    `others`: the members of its other asks, for which a domain of that level has to have room, too."""

    asks: dict[PendingAsk, int]
    members: list[tuple[Demand, int]]
    resource: Resource
    level: int
    scopes: list[Domain]
    begins: bool
    slice_level: int = -1
    slice_size: int = 0
    shared: int = -1
    others: Sequence[tuple[Demand, int]] = ()

    @property
    def slices(self) -> int:
        return sum(self.asks.values()) // self.slice_size

    @property
    def domains(self) -> Iterator[Domain]:
        for scope in self.scopes:
            yield from scope.at(self.level)


class Groups(GroupMembers):
    """The groups of a partition with a topology: where their next members are placed."""

    def __init__(self, index: Index, levels: tuple[TopologyLevel, ...]) -> None:
        super().__init__(index, levels)
        # What no domain can ever hold, and how often domains had changed then.
        self.hopeless: set[object] = set()
        self.hopeless_at = 0
        # Closed demands by what they wait for. None: not known, so they are tried again when any node gains room.
        self.waiting: dict[Awaited | None, dict[Demand, None]] = {}
        self.waits_for: dict[Demand, Awaited | None] = {}
        # Demands that were opened together, by what they waited for, until one of them is tried.
        self.opened: dict[Awaited, dict[Demand, None]] = {}
        # What the demand that was looked at last waits for.
        self.failed: Awaited | None = None
        # A node has gained room since closed demands were looked at.
        self.gained = False

    # Closed demands

    def closed(self, demand: Demand) -> None:
        awaited, self.failed = self.failed, None
        if demand.predicate_class is not None:
            awaited = None  # a node without a verdict is one to ask about
        self.waiting.setdefault(awaited, {})[demand] = None
        self.waits_for[demand] = awaited

    def not_closed(self, demand: Demand) -> None:
        if demand in self.waits_for:
            unlist(self.waiting, self.waits_for.pop(demand), demand)

    def settle(self) -> None:
        """Measures, before the next ask is sought, what groups with other members place next, and opens demands that
        may have found room. O(members) for each group that has changed, O(log n) for each kind of what demands wait for
        where a node has gained room."""
        if self.changed:
            changed, self.changed = self.changed, {}
            for group in changed:
                self._settle(group)
        if self.gained:
            self.gained = False
            self.opened.clear()
            for awaited, demands in list(self.waiting.items()):
                if awaited is None or self._may_fit(awaited):
                    if awaited is not None and len(demands) > 1:
                        self.opened[awaited] = dict(demands)
                    for demand in list(demands):
                        if demand.possible:
                            self.index.open(demand)

    def opened_in_vain(self) -> tuple[Awaited, list[Demand]] | None:
        """The demands that were opened with one that found no room, if there is no room for them either. They are
        closed without a search for each: a rack that has become free serves one group of many."""
        awaited = self.failed
        demands = self.opened.pop(awaited, None) if awaited is not None else None
        if awaited is None or demands is None or self._may_fit(awaited):
            return None
        return awaited, [demand for demand in demands if demand.open and self._waits_still(demand)]

    def _waits_still(self, demand: Demand) -> bool:
        """Whether the group of the demand is as it was when it was closed."""
        group = demand.group_of_asks
        return isinstance(group, Group) and group not in self.changed and demand in group.free

    def _may_fit(self, awaited: Awaited) -> bool:
        scope = self.domains.find(awaited.scope)
        awaited.shape.settle()
        return scope is not None and awaited.shape.fits(awaited.level, awaited.needed, scope)

    def _settle(self, group: Group) -> None:
        if TOPOLOGY_REQUIRED in group.application.tags:
            self._open_others(group)
        required = (
            ask
            for ask, (demand, _) in group.asks.items()
            if demand.wish and (demand.wish.required or demand.wish.outer)
        )
        self.avoidance.note(group.key, min(required, key=lambda ask: (ask.at_ms, ask.seq), default=None))
        if not group.asks and not group.members:
            if self.by_key.get(group.key) is group:
                del self.by_key[group.key]
                unlist(self.of_application, group.application.id, group)
            return
        for demand in list(group.free):
            self._measure(group, demand)
            if not demand.open and demand.possible:
                self.index.open(demand)
            self._leave_opened(demand)

    def _measure(self, group: Group, demand: Demand) -> None:
        """Let maxima and limits see what the next step of the group places."""
        together = self._together(group, demand)
        quota = demand.resource if together is None else asked_together(together)
        cost = demand.cost_of_one if together is None or not demand.under_budgets else cost_together(together)
        if quota != demand.quota or cost != demand.cost:
            demand.quota, demand.cost = quota, cost
            demand.negated = tuple(map(neg, self.index.nodes.vector(quota)))
            self.index.quota_changed(demand, group.application)

    def _leave_opened(self, demand: Demand) -> None:
        """Take the demand from those that were opened together: its group or its application has other members."""
        for demands in self.opened.values():
            demands.pop(demand, None)

    def _open_others(self, group: Group) -> None:
        """Look again at the other groups of an application whose asks share a level: it has other members."""
        for one in self.of_application.get(group.application.id, ()):
            for demand in one.free:
                if demand.wish is not None and demand.wish.outer:
                    self._measure(one, demand)  # the first group of an application starts, the others join it
                    if not demand.open and demand.possible:
                        self.index.open(demand)
                self._leave_opened(demand)

    def _together(self, group: Group, demand: Demand) -> dict[PendingAsk, int] | None:
        """The repeats of each ask that the next step of the group places; None: one, of any ask of the demand."""
        wish = demand.wish
        assert wish is not None, "a demand of a group has a wish"
        if not self._begins(group, wish):
            return None
        return {ask: repeats for ask, repeats, _ in self._starting(group, wish)}

    def placed_with(self, ask: PendingAsk) -> dict[PendingAsk, int] | None:
        """The repeats of each ask that the next step of the ask's group places together; None: it places one repeat of
        this ask, which may be in no group, or in no line."""
        demand = self._demand_of(ask)
        group = demand.group_of_asks if demand is not None else None
        return self._together(group, demand) if demand is not None and isinstance(group, Group) else None

    def _demand_of(self, ask: PendingAsk) -> Demand | None:
        """The demand of the line of the ask. None: it is in no line, or in one of asks that wait for placeholders."""
        line = self.index.lines.get(ask)
        return line.ask_class.demand if line is not None and hasattr(line, "ask_class") else None

    # What is placed next

    def _unknown_level(self, wish: Wish) -> str:
        """A level that members have to share and that is not configured; "": there is none."""
        named = (wish.required, wish.slice_level, wish.outer)
        return next((level for level in named if level and place_of(self.levels, level) < 0), "")

    def _level_of_start(self, wish: Wish, scope: Domain) -> int:
        """The level of the domain in which all members that start together are placed."""
        return max(*(place_of(self.levels, one) for one in (wish.required, wish.outer) if one), ALL_LEVEL, scope.level)

    def _begins(self, group: Group, wish: Wish) -> bool:
        """Whether the next step is a start: of the group, of another slice of it, or of the whole application."""
        if group.members:
            return wish.slice_size > 0 and not self._incomplete(group, wish)
        return wish.gang or (bool(wish.outer) and not self._is_bound(group.application))

    def _is_bound(self, application: Application) -> bool:
        """Whether an ask of an application whose asks share a level is placed."""
        whole = self.by_key.get((application.id, APPLICATION))
        return whole is not None and whole.members > 0

    def _starts(self, group: Group, wish: Wish) -> int:
        """The number of members that the next start places together; 0: all that are pending."""
        return wish.slice_size if group.members else wish.size

    def _incomplete(self, group: Group, wish: Wish) -> list[Path]:
        """The domains in which the group has a part of a slice: those that miss least first."""
        level, size = place_of(self.levels, wish.slice_level), wish.slice_size
        counts = self.counts_at(group, level)
        return sorted((path for path in counts if counts[path] % size), key=lambda path: (-(counts[path] % size), path))

    def counts_at(self, group: Group, level: int) -> dict[Path, int]:
        return group.counts[level] if level >= 0 else {}

    def _starting(self, group: Group, wish: Wish) -> list[tuple[PendingAsk, int, Demand]]:
        """The asks of the next start with the number of repeats, the largest first, then by priority and age."""
        left = self._starts(group, wish) or sum(group.free.values())
        first = sorted(group.asks.items(), key=lambda one: (-one[0].ask.priority, one[0].seq))
        found = []
        for ask, (demand, free) in first:
            if left > 0:
                found.append((ask, min(left, free), demand))
                left -= free
        return sorted(found, key=lambda one: (-one[2].weight, -one[0].ask.priority, one[0].seq))

    def next_places(self, demand: Demand, ask: PendingAsk) -> list[Place]:
        """The places of the next members of the ask's group: one for each member of a start, else one. Empty if there
        is no room; then `failed` is what the demand waits for."""
        group, wish = demand.group_of_asks, demand.wish
        assert isinstance(group, Group) and wish is not None, "only asks of groups are placed here"
        self.failed = None
        if self._unknown_level(wish):
            return []
        if self._begins(group, wish):
            return self._start(group, wish)
        scope = self._scope(group, wish)
        shape = self.domains.shape_of(demand)
        if scope is None:
            return []
        domain = self._within(group, wish, shape, scope, group.free.get(demand, 1))
        if domain is None or not shape.raw.get(domain):
            self.failed = Awaited(shape, scope.level, 1, scope.path)
            return []
        return [Place(ask, shape, domain)]

    def node_for(self, place: Place) -> Node | None:
        """The node of a place, as things stand now."""
        if place.node is not None:
            return place.node.node
        place.shape.settle()
        domain, demand = place.domain, place.demand
        if demand is not None and demand.wish is not None and isinstance(demand.group_of_asks, Group):
            within = self._within(demand.group_of_asks, demand.wish, place.shape, domain, place.left)
            domain = within if within is not None else domain
        entry = place.shape.best_in(domain)
        return entry.node if entry is not None else None

    def best_for(self, ask: PendingAsk, demand: Demand) -> Node | None:
        """The best node for an ask that is in no line, beside its group: a real ask that replaces a placeholder."""
        member = self.member_of(ask)
        assert member is not None, "the ask is a member of a group"
        group, wish = member
        scope = self._scope(group, wish)
        if scope is None or wish.slice_size:
            return None  # a slice has no place for one more
        shape = self.domains.shape_of(demand)
        domain = self._within(group, wish, shape, scope, 1)
        entry = shape.best_in(domain) if domain is not None else None
        return entry.node if entry is not None else None

    def _scope(self, group: Group, wish: Wish) -> Domain | None:
        """The domain to which the members of a group are bound; all nodes, if it is bound to none. None: it was bound
        to one that has no node any more, or its members are in no domain of the level."""
        scope = self.domains.all_nodes
        outer = self.by_key.get((group.application.id, APPLICATION)) if wish.outer else None
        for whose, level in ((outer, wish.outer), (group, wish.required)):
            if whose is not None and whose.members and level:
                path = whose.most(place_of(self.levels, level))
                found = self.domains.find(path) if path is not None else None
                if found is None:
                    return None
                scope = found
        return scope

    def _within(self, group: Group, wish: Wish, shape: Shape, scope: Domain, remaining: int) -> Domain | None:
        """The domain for one member, in `scope`. `remaining`: how many members are yet to be placed with it."""
        if wish.slice_size:
            for path in self._incomplete(group, wish):
                domain = self.domains.find(path)
                if domain is not None and scope.is_in(domain):
                    domain = scope  # other levels are configured since the group has started
                if domain is not None and domain.is_in(scope) and shape.raw.get(domain):
                    return domain
            return None
        preferred = place_of(self.levels, wish.preferred) if wish.preferred else -1
        if preferred > scope.level:
            room = self._beside(group, shape)
            best = self._preferred(group, shape, scope, preferred, remaining, room)
            if self.avoidance.path is not None and not room(best):
                best = self._preferred(group, shape, scope, preferred, remaining, shape.count)
            scope = best
        spread = place_of(self.levels, wish.spread) if wish.spread else -1
        return self._least_used_by(group, shape, scope, spread) if spread > scope.level else scope

    def _beside(self, group: Group, shape: Shape) -> Room:
        """A function of a domain: the number of members that fit there without the nodes that the group avoids."""
        return partial(self.avoidance.room, group.key, shape)

    def _preferred(
        self, group: Group, shape: Shape, scope: Domain, preferred: int, remaining: int, room: Room
    ) -> Domain:
        """The domain of the level `preferred`: of those in which the group is, else the one that keeps the members
        close together."""
        for level in range(preferred, scope.level, -1):
            if group.members:
                known = ((-count, path) for path, count in group.counts[level].items())
                near = (self.domains.find(path) for _, path in sorted(known))
                found = next((one for one in near if one is not None and one.is_in(scope) and room(one)), None)
            else:
                found = self._tightest(shape, level, remaining, scope, room)
            if found is not None:
                return found if level == preferred else self._closest(shape, found, preferred, remaining, room)
        return self._closest(shape, scope, preferred, remaining, room)

    def _tightest(self, shape: Shape, level: int, count: int, scope: Domain, room: Room) -> Domain | None:
        return next((one for one in shape.tightest(level, count, scope) if room(one) >= count), None)

    def _closest(self, shape: Shape, scope: Domain, level: int, remaining: int, room: Room) -> Domain:
        """The tightest domain of the level for all that remain, else the one with room for most."""
        best = self._tightest(shape, level, remaining, scope, room)
        if best is not None:
            return best
        some = [domain for domain in scope.at(level) if shape.raw.get(domain) and room(domain)]
        self.index.budget.left -= len(some) // 8
        return min(some, key=lambda one: (-room(one), -one.used, one.path)) if some else scope

    def _least_used_by(self, group: Group, shape: Shape, scope: Domain, level: int) -> Domain:
        """The domain of the level with fewest members of the group that has room, and of these the one with the best
        node; where it avoids all nodes only if it has to. O(domains in `scope`)."""
        counts, best = group.counts[level], scope
        least: tuple[Any, ...] | None = None
        for domain in scope.at(level):
            self.index.budget.left -= 1
            if not shape.raw.get(domain):
                continue
            rank = (not self.avoidance.room(group.key, shape, domain), counts.get(domain.path, 0))
            if least is None or rank <= least[:2]:
                entry = shape.best_in(domain)
                assert entry is not None, "it has room"
                with_node = (*rank, shape.ranks[entry])
                if least is None or with_node < least:
                    least, best = with_node, domain
        return best

    def next_step(self, demand: Demand, ask: PendingAsk) -> Step:
        """The next step of the ask's group, and the obstacles to it. Changes nothing."""
        group, wish = demand.group_of_asks, demand.wish
        assert isinstance(group, Group) and wish is not None, "only asks of groups have steps"
        if unknown := self._unknown_level(wish):
            return Step(False, unknown)
        failed, starts = self.failed, self._begins(group, wish)
        fits, awaited, self.failed = bool(self.next_places(demand, ask)), self.failed, failed
        members, missing = 1, 0
        if starts:
            members = sum(repeats for _, repeats, _ in self._starting(group, wish))
            missing = max(self._starts(group, wish) - members, 0)
            if wish.slice_size:
                missing = max(missing, -members % wish.slice_size)
        scope, level = self._scope(group, wish), place_of(self.levels, wish.required or wish.outer)
        if awaited is None:
            return Step(fits, "", starts, members + missing, missing, level, 1, scope)
        return Step(
            fits, "", starts, members + missing, missing, awaited.level, awaited.needed,
            self.domains.find(awaited.scope), awaited.shape,
            wish.outer if starts and not self._is_bound(group.application) else "",
        )  # fmt: skip

    # Starts

    def _start(self, group: Group, wish: Wish) -> list[Place]:
        """Places for all members that start together; empty if no domain has room for all of them."""
        together = self._starting(group, wish)
        count = sum(repeats for _, repeats, _ in together)
        if not together or count < self._starts(group, wish) or self._comes_later(group, wish):
            return []  # not all of them were asked for
        if not all(demand.possible for _, _, demand in together):
            return []  # no node has a resource that one of them wants
        scope = self._scope(group, wish)
        if scope is None:
            return []
        level = self._level_of_start(wish, scope)
        if wish.slice_size:
            return self._start_slices(group, wish, together, scope, level)
        shapes = [
            (self.domains.shape_of(demand), [(ask, repeats) for ask, repeats, one in together if one is demand])
            for demand in dict.fromkeys(demand for _, _, demand in together)
        ]
        # Where the members of this shape fit, all others are tried. Those that are bound to a node decide.
        key = next((place for place, (shape, _) in enumerate(shapes) if shape.demand.required_node), 0)
        key_shape, needed = shapes[key][0], sum(repeats for _, repeats in shapes[key][1])
        finest = place_of(self.levels, wish.preferred) if wish.preferred else level
        tried = Counter[int]()
        levels = range(max(finest, level), level - 1, -1)
        scopes = [*self._near(group, wish, key_shape, scope, level), scope]
        for domain in self._in_order(group, key_shape, levels, needed, scopes, tried):
            if wish.outer and not self._fits_application(group, domain, wish):
                continue
            if len(shapes) == 1:
                members = [ask for ask, repeats in shapes[0][1] for _ in range(repeats)]
                dynamic = together[0][2] if wish.spread or finest > domain.level else None
                return [
                    Place(ask, key_shape, domain, None, len(members) - place, dynamic)
                    for place, ask in enumerate(members)
                ]
            self.index.budget.left -= len(domain.nodes) // 8
            free = {
                entry: (entry.group.available, entry.node.allocations_left)
                for entry in domain.nodes
                if entry.group is not None
            }
            found = placed_one_by_one(
                self.index.nodes, free, [(shape, sum(repeats for _, repeats in asks)) for shape, asks in shapes]
            )
            if found is not None:
                return [
                    Place(ask, shape, domain, entry)
                    for (shape, asks), entries in zip(shapes, found, strict=True)
                    for ask, entry in zip((ask for ask, repeats in asks for _ in range(repeats)), entries, strict=True)
                ]
            tried[domain.level] += 1
        self.failed = Awaited(key_shape, level, needed, scope.path)
        return []

    def _in_order(
        self, group: Group, shape: Shape, levels: Sequence[int], needed: int, scopes: Iterable[Domain],
        tried: Mapping[int, int],
    ) -> Iterator[Domain]:  # fmt: skip
        """The domains that have room for so many: those in the first scope first, of these those of the first level,
        the tightest first; at last those that have it only with nodes that the group avoids. `tried`: in vain, of each
        level."""
        late, seen, room = dict[Domain, None](), set[Domain](), self._beside(group, shape)
        for scope in scopes:
            for level in levels:
                for domain in shape.tightest(level, needed, scope):
                    if tried.get(level) == DOMAINS_TRIED:
                        break
                    if room(domain) < needed:
                        late[domain] = None
                    elif domain not in seen:
                        seen.add(domain)
                        yield domain
        yield from late

    def _near(self, group: Group, wish: Wish, shape: Shape, scope: Domain, level: int) -> list[Domain]:
        """The domains in which a start is tried first, of the level that the application prefers for all its asks, if
        that is coarser than the one of the start: those with most of its members. Before it has any: those with room
        for all of its asks, the tightest first."""
        near = place_of(self.levels, wish.near) if wish.near else ALL_LEVEL
        if not scope.level < near < level:
            return []
        whole = self.by_key.get((group.application.id, APPLICATION))
        if whole is not None and whole.members:
            counts = whole.counts[near]
            known = (self.domains.find(path) for path in sorted(counts, key=lambda path: (-counts[path], path)))
            return [domain for domain in known if domain is not None and domain.is_in(scope)]
        fine = [domain for domain in scope.at(near) if self._have_room(group.application, domain)]
        self.index.budget.left -= len(fine) // 8
        return sorted(fine, key=lambda one: (shape.count(one), -one.used, one.path))

    def _comes_later(self, group: Group, wish: Wish) -> bool:
        """Whether placeholders of the application are yet to be asked for: they are the size of a gang."""
        application = group.application
        if wish.size or not application.placeholder_ask or not any(ask.ask.placeholder for ask in group.asks):
            return False
        asked = dict(application.allocated_placeholder)
        for ask in application.asks.values():
            if ask.ask.placeholder:
                add(asked, ask.ask.resource, ask.pending + ask.asked)
        return any(asked.get(name, 0) < amount for name, amount in application.placeholder_ask.items())

    def _fits_application(self, group: Group, domain: Domain, wish: Wish) -> bool:
        """Whether all asks of the application fit the domain that they share, and that this domain is in, as far as is
        known. True if the shared domain is chosen already."""
        if self._is_bound(group.application):
            return True
        level = place_of(self.levels, wish.outer)
        outer: Domain | None = domain
        while outer is not None and outer.level > level:
            outer = outer.parent
        return outer is not None and outer.level == level and self._have_room(group.application, outer)

    def _have_room(self, application: Application, domain: Domain) -> bool:
        """Whether the domain may have room for all pending members of the groups of the application."""
        needed: dict[Shape, int] = {}
        for one in self.of_application.get(application.id, ()):
            for demand, free in one.free.items():
                shape = self.domains.shape_of(demand)
                needed[shape] = needed.get(shape, 0) + free
        return all(shape.count(domain) >= count for shape, count in needed.items())

    def _others(self, application: Application, asks: Mapping[PendingAsk, int]) -> list[tuple[Demand, int]]:
        """The pending members of the groups of an application beside these: how many by their demands, the largest
        first."""
        left = Counter[Demand]()
        for one in self.of_application.get(application.id, ()):
            for ask, (demand, free) in one.asks.items():
                left[demand] += free - asks.get(ask, 0)
        return sorted(
            ((demand, count) for demand, count in left.items() if count > 0),
            key=lambda one: (-one[0].weight, one[0].need),
        )

    def _start_slices(
        self, group: Group, wish: Wish, together: list[tuple[PendingAsk, int, Demand]], scope: Domain, level: int
    ) -> list[Place]:
        size = wish.slice_size
        members = [ask for ask, repeats, _ in together for _ in range(repeats)]
        if len(members) % size:
            return []  # a slice is not complete yet
        members.sort(key=_by_key)
        slices, slice_level = len(members) // size, place_of(self.levels, wish.slice_level)
        demand = self._largest([demand for _, _, demand in together])
        shape = self.domains.shape_of(demand, slice_level, size)
        finest = place_of(self.levels, wish.preferred) if wish.preferred else level
        levels = range(min(max(finest, level), slice_level), level - 1, -1)
        scopes = [*self._near(group, wish, shape, scope, level), scope]
        for domain in self._in_order(group, shape, levels, slices, scopes, {}):
            if wish.outer and not self._fits_application(group, domain, wish):
                continue
            racks = self._domains_of_slices(group, shape, domain, slices)
            places = [rack for rack in racks for _ in range(size)]
            shapes = {one: self.domains.shape_of(one) for one in dict.fromkeys(d for _, _, d in together)}
            of_ask = {ask: shapes[one] for ask, _, one in together}
            return [Place(ask, of_ask[ask], rack) for ask, rack in zip(members, places, strict=True)]
        self.failed = Awaited(shape, level, slices, scope.path)
        return []

    def _largest(self, demands: list[Demand]) -> Demand:
        """A demand that covers all of them: where it fits so many times, so many of them fit in any order."""
        different = list(dict.fromkeys(demands))
        if len(different) == 1:
            return different[0]
        need = tuple(map(max, zip(*(demand.need for demand in different), strict=True)))
        resource: dict[str, int] = {}
        items: dict[str, int] = {}
        for demand in different:
            for sums, amounts in ((resource, demand.resource.items()), (items, demand.items)):
                for name, amount in amounts:
                    sums[name] = max(sums.get(name, 0), amount)
        first = max(different, key=lambda demand: sum(need.devices for need in demand.on_devices))
        return Demand(
            resource, tuple(sorted(items.items())), first.required_node, first.refused, need, 0, 0,
            first.predicate_class, first.on_devices,
        )  # fmt: skip

    def _domains_of_slices(self, group: Group, shape: Shape, scope: Domain, slices: int) -> list[Domain]:
        """A domain for each slice: as few domains as possible, at last the tightest that has room for the rest. Domains
        that have room only with nodes that the group avoids are taken for what finds no place elsewhere."""
        with_room = [domain for domain in scope.at(shape.slice_level) if shape.counts.get(domain)]
        self.index.budget.left -= len(with_room) // 8
        beside = {domain: self.avoidance.room(group.key, shape, domain) for domain in with_room}
        chosen = _fewest(shape, {domain: count for domain, count in beside.items() if count}, slices)
        if len(chosen) < slices:
            rest = {domain: shape.counts[domain] - beside[domain] for domain in with_room}
            chosen += _fewest(shape, {domain: count for domain, count in rest.items() if count}, slices - len(chosen))
        assert len(chosen) == slices, f"{scope.path} has no room for {slices} slices"
        return chosen

    # Preemption

    def start_of(self, ask: PendingAsk) -> Start | str:
        """The next placement of the ask's group; or the reason why it needs more than room."""
        demand = self._demand_of(ask)
        if demand is None or demand.wish is None or not isinstance(demand.group_of_asks, Group):
            return "the RM is asked about all of its allocations"
        group, wish = demand.group_of_asks, demand.wish
        if self._unknown_level(wish):
            return "a level that it names is not configured"
        scope = self._scope(group, wish)
        if scope is None:
            return "its group is in no domain"
        if not self._begins(group, wish):
            inside = [scope]
            if wish.slice_size:
                parts = (self.domains.find(path) for path in self._incomplete(group, wish))
                inside = [scope if scope.is_in(one) else one for one in parts if one is not None]
            inside = [one for one in inside if one.is_in(scope)]
            if self._is_beyond_all_nodes(ask.ask.resource):
                return MORE_THAN_ALL_NODES
            at = inside[0].level if inside else scope.level
            return Start({ask: 1}, [(demand, 1)], dict(ask.ask.resource), at, inside, begins=False)
        together = self._starting(group, wish)
        asks = {one: repeats for one, repeats, _ in together}
        if not asks or sum(asks.values()) < self._starts(group, wish) or self._comes_later(group, wish):
            return "members that start with it were not asked for yet"
        if self._is_beyond_all_nodes(asked_together(asks)):
            return MORE_THAN_ALL_NODES
        level = self._level_of_start(wish, scope)
        if wish.slice_size and sum(asks.values()) % wish.slice_size:
            return "a slice of it was not asked for in full yet"
        members = [(one, sum(n for _, n in some)) for one, some in self.in_order(asks)]
        slices = (place_of(self.levels, wish.slice_level), wish.slice_size) if wish.slice_size else (-1, 0)
        is_first = bool(wish.outer) and not self._is_bound(group.application)
        shared = place_of(self.levels, wish.outer) if is_first else -1
        others = self._others(group.application, asks) if is_first else ()
        return Start(asks, members, asked_together(asks), level, [scope], True, *slices, shared, others)

    def _is_beyond_all_nodes(self, resource: Resource) -> bool:
        total = self.index.partition.total
        return any(amount > total.get(name, 0) for name, amount in resource.items())

    def slices_of(self, ask: PendingAsk) -> tuple[int, int]:
        """The level and the size of the slices that the group of the ask starts in; (-1, 0): in none."""
        wish = wish_for(ask.ask, ask.application)
        return (place_of(self.levels, wish.slice_level), wish.slice_size) if wish and wish.slice_size else (-1, 0)

    def largest_of(self, start: Start) -> Demand:
        """A demand that covers those of all members."""
        return self._largest([demand for demand, _ in start.members])

    def places_on(
        self, asks: Mapping[PendingAsk, int], free: Free, slice_level: int = -1, slice_size: int = 0
    ) -> list[tuple[PendingAsk, NodeEntry]] | None:
        """The nodes for so many repeats of each ask, where so much is free: placed one after the other, the largest
        first, and each slice in one domain of the level. None if they do not fit."""
        if slice_size:
            return self._slices_on(asks, free, slice_level, slice_size)
        in_order = self.in_order(asks)
        shapes = [(self.domains.shape_of(demand), sum(count for _, count in some)) for demand, some in in_order]
        found = placed_one_by_one(self.index.nodes, free, shapes)
        if found is None:
            return None
        return [
            (ask, entry)
            for (_, some), entries in zip(in_order, found, strict=True)
            for ask, entry in zip((ask for ask, count in some for _ in range(count)), entries, strict=True)
        ]

    def _slices_on(
        self, asks: Mapping[PendingAsk, int], free: Free, level: int, size: int
    ) -> list[tuple[PendingAsk, NodeEntry]] | None:
        nodes, demands = self.index.nodes, {ask: self.index.lines[ask].ask_class.demand for ask in asks}
        largest = self.domains.shape_of(self._largest(list(dict.fromkeys(demands.values()))))
        parts: dict[Domain, Free] = {}
        room = Counter[Domain]()
        for entry, (available, most) in free.items():
            domain = next((one for one in self.domains.standing[entry].chain if one.level == level), None)
            if domain is not None and largest.may_take(entry):
                parts.setdefault(domain, {})[entry] = (available, most)
                room[domain] += copies_in(nodes, largest.demand, available, most)
        members = [ask for ask in sorted(asks, key=_by_key) for _ in range(asks[ask])]
        where = [one for one in sorted(parts, key=lambda one: (-room[one], one.path)) for _ in range(room[one] // size)]
        if len(where) * size < len(members):
            return None
        placed: list[tuple[PendingAsk, NodeEntry]] = []
        for number in range(len(members) // size):
            part = parts[where[number]]
            found = self.places_on(Counter(members[number * size : (number + 1) * size]), part)
            if found is None:
                return None
            for ask, entry in found:
                available, most = part[entry]
                part[entry] = (nodes.after(demands[ask], available), most - 1)
            placed += found
        return placed

    def has_room_for(self, ask: PendingAsk) -> bool:
        """Whether some domain has room for what the group of the ask places next."""
        demand = self._demand_of(ask)
        failed = self.failed
        found = demand is not None and demand.possible and bool(self.next_places(demand, ask))
        self.failed = failed
        return found

    def in_order(self, asks: Mapping[PendingAsk, int]) -> list[tuple[Demand, list[tuple[PendingAsk, int]]]]:
        """The members by their demands, in the order in which they are placed: the largest first."""
        demands = {ask: self.index.lines[ask].ask_class.demand for ask in asks}
        found: dict[Demand, list[tuple[PendingAsk, int]]] = {}
        for ask in sorted(asks, key=lambda one: (-demands[one].weight, -one.ask.priority, one.seq)):
            found.setdefault(demands[ask], []).append((ask, asks[ask]))
        return list(found.items())

    def missing(self, start: Start, domain: Domain) -> int:
        """The number of members that do not fit the domain now, counted for each of their demands alone."""
        wanted = self._wanted_by_all(start) if domain.level == start.shared else self._wanted(start)
        return sum(max(count - shape.count(domain), 0) * (shape.slice_size or 1) for shape, count in wanted)

    def _wanted_by_all(self, start: Start) -> list[tuple[Shape, int]]:
        """The copies of each shape that the application which begins with the start wants."""
        needed = Counter[Shape]()
        for demand, count in (*start.members, *start.others):
            needed[self.domains.shape_of(demand)] += count
        return list(needed.items())

    def _wanted(self, start: Start) -> list[tuple[Shape, int]]:
        """The copies, or slices, of each shape that the start wants."""
        if not start.slice_size:
            return [(self.domains.shape_of(demand), count) for demand, count in start.members]
        largest = self.largest_of(start)
        return [(self.domains.shape_of(largest, start.slice_level, start.slice_size), start.slices)]

    # The domain that others avoid

    def nearest(self, start: Start) -> Domain | None:
        """The domain that is nearest to having room for the start, or, of the level that an application shares, for all
        that begins with the start: with the fewest members missing, then least used, then by path. None: no domain can
        ever hold it. O(domains + nodes)."""
        wanted = self._wanted(start)
        shared = self._wanted_by_all(start) if start.shared >= 0 else []
        if self.hopeless_at != self.domains.layouts:
            self.hopeless_at = self.domains.layouts
            self.hopeless.clear()
        scopes = tuple(scope.path for scope in start.scopes)
        kind: tuple[object, ...] = (start.level, scopes, *((shape.key_when_empty, count) for shape, count in wanted))
        if shared:
            kind = (*kind, start.shared, *((shape.key_when_empty, count) for shape, count in shared))
        if kind in self.hopeless:
            return None
        domains = start.domains if start.shared < 0 else start.scopes[0].at(start.shared)
        inside = sorted(((self.missing(start, one), one.used, one.path, one) for one in domains), key=_by_rank)
        self.index.budget.left -= len(inside) // 8
        for _, _, _, domain in inside:
            parts = domain.at(start.level) if shared else (domain,)
            if all(shape.most(domain) >= count for shape, count in shared) and any(
                all(shape.most(part) >= count for shape, count in wanted) for part in parts
            ):
                return domain
            self.index.budget.left -= len(domain.nodes) // 8
        if len(self.hopeless) == SHAPES_COUNTED:
            self.hopeless.clear()
        self.hopeless.add(kind)
        return None

    def key_of(self, ask: PendingAsk) -> GroupKey:
        """The group of an ask that is in one."""
        group = self.index.lines[ask].ask_class.demand.group_of_asks
        assert isinstance(group, Group), "the ask is a member of a group"
        return group.key


def _by_key(ask: PendingAsk) -> tuple[str, int]:
    return (ask.ask.allocation_key, ask.seq)


def _by_rank(one: tuple[Any, ...]) -> tuple[Any, ...]:
    return one[:-1]


def _fewest(shape: Shape, room: dict[Domain, int], slices: int) -> list[Domain]:
    """A domain for each slice, or for as many as there is room for: as few domains as possible."""
    size, left = shape.slice_size, slices

    def rank(domain: Domain) -> tuple[Any, ...]:
        return (room[domain], shape.raw[domain] % size, shape.raw[domain], -domain.used, domain.path)

    most = sorted(room, key=lambda domain: (-room[domain], rank(domain)))
    chosen: list[Domain] = []
    for place, domain in enumerate(most):
        if room[domain] >= left:
            enough = (one for one in most[place:] if room[one] >= left)
            return chosen + [min(enough, key=rank)] * left
        chosen += [domain] * room[domain]
        left -= room[domain]
    return chosen
