"""Certificates and keys are replaced while services run: they read their files anew with each attempt to connect, and a
service that cannot connect ends when it has to, with a line that says why."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from remuda_bus import subjects
from remuda_bus.nats import Access, NatsBus, connect
from tests.patience import PATIENCE
from tests.system.guarded import GuardedServer, make_certificates
from tests.system.running import until

WITHIN_S = 20.0


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[GuardedServer]:
    server = GuardedServer(tmp_path / "nats")
    async with server:
        yield server


@pytest.fixture
def files(guarded: GuardedServer, tmp_path: Path) -> Access:
    """Those of one client, which nobody else has."""
    return copied(guarded, "admin", tmp_path / "client")


def copied(server: GuardedServer, role: str, directory: Path) -> Access:
    directory.mkdir()
    theirs = server.access(role)
    assert theirs.ca is not None and theirs.seed is not None
    return Access(
        ca=Path(shutil.copy(theirs.ca, directory / "ca.pem")), seed=Path(shutil.copy(theirs.seed, directory / "seed"))
    )


@asynccontextmanager
async def connected(server: GuardedServer, access: Access) -> AsyncIterator[NatsBus]:
    bus = await connect(server.url, "remuda-admin", access=access, timeout_s=10)
    await bus.declare()
    try:
        yield bus
    finally:
        async with asyncio.timeout(5 * PATIENCE):
            await bus.close()


async def certified_anew(server: GuardedServer, directory: Path) -> bytes:
    """The server restarts with a certificate of another CA, which is returned."""
    make_certificates(directory)
    await server.stop()
    for name in ("server.pem", "server.key"):
        shutil.copy(directory / name, server.secrets / name)
    await server.start()
    return (directory / "ca.pem").read_bytes()


async def refused(bus: NatsBus, why: str) -> bool:
    """Whether the last attempt to connect has failed with this error."""
    return not bus.connected and why in str(bus._connection.client.last_error).lower()


async def works(bus: NatsBus) -> bool:
    return bus.connected and await bus.get(subjects.LEASES.name, "nobody") is None


async def test_a_ca_that_is_added_to_the_file_is_trusted_at_once(
    guarded: GuardedServer, files: Access, tmp_path: Path
) -> None:
    async with connected(guarded, files) as bus:
        ca = await certified_anew(guarded, tmp_path / "new")
        await until(lambda: refused(bus, "certificate verify failed"), WITHIN_S)
        assert files.ca is not None
        with files.ca.open("ab") as file:
            file.write(ca)
        await until(lambda: works(bus), WITHIN_S)
        assert bus.connection_count == 2


async def test_a_ca_file_that_is_half_written_is_read_again(
    guarded: GuardedServer, files: Access, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What cannot be read is reported like a server that does not answer, and ends nothing."""
    async with connected(guarded, files) as bus:
        ca = await certified_anew(guarded, tmp_path / "new")
        assert files.ca is not None
        files.ca.write_bytes(ca[: len(ca) // 2])
        await until(lambda: printed(capsys, f"REMUDA_NATS_CA={files.ca}"), WITHIN_S)
        files.ca.write_bytes(ca)
        await until(lambda: works(bus), WITHIN_S)


async def printed(capsys: pytest.CaptureFixture[str], text: str) -> bool:
    return text in capsys.readouterr().out


async def test_a_key_that_is_replaced_is_used_at_once(guarded: GuardedServer, files: Access) -> None:
    async with connected(guarded, files) as bus:
        await guarded.stop()
        for old in guarded.keys.directory.glob("admin.*"):
            old.unlink()
        assert guarded.keys.ensure_roles() == ["admin"]
        await guarded.start()
        await until(lambda: refused(bus, "authorization violation"), WITHIN_S)
        fresh = guarded.access("admin").seed
        assert fresh is not None and files.seed is not None
        shutil.copy(fresh, files.seed)
        await until(lambda: works(bus), WITHIN_S)


async def test_a_connection_that_is_never_trusted_can_be_closed(
    guarded: GuardedServer, files: Access, tmp_path: Path
) -> None:
    """`connected` bounds the time. After a failed handshake nobody reports that the socket has ended."""
    async with connected(guarded, files) as bus:
        await certified_anew(guarded, tmp_path / "new")
        await until(lambda: refused(bus, "certificate verify failed"), WITHIN_S)


async def test_rmproxy_ends_with_a_line_when_it_has_lost_its_lease(guarded: GuardedServer, tmp_path: Path) -> None:
    """It cannot connect, so it cannot renew the lease: it ends, and whatever runs it starts it again."""
    access = copied(guarded, "rmproxy", tmp_path / "client")
    async with connected(guarded, copied(guarded, "admin", tmp_path / "admin")):
        pass
    rmproxy = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "remuda", "run", "rmproxy", "--nats", guarded.url,
        env={"REMUDA_NATS_CA": str(access.ca), "REMUDA_NATS_SEED": str(access.seed), "REMUDA_INSTANCE": "rmproxy-1"},
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert rmproxy.stderr is not None
    try:
        async with asyncio.timeout(30 * PATIENCE):
            await rmproxy.stderr.readuntil(b"lease acquired")
            await certified_anew(guarded, tmp_path / "new")
            said = await rmproxy.stderr.read()
            assert await rmproxy.wait() == 1
    finally:
        if rmproxy.returncode is None:
            rmproxy.kill()
            await rmproxy.wait()
    assert "LeaseLost: the lease was lost" in said.decode()
