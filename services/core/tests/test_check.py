"""A check that cannot fail checks nothing: each invariant, broken on purpose, is noticed and named."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from remuda_core import commands
from remuda_core.check import check, check_decision, digest, dump
from remuda_core.core import Core
from remuda_core.facts import Allocated, Ask, NodeReserved
from remuda_core.index.leaves import LeafOrder
from remuda_core.index.node_groups import NodeEntry
from remuda_core.index.partition import PartitionIndex
from remuda_core.index.queues import ParentOrder
from remuda_core.rules import lifecycle
from remuda_core.settings import Configuration, PartitionSettings, QueueSettings
from remuda_core.state import Allocation, Application, Node, Partition, Queue, Timers

PARTITION = "[rm-1]default"
NOW_MS = 1_000_000


@pytest.fixture
def core() -> Core:
    """Nodes, two leaves below a parent with a maximum, applications: some of it allocated, some of it waiting."""
    core = Core("rm-1")
    below = (
        QueueSettings("a", properties={"application.sort.policy": "fair"}, guaranteed={"vcore": 4}),
        QueueSettings("b", max={"vcore": 50}),
    )
    queues = (QueueSettings("p", max={"vcore": 100}, queues=below), QueueSettings("empty"))
    root = QueueSettings("root", parent=True, submit_acl="*", queues=queues)
    configuration = Configuration("1", (PartitionSettings("default", root),))
    for command in (
        commands.Register("rm-1", configuration),
        commands.UpdateNode(PARTITION, "n1", "CREATE", capacity={"vcore": 6, "memory": 10}),
        commands.UpdateNode(PARTITION, "n2", "CREATE", capacity={"vcore": 6, "memory": 10}),
        commands.UpdateNode(PARTITION, "n3", "CREATE_DRAIN", capacity={"vcore": 6, "memory": 10}),
        commands.SubmitApplication(PARTITION, "app-1", "root.p.a", "alice"),
        commands.SubmitApplication(PARTITION, "app-2", "root.p.b", "alice"),
        commands.SubmitApplication(PARTITION, "app-3", "root.p.a", "alice"),
        commands.SubmitApplication(PARTITION, "idle", "root.p.a", "alice"),
        commands.SubmitAsk(Ask(PARTITION, "app-1", "k1", {"vcore": 2, "memory": 1}, 2, 1)),
        commands.SubmitAsk(Ask(PARTITION, "app-1", "k2", {"vcore": 1, "memory": 1}, 2)),
        commands.SubmitAsk(Ask(PARTITION, "app-2", "k1", {"vcore": 1, "memory": 1}, 1)),
        commands.Schedule(3),
        commands.SubmitAsk(Ask(PARTITION, "app-2", "k2", {"vcore": 2, "memory": 1}, 2)),
        commands.SubmitAsk(Ask(PARTITION, "app-2", "k3", {"vcore": 2, "memory": 1}, 1)),
        commands.SubmitAsk(Ask(PARTITION, "app-3", "big", {"vcore": 9, "memory": 1}, 1)),
        commands.SubmitAsk(Ask(PARTITION, "app-3", "small", {"vcore": 1, "memory": 2}, 1)),
        commands.SubmitAsk(Ask(PARTITION, "idle", "k", {"vcore": 1}, 1)),
        commands.ReleaseAsk(PARTITION, "idle", "k"),
        commands.Schedule(1),
    ):
        core.handle(command, NOW_MS)
    check(core.state, core.index)
    return core


def the(core: Core) -> Partition:
    return core.state.partitions[PARTITION]


def queue(core: Core, path: str = "root.p.a") -> Queue:
    return the(core).queues[path]


def node(core: Core, node_id: str = "n1") -> Node:
    return the(core).nodes[node_id]


def application(core: Core, app_id: str = "app-1") -> Application:
    return the(core).applications[app_id]


def allocation(core: Core) -> Allocation:
    return next(iter(the(core).allocations.values()))


def leaf(core: Core, path: str = "root.p.a") -> LeafOrder:
    order = any_index(core).orders[queue(core, path)]
    assert isinstance(order, LeafOrder)
    return order


def parent(core: Core, path: str = "root.p") -> ParentOrder:
    order = any_index(core).orders[queue(core, path)]
    assert isinstance(order, ParentOrder)
    return order


def both(core: Core) -> None:
    """A terminal application keeps what it holds."""
    app = application(core)
    app.state, app.log[-1] = lifecycle.COMPLETED, (app.state_at_ms, lifecycle.COMPLETED)


def completing(core: Core) -> None:
    app = application(core)
    app.state, app.log[-1] = lifecycle.COMPLETING, (app.state_at_ms, lifecycle.COMPLETING)
    core.state.timers.set(app.state_at_ms + 30_000, "state", "[rm-1]default", app.id)


def drop_timers(core: Core) -> None:
    core.state.timers = Timers()


def lose_ask_class(core: Core) -> None:
    order = leaf(core, "root.p.b")
    order.ask_classes.pop(next(iter(order.ask_classes)))


def swap_asks(core: Core) -> None:
    line = next(line for line in leaf(core, "root.p.b").lines[application(core, "app-2")].values() if line.count() > 1)
    line.best.reverse()


def any_index(core: Core) -> PartitionIndex:
    index = core.index.find(the(core))
    assert index is not None
    return index


def entry(core: Core, node_id: str = "n1") -> NodeEntry:
    return any_index(core).nodes._entries[node_id]


def close_what_fits(core: Core) -> None:
    index = any_index(core)
    index.close(next(d for d in index.demands.by_key.values() if d.open))


def forget_closed(core: Core) -> None:
    index = any_index(core)
    big = next(d for d in index.demands.by_key.values() if d.resource["vcore"] == 9)
    if big.open:
        index.close(big)
    check(core.state, core.index)
    index.demands.closed.remove(big)


def hidden_ask_class(core: Core) -> None:
    next(iter(leaf(core, "root.p.b").ask_classes.values())).hidden = True


def without_bits(core: Core) -> None:
    next(iter(leaf(core, "root.p.b").ask_classes.values())).bits = 0


def listed_twice(core: Core) -> None:
    order = leaf(core, "root.p.b")
    order.order.put(next(iter(order.ask_classes.values())), (0,), 1)


def stale_due(core: Core) -> None:
    """Its entitlement was not computed again."""
    ranking = parent(core).ranking
    assert len(ranking.members) > 1
    ranking.ranks()
    leaf(core).due = {"vcore": 1}


def asleep(core: Core) -> None:
    order = leaf(core, "root.p.b")
    parent(core).remove(order)


def asleep_above(core: Core) -> None:
    parent(core, "root").remove(parent(core))


BROKEN: list[tuple[str, Callable[[Core], object]]] = [
    # the tree
    ("calls itself", lambda s: setattr(the(s), "name", "[rm-1]other")),
    ("the tree has", lambda s: the(s).queues.pop("root.empty")),
    ("its parent is another", lambda s: setattr(queue(s), "parent", queue(s, "root"))),
    ("stands below it as", lambda s: queue(s, "root").children.update(x=queue(s, "root").children.pop("empty"))),
    ("its path to root is", lambda s: setattr(queue(s), "path_to_root", (queue(s),))),
    ("is a parent and has applications", lambda s: queue(s, "root.p").applications.update(x=application(s))),
    ("is a leaf and there are applications below it", lambda s: setattr(queue(s, "root.p"), "leaf", True)),
    # applications
    ("is not in its queue", lambda s: queue(s).applications.pop("app-1")),
    ("is not in the partition", lambda s: the(s).applications.pop("idle")),
    ("state is not what its log ends with", lambda s: application(s).log.append((NOW_MS, lifecycle.STARTING))),
    ("is Completed and holds", both),
    ("is Completing and not idle", completing),
    ("no timer ends Completing", drop_timers),
    ("0 pending", lambda s: setattr(application(s).asks["k2"], "pending", 0)),
    (
        "its application is another record",
        lambda s: setattr(application(s).asks["k2"], "application", application(s, "app-2")),
    ),
    # allocations
    ("is not on its node", lambda s: allocation(s).node.allocations.clear()),
    ("is not in its application", lambda s: application(s).allocations.clear()),
    ("its node", lambda s: the(s).nodes.pop(allocation(s).node.id)),
    ("the partition has not", lambda s: the(s).allocations.pop(allocation(s).fact.uuid)),
    ("of another", lambda s: node(s, "n3").allocations.update({allocation(s).fact.uuid: allocation(s)})),
    # sums
    ("total {", lambda s: the(s).total.update(vcore=1)),
    ("node n1: allocated", lambda s: node(s).allocated.update(vcore=1)),
    ("application app-1: allocated", lambda s: application(s).allocated.update(vcore=1)),
    ("queue root: allocated", lambda s: queue(s, "root").allocated.update(vcore=1)),
    ("asked {", lambda s: queue(s).asked.update(vcore=1)),
    # priorities
    ("application app-1: priorities", lambda s: application(s).lower.update({7: 1})),
    ("application app-2: priorities {7: 2}", lambda s: setattr(application(s, "app-2"), "priority", 7)),
    ("queue root.p: priorities", lambda s: queue(s, "root.p").priorities.update({7: 1})),
    ("queue root: priority", lambda s: setattr(queue(s, "root"), "priority", 7)),
    # the index: nodes
    ("occupied", lambda s: setattr(node(s), "occupied", {"vcore": 1})),
    ("node groups", lambda s: (setattr(node(s), "occupied", {"vcore": 1}), the(s).occupied.update(vcore=1))),  # type: ignore[func-returns-value]
    ("is in a group", lambda s: setattr(entry(s, "n3"), "group", entry(s).group)),
    ("size is not", lambda s: setattr(entry(s).group, "size", 9)),
    # the index: asks
    ("ask classes for", lose_ask_class),
    ("lines for", swap_asks),
    ("lines by application", lambda s: leaf(s, "root.p.b").lines.clear()),
    ("the only ask class", lambda s: setattr(leaf(s), "only", next(iter(leaf(s).ask_classes.values())))),
    # the index: demands
    (
        "ask classes, counted anew",
        lambda s: setattr(next(iter(any_index(s).demands.by_key.values())), "ask_classes", 9),
    ),
    ("closed, but it fits", close_what_fits),
    ("open is False", forget_closed),
    ("schedulable demands are", lambda s: setattr(any_index(s).demands, "schedulable", 0)),
    ("is hidden: True", hidden_ask_class),
    ("has the bits 0", without_bits),
    ("are listed by other ranks", listed_twice),
    # the index: who is next
    ("due is", stale_due),
    ("root.p.b does not take part", asleep),
    ("root.p does not take part", asleep_above),
]


@pytest.mark.parametrize(("complaint", "breaks"), BROKEN, ids=[complaint for complaint, _ in BROKEN])
def test_what_is_broken_is_named(core: Core, complaint: str, breaks: Callable[[Core], object]) -> None:
    breaks(core)
    with pytest.raises(AssertionError) as raised:
        check(core.state, core.index)
    assert complaint in str(raised.value)


# Decisions


def made(core: Core) -> Allocated:
    return allocation(core).fact


def test_decision_on_a_node_without_room(core: Core) -> None:
    check_decision(core.state, [made(core)])
    node(core, made(core).node_id).occupied = {"vcore": 9}
    with pytest.raises(AssertionError, match="which lacks vcore="):
        check_decision(core.state, [made(core)])


def test_decision_on_a_node_that_takes_nothing(core: Core) -> None:
    node(core, made(core).node_id).draining = True
    with pytest.raises(AssertionError, match="which does not take it"):
        check_decision(core.state, [made(core)])


def test_decision_above_a_maximum(core: Core) -> None:
    above = queue(core, "root.p")
    above.settings = QueueSettings("p", max={"vcore": 1})
    with pytest.raises(AssertionError, match="root.p now has vcore=.*, its maximum is 1"):
        check_decision(core.state, [made(core)])
    # The usage by other allocations may exceed the limit already.
    above.settings = QueueSettings("p", max={"gpu": 0})
    above.allocated["gpu"] = 3
    check_decision(core.state, [made(core)])


# The index of a follower


def test_an_index_made_anew_knows_nothing_of_the_one_before(core: Core) -> None:
    """A leader that follows drops it, and a reservation of all that was free comes meanwhile."""
    partition = the(core)
    asked = partition.applications["app-3"].asks["big"]
    assert asked in any_index(core).lines
    core.index.forget()
    core.replay([NodeReserved(PARTITION, "app-3", "big", "n1", asked.ask.resource)], NOW_MS)
    core.index.of(core.state, partition)
    check(core.state, core.index)
    core.handle(commands.ReleaseAsk(PARTITION, "app-3", "big"), NOW_MS)
    check(core.state, core.index)


def test_an_index_of_a_hundred_demands_is_no_larger_than_it_may_be(core: Core) -> None:
    for number in range(100):
        core.handle(commands.SubmitAsk(Ask(PARTITION, "app-1", f"s{number}", {"vcore": 1, "memory": number})), NOW_MS)
    core.handle(commands.Schedule(1), NOW_MS)
    check(core.state, core.index)


# Dump and digest


def test_digest_says_what_the_facts_say(core: Core) -> None:
    before = digest(core.state)
    core.index.forget()
    queue(core).asked["gone"] = 0
    assert digest(core.state) == before
    core.state.inbox_seq = 9
    assert digest(core.state) == before
    core.handle(commands.ReleaseAsk(PARTITION, "app-1", "k2"), NOW_MS)
    assert digest(core.state) != before


def test_dump_has_what_one_looks_for(core: Core) -> None:
    partition = dump(core.state)["partitions"][PARTITION]
    assert partition["total"] == (("memory", 30), ("vcore", 18))
    assert partition["applications"]["app-3"]["asks"]["big"]["pending"] == 1
    assert partition["queues"]["root.p"]["children"] == ["a", "b"]
