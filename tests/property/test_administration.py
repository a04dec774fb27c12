"""Actions of operators, in random trees with limits, gangs, reservations, preemptions and questions: everything is
right afterwards, and an action that is taken back leaves no trace."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remuda_core import commands
from remuda_core.actions import Action, DrainNode, HoldQueue, MoveApplication, ResumeQueue, UndrainNode
from remuda_core.check import dump
from remuda_core.facts import ActionRefused, ActionTaken, AskWaiting, Fact
from remuda_core.state import Application, Partition
from remuda_core.wire.codec import CommitCodec
from remuda_proto.remuda.v1 import inbox_pb2

from .storm import Storm, storm
from .world import RM, World

BUSY = range(6)
LONG = "n" * 5_000
# Names that exist, that do not, and that cannot.
TEXTS = ("", "app-0", "app-1", "k1", "n0", "root", "ROOT.A", "root.a", "root..", ".", "k9", "\u202e", LONG)
KINDS = tuple(field.name for field in inbox_pb2.Administer.DESCRIPTOR.oneofs_by_name["action"].fields)


@st.composite
def messages(draw: st.DrawFn) -> inbox_pb2.Administer:
    """Any, of any kind or of none."""
    text = st.sampled_from(TEXTS)
    message = inbox_pb2.Administer(
        operator=draw(st.sampled_from(("admin", "admin", "mallory", "", LONG))),
        groups=draw(st.lists(text, max_size=3)) * draw(st.sampled_from((1, 1, 1_000))),
        scheduler_administrator=draw(st.booleans()),
        reason=draw(text),
        action_id=draw(text),
        force=draw(st.booleans()),
        partition=draw(st.sampled_from((f"[{RM}]default", f"[{RM}]default", "", LONG))),
    )
    kind = draw(st.sampled_from((*KINDS, "")))
    if kind:
        action = getattr(message, kind)
        action.SetInParent()
        for field in action.DESCRIPTOR.fields:
            number = st.integers(-(2**31), 2**31 - 1)
            if field.message_type is not None:  # amounts of resources
                getattr(action, field.name).update(draw(st.dictionaries(text, number, max_size=3)))
            else:
                setattr(action, field.name, draw(text if field.cpp_type == field.CPPTYPE_STRING else number))
    return message


@given(st.integers(0, 20), st.lists(messages(), min_size=1, max_size=6))
@settings(max_examples=20)
def test_any_message_is_answered(seed: int, sent: list[inbox_pb2.Administer]) -> None:
    """With one outcome, that of the same action_id if there is one, and with names of bounded length."""
    weather = Storm(seed, administered=0)
    for _ in weather.run(12):
        pass
    for message in sent:
        _, read = CommitCodec().read(inbox_pb2.Command(administer=message))
        for command in read:
            first, *effects = weather.world.handle(command)
            assert isinstance(first, ActionTaken | ActionRefused)
            assert len(str(first)) < 20_000
            again, *twice = weather.world.handle(command)
            assert isinstance(again, ActionTaken | ActionRefused) and again.action == first.action
            if message.action_id and message.action_id != LONG:
                assert again.repeated and not twice and type(again) is type(first)
            assert isinstance(first, ActionTaken) or not effects


@pytest.mark.parametrize("seed", BUSY)
def test_operators_are_busy(seed: int) -> None:
    """Every step is checked, and compared with a plain reading of the semantics, with replays and with snapshots."""
    storm(20_000 + seed, 150, administered=40)


@pytest.mark.parametrize("seed", BUSY)
def test_what_is_taken_back_leaves_no_trace(seed: int) -> None:
    """A move there and back; a drain and its end; a hold and its end where nothing is under way."""
    weather = Storm(30_000 + seed)
    for number, _ in enumerate(weather.run(120)):
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
        if nothing_held(partition, application, away) and not application.reserving:  # a move ends its reservations
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
