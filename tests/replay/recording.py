"""A recorded log with two snapshots of it, one half-way and one at its end, as the bus holds them.

Written by the version it is named after and never again once that version is released: every later one has to read it
(`test_replay`). `python -m tests.replay.recording` adds to the recordings of the present version what they lack, out of
storms in which everything happens."""

from __future__ import annotations

import asyncio
import gzip
import json
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from remuda_bus import subjects
from remuda_bus.memory import MemoryBus
from remuda_bus.nats.micro_service import VERSION
from remuda_core import commands
from remuda_core.actions import DrainNode, EndLoan, LendQuota
from remuda_core.core import Core
from remuda_core.evolve import BY_FACT
from remuda_core.facts import PREEMPTED_BY_SCHEDULER, STOPPED_BY_RM, Allocated, Ask
from remuda_core.limits import DRAIN_REPORTED_MS, MEASURE_AFTER_ALLOCATIONS, QUOTA_RETRY_MS
from remuda_core.rules.connection import DEREGISTERED
from remuda_core.settings import (
    EASY,
    Budget,
    Configuration,
    Offset,
    PartitionSettings,
    QueueInWindow,
    QueueSettings,
    Timing,
    TopologyLevel,
    Window,
)
from remuda_core.snapshot import RESTORERS, save
from remuda_core.wire import schema, snapshot_format
from remuda_core.wire.codec import CommitCodec
from remuda_core.wire.facts import read_fact
from remuda_proto.guests import prefix_of
from remuda_proto.remuda.v1 import log_pb2
from remuda_replication.log import LogWriter, Position
from remuda_replication.snapshots import name_of
from tests.property.storm import storm
from tests.property.world import RM, World

FOLDER = Path(__file__).parent / "recorded"
CANDIDATES = range(140)
STEPS = 200
PART_BYTES = 1_500  # commits larger than this come in parts
EVERYTHING = frozenset(BY_FACT) | frozenset(RESTORERS)


@dataclass
class Recording:
    """`log`: the messages of the RM's log, from sequence 1 on; `snapshots`: by the sequence they were taken at."""

    log: list[bytes]
    snapshots: dict[int, bytes]

    async def on_bus(self, *, at: int | None = None) -> MemoryBus:
        """With the log, and the snapshot taken at that sequence."""
        bus = MemoryBus()
        for payload in self.log:
            await bus.append(subjects.log(RM), payload)
        if at is not None:
            await bus.put_object(subjects.snapshots_of(RM), name_of(RM, at), _parts(self.snapshots[at]))
        return bus

    @classmethod
    def read(cls, path: Path) -> Recording:
        read = json.loads(gzip.decompress(path.read_bytes()))
        return cls([b64decode(m) for m in read["log"]], {int(n): b64decode(s) for n, s in read["snapshots"].items()})

    def write(self, path: Path) -> None:
        log = [b64encode(payload).decode() for payload in self.log]
        snapshots = {str(seq): b64encode(payload).decode() for seq, payload in self.snapshots.items()}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(json.dumps({"log": log, "snapshots": snapshots}).encode(), 9, mtime=0))


async def _parts(payload: bytes) -> AsyncIterator[bytes]:
    yield payload


