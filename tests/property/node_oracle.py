"""The part of the oracle that is about single nodes: their room and their score (semantics section 10)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations

from remuda_core.facts import Allocated
from remuda_core.rules.resource import Resource
from remuda_core.state import Allocation, Node, Partition, PendingAsk, PredicateClass

from . import bounds


def has_room(node: Node, need: Resource, tags: Mapping[str, str]) -> bool:
    available = node.available()
    return all(need.get(name, 0) <= available.get(name, 0) for name in {*need, *available}) and all(
        choices(node, name, amount, tags, booked(node, name)) for name, amount in need.items()
    )


def obtainable(node: Node, need: Resource, tags: Mapping[str, str]) -> bool:
    """It would have room if all had left that can leave."""
    stay = [a for a in node.allocations.values() if bound_tag(a.fact.tags) and not a_copy(a.fact.tags)]
    if not all(
        choices(node, name, amount, tags, on_devices(name, (a.fact for a in stay))) for name, amount in need.items()
    ):
        return False
    stays = [a.fact.resource for a in node.allocations.values() if bound_tag(a.fact.tags) and not a_copy(a.fact.tags)]
    return all(
        amount <= node.capacity.get(name, 0) - node.occupied.get(name, 0) - sum(one.get(name, 0) for one in stays)
        for name, amount in need.items()
    ) and all(
        node.capacity.get(name, 0) >= node.occupied.get(name, 0) + sum(one.get(name, 0) for one in stays)
        for name in {*node.occupied, *(name for one in stays for name in one)}
    )


def choices(
    node: Node, resource: str, amount: int, tags: Mapping[str, str], taken: Mapping[str, int]
) -> list[tuple[str, ...]]:
    """Every set of devices that could serve an ask; [()] if it needs none, [] if there is none. `taken`: of each
    device, by name."""
    devices = node.devices.get(resource)
    if devices is None or amount <= 0:
        return [()]
    unit, count = devices.unit, int(tags.get(f"remuda/devices.{resource}.count", "0"))
    if not count:
        count = 1 if amount <= unit else amount // unit
    if amount % count or amount // count > unit:
        return []
    share = amount // count
    fine = [
        name for name, room in devices.room.items() if room - taken.get(name, 0) >= share and name not in devices.unfit
    ]
    return list(combinations(fine, count))


def lacks_on_devices(node: Node, resource: str, amount: int, tags: Mapping[str, str]) -> float:
    """The part of its share that the ask lacks on the last of the devices that it wants; 0: it fits."""
    devices = node.devices.get(resource)
    if devices is None or amount <= 0:
        return 0.0
    count = int(tags.get(f"remuda/devices.{resource}.count", "0")) or max(1, amount // devices.unit)
    share, offered = amount // count, sorted(devices.offered(), reverse=True)
    return max(0, share - (offered[count - 1] if count <= len(offered) else 0)) / share


def serves_devices(placeholder: Allocation, ask: PendingAsk) -> bool:
    """The devices of the placeholder are as many as the ask wants, with the same share of each."""
    for name in placeholder.node.devices:
        has, wants = placeholder.fact.resource.get(name, 0), ask.ask.resource.get(name, 0)
        count = placeholder.fact.devices[name].count(",") + 1 if name in placeholder.fact.devices else 0
        wanted = wanted_count(placeholder.node, name, wants, ask.ask.tags)
        held = wanted_count(placeholder.node, name, has, placeholder.fact.tags)
        if (has, count, held) != (wants, wanted, wanted):
            return False
    return True


def wanted_count(node: Node, resource: str, amount: int, tags: Mapping[str, str]) -> int:
    if amount <= 0:
        return 0
    return int(tags.get(f"remuda/devices.{resource}.count", "0")) or max(1, amount // node.devices[resource].unit)


def counts(partition: Partition, ask: PendingAsk) -> tuple[tuple[str, int], ...]:
    """On how many devices it wants an equal share."""
    found = []
    for name, unit in sorted(partition.settings.devices.items()):
        amount = ask.ask.resource.get(name, 0)
        if amount > 0:
            tag = int(ask.ask.tags.get(f"remuda/devices.{name}.count", "0"))
            found.append((name, tag or max(1, amount // unit)))
    return tuple(found)


def booked(node: Node, resource: str) -> dict[str, int]:
    """What is taken of each device."""
    return node.devices[resource].used if resource in node.devices else {}


def on_devices(resource: str, facts: Iterable[Allocated]) -> dict[str, int]:
    """What these allocations take of each device."""
    taken: dict[str, int] = {}
    for fact in facts:
        names = [name for name in fact.devices.get(resource, "").split(",") if name]
        for place, name in enumerate(names):
            share = fact.resource[resource] // len(names) + (place < fact.resource[resource] % len(names))
            taken[name] = taken.get(name, 0) + share
    return taken


def best_devices(node: Node, resource: str, amount: int, tags: Mapping[str, str]) -> tuple[str, ...]:
    """Of all that would do, those with least free; of equal ones the first."""
    devices, taken = node.devices[resource], booked(node, resource)
    order = list(devices.room)

    def rank(names: tuple[str, ...]) -> tuple[list[int], list[int]]:
        free = sorted(devices.room[name] - taken.get(name, 0) for name in names)
        return free, [order.index(name) for name in names]

    return min(choices(node, resource, amount, tags, taken), key=rank)


def bound_tag(tags: Mapping[str, str]) -> str:
    return tags.get("si/requiredNode") or tags.get("yunikorn.apache.org/requiredNode", "")


def a_copy(tags: Mapping[str, str]) -> bool:
    """It is bound only because it runs there already."""
    return tags.get("remuda/boundPreemptible") == "true"


def is_full(partition: Partition, node: Node) -> bool:
    """It has as many allocations as one node may have, with those that are to come."""
    asked = sum(question.node is node for question in partition.questions.values())
    return len(node.allocations) + len(node.arriving) + asked >= bounds.most_on_a_node()


def score(partition: Partition, node: Node) -> float:
    """Weighted mean of the used shares, best is least."""
    if has_prices(partition):
        return 0.0
    used = total = 0.0
    available = node.available()
    for name, how_much in partition.settings.resource_weights.items():
        capacity = node.capacity.get(name, 0)
        if capacity:
            used += how_much * (capacity - available[name]) / capacity
            total += how_much
    mean = used / total if total else 0.0
    return -mean if partition.settings.node_sort == "binpacking" else mean


def priced(partition: Partition, node: Node, ask: PendingAsk) -> float:
    """The lowest price of a place for the ask on the node, in steps, by the definition of the policy; and before that
    order of nodes which have devices. The ask fits the node."""
    ((resource, unit),) = partition.settings.devices.items()
    work = partition.work
    common, cpu_of_device = (work.shares, work.cpu_of_device) if work is not None else ((), 0)
    amount, cpu = ask.ask.resource.get(resource, 0), ask.ask.resource.get("vcore", 0)

    def fill(free: int) -> int:
        if not common:
            return unit if free == unit else 0
        return max((fill(free - share) + share for share in common if share <= free), default=0)

    free = dict(zip(node.devices[resource].room, node.devices[resource].offered(), strict=True))
    fillable = sum(map(fill, free.values()))
    worth = cpu * unit // cpu_of_device if cpu_of_device else 0
    served = node.available().get("vcore", 0) * unit // cpu_of_device if cpu_of_device else 2**62
    steps = []
    for names in choices(node, resource, amount, ask.ask.tags, booked(node, resource)):
        share = amount // len(names) if names else 0
        loss = sum(fill(free[name]) - fill(free[name] - share) for name in names)
        if len(names) > 1 or share == unit:  # as if they were whole, whatever the devices are
            loss = len(names) * (fill(unit) - fill(unit - share))
        price = max(loss, worth) if served - worth < fillable - loss else loss
        steps.append(-(-price // max(1, unit // 200)))
    return min(steps)


def first_by_price(partition: Partition, nodes: list[Node], ask: PendingAsk) -> set[str]:
    """The one node of the lowest price: of equal ones those without devices, then the smallest ID."""
    (resource,) = partition.settings.devices
    ranked = [(priced(partition, node, ask), node.capacity.get(resource, 0) > 0, node.id) for node in nodes]
    return {min(ranked)[2]} if ranked else set()


def has_prices(partition: Partition) -> bool:
    return partition.settings.node_sort == "fragmentation"


def bound_to(ask: PendingAsk) -> str:
    return bound_tag(ask.ask.tags)


def refuses(ask: PendingAsk, node_id: str) -> bool:
    """The RM refuses the node, or answers in batches and has not accepted it."""
    found = ask.refused
    return node_id not in found.accepted if isinstance(found, PredicateClass) else node_id in found


def is_asked_about(ask: PendingAsk) -> bool:
    """The RM is asked about the class of the ask."""
    return isinstance(ask.refused, PredicateClass) and ask.refused.question > 0


def packed(partition: Partition, ask: PendingAsk, candidates: list[Node]) -> set[str]:
    """Where applications are packed: of the nodes on which its application is and that it fits, the one with the
    smallest ID."""
    if partition.settings.pack != "application":
        return set()
    own = {allocation.node.id for allocation in ask.application.allocations.values()}
    allowed = [node for node in candidates if node.id in own and not refuses(ask, node.id)]
    fitting = [node.id for node in allowed if has_room(node, ask.ask.resource, ask.ask.tags)]
    return {min(fitting)} if fitting else set()
