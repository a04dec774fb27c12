"""The rules a configuration has to obey, all of them judged at once. Pure: models in, findings out.

Limits, placement rules, access control lists and properties have files of their own; here is what concerns the tree:
names, maximum and guaranteed resources, applications. Knows nothing of lines, files or what is in force.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from remuda_config import acl, limits, names, placement, properties, quantity, user_limits
from remuda_config.problems import Finding, Path
from remuda_config.schema import ChildTemplate, Partition, Preemption, Queue, Queues

NODE_SORT_POLICIES = ("fair", "binpacking")

Amounts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Above:
    """What the queues around a queue allow it: per resource the smallest max, with whose it is."""

    name: str
    depth: int = 0
    max: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    bounds: user_limits.Bounds = field(default_factory=dict)


def verify(queues: Queues, left_out: list[Path]) -> list[Finding]:
    """Everything wrong with the text as a whole. `left_out`: where the models lack something the text has, but wrongly;
    what would only follow from that is not reported."""
    findings = [finding for finding in _verify(queues, left_out) if not _follows(finding[0], left_out)]
    return list(dict.fromkeys(findings))


def _follows(path: Path, left_out: list[Path]) -> bool:
    return any(path[: len(out)] == out or out[: len(path)] == path for out in left_out)


def _verify(queues: Queues, left_out: list[Path]) -> Iterator[Finding]:
    if not queues.partitions:
        yield ("partitions",), "at least one partition is needed; an empty text stands for the built-in default"
    if queues.partitionhierarchy not in ("", "same"):
        yield ("partitionhierarchy",), f"unknown value {queues.partitionhierarchy!r}: expected same, or no such key"
    seen: set[str] = set()
    for place, partition in enumerate(queues.partitions):
        path: Path = ("partitions", place)
        if partition.plain_name in seen:
            yield (*path, "name"), f"there is already a partition {partition.plain_name!r}"
        seen.add(partition.plain_name)
        trees_known = not any(out[:2] == path and _shapes_tree(out) for out in left_out)
        yield from _verify_partition(partition, path, trees_known)
    if queues.partitionhierarchy == "same":
        yield from _verify_hierarchy(queues)


def _shapes_tree(path: Path) -> bool:
    return path[-1] in ("name", "parent", "queues") or "queues" in path[-2:]


def _verify_partition(partition: Partition, path: Path, trees_known: bool) -> Iterator[Finding]:
    if not names.PARTITION.fullmatch(partition.plain_name):
        yield (*path, "name"), f"bad partition name {partition.name!r}: expected {names.SHAPE['partition']}"
    if partition.nodesortpolicy.type not in ("", *NODE_SORT_POLICIES):
        shown = f"unknown policy {partition.nodesortpolicy.type!r}: expected {', '.join(NODE_SORT_POLICIES)}"
        yield (*path, "nodesortpolicy", "type"), shown
    yield from _verify_preemption(partition.preemption, (*path, "preemption"))
    yield from user_limits.check_list(partition.limits, path)
    root, root_path = partition.root(path)
    if not partition.queues:
        yield (*path, "queues"), "at least one queue is needed (root)"
        return
    yield from placement.check(partition.placementrules, path, placement.tree_of(root) if trees_known else None)
    if root_path != path:
        for key in ("guaranteed", "max"):
            if getattr(root.resources, key) is not None:
                yield (*root_path, "resources", key), "root has no resources of its own: they are those of the nodes"
        yield from _verify_own(root, root_path)
        yield from user_limits.check_against_queue(root, root_path)
    yield from _verify_below(root, root_path, Above("root", bounds=user_limits.carried(root, "root", {})))


def _verify_preemption(preemption: Preemption, path: Path) -> Iterator[Finding]:
    if preemption.threshold > 100:
        yield (*path, "threshold"), f"{preemption.threshold}: expected 0 to 100, in per cent"
    if preemption.interval and properties.delay_ms(preemption.interval) is None:
        yield (*path, "interval"), f"{preemption.interval!r}: {properties.A_DURATION}"


def _verify_below(parent: Queue, path: Path, above: Above) -> Iterator[Finding]:
    seen: set[str] = set()
    for place, queue in enumerate(parent.queues):
        here = (*path, "queues", place)
        if not names.QUEUE.fullmatch(queue.name):
            yield (*here, "name"), f"bad queue name {queue.name!r}: expected {names.SHAPE['queue']}"
        elif queue.name.lower() in seen:
            yield (*here, "name"), f"{above.name} already has a queue {queue.name.lower()!r}"
        seen.add(queue.name.lower())
        yield from _verify_applications(queue.maxapplications, parent, here, above.name)
        yield from _verify_queue(queue, here, above)
    yield from _verify_children_guaranteed(parent, path)


def _verify_queue(queue: Queue, path: Path, above: Above) -> Iterator[Finding]:
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
    bounds = user_limits.carried(queue, name, above.bounds)
    yield from _verify_below(queue, path, Above(name, above.depth + 1, most, bounds))


def _verify_own(queue: Queue, path: Path) -> Iterator[Finding]:
    """What can be said of a queue, root or not, without looking around."""
    for key in ("submitacl", "adminacl"):
        for problem in acl.check(getattr(queue, key)):
            yield (*path, key), problem
    for name, problem in properties.check(queue.properties):
        yield (*path, "properties", name), problem
    yield from user_limits.check_list(queue.limits, path)


def _verify_template(
    template: ChildTemplate, queue: Queue, most: Mapping[str, tuple[int, str]], path: Path, name: str
) -> Iterator[Finding]:
    """The queues made from it obey the rules of configured ones, but may leave maxapplications unset."""
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
            yield (*path, "guaranteed", name), quantity.above(name, amount, "the queue's own max", own_max[name])


def _verify_max(own_max: Amounts, most: Mapping[str, tuple[int, str]], path: Path) -> Iterator[Finding]:
    for name, amount in own_max.items():
        if name in most and amount > most[name][0]:
            yield (*path, name), quantity.above(name, amount, f"the max of {most[name][1]}", most[name][0])


def _verify_children_guaranteed(parent: Queue, path: Path) -> Iterator[Finding]:
    promised = _sum_of_children(parent)
    for kind, own in (("guaranteed", parent.resources.guaranteed), ("max", parent.resources.max)):
        for name, amount in (own or {}).items():
            if promised.get(name, 0) > amount:
                total, own_amount = quantity.show(name, promised[name]), quantity.show(name, amount)
                shown = f"{own_amount} is less than what the queues below it are guaranteed, {total}"
                yield (*path, "resources", kind, name), shown


def _sum_of_children(parent: Queue) -> dict[str, int]:
    total: dict[str, int] = {}
    for child in parent.queues:
        for name, amount in _promised(child).items():
            total[name] = min(total.get(name, 0) + amount, quantity.INT64_MAX)
    return total


def _promised(queue: Queue) -> dict[str, int]:
    """What a queue is guaranteed: per resource its own word, else what the queues below it are guaranteed together."""
    return {**_sum_of_children(queue), **(queue.resources.guaranteed or {})}


def _verify_hierarchy(queues: Queues) -> Iterator[Finding]:
    """`partitionhierarchy: same`: a queue stands at the same places in both of two partitions, or one lacks some."""
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
                    yield (*path, "queues"), f"queue {name!r} is {ours} here, but {others} in partition {other!r}"
        earlier.append((partition.plain_name, placed))
