"""A stopped server's streams are cut, put back or swapped: every reader notices, nothing is allocated on what is left,
and one command with the RM's report brings the RM back."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from remuda.embedded import NatsServer
from remuda_bus import subjects
from remuda_bus.nats import NatsBus
from remuda_proto.remuda.v1 import inbox_pb2
from remuda_replication.lease import leader_of
from remuda_sdk import RegistrationFailed
from tests.forgotten import damage
from tests.forgotten.lives import RM, WITHIN_S, Books, back_again, connected, halted, observer
from tests.forgotten.services import SERVICES, Services
from tests.system.running import until


async def end_of_log(bus: NatsBus) -> int:
    last = await bus.last_message(subjects.LOG.name, subjects.log(RM))
    return last.seq if last is not None else 0


Damage = Callable[[NatsServer, Path], None]


def cut(server: NatsServer, old: Path) -> None:
    damage.cut_tail(server.data_dir, subjects.LOG.name)


def cut_without_index(server: NatsServer, old: Path) -> None:
    """The server then takes the end of what is left for the end of the stream."""
    damage.cut_tail(server.data_dir, subjects.LOG.name)
    damage.forget_index(server.data_dir, subjects.LOG.name)


def put_back(server: NatsServer, old: Path) -> None:
    damage.put_back(server.data_dir, old)


def swap(server: NatsServer, old: Path) -> None:
    damage.swap_stream(server.data_dir, old.with_name("fork"), subjects.LOG.name)


DAMAGES = pytest.mark.parametrize("harm", [cut, cut_without_index, put_back, swap])


async def fork(directory: Path) -> None:
    """Another run that goes on from the copy in `old`: other decisions, in as many commits."""
    async with NatsServer(directory / "fork") as other:
        await other.stop()
        shutil.rmtree(other.data_dir / "jetstream")
        damage.copy(directory / "old", other.data_dir)
        await other.start()
        async with Services(other.url), connected(other) as rm:
            books = Books(rm)
            await books.report()
            await books.run("p", "q", "r", "s", "t", "u")


async def lived(
    server: NatsServer, books: Books, directory: Path, harm: Damage, services: Services | None = None
) -> None:
    """A life, with a copy of what was in the middle of it, and its end."""
    await books.report()
    await books.run("a", "b")
    await server.stop()
    damage.copy(server.data_dir, directory / "old")
    await server.start()
    await books.run("c", "d", "e")
    if services is not None:
        await services.stop()
    await server.stop()
    if harm is swap:
        await fork(directory)
    harm(server, directory / "old")
    await server.start()


@DAMAGES
async def test_with_all_services_live(server: NatsServer, tmp_path: Path, harm: Damage) -> None:
    async with Services(server.url):
        rm = connected(server)
        books = Books(rm)
        async with rm:
            await lived(server, books, tmp_path, harm)
            bus = await observer(server)
            halt = await halted(bus)
            end = await end_of_log(bus)
            await books.refused(halt)
            assert await end_of_log(bus) == end
            with pytest.raises(RegistrationFailed, match="is halted") as refused:
                await rm.register()
            assert refused.value.code == 503
            await back_again(server, bus, books, tmp_path)
            await bus.close()


@DAMAGES
async def test_with_all_services_started_anew(server: NatsServer, tmp_path: Path, harm: Damage) -> None:
    """Only the RM and the other streams have the lost positions."""
    rm = connected(server)
    books = Books(rm)
    async with Services(server.url) as services:
        await rm.__aenter__()
        await lived(server, books, tmp_path, harm, services)
    bus = await observer(server)
    async with Services(server.url):
        halt = await halted(bus)
        if harm is put_back:  # nothing else remembers
            assert halt.reason.startswith("the RM has a callback of a commit that the log does not hold")
        await books.refused(halt)
        await back_again(server, bus, books, tmp_path)
        await rm.__aexit__(None, None, None)
    await bus.close()


@pytest.mark.parametrize(
    ("live", "streams"),
    [
        (True, [subjects.INBOX.name]),
        (False, [subjects.REQUESTS.name]),
        (False, [subjects.REQUESTS.name, subjects.INBOX.name]),
    ],
)
async def test_what_rms_have_asked_was_put_back(
    server: NatsServer, tmp_path: Path, live: bool, streams: list[str]
) -> None:
    """The log is whole, but what comes next would be taken for what it has answered. (Lost requests that were forwarded
    do no harm to an rmproxy that knows of them, nor does an inbox that is filled again out of the requests.)"""
    async with Services(server.url) as services, connected(server) as rm:
        books = Books(rm)
        await streams_put_back(server, books, tmp_path, streams, None if live else services)
        bus = await observer(server)
        reason = (await halted(bus)).reason
        assert any(name in reason for name in (*streams, subjects.inbox(RM)))
        await back_again(server, bus, books, tmp_path)
        await bus.close()


@pytest.mark.parametrize("live", [True, False])
async def test_what_rms_are_told_was_put_back(server: NatsServer, tmp_path: Path, live: bool) -> None:
    """Callbacks are derived from the log and published again; an RM drops those it has processed."""
    async with Services(server.url) as services, connected(server) as rm:
        books = Books(rm)
        await streams_put_back(server, books, tmp_path, [subjects.CALLBACKS.name], None if live else services)
        await books.run("x", "y")
        assert len(books.running) == 7


async def streams_put_back(
    server: NatsServer, books: Books, directory: Path, streams: list[str], stopped: Services | None
) -> None:
    await books.report()
    await books.run("a", "b")
    await server.stop()
    damage.copy(server.data_dir, directory)
    await server.start()
    await books.run("c", "d", "e")
    if stopped is not None:
        await stopped.stop()
    await server.stop()
    for stream in streams:
        damage.swap_stream(server.data_dir, directory, stream)
    await server.start()
    if stopped is not None:
        stopped.start()


@pytest.mark.parametrize("harm", [cut, put_back, swap])
@pytest.mark.parametrize("reader", ["leader", "standby", "rmproxy", "events"])
async def test_each_reader_notices_alone(server: NatsServer, tmp_path: Path, reader: str, harm: Damage) -> None:
    """All others are gone before the server is, and nothing else is started again."""
    async with Services(server.url) as services, connected(server) as rm:
        books = Books(rm)
        bus = await observer(server)
        await books.report()
        await books.run("a")
        await server.stop()
        damage.copy(server.data_dir, tmp_path / "old")
        await server.start()
        await books.run("b", "c", "d")
        name = await name_of(reader, bus)
        await services.stop(*(other for other in SERVICES if other != name))
        await server.stop()
        if harm is swap:
            await fork(tmp_path)
        harm(server, tmp_path / "old")
        await server.start()
        if reader in ("leader", "standby"):  # which may lead by now; who leads looks when there is something to decide
            something = inbox_pb2.Command(rm_connection=inbox_pb2.RmConnection(state="lost", reason="to be decided"))
            await bus.append(subjects.inbox(RM), something.SerializeToString())
        assert (await halted(bus)).by == name
        await bus.close()


async def name_of(reader: str, bus: NatsBus) -> str:
    leader = ""

    async def is_led() -> bool:
        nonlocal leader
        leader = await leader_of(bus, RM) or ""
        return bool(leader)

    await until(is_led, WITHIN_S)
    cores = {"leader": leader, "standby": "core-1" if leader == "core-2" else "core-2"}
    return cores.get(reader, reader)
