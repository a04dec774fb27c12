from collections.abc import Callable
from typing import Any

import pytest

from remuda_bus import subjects
from remuda_bus.bus import Message
from remuda_proto.remuda.v1 import config_pb2, inbox_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_rmproxy.inbound.translate import InvalidRequest, check_rm_id, commands_of, configuration_update, configure

LIMIT = 1_000_000


def request(kind: str, payload: Any, seq: int = 7, rm_id: str = "rm-1") -> Message:
    data = payload if isinstance(payload, bytes) else payload.SerializeToString()
    return Message(subjects.request(rm_id, kind), data, seq=seq)


def only_command(message: Message) -> inbox_pb2.Command:
    [payload] = commands_of(message, "rm-1", LIMIT)
    return inbox_pb2.Command.FromString(payload)


def test_every_partition_name_of_an_allocation_request_is_the_schedulers() -> None:
    command = only_command(
        request(
            "allocation",
            si.AllocationRequest(
                rmID="rm-1",
                asks=[si.AllocationAsk(allocationKey="a"), si.AllocationAsk(allocationKey="b", partitionName="GPU")],
                allocations=[si.Allocation(allocationKey="c")],
                releases=si.AllocationReleasesRequest(
                    allocationsToRelease=[si.AllocationRelease(UUID="u")],
                    allocationAsksToRelease=[si.AllocationAskRelease(allocationKey="a")],
                ),
            ),
        )
    )
    allocation = command.allocation
    assert [ask.partitionName for ask in allocation.asks] == ["[rm-1]default", "[rm-1]gpu"]
    assert allocation.allocations[0].partitionName == "[rm-1]default"
    assert allocation.releases.allocationsToRelease[0].partitionName == "[rm-1]default"
    assert allocation.releases.allocationAsksToRelease[0].partitionName == "[rm-1]default"
    assert (command.request_seq, command.request_part) == (7, 0)


def test_applications() -> None:
    command = only_command(
        request(
            "application",
            si.ApplicationRequest(
                rmID="rm-1",
                new=[si.AddApplicationRequest(applicationID="app-1")],
                remove=[si.RemoveApplicationRequest(applicationID="app-2", partitionName="[rm-1]x")],
            ),
        )
    )
    assert command.application.new[0].partitionName == "[rm-1]default"
    assert command.application.remove[0].partitionName == "[rm-1]x"


def test_what_runs_on_a_node_is_in_the_partition_of_the_node() -> None:
    node = si.NodeInfo(
        nodeID="n1",
        action=si.NodeInfo.CREATE,
        attributes={"si/node-partition": "GPU"},
        existingAllocations=[si.Allocation(UUID="u1"), si.Allocation(UUID="u2", partitionName="other")],
    )
    plain = si.NodeInfo(nodeID="n2", action=si.NodeInfo.CREATE)
    command = only_command(request("node", si.NodeRequest(rmID="rm-1", nodes=[node, plain])))
    first, second = command.node.nodes
    assert first.attributes["si/node-partition"] == "[rm-1]gpu"
    assert [one.partitionName for one in first.existingAllocations] == ["[rm-1]gpu", "[rm-1]other"]
    assert second.attributes["si/node-partition"] == "[rm-1]default"


def test_a_request_without_elements_is_a_command_all_the_same() -> None:
    assert only_command(request("allocation", si.AllocationRequest(rmID="rm-1"))).WhichOneof("command") == "allocation"


@pytest.mark.parametrize(
    ("kind", "payload", "says"),
    [
        ("allocation", b"\xff\xff\xff", "not a AllocationRequest"),
        ("node", si.NodeRequest(), "rmID '': expected 'rm-1'"),
        ("node", si.NodeRequest(rmID="rm-2"), "rmID 'rm-2': expected 'rm-1'"),
        (
            "allocation",
            si.AllocationRequest(rmID="rm-1", asks=[si.AllocationAsk(partitionName="[rm-2]default")]),
            "partition '[rm-2]default': expected",
        ),
    ],
)
def test_what_cannot_become_a_command_is_unacceptable_with_the_reason(kind: str, payload: Any, says: str) -> None:
    with pytest.raises(InvalidRequest) as problem:
        commands_of(request(kind, payload), "rm-1", LIMIT)
    assert says in str(problem.value)


