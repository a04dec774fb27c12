"""Placeholders, task groups and replacements agree with the allocations and asks."""

from __future__ import annotations

from ..facts import TIMEOUT
from ..rules import lifecycle
from ..state import Application, Partition, TaskGroup


def check_gangs(partition: Partition) -> None:
    """Raises AssertionError where the state of a gang differs from its allocations and asks."""
    for node in partition.nodes.values():
        for uuid, arriving in node.arriving.items():
            known = arriving.placeholder.application.replacements.get(uuid)
            assert known is arriving and arriving.node is node and arriving.elsewhere, (
                f"node {node.id}: {uuid} does not arrive there"
            )
    for application in partition.applications.values():
        name = f"application {application.id}"
        for uuid, replacement in application.replacements.items():
            placeholder = replacement.placeholder
            assert replacement.fact.uuid == uuid and uuid not in partition.allocations, f"{name}: {uuid} is there"
            assert placeholder.replacement is replacement, f"{name}: the placeholder of {uuid} is another's"
            assert application.allocations.get(placeholder.fact.uuid) is placeholder, f"{name}: {uuid} has no place"
            asked = replacement.question != 0
            assert not asked or partition.replacements_asked.get(replacement.question) is replacement, (
                f"{name}: question {replacement.question} is unknown"
            )
            assert asked or placeholder.releasing, f"{name}: {uuid} waits for a release that was not requested"
            assert partition.nodes.get(replacement.fact.node_id) is replacement.node, f"{name}: {uuid} has no node"
            assert not replacement.elsewhere or uuid in replacement.node.arriving, f"{name}: {uuid} has no room kept"
        for group in application.task_groups.values():
            _check_task_group(application, group, f"{name}, task group {group.name}")
        for allocation in application.allocations.values():
            replacing = allocation.replacement
            assert replacing is None or application.replacements.get(replacing.fact.uuid) is replacing, (
                f"{name}: {allocation.fact.uuid} is replaced by nothing"
            )
        _check_placeholders(application, name)


def _check_placeholders(application: Application, name: str) -> None:
    there, coming, until_ms = (
        application.placeholders,
        application.placeholders_coming,
        application.placeholders_until_ms,
    )
    anew = sum(group.coming for group in application.task_groups.values())
    assert coming == anew, f"{name}: {coming} placeholders are coming, counted anew {anew}"
    assert until_ms or not there, f"{name}: nothing ends its {there} placeholders"
    assert there or coming or not until_ms, f"{name}: without placeholders until {until_ms}"


def _check_task_group(application: Application, group: TaskGroup, what: str) -> None:
    placeholders = [
        a for a in application.allocations.values() if a.fact.placeholder and a.fact.task_group == group.name
    ]
    asks = [a for a in application.asks.values() if a.ask.placeholder and a.ask.task_group == group.name]
    coming = sum(ask.pending + ask.asked for ask in asks)
    assert group.placed == len(placeholders), f"{what}: {group.placed} placed, counted anew {len(placeholders)}"
    assert group.coming == coming, f"{what}: {group.coming} are coming, counted anew {coming}"
    leaving = sum(1 for a in placeholders if a.replacement is not None)
    assert group.leaving == leaving, f"{what}: {group.leaving} are leaving, counted anew {leaving}"
    kept_ms = [allocation.at_ms for allocation in group.free]
    assert kept_ms == sorted(kept_ms), f"{what}: the free placeholder kept longest is not the first"
    for allocation in group.free:
        uuid = allocation.fact.uuid
        assert application.allocations.get(uuid) is allocation, f"{what}: {uuid} is not there"
        assert allocation.replacement is None, f"{what}: {uuid} is being replaced"
        stays = application.state == lifecycle.RESUMING and allocation.releasing == TIMEOUT
        assert stays or not allocation.releasing, f"{what}: {uuid} is on its way out"
    lost = [
        a.fact.uuid for a in placeholders if not a.releasing and a.replacement is None and a.fact.uuid not in group.free
    ]
    assert not lost, f"{what}: nothing can replace {lost}"
