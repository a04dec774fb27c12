"""rmproxy over a real nats-server, with the real configuration service and a core that decides what the test says."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from functools import partial

import pytest

from remuda.embedded import NatsServer
from remuda_bus import subjects
from remuda_bus.bus import Message, Refused
from remuda_bus.nats import NatsBus
from remuda_config.shell import main as config_main
from remuda_proto.remuda.v1 import log_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_rmproxy import limits
from remuda_rmproxy.outbound.callback_publisher import read_published_position
from remuda_rmproxy.settings import RmproxySettings
from remuda_rmproxy.shell import main as rmproxy_main
from tests.system.running import listens, running, until
from tests.system.scripted_core import Fact, ScriptedCore, allocated, scripted_core

impatient = partial(rmproxy_main, core_timeout_s=0.5)


@pytest.fixture
async def config(server: NatsServer) -> AsyncIterator[None]:
    async with running(server.url, "config", lambda bus, settings: config_main(bus, settings, None)):
        yield


@pytest.fixture
async def rmproxy(server: NatsServer, config: None) -> AsyncIterator[None]:
    async with running(server.url, "rmproxy", rmproxy_main, RmproxySettings):
        yield


@pytest.fixture
async def core(server: NatsServer, rmproxy: None) -> AsyncIterator[ScriptedCore]:
    async with scripted_core(server.url, "rm-1") as core:
        yield core


async def register(bus: NatsBus, rm_id: str = "rm-1", subject_of: str = "", **fields: object) -> Message:
    """Waits for an rmproxy to be there, and for its answer."""
    request = si.RegisterResourceManagerRequest(rmID=rm_id, **fields)  # type: ignore[arg-type]
    subject = subjects.register(subject_of or rm_id)
    await until(lambda: listens(bus))
    return await bus.request(subject, request.SerializeToString(), timeout_s=20)


async def record(bus: NatsBus, rm_id: str = "rm-1") -> dict[str, str]:
    entry = await bus.get(subjects.RMS.name, subjects.key_of(rm_id))
    return json.loads(entry.value) if entry is not None and entry.value is not None else {}


async def publish(bus: NatsBus, kind: str, payload: bytes, rm_id: str = "rm-1") -> int:
    return await bus.append(subjects.request(rm_id, kind), payload)


async def told(bus: NatsBus, count: int, rm_id: str = "rm-1", kind: str = "*") -> list[Message]:
    """The first callbacks of an RM; fails when there are fewer within 10 s."""
    reader = await bus.read(subjects.CALLBACKS.name, subjects.callback(rm_id, kind))
    messages: list[Message] = []
    async with asyncio.timeout(10):
        while len(messages) < count:
            messages += await reader.batch()
    await reader.close()
    return messages


# Registration


@pytest.fixture
def one_rm_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before rmproxy starts."""
    monkeypatch.setenv("REMUDA_MAX_RMS", "1")


async def test_more_rms_than_there_may_be(one_rm_at_most: None, bus: NatsBus, core: ScriptedCore) -> None:
    """A new one is refused; one that is on record registers again."""
    await register(bus)
    with pytest.raises(Refused, match="rmID 'rm-2': 1 RMs are on record in remuda_rms") as refused:
        await register(bus, "rm-2")
    assert refused.value.code == 503
    assert await record(bus, "rm-2") == {}
    assert await bus.get(subjects.CONFIGURATIONS.name, "rm.rm-2") is None
    await register(bus)


async def test_a_registration_is_answered_once_the_core_has_accepted(bus: NatsBus, core: ScriptedCore) -> None:
    reply = await register(bus, version="1.0", policyGroup="group")
    assert si.RegisterResourceManagerResponse.FromString(reply.payload) == si.RegisterResourceManagerResponse()
    [command] = core.commands
    assert command.register.rm_id == "rm-1" and command.register.configuration.partitions[0].name == "default"
    assert reply.headers[subjects.REGISTRATION] == "1"
    assert await record(bus) == {
        "rm_id": "rm-1", "policy_group": "group", "version": "1.0", "config_source": "built-in", "state": "registered",
        "extra_config": {}, "registration": 1, "callbacks_after": 0, "life": 0, "deregistered_ms": 0,
        "config_checksum": "",
    }  # fmt: skip


async def test_a_registered_rm_may_register_again(bus: NatsBus, core: ScriptedCore) -> None:
    await register(bus)
    await register(bus, version="2")
    assert core.registrations == 2 and (await record(bus))["version"] == "2"


async def test_a_registration_that_is_not_understood_is_refused(bus: NatsBus, rmproxy: None) -> None:
    with pytest.raises(Refused, match="that of 'rm-2'") as refusal:
        await register(bus, "rm-1", subject_of="rm-2")
    assert refusal.value.code == 400