async def record(world: World) -> Recording:
    bus, core = MemoryBus(), Core(RM)
    writer = LogWriter(bus, RM, Position())
    writer._limit = PART_BYTES
    snapshots: dict[int, bytes] = {}
    for number, (now_ms, facts) in enumerate(world.log, 1):
        commit = log_pb2.Commit(inbox_seq=number, now_ms=now_ms, epoch=7)
        decision = commit.decisions.add(command="Storm", inbox_seq=number, request_seq=number)
        CommitCodec().write(facts, decision)
        core.replay(facts, now_ms)
        core.state.inbox_seq = core.state.request_seq = number
        position = await writer.append(commit)
        if number in (len(world.log) // 2, len(world.log)):
            snapshots[position.seq] = b"".join(snapshot_format.write(RM, position, save(core.state)))
    messages = [await bus.message_at(subjects.LOG.name, seq) for seq in range(1, writer.position.seq + 1)]
    return Recording([message.payload for message in messages if message is not None], snapshots)


def kinds(world: World) -> frozenset[type]:
    """Of facts that happened, and of records half-way."""
    core = Core(RM)
    for now_ms, facts in world.log[: len(world.log) // 2]:
        core.replay(facts, now_ms)
    return frozenset({type(fact) for _, facts in world.log for fact in facts} | {type(r) for r in save(core.state)})


def recorded() -> frozenset[type]:
    """Of facts and records in the recordings of this version."""
    found: set[type] = set()
    for path in (FOLDER / VERSION).glob("*.gz"):
        recording = Recording.read(path)
        for payload in recording.log:
            for decision in schema.Commit.FromString(payload).decisions:
                found |= {type(read_fact(fact)) for fact in decision.facts}
        found |= {type(r) for r in snapshot_format.read(RM, recording.snapshots[min(recording.snapshots)])[1]}
    return frozenset(found)


def draining() -> World:
    """A queue drains for half an hour, which no storm lets happen."""
    world, queues = World(), (QueueSettings("a"), QueueSettings("b", admin_acl="ann"))
    every = Configuration(
        "1", (PartitionSettings("default", QueueSettings("root", True, submit_acl="*", queues=queues)),)
    )
    fewer = Configuration("2", (PartitionSettings("default", QueueSettings("root", True, queues=queues[:1])),))
    partition = world.state.partition_name("default")
    world.handle(commands.Register(RM, every))
    world.handle(commands.SubmitApplication(partition, "app-1", "root.b", "ann"))
    world.handle(commands.Configure(fewer))
    for _ in range(3):
        world.now_ms += DRAIN_REPORTED_MS
        world.handle(commands.Tick())
    return world


def above_maximum() -> World:
    """A queue gives back what is above its maximum: no storm has a delay for that."""

    def every(checksum: str, memory: int) -> Configuration:
        given = {"quota.preemption.delay": "10s"}
        root = QueueSettings(
            "root", True, submit_acl="*", queues=(QueueSettings("a", max={"memory": memory}, properties=given),)
        )
        return Configuration(checksum, (PartitionSettings("default", root, quota_preemption_enabled=True),))

    world = World()
    partition = world.state.partition_name("default")
    world.handle(commands.Register(RM, every("1", 4)))
    world.handle(commands.UpdateNode(partition, "n1", "CREATE", {}, {"memory": 8}, {}))
    world.handle(commands.SubmitApplication(partition, "app-1", "root.a", "ann"))
    world.handle(commands.SubmitAsk(Ask(partition, "app-1", "k1", {"memory": 1}, 4)))
    world.handle(commands.Schedule(10))
    world.handle(commands.Configure(every("2", 2)))
    world.now_ms += 10_000
    world.handle(commands.Tick())
    for uuid, allocation in list(world.state.partitions[partition].allocations.items()):
        if allocation.releasing:
            world.handle(commands.ReleaseAllocation(partition, "app-1", uuid, PREEMPTED_BY_SCHEDULER))
    world.now_ms += QUOTA_RETRY_MS
    world.handle(commands.Tick())
    return world


def guests() -> World:
    """A guest waits for the RM to register half-way, and in the end for its node."""
    world, guest, queue = World(), prefix_of("default") + "pool", QueueSettings("a", submit_acl="*")
    every = Configuration("1", (PartitionSettings("default", QueueSettings("root", True, queues=(queue,))),))
    partition = world.state.partition_name("default")
    node = commands.UpdateNode(partition, "n1", "CREATE", {}, {"memory": 8}, {})
    world.handle(commands.Register(RM, every))
    world.handle(node)
    world.handle(commands.SubmitApplication(partition, guest, "root.a", "peloton.default"))
    world.handle(commands.SubmitAsk(Ask(partition, guest, f"{guest}-run", {"memory": 2}, 2)))
    world.handle(commands.Schedule(10))
    world.handle(commands.RmConnection(DEREGISTERED, "done"))
    world.handle(commands.Register(RM, every))
    world.handle(node)
    world.handle(commands.SubmitApplication(partition, "app-1", "root.a", "ann"))
    world.handle(commands.SubmitAsk(Ask(partition, "app-1", "k1", {"memory": 2}, 3)))
    world.handle(commands.Schedule(10))
    world.handle(commands.Register(RM, every))
    return world


def rejected_allocations() -> World:
    """A node runs what cannot be booked. The RM releases one half-way, and the other stays."""
    world, queue = World(), QueueSettings("a", submit_acl="*")
    every = Configuration("1", (PartitionSettings("default", QueueSettings("root", True, queues=(queue,))),))
    partition = world.state.partition_name("default")
    running = [Allocated(partition, f"gone-{n}", f"k{n}", f"uuid-{n}", "", {"memory": n}) for n in (1, 2)]
    world.handle(commands.Register(RM, every))
    world.handle(commands.SubmitApplication(partition, "app-1", "root.a", "ann"))
    world.handle(commands.UpdateNode(partition, "n1", "CREATE", {}, {"memory": 8}, {}, tuple(running)))
    world.handle(commands.SubmitAsk(Ask(partition, "app-1", "k1", {"memory": 2}, 3)))
    world.handle(commands.Schedule(10))
    world.handle(commands.ReleaseAllocation(partition, "gone-1", "uuid-1"))
    return world


def devices() -> World:
    """GPUs become devices while they are in use, and prices follow the work on them."""

    def every(checksum: str, node_sort: str, units: dict[str, int]) -> Configuration:
        root = QueueSettings("root", True, submit_acl="*", queues=(QueueSettings("a"),))
        return Configuration(checksum, (PartitionSettings("default", root, node_sort, devices=units),))

    world = World()
    partition = world.state.partition_name("default")
    world.handle(commands.Register(RM, every("1", "fair", {})))
    world.handle(commands.UpdateNode(partition, "n1", "CREATE", {}, {"vcore": 400_000, "gpu": 64_000}, {}))
    world.handle(commands.SubmitApplication(partition, "app-1", "root.a", "ann"))
    need = {"vcore": 1_000, "gpu": 250}
    world.handle(commands.SubmitAsk(Ask(partition, "app-1", "k1", need, MEASURE_AFTER_ALLOCATIONS)))
    world.handle(commands.Schedule(1_000))
    world.handle(commands.Configure(every("2", "fragmentation", {"gpu": 1_000})))
    world.handle(commands.SubmitAsk(Ask(partition, "app-1", "k2", {"vcore": 1_000, "gpu": 2_000})))
    world.handle(commands.Schedule(1_000))
    world.handle(commands.SubmitAsk(Ask(partition, "app-1", "k3", {"vcore": 1_000, "gpu": 500})))
    world.handle(commands.Schedule(1_000))
    return world


def remembered() -> World:
    """Queues, users and applications have used something; half-way one of the users has left."""
    users = QueueSettings("a", properties={"application.sort.policy": "fair-users"})
    fair = QueueSettings("b", properties={"application.sort.policy": "fair"})
    root = QueueSettings("root", True, submit_acl="*", queues=(users, fair), properties={"fair.half-life": "1h"})
    world = World()
    partition = world.state.partition_name("default")
    world.handle(commands.Register(RM, Configuration("1", (PartitionSettings("default", root),))))
    world.handle(commands.UpdateNode(partition, "n1", "CREATE", {}, {"vcore": 8}, {}))
    for number, (queue, user) in enumerate((("a", "ann"), ("a", "bob"), ("b", "ann"))):
        world.handle(commands.SubmitApplication(partition, f"app-{number}", f"root.{queue}", user))
        world.handle(commands.SubmitAsk(Ask(partition, f"app-{number}", "k", {"vcore": 1}, 2)))
    world.handle(commands.Schedule(10))
    world.now_ms += 3_600_000
    world.handle(commands.RemoveApplication(partition, "app-1"))
    for uuid, allocation in list(world.state.partitions[partition].allocations.items()):
        if allocation.application.id == "app-1":
            world.handle(commands.ReleaseAllocation(partition, "app-1", uuid))
    for _ in range(12):
        world.now_ms += 3_600_000
        world.handle(commands.Tick())
    return world


def promised() -> World:
    """An ask of a reserved node is promised a time, which changes when work overruns. Run times are remembered."""
    world = World()
    root = QueueSettings("root", True, submit_acl="*", queues=(QueueSettings("a"), QueueSettings("b")))
    settings = PartitionSettings(
        "default", root, preemption_enabled=False, reservation_share=100, queue_reservation_share=100, backfill=EASY
    )
    partition = world.state.partition_name("default")
    world.handle(commands.Register(RM, Configuration("1", (settings,))))
    world.handle(commands.UpdateNode(partition, "n1", "CREATE", {}, {"memory": 8}, {}))
    for queue, user in (("a", "ann"), ("b", "bob")):
        world.handle(commands.SubmitApplication(partition, f"app-{queue}", f"root.{queue}", user))
    world.handle(commands.SubmitAsk(Ask(partition, "app-a", "k1", {"memory": 2}, 3, 0, 60_000)))
    world.handle(commands.Schedule(10))
    world.handle(commands.SubmitAsk(Ask(partition, "app-b", "k2", {"memory": 8}, 1, 0, 60_000)))
    world.handle(commands.Schedule(10))
    for _ in range(2):  # in the end, work runs for longer than its bound
        world.now_ms += 50_000
        world.handle(commands.Schedule(10))
    running = [*world.state.partitions[partition].allocations]
    for uuid in running:
        world.handle(commands.ReleaseAllocation(partition, "app-a", uuid, STOPPED_BY_RM, "over"))
        world.handle(commands.Tick())
        world.handle(commands.Schedule(10))
    for _ in range(12):
        world.now_ms += 1_000
        world.handle(commands.Schedule(10))
    return world


def leaving() -> World:
    """Half-way, a node has left by its attribute, and another one is to leave when an operator has said."""
    world = World()
    root = QueueSettings("root", True, submit_acl="*", queues=(QueueSettings("a"),))
    partition = world.state.partition_name("default")
    world.handle(commands.Register(RM, Configuration("1", (PartitionSettings("default", root),))))
    for node_id, minutes in (("n1", 5), ("n2", 600)):
        leaves = {"remuda/leavesAt": str(world.now_ms + minutes * 60_000)}
        world.handle(commands.UpdateNode(partition, node_id, "CREATE", leaves, {"vcore": 4}, {}))
    drain = DrainNode("n2", world.now_ms + 3_600_000)
    world.handle(commands.Administer("sam", (), True, "new memory", "1", False, partition, drain))
    world.handle(commands.SubmitApplication(partition, "app-1", "root.a", "ann"))
    for minutes in (2, 30, 90):
        world.handle(commands.SubmitAsk(Ask(partition, "app-1", f"k{minutes}", {"vcore": 1}, 2, 0, minutes * 60_000)))
        world.handle(commands.Schedule(10))
    world.now_ms += 300_000
    world.handle(commands.Tick())
    for minutes in (5, 30, 30, 60):
        world.handle(commands.SubmitAsk(Ask(partition, "app-1", f"more-{minutes}", {"vcore": 1}, 1, 0, 300_000)))
        world.handle(commands.Schedule(10))
        world.now_ms += minutes * 60_000
        world.handle(commands.Tick())
    later = {"remuda/leavesAt": str(world.now_ms + 3_600_000)}
    world.handle(commands.UpdateNode(partition, "n1", "UPDATE", later))
    world.handle(commands.Schedule(10))
    return world


def windows() -> World:
    """Half-way, one window drains a node, one keeps another for a queue, and one gives a queue another maximum. In the
    end all of them are over, and the one that comes each day is planned."""
    queues = (QueueSettings("a", max={"vcore": 6}), QueueSettings("eod"))
    root = QueueSettings("root", True, submit_acl="*", queues=queues)
    world = World()
    soon = Window("disks", world.now_ms + 300_000, duration_ms=3_600_000, ids=("n1",), release=True)
    daily = Window(
        "evening", days=tuple(range(7)), time_ms=1_800_000, duration_ms=5_400_000, offsets=(Offset(0, 0),),
        nodes={"pool": "*"}, queue="root.eod", lead_ms=1_200_000,
    )  # fmt: skip
    night = Window("night", soon.start_ms, duration_ms=3_600_000, queues=(QueueInWindow("root.a", QueueSettings("a")),))
    settings = PartitionSettings("default", root, calendar=(soon, daily, night))
    partition = world.state.partition_name("default")
    world.handle(commands.Register(RM, Configuration("1", (settings,))))
    for node_id, attributes in (("n1", {}), ("n2", {"pool": "x"}), ("n3", {})):
        world.handle(commands.UpdateNode(partition, node_id, "CREATE", attributes, {"vcore": 4}, {}))
    world.handle(commands.SubmitApplication(partition, "app-1", "root.a", "ann"))
    world.handle(commands.SubmitApplication(partition, "app-2", "root.eod", "ann"))
    for minutes in (2, 30, 5, 40, 60, 5):
        for application in ("app-1", "app-2"):
            world.handle(
                commands.SubmitAsk(Ask(partition, application, f"{world.now_ms}", {"vcore": 1}, 2, 0, minutes * 60_000))
            )
        world.handle(commands.Schedule(10))
        world.now_ms += minutes * 60_000
        world.handle(commands.Tick())
        world.handle(commands.Schedule(10))
    return world


def topology() -> World:
    """Half-way, nodes of a rack are kept for a group for which others are preempted. In the end it runs there, and a
    node has moved to another rack."""
    queues = (
        QueueSettings("a"),
        QueueSettings("b", guaranteed={"vcore": 8}, properties={"preemption.delay": "1s"}),
    )
    root = QueueSettings("root", True, submit_acl="*", queues=queues)
    levels = (TopologyLevel("block", "block"), TopologyLevel("rack", "si/rackname"))
    world = World()
    partition = world.state.partition_name("default")
    world.handle(commands.Register(RM, Configuration("1", (PartitionSettings("default", root, topology=levels),))))
    for node_id, rack in (("n1", "r1"), ("n2", "r1"), ("n3", "r2")):
        where = {"block": "b", "si/rackname": rack}
        world.handle(commands.UpdateNode(partition, node_id, "CREATE", where, {"vcore": 4}, {}))
    world.handle(commands.SubmitApplication(partition, "app-1", "root.a", "ann"))
    world.handle(commands.SubmitApplication(partition, "app-2", "root.b", "bob"))
    one = Ask(partition, "app-1", "k1", {"vcore": 4}, 3, allow_preempt_self=True, allow_preempt_other=False)
    world.handle(commands.SubmitAsk(one))
    world.handle(commands.Schedule(10))
    tags = {"remuda/topology.required": "rack", "remuda/topology.group": "workers"}
    group = Ask(partition, "app-2", "w", {"vcore": 4}, 2, tags=tags, allow_preempt_self=True, allow_preempt_other=True)
    world.handle(commands.SubmitAsk(group))
    world.now_ms += 1_000
    world.handle(commands.Schedule(10))
    victims = [a for a in world.state.partitions[partition].allocations.values() if a.releasing]
    for victim in victims:
        world.handle(commands.ReleaseAllocation(partition, "app-1", victim.fact.uuid, PREEMPTED_BY_SCHEDULER))
    world.handle(commands.Schedule(10))
    where = {"block": "b", "si/rackname": "r2"}
    world.handle(commands.UpdateNode(partition, "n2", "UPDATE", where))
    for key in ("late", "later"):
        world.handle(commands.SubmitAsk(replace(group, allocation_key=key, max_allocations=1)))
        world.handle(commands.Schedule(10))
    for _ in range(4):
        world.now_ms += 1_000
        world.handle(commands.Tick())
    return world


def avoided() -> World:
    """Half-way, others avoid a rack for a group that waits. In the end it runs there, and the rack is avoided no
    more."""
    root = QueueSettings("root", True, submit_acl="*", queues=(QueueSettings("a"),))
    settings = PartitionSettings("default", root, topology=(TopologyLevel("rack", "si/rackname"),))
    world = World()
    partition = world.state.partition_name("default")
    timing = Timing(domain_delay_ms=60_000)
    world.handle(commands.Register(RM, Configuration("1", (settings,), timing=timing)))
    for node_id, rack in (("n1", "r1"), ("n2", "r1"), ("n3", "r2")):
        world.handle(commands.UpdateNode(partition, node_id, "CREATE", {"si/rackname": rack}, {"vcore": 4}, {}))
    world.handle(commands.SubmitApplication(partition, "app-1", "root.a", "ann"))
    world.handle(commands.SubmitAsk(Ask(partition, "app-1", "k1", {"vcore": 4}, 1)))
    world.handle(commands.Schedule(10))
    group = Ask(partition, "app-1", "w", {"vcore": 4}, 2, tags={"remuda/topology.required": "rack"})
    world.handle(commands.SubmitAsk(group))
    for _ in range(3):
        world.now_ms += 60_000
        world.handle(commands.Tick())
        world.handle(commands.Schedule(10))
        world.handle(commands.SubmitAsk(Ask(partition, "app-1", f"s{world.now_ms}", {"vcore": 1}, 1)))
        world.handle(commands.Schedule(10))
    first = next(iter(world.state.partitions[partition].allocations))
    world.handle(commands.ReleaseAllocation(partition, "app-1", first, STOPPED_BY_RM, "over"))
    for _ in range(12):
        world.now_ms += 1_000
        world.handle(commands.Schedule(10))
    return world


def budgeted() -> World:
    """Half-way, a queue has used a part of its budget, and an ask waits for the next period. In the end that has begun,
    and the queue of another budget is gone."""
    queues = (QueueSettings("a", budget=Budget({"vcore": 4}, "", 3_600_000)), QueueSettings("b"))
    root = QueueSettings("root", True, submit_acl="*", queues=queues, budget=Budget({"vcore": 100}, "month"))
    world = World()
    partition = world.state.partition_name("default")
    world.handle(commands.Register(RM, Configuration("1", (PartitionSettings("default", root),))))
    world.handle(commands.UpdateNode(partition, "n1", "CREATE", {}, {"vcore": 8}, {}))
    world.handle(commands.SubmitApplication(partition, "app-1", "root.a", "ann"))
    for key in ("k1", "k2", "k3"):
        world.handle(commands.SubmitAsk(Ask(partition, "app-1", key, {"vcore": 2}, 1, 0, 3_600_000)))
        world.handle(commands.Schedule(10))
    for _ in range(2):
        world.now_ms += 1_800_000
        world.handle(commands.Tick())
        world.handle(commands.Schedule(10))
    for uuid in [*world.state.partitions[partition].allocations]:
        world.handle(commands.ReleaseAllocation(partition, "app-1", uuid, STOPPED_BY_RM, "over"))
        world.handle(commands.Schedule(10))
        world.now_ms += 60_000
    for _ in range(20):
        world.now_ms += 240_000
        world.handle(commands.Tick())
        world.handle(commands.Schedule(10))
    world.handle(commands.RmConnection(DEREGISTERED, "gone"))
    return world


def lent() -> World:
    """Half-way, a queue has lent a part of its maximum. In the end that is over, and another loan is under way."""
    queues = tuple(QueueSettings(name, max={"vcore": 8}) for name in "abc")
    root = QueueSettings("root", True, submit_acl="*", admin_acl="sam", queues=queues)
    world = World()
    partition = world.state.partition_name("default")
    world.handle(commands.Register(RM, Configuration("1", (PartitionSettings("default", root),))))
    world.handle(commands.UpdateNode(partition, "n1", "CREATE", {}, {"vcore": 30}, {}))
    world.handle(commands.SubmitApplication(partition, "app-1", "root.b", "ann"))
    for number, (lender, borrower, minutes) in enumerate((("root.a", "root.b", 20), ("root.a", "root.c", 300))):
        loan = LendQuota(lender, borrower, {"vcore": 3}, False, world.now_ms + minutes * 60_000)
        world.handle(commands.Administer("sam", (), False, "a deadline", str(number), False, partition, loan))
    for number in range(20):
        world.handle(commands.SubmitAsk(Ask(partition, "app-1", f"k{number}", {"vcore": 1}, 1)))
        world.handle(commands.Schedule(10))
        world.now_ms += 60_000
        world.handle(commands.Tick())
    end = EndLoan("root.a", "root.c")
    world.handle(commands.Administer("joe", (), False, "", "3", False, partition, end))
    for _ in range(20):
        world.now_ms += 60_000
        world.handle(commands.Tick())
        world.handle(commands.Schedule(10))
    return world


# Recorded although others have all kinds of facts: what their fields say is of another feature.
ALSO = {"topology": topology}


def few_with_everything() -> dict[str, World]:
    """Of what is not recorded yet; as few seeds as a greedy choice finds."""
    worlds = {f"storm-{seed}": storm(seed, STEPS) for seed in CANDIDATES}
    worlds |= {"draining": draining(), "above-maximum": above_maximum(), "guests": guests()}
    worlds["rejected-allocations"] = rejected_allocations()
    worlds |= {"devices": devices(), "remembered": remembered(), "promised": promised(), "avoided": avoided()}
    worlds |= {"leaving": leaving(), "budgeted": budgeted(), "windows": windows(), "lent": lent()}
    happened = {name: kinds(world) for name, world in worlds.items()}
    unknown = [name for name in ALSO if not any((FOLDER / VERSION).glob(f"{name}-*"))]
    chosen = {name: ALSO[name]() for name in unknown}
    missing = EVERYTHING - recorded()
    while missing:
        best = max(worlds, key=lambda name: len(happened[name] & missing))
        assert happened[best] & missing, f"in no storm: {sorted(kind.__name__ for kind in missing)}"
        chosen[best] = worlds[best]
        missing -= happened[best]
    return chosen


async def main() -> None:
    for name, world in few_with_everything().items():
        recording = await record(world)
        recording.write(FOLDER / VERSION / f"{name}-{len(EVERYTHING)}.json.gz")
        print(f"{name}: {len(recording.log)} messages, snapshots at {sorted(recording.snapshots)}")


if __name__ == "__main__":
    asyncio.run(main())
