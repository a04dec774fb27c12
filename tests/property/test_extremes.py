"""All values that si.v1 can hold: extreme numbers, odd names, unknown enumeration values. The core decides, its facts
go over the wire and back, a snapshot can be taken and restored, and an auditor agrees with all sums."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from remuda_bus import subjects
from remuda_bus.bus import Message
from remuda_core.check import check, digest
from remuda_core.commands import (
    CleanQueues,
    Register,
    ReleaseAllocation,
    Schedule,
    SubmitApplication,
    Tick,
    UpdateNode,
)
from remuda_core.facts import Allocated
from remuda_core.settings import (
    Configuration,
    Limit,
    PartitionSettings,
    PlacementRule,
    QueueSettings,
    Timing,
)
from remuda_core.wire.codec import CommitCodec
from remuda_proto.remuda.v1 import inbox_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_rmproxy.inbound.translate import InvalidRequest, commands_of

from .world import RM, World

INT64 = 2**63 - 1
INT32 = 2**31 - 1
NUMBERS = (1, 2, 0, -1, 1_000, INT32, -INT32 - 1)
LARGE = (*NUMBERS, INT64, INT64 - 1, -INT64 - 1, 2**62)
# Few, so that requests meet.
IDS = ("a", "a", "b", "b", "é", "", "x" * 1_025, "root", "a.b", "\x00")
TEXTS = (
    *IDS,
    "default",
    "true",
    "Hard",
    "fair",
    "root.a",
    "root.b.c",
    "{}",
    '{"resources":{"vcore":{"value":"9e99"}}}',
)
KEYS = (
    "namespace", "namespace.resourcequota", "namespace.resourceguaranteed", "si/requiredNode", "ready",
    "application.create.force", "application.stateaware.disable", "x",
)  # fmt: skip
NAMES = ("vcore", "memory", "vcore", "gpu", "")
QUOTAS = (f'{{"resources":{{"vcore":{{"value":{n}}}}}}}' for n in (0, 1, INT64, INT64 + 1))
PARTITIONS = ("", "", "", "default", "nosuch", "[rm-1]default")
FIELDS = {"partitionName": PARTITIONS, "user": ("a", "b", "a", "!"), "queueName": TEXTS}

SOME = si.Resource(resources={"vcore": si.Quantity(value=1)})
# Valid values; in each message a few fields have another value.
BASE: dict[str, dict[str, Any]] = {
    "AddApplicationRequest": {"applicationID": "a", "queueName": "root.a", "ugi": si.UserGroupInformation(user="a")},
    "UserGroupInformation": {"user": "a"},
    "AllocationAsk": {"allocationKey": "a", "applicationID": "a", "resourceAsk": SOME, "maxAllocations": 1},
    "Allocation": {"allocationKey": "a", "applicationID": "a", "UUID": "a", "nodeID": "a", "resourcePerAlloc": SOME},
    "AllocationRelease": {"applicationID": "a"},
    "AllocationAskRelease": {"applicationID": "a"},
    "NodeInfo": {"nodeID": "a", "action": 1, "schedulableResource": si.Resource(
        resources={"vcore": si.Quantity(value=INT64), "memory": si.Quantity(value=INT64)})},
}  # fmt: skip
LISTS = ("new", "asks", "nodes")

amounts = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(LARGE), max_size=3)
maps = st.dictionaries(st.sampled_from(KEYS), st.sampled_from((*TEXTS, *QUOTAS)), max_size=2)


def values(field: Any) -> st.SearchStrategy[Any]:
    if field.name in ("resources", "rmID"):
        raise AssertionError(field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return maps
    if field.message_type is not None:
        return messages(field.message_type)
    return st.sampled_from({
        field.TYPE_STRING: FIELDS.get(field.name, IDS if field.name[-2:].lower() in ("id", "ey") else TEXTS),
        field.TYPE_BOOL: (False, True),
        field.TYPE_ENUM: (1, 1, 2, 3, 4, 0, 5, 6, 9, -1, INT32),
        field.TYPE_INT32: NUMBERS,
        field.TYPE_INT64: LARGE,
    }[field.type])  # fmt: skip


def messages(descriptor: Any) -> st.SearchStrategy[Any]:
    made = getattr(si, descriptor.name)
    if descriptor.name == "Resource":
        return amounts.map(lambda chosen: made(resources={n: si.Quantity(value=v) for n, v in chosen.items()}))
    fields = {}
    for field in descriptor.fields:
        if field.name != "rmID":
            one = values(field)
            is_list = field.is_repeated and not (field.message_type and field.message_type.GetOptions().map_entry)
            fields[field.name] = st.lists(one, max_size=3) if is_list else one
    base = BASE.get(descriptor.name, {})
    odd = st.lists(st.sampled_from(sorted(fields)), max_size=3, unique=True).flatmap(
        lambda names: st.fixed_dictionaries({name: fields[name] for name in {*names, *LISTS} & fields.keys()})
    )
    return odd.map(lambda chosen: made(**{**base, **chosen}))


requests = st.one_of(
    st.tuples(st.just("application"), messages(si.ApplicationRequest.DESCRIPTOR)),
    st.tuples(st.just("node"), messages(si.NodeRequest.DESCRIPTOR)),
    st.tuples(st.just("allocation"), messages(si.AllocationRequest.DESCRIPTOR)),
    st.tuples(st.just("time"), st.sampled_from((1, 1_000, 100_000, 2**40, 2**60))),
)
limit = Limit(("*",), (), {"vcore": INT64}, 2**63 - 1)
queue = QueueSettings(
    "b", True, {"vcore": INT64}, {"memory": INT64}, 2**63 - 1, {"priority.offset": str(INT32)}, submit_acl="*",
    queues=(QueueSettings("c", properties={"priority.offset": str(-INT32 - 1), "application.sort.policy": "fair"}),),
)  # fmt: skip
root = QueueSettings("root", parent=True, submit_acl="*", limits=(limit,), queues=(queue,))
rules = (PlacementRule("provided", create=True), PlacementRule("tag", create=True, value="namespace"))
configurations = [
    Configuration(
        "", (PartitionSettings("default", root, placement_rules=rules, preemption_interval_ms=INT64),), timing=timing
    )
    for timing in (Timing(), Timing(INT64, INT64, INT64, INT64, INT64, INT64))
]


@settings(max_examples=250)
@given(st.sampled_from(configurations), st.lists(requests, min_size=1, max_size=12))
def test_anything_can_be_said(configuration: Configuration, said: list[tuple[str, Any]]) -> None:
    world = World(check_always=False)
    world.handle(Register(RM, configuration))
    for seq, (kind, request) in enumerate(said, 1):
        if kind == "time":
            world.now_ms = min(world.now_ms + request, 2**62)
            world._handle(Tick())
            world._handle(CleanQueues())
        else:
            send(world, kind, request, seq)
        world._handle(Schedule(5))
    check(world.state, world.core.index)
    for core in (world.replayed(), world.replayed(over_the_wire=True)):
        check(core.state, core.index)
        assert digest(core.state) == digest(world.state)
    world.restored()


def send(world: World, kind: str, request: Any, seq: int) -> None:
    request.rmID = RM
    message = Message(subjects.request(RM, kind), request.SerializeToString(), seq=seq)
    try:
        payloads = commands_of(message, RM, 8_000_000)
    except InvalidRequest:
        return
    for payload in payloads:
        _, commands = CommitCodec().read(inbox_pb2.Command.FromString(payload))
        for command in commands:
            world._handle(command)


def test_sums_that_exceed_int64_are_the_same_in_a_restored_state() -> None:
    """Allocations that an RM reports are booked whatever their sum is, and snapshots hold int64."""
    world, partition = World(), f"[{RM}]default"
    root = QueueSettings("root", parent=True, submit_acl="*", queues=(QueueSettings("a"),))
    world.handle(Register(RM, Configuration("sum", (PartitionSettings("default", root),))))
    world.handle(SubmitApplication(partition, "app", "root.a", "ann"))
    occupied = {"memory": INT64}
    running = [
        Allocated(partition, application, f"k{n}", f"u{n}", "", occupied)
        for n, application in enumerate(3 * ("app", "b"))
    ]
    world.handle(UpdateNode(partition, "n1", "CREATE", {}, occupied, occupied, tuple(running)))
    for number in range(len(running)):
        assert digest(world.restored().state) == digest(world.state)
        world.handle(ReleaseAllocation(partition, "", f"u{number}"))
    assert world.state.partitions[partition].applications["app"].peak == {"memory": INT64}
    assert world.state.partitions[partition].nodes["n1"].occupied == occupied
    world.finish()