async def test_a_configuration_with_problems_is_refused_with_all_of_them(bus: NatsBus, rmproxy: None) -> None:
    with pytest.raises(Refused) as refusal:
        await register(bus, config="partitions:\n  - name: default\n    quues: []\n    odd: 1\n")
    assert refusal.value.code == 422
    assert "quues" in refusal.value.reason and "odd" in refusal.value.reason
    assert await record(bus) == {}


async def test_what_the_core_refuses_is_refused_with_its_reason(bus: NatsBus, core: ScriptedCore) -> None:
    core.refuse = "not today"
    with pytest.raises(Refused, match="not today") as refusal:
        await register(bus)
    assert refusal.value.code == 422 and await record(bus) == {}


async def test_without_a_core_the_rm_hears_so(server: NatsServer, bus: NatsBus, config: None) -> None:
    async with running(server.url, "rmproxy", impatient):
        with pytest.raises(Refused, match=r"no core answered within 0\.5 s") as refusal:
            await register(bus)
        assert refusal.value.code == 503
        async with scripted_core(server.url, "rm-1"):  # it is handled when there is one
            await until(lambda: _registered(bus))


async def _registered(bus: NatsBus) -> bool:
    return (await record(bus)).get("state") == "registered"


async def test_without_a_configuration_service_the_rm_hears_so(server: NatsServer, bus: NatsBus) -> None:
    async with running(server.url, "rmproxy", impatient):
        with pytest.raises(Refused, match="no configuration service answered") as refusal:
            await register(bus)
        assert refusal.value.code == 503


async def test_an_rm_id_with_a_colon(server: NatsServer, bus: NatsBus, rmproxy: None) -> None:
    async with scripted_core(server.url, "rm:1") as core:
        await register(bus, "rm:1")
        await core.decide(allocated("k", rm_id="rm:1"))
        [message] = await told(bus, 1, "rm:1")
        assert si.AllocationResponse.FromString(message.payload).new[0].partitionName == "default"


# In


async def test_requests_arrive_at_the_core_in_order_with_its_partition_names(bus: NatsBus, core: ScriptedCore) -> None:
    await register(bus)
    sequences = []
    for number in range(50):
        asks = [si.AllocationAsk(allocationKey=f"k{number}", applicationID="app-1")]
        request = si.AllocationRequest(rmID="rm-1", asks=asks)
        sequences.append(await publish(bus, "allocation", request.SerializeToString()))
    await core.until(lambda commands: len(commands) > 50)
    received = core.commands[1:]
    assert [command.request_seq for command in received] == sequences
    assert [command.allocation.asks[0].allocationKey for command in received] == [f"k{number}" for number in range(50)]
    assert {command.allocation.asks[0].partitionName for command in received} == {"[rm-1]default"}


async def test_a_request_leaves_the_stream_when_it_is_in_the_inbox(bus: NatsBus, core: ScriptedCore) -> None:
    await register(bus)
    await publish(bus, "node", si.NodeRequest(rmID="rm-1").SerializeToString())
    await core.until(lambda commands: len(commands) == 2)

    async def left() -> bool:
        return await bus.last_message(subjects.REQUESTS.name, "si.v1.rm.>") is None

    await until(left)


async def test_dead_letters_never_stop_the_line(bus: NatsBus, core: ScriptedCore) -> None:
    await register(bus)
    bad = [
        await publish(bus, "allocation", b"\xff\xff\xff"),
        await publish(bus, "allocation", si.AllocationRequest(rmID="rm-2").SerializeToString()),
        await publish(bus, "node", si.NodeRequest().SerializeToString()),
        await publish(bus, "application", si.ApplicationRequest(rmID="stranger").SerializeToString(), "stranger"),
    ]
    good = await publish(bus, "node", si.NodeRequest(rmID="rm-1").SerializeToString())
    await core.until(lambda commands: len(commands) == 2)
    assert core.commands[1].request_seq == good

    reader = await bus.read(subjects.DEAD_LETTERS.name, "remuda.dead.*")
    kept: list[Message] = []
    while len(kept) < len(bad):
        kept += await reader.batch(timeout_s=5)
    await reader.close()
    kept.sort(key=lambda message: int(message.headers[subjects.ORIGIN_SEQ]))  # RMs do not wait for each other
    assert [int(message.headers[subjects.ORIGIN_SEQ]) for message in kept] == bad
    assert kept[0].payload == b"\xff\xff\xff"
    assert kept[0].headers[subjects.ORIGIN_SUBJECT] == subjects.request("rm-1", "allocation")
    reasons = [message.headers[subjects.REASON] for message in kept]
    assert "not a AllocationRequest" in reasons[0]
    assert "rmID 'rm-2': expected 'rm-1'" in reasons[1] and "rmID ''" in reasons[2]
    assert "'stranger' is not registered" in reasons[3]

    records = [si.EventRecord.FromString(message.payload) for message in await told(bus, 3, kind="dead_letter")]
    assert [(record.referenceID, record.message) for record in records] == [
        (str(seq), reason) for seq, reason in zip(bad[:3], reasons[:3], strict=True)
    ]
    assert len(await told(bus, 1, "stranger", "dead_letter")) == 1


