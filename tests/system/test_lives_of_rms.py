"""RMs that stop sending heartbeats, resume, register again, deregister, or run twice: over a real nats-server, with all
services."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

import pytest
import structlog

from remuda.embedded import NatsServer
from remuda_bus import subjects
from remuda_bus.nats import NatsBus
from remuda_config.shell import main as config_main
from remuda_core.shell.main import main as core_main
from remuda_core.shell.settings import CoreSettings
from remuda_proto.si.v1 import si_pb2 as si
from remuda_rmproxy.shell import main as rmproxy_main
from remuda_sdk import DeadLetter, RegistrationFailed, ResourceManager, Superseded, application, ask, node
from tests.system.running import QUEUES, listens, placed, running, until


@pytest.fixture
async def services(server: NatsServer, bus: NatsBus) -> AsyncIterator[None]:
    async with (
        running(server.url, "config", lambda bus, settings: config_main(bus, settings, None)),
        running(server.url, "core", core_main, CoreSettings),
        running(server.url, "rmproxy", rmproxy_main),
    ):
        await until(lambda: listens(bus))
        yield


async def state_of(bus: NatsBus, rm_id: str = "rm-1") -> str:
    reply = await bus.request(subjects.core_query(rm_id, "stats"), b"{}")
    return str(json.loads(reply.payload)["state"])


async def becomes(bus: NatsBus, state: str) -> None:
    async def holds() -> bool:
        return await state_of(bus) == state

    await until(holds)


async def begin(rm: ResourceManager) -> None:
    await rm.report_nodes([node("n1", vcore=100)])
    await rm.submit(application("app-1", queue="root.a", user="u"))


def a_silent(url: str, timeout: str = "10m", **options: object) -> ResourceManager:
    """It announces a heartbeat ten times a second, and none is published."""
    announced = {"heartbeat.interval": "100ms", "heartbeat.timeout": timeout}
    return ResourceManager.connect(url, "rm-1", config=QUEUES, extra_config=announced, **options)  # type: ignore[arg-type]


async def test_while_it_is_silent_nothing_is_allocated(server: NatsServer, bus: NatsBus, services: None) -> None:
    async with a_silent(server.url) as rm:
        await begin(rm)
        await becomes(bus, "Paused")
        await rm.ask([ask("app-1", "k1", vcore=1)])
        await bus.publish(subjects.heartbeat("rm-1"), b"")
        (one,) = await placed(rm, "k1")
        await becomes(bus, "Paused")
        await rm.release([one])  # what it says counts all the same


async def test_it_is_gone_after_a_while(server: NatsServer, bus: NatsBus, services: None) -> None:
    async with a_silent(server.url, timeout="500ms") as rm:
        await begin(rm)
        await becomes(bus, "Stopped")
        await rm.register()
        assert await state_of(bus) == "Running"


async def test_who_is_heard_stays(server: NatsServer, bus: NatsBus, services: None) -> None:
    async with ResourceManager.connect(server.url, "rm-1", config=QUEUES, heartbeat_s=0.4) as rm:
        await begin(rm)
        async with running(server.url, "another-rmproxy", rmproxy_main):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(2):
                    await becomes(bus, "Paused")
        assert await state_of(bus) == "Running"
    await becomes(bus, "Paused")  # it has left without a word


async def test_who_has_announced_nothing_is_never_silent(server: NatsServer, bus: NatsBus, services: None) -> None:
    async with ResourceManager.connect(server.url, "rm-1", config=QUEUES):
        await bus.publish(subjects.heartbeat("rm-1"), b"")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await becomes(bus, "Paused")


async def test_an_rmproxy_that_takes_over_gives_them_time(server: NatsServer, bus: NatsBus) -> None:
    async with (
        running(server.url, "config", lambda bus, settings: config_main(bus, settings, None)),
        running(server.url, "core", core_main, CoreSettings),
    ):
        async with running(server.url, "rmproxy", rmproxy_main):
            await until(lambda: listens(bus))
            async with a_silent(server.url):
                await becomes(bus, "Paused")
        async with running(server.url, "rmproxy-2", rmproxy_main):
            await until(lambda: listens(bus))
            await bus.publish(subjects.heartbeat("rm-1"), b"")
            await becomes(bus, "Running")  # the first heartbeat is reported, even if the same was reported before
            await becomes(bus, "Paused")


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        ({"resync": "later"}, "extraConfig resync 'later': expected report or replay"),
        ({"heartbeat.interval": "often"}, "extraConfig heartbeat.interval 'often': expected a duration"),
        ({"heartbeat.interval": "1ms"}, "extraConfig heartbeat.interval '1ms': expected 0.05 s to 3600 s"),
        ({"heartbeat.interval": "5s", "heartbeat.timeout": "10s"}, "expected at least 3 times"),
    ],
)
async def test_what_is_announced_badly_is_refused(
    server: NatsServer, services: None, extra: dict[str, str], says: str
) -> None:
    with pytest.raises(RegistrationFailed, match=says) as failure:
        async with ResourceManager.connect(server.url, "rm-1", extra_config=extra):
            pass
    assert failure.value.code == 400


async def test_it_deregisters(server: NatsServer, bus: NatsBus, services: None) -> None:
    async with ResourceManager.connect(server.url, "rm-1", config=QUEUES) as rm:
        await begin(rm)
        await rm.ask([ask("app-1", "k1", vcore=1)])
        await placed(rm, "k1")
        await rm.ask([ask("app-1", f"more-{number}", vcore=1) for number in range(50)])
        waits = asyncio.create_task(placed(rm, "never"))
        with structlog.testing.capture_logs() as logs:
            await rm.deregister()  # what was asked before was handled before
            assert await state_of(bus) == "Stopped"
        assert not [one for one in logs if one.get("consumer")] and not waits.done(), logs
        waits.cancel()
        with pytest.raises(RegistrationFailed, match="'rm-1' is not registered") as failure:
            await rm.deregister()
        assert failure.value.code == 404
        sequence = await rm.ask([ask("app-1", "k2", vcore=1)])
        letter = await bus.read(subjects.DEAD_LETTERS.name, subjects.dead_letter("rm-1"))
        (dead,) = await letter.batch(timeout_s=5)
        assert dead.headers[subjects.ORIGIN_SEQ] == str(sequence)
        assert "'rm-1' is not registered" in dead.headers[subjects.REASON]

        await rm.register()
        await begin(rm)
        await rm.ask([ask("app-1", "k3", vcore=1)])
        (one,) = await placed(rm, "k3")
        assert one.nodeID == "n1"


async def test_report_forgets_what_was_told_and_replay_tells_it_again(
    server: NatsServer, bus: NatsBus, services: None
) -> None:
    async with ResourceManager.connect(server.url, "rm-1", config=QUEUES) as rm:
        await begin(rm)
        await rm.ask([ask("app-1", "k1", vcore=1)])
        (first,) = await placed(rm, "k1")  # not moved on from: it dies before it has written it down
        await rm.ask([ask("app-1", f"k{number}", vcore=1) for number in range(2, 6)])
    async with ResourceManager.connect(server.url, "rm-1", config=QUEUES, resync="replay") as rm:
        again = await placed(rm, *(f"k{number}" for number in range(1, 6)))
        assert again[0] == first and len({one.UUID for one in again}) == 5
        await rm.ask([ask("app-1", "k6", vcore=1)])
        (one,) = await placed(rm, "k6")
    async with ResourceManager.connect(server.url, "rm-1", config=QUEUES) as rm:
        await rm.submit(application("app-1", queue="root.a", user="u"))
        await rm.report_nodes([node("n1", vcore=100, existing=again)])
        await rm.ask([ask("app-1", "k7", vcore=1)])
        told = []
        async with asyncio.timeout(10):
            async for callback in rm.callbacks():
                told.append(callback)
                if isinstance(callback, si.AllocationResponse):
                    break
        last = told[-1]
        assert isinstance(last, si.AllocationResponse)
        assert [one.allocationKey for one in last.new] == ["k7"]  # not k6, which was not moved on from
        assert not [one for one in told if isinstance(one, DeadLetter)]
        assert one.allocationKey == "k6"


async def test_a_request_that_came_before_a_replay_is_not_lost(
    server: NatsServer, bus: NatsBus, services: None
) -> None:
    """Nor one that came before a report handled after it."""
    async with ResourceManager.connect(server.url, "rm-1", config=QUEUES, resync="replay") as rm:
        await begin(rm)
        await rm.ask([ask("app-1", f"k{number}", vcore=1) for number in range(20)])
        await rm.register()
        await rm.ask([ask("app-1", f"k{number}", vcore=1) for number in range(20, 40)])
        await rm.register()
        keys = [f"k{number}" for number in range(40)]
        assert len({one.UUID for one in await placed(rm, *keys)}) == 40
        await rm.submit(application("app-2", queue="root.a", user="u"))
        await rm.register(resync="report")
        await rm.submit(application("app-1", queue="root.a", user="u"))
        async with asyncio.timeout(10):
            async for callback in rm.callbacks():
                if isinstance(callback, si.ApplicationResponse):
                    assert [one.applicationID for one in callback.accepted] == ["app-1"]  # app-2 was told, and is over
                    break


async def test_the_newer_instance_wins_and_the_older_is_told(server: NatsServer, bus: NatsBus, services: None) -> None:
    async with ResourceManager.connect(server.url, "rm-1", config=QUEUES, heartbeat_s=0.1) as older:
        await begin(older)
        await older.ask([ask("app-1", "k1", vcore=1)])
        waits = asyncio.create_task(placed(older, "never"))
        async with asyncio.timeout(10), ResourceManager.connect(server.url, "rm-1", resync="replay") as newer:
            asks = older._encoder.asks([ask("app-1", "k2", vcore=1)], 1_000_000)
            assert older._request_publisher is not None
            late = await older._request_publisher.publish("allocation", asks)  # it does not know yet
            with pytest.raises(Superseded, match="another instance"):
                await waits
            with pytest.raises(Superseded):
                await older.ask([ask("app-1", "k3", vcore=1)])
            with pytest.raises(Superseded):
                await placed(older, "never")
            with pytest.raises(Superseded):
                await older.deregister()
            await newer.ask([ask("app-1", "k4", vcore=1)])
            letters, new = [], []
            async for callback in newer.callbacks():
                if isinstance(callback, DeadLetter):
                    letters.append(callback)
                if isinstance(callback, si.AllocationResponse):
                    new += [one.allocationKey for one in callback.new]
                if letters and "k4" in new:
                    break
            assert "k2" not in new
            assert [(letter.request_seq, letter.reason) for letter in letters] == [
                (late, "registration 1 of 'rm-1' is superseded by registration 2")
            ]


async def test_two_that_take_turns(server: NatsServer, bus: NatsBus, services: None) -> None:
    """Everything is told to one of them, in order, and nothing to both that was acknowledged."""
    told: list[str] = []

    async def take(rm: ResourceManager) -> None:
        with contextlib.suppress(Superseded):
            async for callback in rm.callbacks():
                if isinstance(callback, si.AllocationResponse):
                    for one in callback.new:
                        if one.UUID not in told[-100:]:  # the one that was worked on when the other came
                            told.append(one.UUID)

    async with (
        ResourceManager.connect(server.url, "rm-1", config=QUEUES, resync="replay") as one,
        ResourceManager.connect(server.url, "rm-1", config=QUEUES, resync="replay") as two,
    ):
        await begin(two)
        taking = asyncio.create_task(take(two))
        for turn in range(6):
            active = (one, two)[turn % 2]
            await active.register()
            await taking
            taking = asyncio.create_task(take(active))
            await active.ask([ask("app-1", f"k{turn}-{number}", vcore=1) for number in range(10)])

        async def all_told() -> bool:
            return len(told) == 60

        await until(all_told)
        taking.cancel()
    assert len(set(told)) == 60 and told == sorted(told)


async def test_a_lost_stream_of_requests_does_not_hold_up_what_is_asked_afterwards(
    server: NatsServer, bus: NatsBus
) -> None:
    """The core knows up to which position it has answered. In a new stream positions go on beyond that."""
    async with (
        running(server.url, "config", lambda bus, settings: config_main(bus, settings, None)),
        running(server.url, "core", core_main, CoreSettings),
        ResourceManager.connect(server.url, "rm-1", config=QUEUES, register=False) as rm,
    ):
        async with running(server.url, "rmproxy", rmproxy_main):
            await until(lambda: listens(bus))
            await rm.register()
            await begin(rm)
            before = await rm.ask([ask("app-1", "k1", vcore=1)])
            await placed(rm, "k1")
        await bus._jetstream.api(f"STREAM.DELETE.{subjects.REQUESTS.name}")
        async with running(server.url, "rmproxy", rmproxy_main):
            assert before < await rm.ask([ask("app-1", "k2", vcore=1)])
            await placed(rm, "k2")


async def test_what_is_sent_twice_or_late_takes_effect_once(server: NatsServer, bus: NatsBus, services: None) -> None:
    """Repeated by a client that got no answer, forwarded again after a crash, confirmed and released twice."""
    async with ResourceManager.connect(server.url, "rm-1", config=QUEUES, confirm_releases=False) as rm:
        await begin(rm)
        request = si.AllocationRequest(rmID="rm-1", asks=[ask("app-1", "k1", vcore=1)]).SerializeToString()
        subject = subjects.request("rm-1", "allocation")
        for _ in range(3):
            await bus.append(subject, request, msg_id="mine-1")
        (one,) = await placed(rm, "k1")
        inbox = await bus.read(subjects.INBOX.name, subjects.inbox("rm-1"))
        for command in await inbox.batch(timeout_s=5):  # another rmproxy, two minutes later, from the beginning
            if b"k1" in command.payload:
                await bus.append(command.subject, command.payload, msg_id=f"again-{command.seq}")
        await rm.release([one, one])
        await rm.release([one])
        await rm.ask([ask("app-1", "k2", vcore=1)])
        told: list[si.AllocationRelease] = []
        async with asyncio.timeout(10):
            async for callback in rm.callbacks():
                if isinstance(callback, si.AllocationResponse):
                    told += callback.released
                    assert "k1" not in [new.allocationKey for new in callback.new if new.UUID != one.UUID]
                    if callback.new and callback.new[0].allocationKey == "k2":
                        break
        assert [release.UUID for release in told] == [one.UUID] * 3  # each is acknowledged, one of them has freed
        stats = json.loads((await bus.request(subjects.core_query("rm-1", "stats"), b"{}")).payload)
        assert (stats["allocations"], stats["allocations_ever"]) == (1, 2)


async def test_a_report_that_stops_half_way_begins_again(server: NatsServer, bus: NatsBus, services: None) -> None:
    """With allocations over the quota, a gang half of whose placeholders are replaced, and an unknown application."""
    narrow = QUEUES.replace("{name: a}", "{name: a, resources: {max: {vcore: 4000m}}}")
    async with ResourceManager.connect(server.url, "rm-1", config=QUEUES) as rm:
        await rm.report_nodes([node("n1", vcore=4_000), node("n2", vcore=4_000)])
        await rm.submit(application("gang", queue="root.a", user="u", placeholders={"vcore": 4_000}))
        await rm.ask([ask("gang", f"p{number}", vcore=1_000, task_group="tg", placeholder=True) for number in range(4)])
        placeholders = await placed(rm, "p0", "p1", "p2", "p3")
        await rm.ask([ask("gang", "k0", vcore=1_000, task_group="tg")])
        (real,) = await placed(rm, "k0")
        await rm.submit(application("app-1", queue="root.a", user="u"))
        await rm.ask([ask("app-1", "k1", vcore=1_000)])
        (lonely,) = await placed(rm, "k1")

    running_there: dict[str, list[si.Allocation]] = {"n1": [], "n2": []}
    for one in [*placeholders[1:], real, lonely]:
        running_there[one.nodeID].append(one)
    gang = application("gang", queue="root.a", user="u", placeholders={"vcore": 4_000})
    async with ResourceManager.connect(server.url, "rm-1", config=narrow) as rm:
        await rm.submit(gang, application("app-1", queue="root.a", user="u"))
        await rm.report_nodes([node("n1", vcore=4_000, existing=running_there["n1"])])
    # It died there. It has forgotten app-1, and finds it out.
    async with ResourceManager.connect(server.url, "rm-1", config=narrow) as rm:
        await rm.submit(gang)
        await rm.report_nodes([node(name, vcore=4_000, existing=there) for name, there in running_there.items()])
        assert await answers_to_nodes(rm) == {"n1": True, "n2": True}
        assert await allocations_in(bus) == 4  # what runs for app-1 is occupied
        await rm.submit(application("app-1", queue="root.a", user="u"))

        async def is_booked() -> bool:
            return await allocations_in(bus) == 5  # over the maximum of 4

        await until(is_booked)
        await rm.ask([ask("gang", "k2", vcore=1_000, task_group="tg")])
        (second,) = await placed(rm, "k2")  # the gang goes on where it was
        assert second.UUID not in {one.UUID for one in [*placeholders, real, lonely]}


async def allocations_in(bus: NatsBus) -> int:
    stats = json.loads((await bus.request(subjects.core_query("rm-1", "stats"), b"{}")).payload)
    return int(stats["allocations"])


async def answers_to_nodes(rm: ResourceManager) -> dict[str, bool]:
    """Which were accepted, once both are answered."""
    answered: dict[str, bool] = {}
    async with asyncio.timeout(10):
        async for callback in rm.callbacks():
            if isinstance(callback, si.NodeResponse):
                answered |= {one.nodeID: False for one in callback.rejected}
                answered |= {one.nodeID: True for one in callback.accepted}
            if len(answered) == 2:
                break
    return answered
