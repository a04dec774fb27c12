"""Groups become part of the command: in order, the same parts in every attempt, and no RM waits for another's."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterable, Mapping

import pytest

from remuda_bus import subjects
from remuda_bus.memory import MemoryBus
from remuda_proto.remuda.v1 import inbox_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_rmproxy.groups.choice import groups_by
from remuda_rmproxy.groups.group_resolver import Groups
from remuda_rmproxy.groups.resolution import Resolution
from remuda_rmproxy.inbound.translate import commands_of, read_request, users_without_groups
from remuda_rmproxy.records.rm_record import RmRecord
from remuda_rmproxy.settings import RmproxySettings
from services.rmproxy.tests.forwarding import forwarder_of, forwarding

TIMEOUT_S = 0.5


def application(app: str, user: str, *groups: str) -> si.AddApplicationRequest:
    return si.AddApplicationRequest(applicationID=app, ugi=si.UserGroupInformation(user=user, groups=groups))


def request(*new: si.AddApplicationRequest, rm_id: str = "rm-1") -> bytes:
    return si.ApplicationRequest(rmID=rm_id, new=new).SerializeToString()


class Known:
    """Knows all users."""

    is_used = True

    def must_wait(self, users: Iterable[str]) -> bool:
        return bool(list(users))

    async def resolve(self, rm_id: str, users: Iterable[str]) -> Mapping[str, Resolution]:
        return {user: Resolution((f"{user}s",)) for user in users}


async def commands(bus: MemoryBus, rm_id: str, count: int, within_s: float = 5.0) -> list[inbox_pb2.Command]:
    reader = await bus.read(subjects.INBOX.name, subjects.inbox(rm_id))
    found: list[inbox_pb2.Command] = []
    async with asyncio.timeout(within_s):
        while len(found) < count:
            found += [inbox_pb2.Command.FromString(one.payload) for one in await reader.batch()]
    await reader.close()
    return found


async def registered(bus: MemoryBus, *rm_ids: str) -> None:
    for rm_id in rm_ids:
        record = RmRecord(rm_id, state="registered", registration=1)
        await bus.put(subjects.RMS.name, subjects.key_of(rm_id), record.encode())


async def publish(bus: MemoryBus, payload: bytes, rm_id: str = "rm-1", kind: str = "application") -> None:
    await bus.append(subjects.request(rm_id, kind), payload)


async def test_groups_of_the_request_count_first() -> None:
    bus = MemoryBus()
    await registered(bus, "rm-1")
    async with forwarding(forwarder_of(bus, groups=Known())):
        await publish(bus, request(application("a", "ann"), application("b", "bob", "own"), application("c", "")))
        [command] = await commands(bus, "rm-1", 1)
    assert [list(new.ugi.groups) for new in command.application.new] == [["anns"], ["own"], []]
    await bus.close()


async def test_the_order_of_requests_is_kept() -> None:
    bus = MemoryBus()
    await registered(bus, "rm-1")
    async with forwarding(forwarder_of(bus, groups=Known())):
        for number in range(20):
            await publish(bus, request(application(f"a-{number}", "ann")))
            await publish(bus, si.AllocationRequest(rmID="rm-1").SerializeToString(), kind="allocation")
        found = await commands(bus, "rm-1", 40)
    assert [one.request_seq for one in found] == list(range(1, 41))
    await bus.close()


def test_parts_do_not_depend_on_the_answer() -> None:
    payload = request(*(application(f"a-{number}", f"user-{number % 7}") for number in range(300)))
    message = _message(payload)
    users = users_without_groups(read_request(message, "rm-1"))
    assert users == [f"user-{number}" for number in range(7)]
    answers: list[Mapping[str, Resolution]] = [
        {},
        {user: Resolution(tuple(f"{user}-group-{n}" for n in range(20))) for user in users},
        {user: Resolution(problem="away") for user in users},
        {user: Resolution(("x" * 900,) * 60) for user in users},  # more than a message takes
    ]
    shapes = []
    for groups in answers:
        parts = [inbox_pb2.Command.FromString(one) for one in commands_of(message, "rm-1", 40_000, groups)]
        assert all(len(part.SerializeToString()) <= 40_000 for part in parts)
        shapes.append([[new.applicationID for new in part.application.new] for part in parts])
        assert [part.request_part for part in parts] == list(range(len(parts)))
    assert len(shapes[0]) > 1 and all(shape == shapes[0] for shape in shapes)
    too_large = inbox_pb2.Command.FromString(commands_of(message, "rm-1", 40_000, answers[3])[0])
    assert "more than the 10000 that a message has" in too_large.groups_unresolved["user-0"]


async def test_a_directory_that_never_answers_delays_no_other_rm() -> None:
    """A real LDAP client, and a server that accepts connections and says nothing."""
    pytest.importorskip("ldap3", reason="an environment that is older than its lock")
    bus = MemoryBus()
    await registered(bus, "rm-1", "rm-2")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings = RmproxySettings(
            groups_resolver="ldap", groups_timeout_s=TIMEOUT_S, ldap_url=(f"ldap://127.0.0.1:{silent.getsockname()[1]}",),
            ldap_user_base="dc=test", ldap_group_base="dc=test", ldap_start_tls=False,
        )  # fmt: skip
        async with forwarding(forwarder_of(bus, groups=groups_by(settings))):
            for number in range(50):
                await publish(bus, request(application(f"a-{number}", f"user-{number}")))
            waits = []
            for number in range(20):
                began = time.monotonic()
                await publish(bus, request(application(f"b-{number}", "bob", "ops"), rm_id="rm-2"), "rm-2")
                await commands(bus, "rm-2", number + 1)
                waits.append(time.monotonic() - began)
            assert max(waits) < TIMEOUT_S / 2, waits
            found = await commands(bus, "rm-1", 50, 20 * TIMEOUT_S)
    assert [one.application.new[0].applicationID for one in found] == [f"a-{number}" for number in range(50)]
    for number, one in enumerate(found):
        assert "could not be resolved: " in one.groups_unresolved[f"user-{number}"]
    await bus.close()


@pytest.mark.parametrize("resolver", ["request", "os"])
async def test_resolvers_by_name(resolver: str) -> None:
    groups: Groups = groups_by(RmproxySettings.model_validate({"groups_resolver": resolver}))
    assert groups.is_used == (resolver == "os")
    assert await groups.resolve("rm-1", ["no-such-user"]) in ({}, {"no-such-user": Resolution()})


def _message(payload: bytes):
    from remuda_bus.bus import Message

    return Message(subjects.request("rm-1", "application"), payload, seq=7)
