"""A disk that fills up, for real: said before and while, and over by itself. Needs root, to mount a small tmpfs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.tests.running import Lines, finished, remuda, status, stopped
from remuda.embedded.storage import Level, Storage, StorageWatch, level_of

GIB = 1024**3
MIB = 1024**2


def test_levels() -> None:
    assert level_of(200 * GIB, 2_000 * GIB) is Level.ENOUGH  # a tenth of a large disk is plenty
    assert level_of(9 * GIB, 2_000 * GIB) is Level.LOW
    assert level_of(4 * GIB, 50 * GIB) is Level.LOW
    assert level_of(20 * MIB, 2_000 * GIB) is Level.FULL
    assert level_of(20 * MIB, 100 * MIB) is Level.ENOUGH
    assert level_of(1 * MIB, 100 * MIB) is Level.FULL


def test_a_failed_write_is_remembered_until_the_restart(tmp_path: Path) -> None:
    log = tmp_path / "nats.log"
    log.write_text("no space left on device, said the server before this one\n")
    watch = StorageWatch(tmp_path, log)
    assert not watch.check().failed
    with log.open("a") as file:
        file.write("[ERR] write 1.blk: no space left on device\n")
    assert watch.check().failed
    assert watch.check().failed
    watch.restarted()
    assert not watch.check().failed
    log.write_text("rotated; no space left on device")
    assert watch.check().failed


def test_a_directory_that_is_gone_is_a_full_disk(tmp_path: Path) -> None:
    """The watch goes on, and sees when it is there again."""
    data = tmp_path / "data"
    watch = StorageWatch(data, tmp_path / "nats.log")
    found = watch.check()
    assert (found.level, found.failed) == (Level.FULL, True)
    assert found.describe().startswith(f"GONE: {data} cannot be read")
    data.mkdir()
    assert watch.check().level is not Level.FULL


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() != 0:
        pytest.skip("mounting a small tmpfs needs root")
    mount = ["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", str(disk)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


def fill(file: Path, leave: int = 0) -> None:
    """Until `leave` bytes are free; 0: until nothing more can be written."""
    with file.open("wb", buffering=0) as out, contextlib.suppress(OSError):
        while not leave or os.statvfs(file).f_bavail * os.statvfs(file).f_frsize > leave:
            out.write(bytes(64 * 1024))


async def load(url: str, rm: str) -> str:
    made = ("--nodes", "2", "--apps", "1", "--asks", "20", "--plain", "--keep")
    code, said = await finished("load", "--nats", url, "--rm", rm, *made)
    assert code == 0, said
    return said


@pytest.mark.timeout(180)
async def test_a_full_disk_is_told_and_overcome_without_a_restart_by_hand(small_disk: Path) -> None:
    data, filler = small_disk / "data", small_disk / "filler"
    process = await remuda("up", "--data", str(data), "--port", "0", "--plain")
    lines = Lines(process)
    try:
        await lines.until(r" remuda +ready:")
        url = json.loads((data / "remuda.json").read_text())["nats"]
        await load(url, "before")
        before = await placed(url, "before")

        fill(filler, leave=5 * MIB)
        await lines.until(r" storage +LOW: .* free in ")
        code, said = await status(url)
        assert code == 0 and "storage" in said and "LOW: " in said, said

        fill(small_disk / "rest")
        await lines.until(r" storage +FULL: .*free space")
        await asyncio.gather(*(asks_in_vain(url) for _ in range(3)))
        code, said = await finished("status", "--nats", url)
        said = " ".join(said.split())
        assert "FULL: " in said and "free space" in said, said
        assert "no resource manager is registered" not in said

        filler.unlink()
        (small_disk / "rest").unlink()
        await lines.until(r" nats-server +ended \(storage was full and has space again\), restarting")
        await lines.until(r" nats-server +ready")
        await until_scheduled(url)
        assert await placed(url, "before") == before
        code, said = await status(url, "--json")
        assert code == 0, said
        assert json.loads(said)["storage"]["level"] == "enough"
        assert not json.loads(said)["storage"]["failed"]
        assert await stopped(process) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def asks_in_vain(url: str) -> None:
    """While the disk is full; what becomes of it does not matter."""
    process = await remuda("load", "--nats", url, "--nodes", "1", "--apps", "1", "--asks", "5", "--plain", "--keep")
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(5):
            await process.wait()
    if process.returncode is None:
        process.kill()
        await process.wait()


async def until_scheduled(url: str) -> None:
    async with asyncio.timeout(60):
        made = ("--rm", "after", "--nodes", "1", "--apps", "1", "--asks", "5", "--plain", "--keep")
        while (await finished("load", "--nats", url, *made))[0] != 0:
            pass


async def placed(url: str, rm: str) -> list[tuple[str, int]]:
    code, said = await finished("nodes", rm, "--nats", url, "--json")
    assert code == 0, said
    return [(node["id"], node["allocations"]) for node in json.loads(said)]


def test_what_is_said_fits_a_line() -> None:
    full = Storage("/data", 0, 64 * MIB, Level.FULL, True)
    assert full.describe().startswith("FULL: 0 of 64Mi free in /data. No message can be stored: free space")
