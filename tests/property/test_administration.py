"""What operators do, in random trees with limits, gangs, reservations, preemptions and questions: everything is right
right afterwards, and what is taken back leaves no trace."""

from __future__ import annotations

import pytest

from remuda_core import commands
from remuda_core.actions import Action, DrainNode, HoldQueue, MoveApplication, ResumeQueue, UndrainNode
from remuda_core.check import dump
from remuda_core.facts import ActionRefused, ActionTaken, AskWaiting, Fact
from remuda_core.state import Application, Partition

from .storm import Storm, storm
from .world import World

BUSY = range(8)


@pytest.mark.parametrize("seed", BUSY)
def test_operators_are_busy(seed: int) -> None:
    """Every step is checked, and compared with a plain reading of the semantics, with replays and with snapshots."""
    storm(20_000 + seed, 200, administered=40)


@pytest.mark.parametrize("seed", BUSY)
def test_what_is_taken_back_leaves_no_trace(seed: int) -> None:
    """A move there and back; a drain and its end; a hold and its end where nothing is under way."""
    weather = Storm(30_000 + seed)
    for number, _ in enumerate(weather.run(150)):
        if number % 10 == 9:
            for partition in weather.world.state.partitions.values():
                there_and_back(weather, partition)


def there_and_back(weather: Storm, partition: Partition) -> None:
    leaves = [path for path, queue in partition.queues.items() if queue.leaf]
    alive = [application for application in partition.applications.values() if not application.terminal]
    if alive and leaves:
        application = weather.random.choice(alive)
        home, away = application.queue.path, weather.random.choice(leaves)
        moves = (MoveApplication(application.id, away), MoveApplication(application.id, home))
        if nothing_held(partition, application, away):
            same_after(weather, partition, *moves)
    if partition.nodes and not any(p.node.reservation for p in partition.preemptions.values()):
        node = weather.random.choice(list(partition.nodes.values()))
        if node.reservation is None and node.drained is None:
            same_after(weather, partition, DrainNode(node.id), UndrainNode(node.id))
    idle = [path for path in leaves if not asks_below(partition, path)]
    if idle and partition.queues[idle[0]].hold is None:
        same_after(weather, partition, HoldQueue(idle[0]), ResumeQueue(idle[0]))


def nothing_held(partition: Partition, application: Application, away: str) -> bool:
    """In a held queue, what is under way ends."""
    queues = (*application.queue.path_to_root, *partition.queues[away].path_to_root)
    return all(queue.hold is None for queue in queues)


def asks_below(partition: Partition, path: str) -> bool:
    return any(a.asks or a.replacements for a in partition.queues[path].applications.values())


def same_after(weather: Storm, partition: Partition, there: Action, back: Action) -> None:
    world = weather.world
    before = plain(world, partition)
    if isinstance(act(weather, partition, there)[0], ActionRefused):
        assert plain(world, partition) == before
        return
    took = act(weather, partition, back)[0]
    if isinstance(took, ActionTaken):
        assert plain(world, partition) == before


def plain(world: World, partition: Partition) -> object:
    return dump(world.state)["partitions"][partition.name]


def act(weather: Storm, partition: Partition, action: Action) -> list[Fact]:
    action_id = weather.new("law-")
    command = commands.Administer("admin", (), True, "a law", action_id, True, partition.name, action)
    return [fact for fact in weather.world.handle(command) if not isinstance(fact, AskWaiting)]
