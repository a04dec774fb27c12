"""Verifies a configuration as a whole: models in, all findings out.

This file verifies partitions and the tree of queues: names, maximum and guaranteed resources, maxapplications. Limits,
placement rules, access control lists and properties are verified in `rules`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from remuda_config import limits
from remuda_config.problems import Finding, Path, spell
from remuda_config.rules import budgets, placement, properties, user_limits, windows
from remuda_config.schema import Backfill, ChildTemplate, Partition, Preemption, Queue, Queues, Window
from remuda_proto import access_list, durations, fair, quantities
from remuda_proto.bounds import shown
from remuda_proto.names import PARTITION, QUEUE

FRAGMENTATION = "fragmentation"
NODE_SORT_POLICIES = ("fair", "binpacking", FRAGMENTATION)
PACKINGS = ("none", "application", "topology")
BACKFILLS = ("none", "easy")
BACKFILL_ORDERS = ("queue", "shortest")
# Names of levels, and the one that every topology has: each node is a domain of its own.
LEVEL = re.compile(r"[a-z][a-z0-9_-]{0,62}")
HOST = "host"

Amounts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class AncestorLimits:
    """The limits that the ancestors of a queue set. `name`: the path of the parent. `max`: for each resource the
    smallest maximum, and the queue that has it."""

    name: str
    depth: int = 0
    max: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    bounds: user_limits.TightestLimits = field(default_factory=dict)


def verify(queues: Queues, left_out: list[Path], compatibility: str = "none") -> list[Finding]:
    """Returns all findings. `left_out`: the paths of invalid values, which the models lack. Findings that only
    follow from a missing value are not reported.
    """
    out = frozenset(left_out)
    around = frozenset(path[:length] for path in out for length in range(len(path)))
    findings = [
        finding for finding in _verify(queues, left_out, compatibility) if not _follows(finding[0], out, around)
    ]
    return list(dict.fromkeys(findings))


def _follows(path: Path, out: frozenset[Path], around: frozenset[Path]) -> bool:
    """Whether the path is inside of a value that was left out, or around one."""
    return path in around or any(path[:length] in out for length in range(len(path) + 1))


def _verify(queues: Queues, left_out: list[Path], compatibility: str) -> Iterator[Finding]:
    if not queues.partitions:
        yield ("partitions",), "at least one partition is needed; an empty text stands for the built-in default"
    if queues.partitionhierarchy not in ("", "same"):
        yield (
            ("partitionhierarchy",),
            f"unknown value {shown(queues.partitionhierarchy)}: expected same, or no such key",
        )
    seen: set[str] = set()
    for place, partition in enumerate(queues.partitions):
        path: Path = ("partitions", place)
        if partition.plain_name in seen:
            yield (*path, "name"), f"there is already a partition {shown(partition.plain_name)}"
        seen.add(partition.plain_name)
        trees_known = not any(out[:2] == path and _shapes_tree(out) for out in left_out)
        yield from _verify_partition(partition, path, trees_known)
        yield from _verify_devices(partition, (*path, "devices"), compatibility)
        yield from _verify_topology(partition, path, compatibility)
        yield from _verify_backfill(partition.backfill, (*path, "backfill"), compatibility)
        if partition.queues is not None:
            yield from _verify_budgets(*partition.root(path), compatibility)
        yield from windows.check(partition, path, compatibility)
        if partition.queues is not None and trees_known:
            yield from _verify_windows(partition, path)
        if compatibility != "none" and partition.queues is not None:
            yield from _verify_without_memory(*partition.root(path), compatibility)
    if queues.partitionhierarchy == "same":
        yield from _verify_hierarchy(queues)


def _shapes_tree(path: Path) -> bool:
    return path[-1] in ("name", "parent", "queues") or "queues" in path[-2:]


def _verify_partition(partition: Partition, path: Path, trees_known: bool) -> Iterator[Finding]:
    if not PARTITION.matches(partition.plain_name):
        yield (*path, "name"), f"bad partition name {shown(partition.name)}: expected {PARTITION.expected}"
    if partition.nodesortpolicy.type not in ("", *NODE_SORT_POLICIES):
        problem = f"unknown policy {shown(partition.nodesortpolicy.type)}: expected {', '.join(NODE_SORT_POLICIES)}"
        yield (*path, "nodesortpolicy", "type"), problem
    if partition.nodesortpolicy.pack not in ("", *PACKINGS):
        expected = f"expected {', '.join(PACKINGS[:-1])} or {PACKINGS[-1]}"
        problem = f"unknown value {shown(partition.nodesortpolicy.pack)}: {expected}"
        yield (*path, "nodesortpolicy", "pack"), problem
    yield from _verify_preemption(partition.preemption, (*path, "preemption"))
    for key in ("share", "queueshare"):
        share = getattr(partition.reservations, key)
        if share is not None and not 1 <= share <= 100:
            yield (*path, "reservations", key), f"{share}: expected 1 to 100, in per cent of the nodes"
    yield from user_limits.check_list(partition.limits, path)
    root, root_path = partition.root(path)
    if partition.queues is None:
        yield (*path, "queues"), "a list of queues is needed; in an empty one the root queue is put in"
        return
    yield from placement.check(partition.placementrules, path, placement.tree_of(root) if trees_known else None)
    if root_path != path:
        for key in ("guaranteed", "max"):
            if getattr(root.resources, key) is not None:
                yield (*root_path, "resources", key), "root has no resources of its own: they are those of the nodes"
        yield from _verify_own(root, root_path)
        yield from user_limits.check_against_queue(root, root_path)
    bounds = user_limits.tightest_below(root, "root", {})
    yield from _verify_below(root, root_path, AncestorLimits("root", bounds=bounds))


def _verify_budgets(queue: Queue, path: Path, compatibility: str) -> Iterator[Finding]:
    """Verify the budgets of the queue and of those below it."""
    yield from budgets.check(queue.budget, (*path, "budget"), compatibility)
    if queue.childtemplate is not None:
        yield from budgets.check(queue.childtemplate.budget, (*path, "childtemplate", "budget"), compatibility)
    for place, child in enumerate(queue.queues):
        yield from _verify_budgets(child, (*path, "queues", place), compatibility)


def _verify_windows(partition: Partition, path: Path) -> Iterator[Finding]:
    """The queues of the partition as they are in each window, at the settings that it names."""
    if not any(window.settings for window in partition.calendar):
        return
    root_path: Path = partition.root(())[1] or ("queues", 0)  # where `in_window` puts it
    outside = set(_verify_tree(windows.in_window(partition, Window()), root_path))
    names: dict[Path, str] = {root_path: "root"}
    paths = [(root_path, "root", partition.root(())[0])]
    for here, name, queue in paths:
        names[here] = name
        paths.extend(
            ((*here, "queues", place), f"{name}.{child.name.lower()}", child)
            for place, child in enumerate(queue.queues)
        )
    count = 0
    for place, window in enumerate(partition.calendar):
        inside = windows.in_window(partition, window)
        for where, problem in _verify_tree(inside, root_path):
            if (where, problem) not in outside:
                queue_path = max((one for one in names if where[: len(one)] == one), key=len)
                rest = spell(where[len(queue_path) :])
                at: Path = (*path, "calendar", place, "settings")
                yield at, f"{names[queue_path]}: {rest}: {problem}"
        count += sum(_inherits(name, window) for name in names.values())
    if count > limits.MAX_QUEUES_IN_WINDOWS:
        yield (*path, "calendar"), f"{count} queues in windows: expected at most {limits.MAX_QUEUES_IN_WINDOWS}"


def _verify_tree(partition: Partition, path: Path) -> Iterator[Finding]:
    root, _ = partition.root(())
    bounds = user_limits.tightest_below(root, "root", {})
    yield from _verify_below(root, path, AncestorLimits("root", bounds=bounds))


def _inherits(name: str, window: Window) -> bool:
    """Whether the queue may have other settings in the window, as it or one above has."""
    return any(name == one.lower() or name.startswith(f"{one.lower()}.") for one in window.settings)


def _verify_without_memory(queue: Queue, path: Path, compatibility: str) -> Iterator[Finding]:
    """Refuse what gives orders a memory, in the queue and below it: the compatibility has nothing like it."""
    found: list[tuple[Path, Mapping[str, str]]] = [((*path, "properties"), queue.properties)]
    if queue.childtemplate is not None:
        found.append(((*path, "childtemplate", "properties"), queue.childtemplate.properties))
    for where, values in found:
        for name in fair.NAMES:
            if name in values:
                yield (*where, name), f"compatibility: {compatibility} has no such property"
        if values.get(properties.SORT_POLICY, "").lower() == properties.FAIR_USERS:
            yield (*where, properties.SORT_POLICY), f"compatibility: {compatibility} has no {properties.FAIR_USERS}"
    for place, child in enumerate(queue.queues or ()):
        yield from _verify_without_memory(child, (*path, "queues", place), compatibility)


def _verify_devices(partition: Partition, path: Path, compatibility: str) -> Iterator[Finding]:
    if partition.devices and compatibility != "none":
        yield path, f"compatibility: {compatibility} has no devices"
    if len(partition.devices) > limits.MAX_DEVICE_RESOURCES:
        yield path, f"{len(partition.devices)} resources: expected at most {limits.MAX_DEVICE_RESOURCES}"
    if partition.nodesortpolicy.type == FRAGMENTATION:
        if len(partition.devices) != 1:
            yield path, f"{len(partition.devices)} resources: expected one with nodesortpolicy.type {FRAGMENTATION}"
        elif (unit := next(iter(partition.devices.values()))) > limits.MAX_PRICED_UNIT:
            yield path, f"{unit}: expected at most {limits.MAX_PRICED_UNIT} with nodesortpolicy.type {FRAGMENTATION}"
    for name, unit in partition.devices.items():
        if not unit:
            yield (*path, name), "0: expected the amount of one device, 1 or more"


def _verify_topology(partition: Partition, above: Path, compatibility: str) -> Iterator[Finding]:
    path: Path = (*above, "topology")
    if partition.topology and compatibility != "none":
        yield path, f"compatibility: {compatibility} has no topology"
    if len(partition.topology) > limits.MAX_TOPOLOGY_LEVELS:
        yield path, f"{len(partition.topology)} levels: expected at most {limits.MAX_TOPOLOGY_LEVELS}"
    levels: set[str] = set()
    attributes: set[str] = set()
    for place, one in enumerate(partition.topology):
        if not LEVEL.fullmatch(one.level) or one.level == HOST:
            yield (
                (*path, place, "level"),
                f"{shown(one.level)}: expected lower-case letters, digits, - and _, not {HOST}",
            )
        elif one.level in levels:
            yield (*path, place, "level"), f"there is already a level {shown(one.level)}"
        if not one.attribute or len(one.attribute.encode()) > limits.MAX_ATTRIBUTE_BYTES:
            problem = f"expected the name of a node attribute, at most {limits.MAX_ATTRIBUTE_BYTES} bytes"
            yield (*path, place, "attribute"), f"{shown(one.attribute)}: {problem}"
        elif one.attribute in attributes:
            yield (*path, place, "attribute"), f"there is already a level of attribute {shown(one.attribute)}"
        levels.add(one.level)
        attributes.add(one.attribute)
    if partition.nodesortpolicy.pack == "topology":
        pack: Path = (*above, "nodesortpolicy", "pack")
        if not partition.topology:
            yield pack, "topology: expected levels under the key topology"
        if partition.nodesortpolicy.type == FRAGMENTATION:
            yield pack, f"topology: expected none with nodesortpolicy.type {FRAGMENTATION}"


def _verify_backfill(backfill: Backfill, path: Path, compatibility: str) -> Iterator[Finding]:
    if backfill.policy not in ("", *BACKFILLS):
        yield (*path, "policy"), f"unknown policy {shown(backfill.policy)}: expected {' or '.join(BACKFILLS)}"
    if backfill.order not in ("", *BACKFILL_ORDERS):
        yield (*path, "order"), f"unknown order {shown(backfill.order)}: expected {' or '.join(BACKFILL_ORDERS)}"
    if backfill.policy == "easy" and compatibility != "none":
        yield (*path, "policy"), f"compatibility: {compatibility} has no backfill"


def _verify_preemption(preemption: Preemption, path: Path) -> Iterator[Finding]:
    if preemption.threshold is not None and preemption.threshold > 100:
        yield (*path, "threshold"), f"{preemption.threshold}: expected 0 to 100, in per cent"
    if preemption.interval and not durations.milliseconds(preemption.interval):
        yield (*path, "interval"), f"{shown(preemption.interval)}: {durations.EXPECTED}"


def _verify_below(parent: Queue, path: Path, above: AncestorLimits) -> Iterator[Finding]:
    seen: set[str] = set()
    for place, queue in enumerate(parent.queues):
        here = (*path, "queues", place)
        if not QUEUE.matches(queue.name):
            yield (*here, "name"), f"bad queue name {shown(queue.name)}: expected {QUEUE.expected}"
        elif queue.name.lower() in seen:
            yield (*here, "name"), f"{above.name} already has a queue {shown(queue.name.lower())}"
        seen.add(queue.name.lower())
        yield from _verify_applications(queue.maxapplications, parent, here, above.name)
        yield from _verify_queue(queue, here, above)
    yield from _verify_children_guaranteed(parent, path)


def _verify_queue(queue: Queue, path: Path, above: AncestorLimits) -> Iterator[Finding]:
    name = f"{above.name}.{queue.name.lower()}"
    if above.depth == limits.MAX_QUEUE_DEPTH:
        yield path, f"queues are at most {limits.MAX_QUEUE_DEPTH} levels deep"
        return
    yield from _verify_own(queue, path)
    yield from _verify_guaranteed(queue.resources.guaranteed or {}, queue.resources.max or {}, (*path, "resources"))
    yield from _verify_max(queue.resources.max or {}, above.max, (*path, "resources", "max"))
    yield from user_limits.check_against_queue(queue, path)
    yield from user_limits.check_against_ancestors(queue, path, above.bounds)
    most = dict(above.max)
    for key, amount in (queue.resources.max or {}).items():
        if key not in most or amount < most[key][0]:
            most[key] = (amount, name)
    if queue.childtemplate is not None:
        yield from _verify_template(queue.childtemplate, queue, most, path, name)
    bounds = user_limits.tightest_below(queue, name, above.bounds)
    yield from _verify_below(queue, path, AncestorLimits(name, above.depth + 1, most, bounds))


def _verify_own(queue: Queue, path: Path) -> Iterator[Finding]:
    """Verify what concerns the queue alone, also of the root."""
    for key in ("submitacl", "adminacl"):
        for problem in access_list.problems(getattr(queue, key)):
            yield (*path, key), problem
    for name, problem in properties.check(queue.properties):
        yield (*path, "properties", name), problem
    yield from user_limits.check_list(queue.limits, path)


def _verify_template(
    template: ChildTemplate, queue: Queue, most: Mapping[str, tuple[int, str]], path: Path, name: str
) -> Iterator[Finding]:
    """Queues made from a template obey the rules of configured queues, but may leave maxapplications unset."""
    here = (*path, "childtemplate")
    resources = template.resources
    for key, problem in properties.check(template.properties):
        yield (*here, "properties", key), problem
    yield from _verify_guaranteed(resources.guaranteed or {}, resources.max or {}, (*here, "resources"))
    yield from _verify_max(resources.max or {}, most, (*here, "resources", "max"))
    if template.maxapplications:
        yield from _verify_applications(template.maxapplications, queue, here, name)


def _verify_applications(own: int, parent: Queue, path: Path, parent_name: str) -> Iterator[Finding]:
    most = parent.maxapplications
    if most and not own:
        yield (*path, "maxapplications"), f"has to be set, since {parent_name} sets it: at most {most}"
    elif most and own > most:
        yield (*path, "maxapplications"), f"{own} is above the {most} of {parent_name}"


def _verify_guaranteed(guaranteed: Amounts, own_max: Amounts, path: Path) -> Iterator[Finding]:
    for name, amount in guaranteed.items():
        if name in own_max and amount > own_max[name]:
            yield (*path, "guaranteed", name), quantities.above(name, amount, "the queue's own max", own_max[name])


def _verify_max(own_max: Amounts, most: Mapping[str, tuple[int, str]], path: Path) -> Iterator[Finding]:
    for name, amount in own_max.items():
        if name in most and amount > most[name][0]:
            yield (*path, name), quantities.above(name, amount, f"the max of {most[name][1]}", most[name][0])


def _verify_children_guaranteed(parent: Queue, path: Path) -> Iterator[Finding]:
    promised = _sum_of_children(parent)
    for kind, own in (("guaranteed", parent.resources.guaranteed), ("max", parent.resources.max)):
        for name, amount in (own or {}).items():
            if promised.get(name, 0) > amount:
                total, own_amount = quantities.show_amount(name, promised[name]), quantities.show_amount(name, amount)
                shown = f"{own_amount} is less than what the queues below it are guaranteed, {total}"
                yield (*path, "resources", kind, name), shown


def _sum_of_children(parent: Queue) -> dict[str, int]:
    total: dict[str, int] = {}
    for child in parent.queues:
        for name, amount in _promised(child).items():
            total[name] = min(total.get(name, 0) + amount, quantities.INT64_MAX)
    return total


def _promised(queue: Queue) -> dict[str, int]:
    """The guaranteed resources of a queue: for each resource its own amount, else the sum of its children's."""
    return {**_sum_of_children(queue), **(queue.resources.guaranteed or {})}


def _verify_hierarchy(queues: Queues) -> Iterator[Finding]:
    """`partitionhierarchy: same`: of two partitions, the paths of a queue's name in one contain those in the other."""
    earlier: list[tuple[str, dict[str, set[str]]]] = []
    for place, partition in enumerate(queues.partitions):
        path: Path = ("partitions", place)
        placed: dict[str, set[str]] = {}
        for name in placement.tree_of(partition.root(path)[0]):
            placed.setdefault(name.rpartition(".")[2], set()).add(name)
        for other, theirs in earlier:
            for name in sorted(placed.keys() & theirs.keys()):
                if not (placed[name] <= theirs[name] or theirs[name] <= placed[name]):
                    ours, others = ", ".join(sorted(placed[name])), ", ".join(sorted(theirs[name]))
                    yield (
                        (*path, "queues"),
                        f"queue {shown(name)} is {ours} here, but {others} in partition {shown(other)}",
                    )
        earlier.append((partition.plain_name, placed))
