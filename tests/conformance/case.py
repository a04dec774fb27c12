"""One scenario with both answers to it, as a kind of difference looks at them: what was asked for by which step, and
what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import remuda_config
from remuda_proto.remuda.v1 import config_pb2

from .compare import names_of, with_names
from .recording import Json, Scenario, Step

# Empty names are left out of messages.
NAMELESS: Final[Json] = {"applicationID": "", "allocationKey": "", "nodeID": "", "UUID": ""}


@dataclass
class Case:
    """`ours`, `theirs`: traces, with names instead of UUIDs in `our_steps` and `their_steps`."""

    scenario: Scenario
    ours: Json
    theirs: Json
    deterministic: bool = True
    # The order of the allocations of one step means nothing.
    in_any_order: bool = False

    @cached_property
    def our_steps(self) -> list[Json]:
        return list(with_names(self.ours, self.in_any_order)["steps"])

    @cached_property
    def their_steps(self) -> list[Json]:
        return list(with_names(self.theirs, self.in_any_order)["steps"])

    @cached_property
    def names(self) -> tuple[dict[str, str], dict[str, str]]:
        """UUID -> name, of ours and of theirs."""
        return names_of(self.ours, self.in_any_order), names_of(self.theirs, self.in_any_order)

    # Requests

    def step(self, number: int) -> Step:
        return self.scenario.steps[number]

    def elements(self, action: str, *path: str) -> Iterator[tuple[Step, Json]]:
        """The elements of a list in the requests of this kind, each with its step: `allocation`, `asks`."""
        for step in self.scenario.steps:
            if step.action == action:
                found = step.argument
                for name in path:
                    found = (found or {}).get(name)
                for element in found or ():
                    yield step, NAMELESS | element

    def asks(self) -> Iterator[tuple[Step, Json]]:
        return self.elements("allocation", "asks")

    def releases(self) -> Iterator[tuple[Step, Json]]:
        return self.elements("allocation", "releases", "allocationsToRelease")

    def nodes(self) -> Iterator[tuple[Step, Json]]:
        return self.elements("node", "nodes")

    def applications(self) -> Iterator[tuple[Step, Json]]:
        return self.elements("application", "new")

    def configurations(self) -> Iterator[tuple[int, config_pb2.Configuration]]:
        """(step, what both scheduler hold from then on); -1: what the RM registered with."""
        texts = [(-1, self.scenario.config)]
        texts += [(step.number, str(step.argument)) for step in self.scenario.steps if step.action == "config"]
        for number, text in texts:
            if number < 0 or not (self.our_steps[number].get("error") or self.their_steps[number].get("error")):
                try:
                    yield number, remuda_config.load(text)
                except remuda_config.Invalid:
                    continue

    def configuration_at(self, step: int) -> config_pb2.Configuration | None:
        return next((found for number, found in reversed(list(self.configurations())) if number <= step), None)


def received(steps: Iterable[Json], kind: str, *names: str) -> Iterator[tuple[int, str, Json]]:
    """(step, which list it was in, element) of the callbacks of this kind."""
    for number, step in enumerate(steps):
        for callback in step["callbacks"]:
            if callback["cb"] == kind:
                for name in names:
                    yield from ((number, name, NAMELESS | element) for element in callback["msg"].get(name) or ())


def in_step(step: Json, kind: str, name: str) -> list[Json]:
    return [element for _, _, element in received([step], kind, name)]


def event_in(step: Json, *fields: str) -> bool:
    """Whether a step has an event of this type, change, detail, object, reference ("" for none)."""
    names = ("type", "eventChangeType", "eventChangeDetail", "objectID", "referenceID")
    return any(all(event.get(name, "") == field for name, field in zip(names, fields, strict=False))
               for event in step.get("events") or ())  # fmt: skip


def queues_of(dump: Json | None) -> dict[str, Json]:
    """By path, of all partitions."""
    found: dict[str, Json] = {}
    waiting = [partition["queues"] for partition in ((dump or {}).get("partitions") or {}).values()]
    for queue in waiting:
        found[queue["queuename"]] = queue
        waiting.extend(queue.get("children") or ())
    return found


def queue_configs(configuration: config_pb2.Configuration | None) -> dict[str, config_pb2.QueueConfig]:
    """By path, of all partitions."""
    found: dict[str, config_pb2.QueueConfig] = {}

    def walk(path: str, queue: config_pb2.QueueConfig) -> None:
        found[path] = queue
        for child in queue.queues:
            walk(f"{path}.{child.name}", child)

    for partition in configuration.partitions if configuration is not None else ():
        walk("root", partition.root)
    return found


def quantities(resource: Mapping[str, Any] | None) -> dict[str, int]:
    """Of a resource in a request."""
    amounts = (resource or {}).get("resources") or {}
    return {name: int((amount or {}).get("value", 0)) for name, amount in amounts.items()}


def available(case: Case, steps: Sequence[Json]) -> dict[str, dict[str, int]]:
    """The free resources of each node after these steps."""
    left: dict[str, dict[str, int]] = {}
    occupied: dict[str, dict[str, int]] = {}
    for step, node in case.nodes():
        if step.number < len(steps):
            node_id = node.get("nodeID", "")
            if node.get("schedulableResource") is not None:
                left[node_id] = quantities(node["schedulableResource"])
            if node.get("occupiedResource") is not None:
                occupied[node_id] = quantities(node["occupiedResource"])
            if node.get("action") == "DECOMISSION":
                left.pop(node_id, None)
    held: dict[str, Json] = {}
    for _, what, element in received(steps, "allocation", "new", "released"):
        if what == "new":
            held[element["UUID"]] = element
        else:
            held.pop(element.get("UUID", ""), None)
    taken = [(each["nodeID"], quantities(each.get("resourcePerAlloc"))) for each in held.values()]
    for node_id, amounts in [*taken, *occupied.items()]:
        for name, amount in amounts.items() if node_id in left else ():
            left[node_id][name] = left[node_id].get(name, 0) - amount
    return left
