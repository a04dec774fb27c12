"""Changes of the configuration file, over a real NATS server."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import structlog

from services.config.tests.running_service import (
    BROKEN,
    WITHIN_S,
    answers,
    applications,
    eventually,
    file_problem,
    inbox,
    is_on_record,
    join,
    limited,
    problems_of_file,
    register,
    resolve,
    resolved,
    sent,
    service,
)


async def test_a_broken_change_is_reported_and_the_last_valid_text_stays(server, bus, tmp_path):
    file = tmp_path / "queues.yaml"
    file.write_text(limited(1))
    async with service(server, file):
        await join(bus)
        with structlog.testing.capture_logs() as logs:
            file.write_text(BROKEN)
            problems = await eventually(lambda: problems_of_file(bus))
        assert [(problem["path"], problem["line"]) for problem in problems] == [("colour", 7), ("size", 8)]
        (refused,) = [entry for entry in logs if entry["event"] == "configuration refused"]
        assert [problem.partition(":")[0] for problem in refused["problems"]] == ["line 7", "line 8"]
        assert applications((await resolve(bus)).configuration) == 1
        file.unlink()
        await eventually(lambda: file_problem(bus, "cannot be read"))
        file.write_text("")
        await eventually(lambda: file_problem(bus, "is empty"))
        file.write_bytes(b"partitions:\n\xff")
        await eventually(lambda: file_problem(bus, "byte 0xff is not UTF-8"))
        assert await inbox(bus) == []
        file.write_text(limited(2))
        assert await sent(bus, 1) == [2]
        await eventually(lambda: has_no_problems(bus))


async def has_no_problems(bus):
    return await problems_of_file(bus) == []


async def test_a_later_file_is_sent_to_rms_with_the_default(server, bus, tmp_path):
    async with service(server):
        assert (await resolve(bus)).configuration.source == "built-in"
        await register(bus, source="built-in")
        await eventually(lambda: is_on_record(bus))
    assert await inbox(bus) == []
    file = tmp_path / "queues.yaml"
    file.write_text(limited(1))
    async with service(server, file):
        assert await sent(bus, 1) == [1]
        file.write_text(limited(2))
        assert await sent(bus, 2) == [1, 2]


async def test_a_file_that_is_replaced(server, bus, tmp_path):
    file = tmp_path / "queues.yaml"
    file.write_text(limited(1))
    async with service(server, file):
        for count in (2, 3):
            (tmp_path / "new").write_text(limited(count))
            os.replace(tmp_path / "new", file)
            await eventually(lambda count=count: resolved(bus, count))


async def test_a_mounted_config_map(server, bus, tmp_path):
    """file -> ..data/file, ..data -> a folder per version; an update swaps ..data and removes the old folder."""
    mount = tmp_path / "mount"
    mount.mkdir()
    publish(mount, 1)
    (mount / "queues.yaml").symlink_to("..data/queues.yaml")
    async with service(server, mount / "queues.yaml"):
        assert await resolved(bus, 1)
        for count in (2, 3):
            publish(mount, count)
            await eventually(lambda count=count: resolved(bus, count))


def publish(mount: Path, count: int) -> None:
    version = mount / f"..version_{count}"
    version.mkdir()
    (version / "queues.yaml").write_text(limited(count))
    old = (mount / "..data").resolve() if (mount / "..data").exists() else None
    (mount / "..data_tmp").symlink_to(version.name)
    os.replace(mount / "..data_tmp", mount / "..data")
    if old is not None:
        (old / "queues.yaml").unlink()
        old.rmdir()


PROCESS = """
import functools, pathlib, sys
from remuda_replication.process import run
from remuda_config.shell import ConfigSettings, main
run("config", functools.partial(main, file=pathlib.Path(sys.argv[2])), ConfigSettings(nats_url=sys.argv[1]))
"""


async def test_as_a_process(server, bus, tmp_path):
    file = tmp_path / "queues.yaml"
    file.write_text(limited(1))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROCESS, server.url, str(file), stderr=asyncio.subprocess.PIPE
    )
    try:
        await eventually(lambda: answers(bus))
        file.write_text(BROKEN)
        await eventually(lambda: problems_of_file(bus))
        process.terminate()
        _, said = await asyncio.wait_for(process.communicate(), WITHIN_S)
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0
    assert "line 7: colour: unknown key" in said.decode()
    assert "revision 1 stays active" in said.decode()
