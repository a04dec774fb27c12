"""`remuda_sdk.api`: the same RM against a scheduler in this process, over NATS and over gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from remuda.embedded import NatsServer
from remuda.local import in_process
from remuda_bus import subjects
from remuda_bus.bus import Bus
from remuda_proto.remuda.v1.predicates_pb2 import BatchPredicatesRequest, NodeVerdict
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk.api import (
    RegistrationFailed,
    RequestRefused,
    ResourceManagerCallback,
    StateDumpPlugin,
    Superseded,
    connect,
)
from tests.system.grpc_system import grpc_system
from tests.system.recording_rm import (
    Recording,
    asks,
    in_service,
    nodes,
    registration,
    releases,
    submission,
)
from tests.system.running import QUEUES, TWO_QUEUES


@pytest.fixture(params=["local", "nats", "grpc"])
async def running(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[str, Bus]]:
    """The URL of a scheduler that outlives the RMs of a test, and a connection to its bus."""
    if request.param == "local":
        async with in_process.scheduler("test") as scheduler:
            yield "local:test", scheduler.connect()
        return
    async with NatsServer(tmp_path / "nats") as server, grpc_system(server.url) as system:
        yield server.url if request.param == "nats" else f"grpc://127.0.0.1:{system.port}", system.bus


@pytest.fixture
def url(running: tuple[str, Bus]) -> str:
    return running[0]


async def test_session(url: str) -> None:
    async with connect(url) as scheduler:
        rm = Recording()
        await in_service(scheduler, rm, QUEUES, "n1", "n2")
        await scheduler.update_allocation(asks(*(f"k{number}" for number in range(20))))
        await rm.until(lambda: len(rm.running()) == 20)
        assert {one.nodeID for one in rm.running().values()} == {"n1", "n2"}
        await scheduler.update_node(nodes("n1", action=si.NodeInfo.DRAIN_NODE))
        await scheduler.update_allocation(releases(list(rm.running().values())))
        await rm.until(lambda: len(rm.released) == 20)
        assert {one.terminationType for one in rm.released.values()} == {si.STOPPED_BY_RM}
        await scheduler.update_allocation(asks("last"))
        await rm.until(rm.running)
        assert rm.running()["last"].nodeID == "n2", "n1 is drained"


async def test_updates_of_several_kinds_keep_their_order(url: str) -> None:
    async with connect(url) as scheduler:
        rm = Recording()
        await scheduler.register_resource_manager(registration(QUEUES), rm)
        for number in range(20):
            await scheduler.update_application(submission(app_id=f"app-{number}"))
            await scheduler.update_allocation(asks(f"k{number}", app_id=f"app-{number}", vcore=10))
        await scheduler.update_node(nodes("n1"))
        await rm.until(lambda: len(rm.running()) == 20)
        assert not rm.refused_asks


async def test_two_rms_share_a_connection(url: str) -> None:
    async with connect(url) as scheduler:
        first, second = Recording(), Recording()
        await scheduler.register_resource_manager(registration(rm_id="rm-1"), first)
        await scheduler.register_resource_manager(registration(rm_id="rm-2"), second)
        for rm_id, rm in (("rm-1", first), ("rm-2", second)):
            request = nodes(f"node-of-{rm_id}")
            request.rmID = rm_id
            await scheduler.update_node(request)
            await rm.until(lambda rm=rm: rm.nodes)  # type: ignore[misc]
        assert (first.nodes, second.nodes) == (["node-of-rm-1"], ["node-of-rm-2"])
        with pytest.raises(ValueError, match="rmID '': expected an RM that is registered here \\('rm-1', 'rm-2'\\)"):
            await scheduler.update_node(nodes("n1"))


async def test_preemption_is_confirmed(url: str) -> None:
    class Confirming(Recording):
        async def update_allocation(self, response: si.AllocationResponse) -> None:  # type: ignore[override]
            super().update_allocation(response)
            requested = [one for one in response.released if one.terminationType != si.STOPPED_BY_RM]
            if requested:
                await scheduler.update_allocation(releases(requested))

    async with connect(url) as scheduler:
        rm = Confirming()
        await scheduler.register_resource_manager(registration(TWO_QUEUES), rm)
        await scheduler.update_node(nodes("n1", vcore=4_000))
        await scheduler.update_application(submission("root.a", "victims"))
        await scheduler.update_application(submission("root.b", "preemptors"))
        await scheduler.update_allocation(asks(*(f"v{n}" for n in range(4)), vcore=1_000, app_id="victims"))
        await rm.until(lambda: len(rm.running()) == 4)
        request = asks("p1", vcore=1_000, app_id="preemptors")
        request.asks[0].preemptionPolicy.allowPreemptOther = True
        await scheduler.update_allocation(request)
        await rm.until(lambda: "p1" in rm.running())
        assert [one.terminationType for one in rm.released.values()] == [si.PREEMPTED_BY_SCHEDULER]


async def test_configuration_is_updated(url: str) -> None:
    async with connect(url) as scheduler:
        rm = Recording()
        await in_service(scheduler, rm, QUEUES, "n1")
        await scheduler.update_configuration(
            si.UpdateConfigurationRequest(config=QUEUES.replace("a}", "a}, {name: b}"))
        )
        await scheduler.update_application(submission("root.b", "app-2"))
        await rm.until(lambda: "app-2" in rm.applications)
        await scheduler.update_configuration(si.UpdateConfigurationRequest(config="partitions: 7"))
        await rm.until(lambda: rm.refused)
        assert "partitions" in rm.refused[0].reason


async def test_predicates_are_asked(url: str) -> None:
    class Picky(Recording):
        async def predicates(self, args: si.PredicatesArgs) -> str | None:
            return "this one not" if args.nodeID == "n1" else None

    async with connect(url) as scheduler:
        rm = Picky()
        await in_service(scheduler, rm, QUEUES, "n1", "n2")
        await scheduler.update_allocation(asks("k1", "k2", vcore=500))
        await rm.until(lambda: len(rm.running()) == 2)
        assert {one.nodeID for one in rm.running().values()} == {"n2"}


async def test_predicates_are_asked_in_batches(url: str) -> None:
    class Picky(Recording):
        def batch_predicates(self, request: BatchPredicatesRequest) -> list[NodeVerdict]:
            return [NodeVerdict(node_id=one, accepted=one == "n2", reason="not this one") for one in request.node_ids]

    async with connect(url) as scheduler:
        rm = Picky()
        await in_service(scheduler, rm, QUEUES, "n1", "n2")
        await scheduler.update_allocation(asks("k1", "k2", vcore=500))
        await rm.until(lambda: len(rm.running()) == 2)
        assert {one.nodeID for one in rm.running().values()} == {"n2"}


async def test_state_of_the_rm_is_in_dumps(running: tuple[str, Bus]) -> None:
    url, bus = running

    class Dumping(Recording):
        async def get_state_dump(self) -> str:
            return '{"pods": 3}'

    rm = Dumping()
    assert isinstance(rm, StateDumpPlugin)
    async with connect(url) as scheduler:
        await scheduler.register_resource_manager(registration(QUEUES), rm)
        reply = await bus.request(subjects.question("rm-1", "state_dump"))
        assert reply.payload == b'{"pods": 3}'


async def test_events_and_scheduling_states_arrive(url: str) -> None:
    class Curious(Recording):
        def __init__(self) -> None:
            super().__init__()
            self.events: list[si.EventRecord] = []
            self.waiting: list[str] = []

        def send_event(self, events: Sequence[si.EventRecord]) -> None:
            self.events += events

        async def update_container_scheduling_state(self, request: si.UpdateContainerSchedulingStateRequest) -> None:
            self.waiting.append(request.allocationKey)
            self.update_node(si.NodeResponse())

    async with connect(url) as scheduler:
        rm = Curious()
        await in_service(scheduler, rm, QUEUES, "n1")
        await scheduler.update_allocation(asks("too-large", vcore=10_000))
        await rm.until(lambda: rm.waiting)
        assert rm.waiting[0] == "too-large"


async def test_restart_by_replay_and_by_report(url: str) -> None:
    async with connect(url) as scheduler:
        rm = Recording()
        await in_service(scheduler, rm, QUEUES, "n1")
        await scheduler.update_allocation(asks("k1"))
        await rm.until(rm.running)
    async with connect(url) as scheduler:  # another process, with what the first has stored
        again = Recording()
        again.allocations = dict(rm.allocations)
        await scheduler.register_resource_manager(registration(QUEUES, resync="replay"), again)
        await scheduler.update_allocation(asks("k2"))
        await again.until(lambda: "k2" in again.running())
        assert again.running().keys() == {"k1", "k2"}
        assert again.running()["k1"].UUID in rm.allocations, "it has kept running"
    async with connect(url) as scheduler:
        anew = Recording()
        await in_service(scheduler, anew, QUEUES, "n1")
        await scheduler.update_allocation(asks("k3"))
        await anew.until(anew.running)
        assert anew.running().keys() == {"k3"}, "the state of the former was discarded"


async def test_newer_registration_ends_the_session(url: str) -> None:
    async with connect(url) as first, connect(url) as second:
        await first.register_resource_manager(registration(QUEUES), Recording())
        ended = asyncio.create_task(first.wait())
        await second.register_resource_manager(registration(QUEUES), Recording())
        async with asyncio.timeout(10):
            with pytest.raises(Superseded):
                await ended
        with pytest.raises(Superseded):
            await first.update_node(nodes("n1"))
        await second.update_node(nodes("n1"))


@pytest.mark.parametrize(
    ("request_", "code", "said"),
    [
        (registration("partitions: 7"), 422, "partitions"),
        (registration(resync="maybe"), 400, "'maybe'"),
    ],
)
async def test_registration_that_is_refused_says_why(
    url: str, request_: si.RegisterResourceManagerRequest, code: int, said: str
) -> None:
    async with connect(url) as scheduler:
        with pytest.raises(RegistrationFailed, match=said) as failed:
            await scheduler.register_resource_manager(request_, Recording())
        assert failed.value.code == code
        await scheduler.register_resource_manager(registration(QUEUES), Recording())


async def test_bad_input_is_answered(url: str) -> None:
    async with connect(url) as scheduler:
        with pytest.raises(ValueError, match="rmID 'a b'"):
            await scheduler.register_resource_manager(registration(rm_id="a b"), Recording())
        with pytest.raises(ValueError, match="rmID '': expected an RM that is registered here \\(none yet\\)"):
            await scheduler.update_node(nodes("n1"))
        with pytest.raises(TypeError, match="expected a ResourceManagerCallback"):
            await scheduler.register_resource_manager(registration(QUEUES), object())  # type: ignore[arg-type]
        rm = Recording()
        await in_service(scheduler, rm, QUEUES, "n1")
        await scheduler.update_application(submission("root.nowhere", "app-2"))
        await scheduler.update_allocation(asks("k1", app_id="nobody"))
        await rm.until(lambda: rm.refused_applications and rm.refused_asks)
        assert "root.nowhere" in rm.refused_applications["app-2"]
        await scheduler.update_allocation(asks("k2"))
        await rm.until(rm.running)


async def test_error_of_a_callback_ends_the_session(url: str) -> None:
    class Failing(ResourceManagerCallback):
        def update_node(self, response: si.NodeResponse) -> None:
            raise KeyError("no such node here")

    async with connect(url) as scheduler:
        await scheduler.register_resource_manager(registration(QUEUES), Failing())
        await scheduler.update_node(nodes("n1"))
        async with asyncio.timeout(10):
            with pytest.raises(KeyError, match="no such node here"):
                await scheduler.wait()
        with pytest.raises(KeyError):
            await scheduler.update_node(nodes("n2"))


async def test_refused_request_ends_the_session_of_an_rm_without_a_method_for_it(url: str) -> None:
    async with connect(url) as scheduler:
        await scheduler.register_resource_manager(registration(QUEUES), ResourceManagerCallback())
        await scheduler.update_configuration(si.UpdateConfigurationRequest(config="partitions: 7"))
        async with asyncio.timeout(10):
            with pytest.raises(RequestRefused, match="partitions"):
                await scheduler.wait()