def test_a_configuration_update_has_a_sender_as_well() -> None:
    update = si.UpdateConfigurationRequest(rmID="rm-1", config="partitions: []")
    assert configuration_update(request("configuration", update), "rm-1").config == "partitions: []"
    with pytest.raises(InvalidRequest, match="rmID 'rm-1'"):
        configuration_update(request("configuration", update), "rm-2")


def test_a_configuration_is_never_split() -> None:
    configuration = config_pb2.Configuration(checksum="C" * 100)
    [payload] = configure("rm-1", 7, "configure:7:file:", configuration, 1_000)
    command = inbox_pb2.Command.FromString(payload)
    assert command.configure.rm_id == "rm-1" and command.configure.configuration.checksum == "C" * 100
    with pytest.raises(InvalidRequest, match="expected at most 100"):
        configure("rm-1", 7, "configure:7:file:", configuration, 100)


def test_an_rm_that_cannot_be_a_subject_is_unacceptable() -> None:
    with pytest.raises(InvalidRequest, match="expected 1 to 64 of"):
        check_rm_id("rm/1")


def test_a_request_that_grows_beyond_the_limit_goes_in_parts() -> None:
    asks = [si.AllocationAsk(allocationKey=f"k{number}", applicationID="app-1") for number in range(200)]
    message = request("allocation", si.AllocationRequest(rmID="rm-1", asks=asks))
    commands = [inbox_pb2.Command.FromString(payload) for payload in commands_of(message, "rm-1", 2_000)]
    assert all(command.ByteSize() <= 2_000 for command in commands) and len(commands) > 2
    assert [(command.request_seq, command.request_part) for command in commands] == [
        (7, part) for part in range(len(commands))
    ]
    keys = [ask.allocationKey for command in commands for ask in command.allocation.asks]
    assert keys == [ask.allocationKey for ask in asks]


def test_parts_say_of_their_own_items_why_they_are_refused() -> None:
    asks = [si.AllocationAsk(allocationKey=f"k{number}", applicationID="app-1") for number in range(200)]
    for number in range(0, 200, 7):
        asks[number].taskGroupName = "x" * 2_000
    message = request("allocation", si.AllocationRequest(rmID="rm-1", asks=asks))
    commands = [inbox_pb2.Command.FromString(payload) for payload in commands_of(message, "rm-1", 2_000)]
    assert all(command.ByteSize() <= 2_000 for command in commands) and len(commands) > 4
    assert all(one.list == "asks" and "taskGroupName 'xxx" in one.reason for part in commands for one in part.refused)
    keys = [part.allocation.asks[one.position].allocationKey for part in commands for one in part.refused]
    assert keys == [f"k{number}" for number in range(0, 200, 7)]
    assert len([ask for part in commands for ask in part.allocation.asks]) == 200


def test_an_element_that_fits_nowhere_is_unacceptable() -> None:
    asks = [si.AllocationAsk(allocationKey="k", applicationID="app", tags={"big": "x" * 3_000})]
    with pytest.raises(InvalidRequest, match=r"asks\[0\]"):
        commands_of(request("allocation", si.AllocationRequest(rmID="rm-1", asks=asks)), "rm-1", 2_000)


def test_a_thousand_asks_cost_little(cost: Callable[[Callable[[], object]], float]) -> None:
    """Some 0.5 ms."""
    size = si.Resource(resources={"vcore": si.Quantity(value=100), "memory": si.Quantity(value=2**30)})
    asks = [
        si.AllocationAsk(allocationKey=f"key-{number}", applicationID="app-1", resourceAsk=size, maxAllocations=1)
        for number in range(1_000)
    ]
    message = request("allocation", si.AllocationRequest(rmID="rm-1", asks=asks))
    assert cost(lambda: commands_of(message, "rm-1", LIMIT)) < 0.5
