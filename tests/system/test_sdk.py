"""The SDK over a real nats-server and rmproxy, with a core that decides what the test says."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from remuda.embedded import NatsServer
from remuda_bus import subjects
from remuda_bus.bus import Message
from remuda_bus.nats import NatsBus
from remuda_config.shell import main as config_main
from remuda_proto.remuda.v1 import log_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_rmproxy.shell import main as rmproxy_main
from remuda_sdk import (
    DeadLetter,
    HistoryChanged,
    RegistrationFailed,
    ReportRequested,
    ResourceManager,
    application,
    ask,
    node,
)
from remuda_sdk.resource_manager.callbacks import Callback
from tests.system.running import running, serves, until
from tests.system.scripted_core import Command, Fact, ScriptedCore, allocated, release_requested, scripted_core


@pytest.fixture
async def core(server: NatsServer, bus: NatsBus) -> AsyncIterator[ScriptedCore]:
    async with (
        running(server.url, "config", lambda bus, settings: config_main(bus, settings, None)),
        running(server.url, "rmproxy", rmproxy_main),
        scripted_core(server.url, "rm-1") as core,
    ):
        await until(lambda: serves(server.url))
        yield core


async def heard(rm: ResourceManager, count: int) -> list[Callback]:
    """The next callbacks. The next call yields the last one again, because leaving the loop does not acknowledge it."""
    callbacks: list[Callback] = []
    async with asyncio.timeout(10):
        async for callback in rm.callbacks():
            callbacks.append(callback)
            if len(callbacks) >= count:
                break
    return callbacks


async def test_a_session(server: NatsServer, core: ScriptedCore) -> None:
    async with ResourceManager.connect(server.url, "rm-1", version="1.0") as rm:
        await rm.report_nodes([node("n1", vcore=4000, memory=2**34)])
        await rm.submit(application("app-1", queue="root.a", user="alice"))
        seq = await rm.ask([ask("app-1", "k1", vcore=100)])
        await core.until(lambda commands: len(commands) == 4)
        registered, nodes, submitted, asked = core.commands
        assert registered.register.version == "1.0"
        assert nodes.node.nodes[0].action == si.NodeInfo.CREATE
        assert submitted.application.new[0].queueName == "root.a"
        assert asked.allocation.asks[0].allocationKey == "k1" and asked.request_seq == seq

        await core.decide(Fact(node_added=log_pb2.NodeAdded(node_id="n1")), allocated("k1"))
        nodes_told, allocations_told = await heard(rm, 2)
        assert isinstance(nodes_told, si.NodeResponse) and nodes_told.accepted[0].nodeID == "n1"
        assert isinstance(allocations_told, si.AllocationResponse)
        await rm.release(allocations_told.new)
        await rm.drain("n1")
        await rm.undrain("n1")
        await rm.update_nodes([node("n1", vcore=8000)])
        await rm.decommission("n1")
        await rm.remove("app-1")
        await core.until(lambda commands: len(commands) == 10)
        release = core.commands[4].allocation.releases.allocationsToRelease[0]
        assert (release.UUID, release.partitionName) == ("u-k1", "[rm-1]default")
        actions = [command.node.nodes[0].action for command in core.commands[5:9]]
        assert actions == [
            si.NodeInfo.DRAIN_NODE, si.NodeInfo.DRAIN_TO_SCHEDULABLE, si.NodeInfo.UPDATE, si.NodeInfo.DECOMISSION
        ]  # fmt: skip
        assert core.commands[9].application.remove[0].applicationID == "app-1"


async def test_a_registration_that_fails_says_why(server: NatsServer, core: ScriptedCore) -> None:
    core.refuse = "not today"
    with pytest.raises(RegistrationFailed, match="not today") as failure:
        await ResourceManager.connect(server.url, "rm-1").__aenter__()
    assert failure.value.code == 422


async def test_without_a_scheduler_registration_fails_at_once(server: NatsServer) -> None:
    with pytest.raises(RegistrationFailed, match="no scheduler answers") as failure:
        await ResourceManager.connect(server.url, "rm-1").__aenter__()
    assert failure.value.code == 503


async def test_what_was_not_moved_on_from_comes_again(server: NatsServer, core: ScriptedCore) -> None:
    async with ResourceManager.connect(server.url, "rm-1", resync="replay") as rm:
        for number in range(3):
            await core.decide(allocated(f"k{number}"))
        first, second = await heard(rm, 2)
        again, third = await heard(rm, 2)
        assert again == second and isinstance(third, si.AllocationResponse)
    async with ResourceManager.connect(server.url, "rm-1", resync="replay") as rm:  # another process of the same RM
        assert await heard(rm, 1) == [third]
        assert first != second


async def test_handlers_are_called_in_order_and_confirm_what_is_asked_of_them(
    server: NatsServer, core: ScriptedCore
) -> None:
    async with ResourceManager.connect(server.url, "rm-1") as rm:
        keys: list[str] = []

        @rm.on_allocation
        async def placed(response: si.AllocationResponse) -> None:
            keys.extend(one.allocationKey for one in response.new)
            assert not _releases(core), "confirmed before it was handled"

        for number in range(10):
            await core.decide(allocated(f"k{number}"))
        await core.decide(release_requested("k3", si.PREEMPTED_BY_SCHEDULER))
        await core.until(_of_core(core))
        assert keys == [f"k{number}" for number in range(10)]
        [release] = _releases(core)
        assert (release.UUID, release.terminationType) == ("u-k3", si.PREEMPTED_BY_SCHEDULER)
        assert release.message == "make room"


def _releases(core: ScriptedCore) -> list[si.AllocationRelease]:
    return [one for command in core.commands for one in command.allocation.releases.allocationsToRelease]


def _of_core(core: ScriptedCore):
    return lambda commands: bool(_releases(core))


async def test_confirmation_can_be_left_to_the_rm(server: NatsServer, core: ScriptedCore) -> None:
    async with ResourceManager.connect(server.url, "rm-1", confirm_releases=False) as rm:
        await core.decide(release_requested("k3", si.TIMEOUT))
        await core.decide(allocated("k4"))
        asked, _ = await heard(rm, 2)
        assert isinstance(asked, si.AllocationResponse) and len(core.commands) == 1
        await rm.confirm(*asked.released)
        await core.until(_of_core(core))
        assert _releases(core)[0].UUID == "u-k3"


async def test_what_a_handler_raises_comes_out(server: NatsServer, core: ScriptedCore) -> None:
    def broken(response: si.AllocationResponse) -> None:
        raise KeyError("k1")

    with pytest.raises(KeyError):
        async with ResourceManager.connect(server.url, "rm-1") as rm:
            rm.on_allocation(broken)
            await core.decide(allocated("k1"))
            async with asyncio.timeout(10):
                await rm.handle_for_ever()
    async with ResourceManager.connect(server.url, "rm-1", resync="replay") as rm:  # it was not acknowledged
        assert len(await heard(rm, 1)) == 1


async def test_dead_letters_and_configurations(server: NatsServer, core: ScriptedCore) -> None:
    async with ResourceManager.connect(server.url, "rm-1") as rm:
        seq = await rm.update_configuration("partitions: 7")
        wrong = await rm.submit(application("app-1", partition="[rm-2]default"))
        first, second = await heard(rm, 2)
        assert isinstance(first, DeadLetter) and first.request_seq == seq and "partitions" in first.reason
        assert isinstance(second, DeadLetter) and second.request_seq == wrong and "[rm-2]default" in second.reason
        assert await rm.update_configuration("") > wrong
        await core.until(lambda commands: commands[-1].HasField("configure"))


async def test_events_come_when_they_are_wanted(server: NatsServer, bus: NatsBus, core: ScriptedCore) -> None:
    async with ResourceManager.connect(server.url, "rm-1", events=True) as rm:
        record = si.EventRecord(message="it happened")
        await bus.append(subjects.event("rm-1"), record.SerializeToString(), {subjects.LOG_SEQ: "1"})
        assert await heard(rm, 1) == [record]


async def test_calls_at_the_same_time_keep_their_order(server: NatsServer, core: ScriptedCore) -> None:
    async with ResourceManager.connect(server.url, "rm-1") as rm:
        many = [ask("app-1", f"m{number}") for number in range(3_000)]
        await asyncio.gather(rm.submit(application("app-1")), rm.ask(many), rm.remove("app-1"))
        await core.until(lambda commands: commands[-1].application.remove)
        kinds = [command.WhichOneof("command") for command in core.commands[1:]]
        assert kinds == ["application", "allocation", "allocation", "allocation", "application"]


async def test_the_server_may_be_away_for_a_while(server: NatsServer, core: ScriptedCore) -> None:
    async with ResourceManager.connect(server.url, "rm-1") as rm:
        await core.decide(allocated("before"))
        await heard(rm, 1)
        await server.restart()
        await rm.ask([ask("app-1", "k1")])
        await core.until(lambda commands: _asked(commands) == ["k1"], within_s=20)


def _asked(commands: list[Command]) -> list[str]:
    return [one.allocationKey for command in commands for one in command.allocation.asks]


async def test_twenty_thousand_each_way(server: NatsServer, core: ScriptedCore) -> None:
    async with ResourceManager.connect(server.url, "rm-1") as rm:
        asks = [ask("app-1", f"k{number}", vcore=100, memory=2**30) for number in range(20_000)]
        await rm.ask(asks)
        await core.until(lambda commands: len(commands) == 21, within_s=60)
        keys = _asked(core.commands)
        assert keys == [one.allocationKey for one in asks]
        for start in range(0, 20_000, 1_000):
            await core.decide(*(allocated(key) for key in keys[start : start + 1_000]))
        placed: list[str] = []
        started = time.process_time()  # other processes may be busy
        async with asyncio.timeout(60):
            async for callback in rm.callbacks():
                assert isinstance(callback, si.AllocationResponse)
                placed += [one.allocationKey for one in callback.new]
                if len(placed) >= 20_000:
                    break
        assert placed == keys
        assert time.process_time() - started < 10


async def test_an_rm_that_cannot_report_hears_that_it_should(
    server: NatsServer, bus: NatsBus, core: ScriptedCore
) -> None:
    async with ResourceManager.connect(server.url, "rm-1") as rm:
        callbacks = rm.callbacks()
        waiting = asyncio.ensure_future(anext(callbacks))
        await bus.publish(subjects.report_request("rm-1"), b"")
        with pytest.raises(ReportRequested, match="has lost what it knew of 'rm-1'"):
            await asyncio.wait_for(waiting, 20)


async def test_a_report_that_is_wanted_is_given_once(server: NatsServer, bus: NatsBus, core: ScriptedCore) -> None:
    """Asked twice while it is under way; the RM is registered before its handler is called."""
    async with ResourceManager.connect(server.url, "rm-1") as rm:
        registrations: list[int] = []
        reported = asyncio.Event()

        @rm.on_report_requested
        async def report() -> None:
            registrations.append(core.registrations)
            reported.set()

        await bus.publish(subjects.report_request("rm-1"), b"")
        await bus.publish(subjects.report_request("rm-1"), b"")
        await asyncio.wait_for(reported.wait(), 20)
        await rm.submit(application("app-1"))
        assert registrations == [2]


async def test_a_gap_in_what_an_rm_is_told(server: NatsServer, bus: NatsBus, core: ScriptedCore) -> None:
    """A callback that does not follow the one before it is not given out, and the log is looked at."""
    async with ResourceManager.connect(server.url, "rm-1", heartbeat_s=60) as rm:
        beats: asyncio.Queue[Message] = asyncio.Queue()

        async def heard(message: Message) -> None:
            beats.put_nowait(message)

        await bus.subscribe(subjects.heartbeat("rm-1"), heard)
        told = {subjects.LOG_SEQ: "90", subjects.LOG_FACT: "0", subjects.LOG_HASH: "aa", subjects.AFTER: "80.0"}
        await bus.append(subjects.callback("rm-1", "node"), b"", told)
        gap = {**told, subjects.LOG_SEQ: "95", subjects.AFTER: "93.0"}
        await bus.append(subjects.callback("rm-1", "node"), b"", gap)
        callbacks = rm.callbacks()
        await asyncio.wait_for(anext(callbacks), 20)
        with pytest.raises(HistoryChanged, match=r"the callback before 95\.0 is 93\.0"):
            await asyncio.wait_for(anext(callbacks), 20)
        async with asyncio.timeout(20):
            while (await beats.get()).headers.get(subjects.LOG_SEQ) != "90":
                pass
