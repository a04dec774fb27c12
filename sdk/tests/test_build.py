from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk import application, ask, node, release_of, resource


def test_resources_in_base_units() -> None:
    made = resource({"nvidia.com/gpu": 2}, vcore=4000)
    assert {name: quantity.value for name, quantity in made.resources.items()} == {"nvidia.com/gpu": 2, "vcore": 4000}


def test_a_node() -> None:
    made = node("n1", vcore=4000, memory=2**34, partition="gpu", attributes={"si/hostname": "h"}, occupied={"vcore": 1})
    assert made.nodeID == "n1" and made.action == si.NodeInfo.UNKNOWN_ACTION_FROM_RM
    assert dict(made.attributes) == {"si/hostname": "h", "si/node-partition": "gpu"}
    assert made.schedulableResource.resources["memory"].value == 2**34
    assert made.occupiedResource.resources["vcore"].value == 1


def test_a_node_that_is_reported_draining() -> None:
    assert node("n1", draining=True, vcore=1).action == si.NodeInfo.CREATE_DRAIN


def test_absent_fields_of_a_node_are_not_sent() -> None:
    made = node("n1")
    assert not made.HasField("schedulableResource") and not made.HasField("occupiedResource")


def test_an_application() -> None:
    made = application(
        "app-1", queue="root.a", user="alice", groups=["g"], placeholders={"vcore": 5}, gang_style="Hard"
    )
    assert (made.applicationID, made.queueName, made.ugi.user, list(made.ugi.groups)) == (
        "app-1", "root.a", "alice", ["g"]
    )  # fmt: skip
    assert made.placeholderAsk.resources["vcore"].value == 5 and made.gangSchedulingStyle == "Hard"
    assert not application("app-2").HasField("placeholderAsk")


def test_an_ask() -> None:
    made = ask("app-1", "k1", vcore=100, count=3, priority=7, tags={"a": "b"}, timeout_ms=5, task_group="t")
    assert (made.applicationID, made.allocationKey, made.maxAllocations, made.priority) == ("app-1", "k1", 3, 7)
    assert (dict(made.tags), made.executionTimeoutMilliSeconds, made.taskGroupName) == ({"a": "b"}, 5, "t")
    assert made.resourceAsk.resources["vcore"].value == 100
    assert not made.HasField("preemptionPolicy") and ask("app-1", "k").maxAllocations == 1


def test_a_release_of_an_allocation() -> None:
    made = release_of(si.Allocation(UUID="u", applicationID="app-1", allocationKey="k", partitionName="gpu"), "done")
    assert (made.UUID, made.applicationID, made.allocationKey, made.partitionName) == ("u", "app-1", "k", "gpu")
    assert (made.terminationType, made.message) == (si.STOPPED_BY_RM, "done")