@pytest.mark.parametrize("stranger", ["*", ">", "a b", "rm/1", "x" * 65, "größe"])
async def test_whatever_stands_in_the_subject_does_not_stop_the_line(
    bus: NatsBus, core: ScriptedCore, stranger: str
) -> None:
    await register(bus)
    with contextlib.suppress(Exception):  # some of these are no subjects for the client or the server either
        await bus.append(subjects.request(stranger, "node"), b"", timeout_s=0.5)
    wrong = si.AllocationRequest(rmID="größe\r\nX: y").SerializeToString()
    await publish(bus, "allocation", wrong)
    good = await publish(bus, "node", si.NodeRequest(rmID="rm-1").SerializeToString())
    await core.until(lambda commands: len(commands) == 2)
    assert core.commands[1].request_seq == good


async def test_a_new_configuration_goes_to_the_core(bus: NatsBus, core: ScriptedCore) -> None:
    await register(bus)
    text = "partitions:\n  - name: default\n    queues:\n      - name: root\n        queues:\n          - name: a\n"
    update = si.UpdateConfigurationRequest(rmID="rm-1", config=text)
    seq = await publish(bus, "configuration", update.SerializeToString())
    await core.until(lambda commands: len(commands) == 2)
    command = core.commands[1]
    assert command.request_seq == seq and command.configure.rm_id == "rm-1"
    assert command.configure.configuration.partitions[0].root.queues[0].name == "a"

    async def recorded() -> bool:
        return (await record(bus))["config_source"] == "registration"

    await until(recorded)


async def test_what_an_update_does_not_name_is_as_it_was_registered(bus: NatsBus, core: ScriptedCore) -> None:
    await register(bus, extraConfig={"compatibility": "yunikorn-1.4", "timing.starting": "7s"})
    for extra in ({}, {"timing.starting": "9s"}):
        update = si.UpdateConfigurationRequest(rmID="rm-1", extraConfig=extra)
        await publish(bus, "configuration", update.SerializeToString())
    await core.until(lambda commands: len(commands) == 3)
    configurations = [command.configure.configuration for command in core.commands[1:]]
    assert [one.compatibility for one in configurations] == ["yunikorn-1.4"] * 2
    assert [one.timing.starting_ms for one in configurations] == [7_000, 9_000]


async def test_a_new_configuration_that_is_refused_is_told(bus: NatsBus, core: ScriptedCore) -> None:
    await register(bus)
    core.refuse = "root.a has applications"
    bad = si.UpdateConfigurationRequest(rmID="rm-1", config="partitions: 7")
    good = si.UpdateConfigurationRequest(rmID="rm-1")
    first = await publish(bus, "configuration", bad.SerializeToString())
    second = await publish(bus, "configuration", good.SerializeToString())
    records = [si.EventRecord.FromString(message.payload) for message in await told(bus, 2, kind="dead_letter")]
    assert [record.referenceID for record in records] == [str(first), str(second)]
    assert "partitions" in records[0].message and records[1].message == "root.a has applications"


# Out


async def test_each_rm_hears_what_concerns_it_and_nothing_else(
    server: NatsServer, bus: NatsBus, core: ScriptedCore
) -> None:
    async with scripted_core(server.url, "rm-2") as other:
        await asyncio.gather(register(bus, "rm-1"), register(bus, "rm-2"))
        for number in range(20):
            await core.decide(allocated(f"a{number}"))
            await other.decide(allocated(f"b{number}", rm_id="rm-2"))
        for rm_id, letter in (("rm-1", "a"), ("rm-2", "b")):
            keys = [
                one.allocationKey
                for message in await told(bus, 20, rm_id)
                for one in si.AllocationResponse.FromString(message.payload).new
            ]
            assert keys == [f"{letter}{number}" for number in range(20)]


async def test_callbacks_of_one_commit_come_in_the_order_of_the_facts(bus: NatsBus, core: ScriptedCore) -> None:
    await register(bus)
    accepted = Fact(application_accepted=log_pb2.ApplicationAccepted(application_id="app-1"))
    node = Fact(node_added=log_pb2.NodeAdded(node_id="n1"))
    seq = await core.decide(node, accepted, allocated("k1"), allocated("k2"), accepted)
    messages = await told(bus, 4)
    assert [message.subject.rpartition(".")[2] for message in messages] == [
        "node", "application", "allocation", "application"
    ]  # fmt: skip
    assert [message.headers[subjects.LOG_FACT] for message in messages] == ["0", "1", "3", "4"]
    assert {message.headers[subjects.LOG_SEQ] for message in messages} == {str(seq)}


async def test_a_commit_in_parts_is_told_as_one(bus: NatsBus, core: ScriptedCore) -> None:
    await register(bus)
    await core.decide(allocated("before"))
    await core.decide(*(allocated(f"{'k' * 200}-{number}") for number in range(20_000)))
    await core.decide(allocated("after"))
    keys: list[str] = []
    reader = await bus.read(subjects.CALLBACKS.name, subjects.callback("rm-1", "allocation"))
    async with asyncio.timeout(20):
        while len(keys) < 20_002:
            for message in await reader.batch():
                keys += [one.allocationKey for one in si.AllocationResponse.FromString(message.payload).new]
    await reader.close()
    assert keys == ["before", *(f"{'k' * 200}-{number}" for number in range(20_000)), "after"]


async def test_telling_goes_on_exactly_where_it_stopped(server: NatsServer, bus: NatsBus, config: None) -> None:
    """rmproxy is interrupted anywhere, again and again, while the core decides: nothing is lost, doubled or swapped."""
    node = Fact(node_added=log_pb2.NodeAdded(node_id="n1"))

    async def decide(core: ScriptedCore) -> None:
        for number in range(300):
            await core.decide(allocated(f"k{number}"), node)

    async with scripted_core(server.url, "rm-1") as core:
        async with running(server.url, "rmproxy", rmproxy_main):
            await register(bus)
        deciding = asyncio.create_task(decide(core))
        lives = 0
        while not deciding.done():
            lives += 1
            before = await read_published_position(bus, "rm-1")
            async with running(server.url, "rmproxy", rmproxy_main):
                await until(lambda before=before: _told_more(bus, before.callback_seq))  # type: ignore[misc]
        async with running(server.url, "rmproxy", rmproxy_main):
            messages = await told(bus, 600)
    positions = [(int(m.headers[subjects.LOG_SEQ]), int(m.headers[subjects.LOG_FACT])) for m in messages]
    assert lives > 2 and len(messages) == 600 and positions == sorted(set(positions))


async def _told_more(bus: NatsBus, than: int) -> bool:
    return (await read_published_position(bus, "rm-1")).callback_seq > than


async def test_a_standby_takes_over_both_directions(server: NatsServer, bus: NatsBus, config: None) -> None:
    async with scripted_core(server.url, "rm-1") as core, running(server.url, "second", rmproxy_main) as second:
        async with running(server.url, "first", rmproxy_main):
            await register(bus)
        for _ in range(5):
            await publish(bus, "node", si.NodeRequest(rmID="rm-1").SerializeToString())
        await core.decide(allocated("k"))
        await core.until(lambda commands: len(commands) == 6)
        assert len(await told(bus, 1)) == 1 and not second.done()
        sequences = [command.request_seq for command in core.commands[1:]]
        assert sequences == sorted(set(sequences))


async def test_what_was_acknowledged_is_trimmed_but_the_newest(
    server: NatsServer, bus: NatsBus, config: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "TRIM_CALLBACKS_INTERVAL_S", 0.1)
    async with running(server.url, "rmproxy", rmproxy_main), scripted_core(server.url, "rm-1") as core:
        await _acknowledge_five(bus, core)


async def _acknowledge_five(bus: NatsBus, core: ScriptedCore) -> None:
    await register(bus)
    for number in range(5):
        await core.decide(allocated(f"k{number}"))
    await told(bus, 5)
    consumer = await bus.join_consumer(subjects.CALLBACKS.name, subjects.callback_consumer("rm-1"), {})
    messages: list[Message] = []
    while len(messages) < 5:  # a batch is what is there
        messages += await consumer.batch(5, timeout_s=5)
    await consumer.ack(messages)

    async def trimmed() -> bool:
        reader = await bus.read(subjects.CALLBACKS.name, subjects.callback("rm-1", "*"))
        left = await reader.batch(timeout_s=0.2)
        await reader.close()
        return len(left) == 1

    await until(trimmed)
    await consumer.close()
    assert (await read_published_position(bus, "rm-1")).callback_seq == messages[-1].seq
