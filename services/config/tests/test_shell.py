"""The service over a real NATS server: what it answers, and what it does when the file changes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import structlog

import remuda_config
from remuda.embedded import NatsServer
from remuda_bus import subjects
from remuda_bus.bus import BusError, Refused
from remuda_bus.nats import NatsBus, connect
from remuda_config.shell import ConfigSettings, main
from remuda_proto.remuda.v1 import config_pb2, inbox_pb2
from services.config.tests.config_texts import queues

WITHIN_S = 10.0


@contextlib.asynccontextmanager
async def service(server: NatsServer, file: Path | None = None, compatibility: str = "none") -> AsyncIterator[None]:
    """The service with a connection of its own, as in a process; answering when the block begins, gone after it."""
    bus = await connect(server.url, "config")
    settings = ConfigSettings(nats_url=server.url, compatibility=compatibility)
    work = asyncio.create_task(main(bus, settings, file))
    try:
        await eventually(lambda: work.done() or answers(bus))
        yield
        assert not work.done(), work
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        await bus.close()


async def answers(bus: NatsBus) -> bool:
    with contextlib.suppress(BusError):
        await bus.request(subjects.CURRENT_CONFIGURATIONS, timeout_s=0.5)
        return True
    return False


async def eventually(condition):
    """What the condition gives as soon as it is not false; it may be a coroutine function."""
    deadline = time.monotonic() + WITHIN_S
    while True:
        value = condition()
        value = await value if asyncio.iscoroutine(value) else value
        if value:
            return value
        assert time.monotonic() < deadline, condition
        await asyncio.sleep(0.02)


async def resolve(bus, rm_id="rm-1", config="", **extra) -> config_pb2.ResolvedConfiguration:
    request = config_pb2.ResolveConfiguration(rm_id=rm_id, policy_group="group", config=config, extra_config=extra)
    answer = await bus.request(subjects.RESOLVE_CONFIGURATION, request.SerializeToString())
    return config_pb2.ResolvedConfiguration.FromString(answer.payload)


async def current(bus) -> dict[str, Any]:
    return json.loads((await bus.request(subjects.CURRENT_CONFIGURATIONS)).payload)


async def register(bus, rm_id="rm-1", source="file", state="registered") -> None:
    """What rmproxy writes about an RM."""
    value = {"rm_id": rm_id, "policy_group": "group", "version": "", "config_source": source, "state": state}
    await bus.put(subjects.RMS.name, subjects.key_of(rm_id), json.dumps(value).encode())


async def inbox(bus, rm_id="rm-1") -> list[inbox_pb2.Configure]:
    reader = await bus.read(subjects.INBOX.name, subjects.inbox(rm_id))
    messages = await reader.batch(timeout_s=0.2)
    await reader.close()
    return [inbox_pb2.Command.FromString(message.payload).configure for message in messages]


def limited(applications: int) -> str:
    return queues(f"- {{name: a, maxapplications: {applications}}}")


def applications(configuration: config_pb2.Configuration) -> int:
    return configuration.partitions[0].root.queues[0].max_applications


async def handed_out(bus, count: int, rm_id="rm-1") -> list[int]:
    """maxapplications of queue a in each Configure, once there are `count` of them."""

    async def enough():
        found = await inbox(bus, rm_id)
        return found if len(found) >= count else None

    return [applications(configure.configuration) for configure in await eventually(enough)]


BROKEN = limited(1) + "colour: red\nsize: 5\n"


async def test_without_a_file(server, bus):
    async with service(server, compatibility="yunikorn-1.4"):
        answer = await resolve(bus)
        assert answer.configuration == remuda_config.load("", compatibility="yunikorn-1.4")
        own = await resolve(bus, config=limited(3), compatibility="none")
        assert (own.configuration.source, own.configuration.compatibility) == ("registration", "none")
        assert applications(own.configuration) == 3
        assert (await current(bus))["file"] is None


async def test_problems_of_a_registration_come_all_at_once(server, bus):
    async with service(server):
        answer = await resolve(bus, config=BROKEN, compatibility="yunikorn-0.1", **{"queues.yaml": "x"})
        assert [(problem.path, problem.line) for problem in answer.problems] == [
            ("colour", 7),
            ("size", 8),
            ('extraConfig["queues.yaml"]', 0),
            ("extraConfig.compatibility", 0),
        ]
        assert not answer.HasField("configuration")
        with pytest.raises(Refused, match="ResolveConfiguration"):
            await bus.request(subjects.RESOLVE_CONFIGURATION, b"\xff\xff")
        with pytest.raises(Refused, match="rmID"):
            await resolve(bus, rm_id="a b")


async def test_a_valid_change_reaches_those_that_take_the_file(server, bus, tmp_path):
    file = tmp_path / "queues.yaml"
    file.write_text(limited(1))
    async with service(server, file):
        assert applications((await resolve(bus, "rm:1", compatibility="yunikorn-1.4")).configuration) == 1
        await register(bus, "rm:1")
        await register(bus, "rm-2", source="registration")
        await eventually(lambda: known(bus, 2))
        with structlog.testing.capture_logs() as logs:
            file.write_text(limited(2))
            assert await handed_out(bus, 1, "rm:1") == [2]
        told = next(entry for entry in logs if entry["event"] == "configuration in force")
        assert told["changes"] == ["root.a: maxapplications 1 -> 2"]
        (configure,) = await inbox(bus, "rm:1")
        assert (configure.rm_id, configure.configuration.compatibility) == ("rm:1", "yunikorn-1.4")
        assert configure.configuration.source == str(file)
        # The same text again later is another change.
        file.write_text(limited(1))
        assert await handed_out(bus, 2, "rm:1") == [2, 1]
        file.write_text(limited(2))
        assert await handed_out(bus, 3, "rm:1") == [2, 1, 2]
        assert await inbox(bus, "rm-2") == []


async def test_a_file_that_is_there_later_reaches_those_that_have_the_default(server, bus, tmp_path):
    async with service(server):
        assert (await resolve(bus)).configuration.source == "built-in"
        await register(bus, source="built-in")
        await eventually(lambda: known(bus, 1))
    assert await inbox(bus) == []
    file = tmp_path / "queues.yaml"
    file.write_text(limited(1))
    async with service(server, file):
        assert await handed_out(bus, 1) == [1]
        file.write_text(limited(2))
        assert await handed_out(bus, 2) == [1, 2]


async def known(bus, count: int) -> bool:
    return len((await current(bus))["rms"]) == count


async def test_a_broken_change_is_reported_and_the_last_good_one_stays(server, bus, tmp_path):
    file = tmp_path / "queues.yaml"
    file.write_text(limited(1))
    async with service(server, file):
        await resolve(bus)
        await register(bus)
        await eventually(lambda: known(bus, 1))
        with structlog.testing.capture_logs() as logs:
            file.write_text(BROKEN)
            problems = await eventually(lambda: problems_of_file(bus))
        assert [(problem["path"], problem["line"]) for problem in problems] == [("colour", 7), ("size", 8)]
        (refused,) = [entry for entry in logs if entry["event"] == "configuration refused"]
        assert [problem.partition(":")[0] for problem in refused["problems"]] == ["line 7", "line 8"]
        assert applications((await resolve(bus)).configuration) == 1
        file.unlink()
        await eventually(lambda: says(bus, "cannot be read"))
        file.write_text("")
        await eventually(lambda: says(bus, "is empty"))
        file.write_bytes(b"partitions:\n\xff")
        await eventually(lambda: says(bus, "byte 0xff is not UTF-8"))
        assert await inbox(bus) == []
        file.write_text(limited(2))
        assert await handed_out(bus, 1) == [2]
        assert await problems_of_file(bus) == []


async def problems_of_file(bus) -> list[dict[str, Any]]:
    return (await current(bus))["file"]["problems"]


async def says(bus, message: str) -> bool:
    return any(message in problem["message"] for problem in await problems_of_file(bus))


async def test_broken_at_the_first_start(server, bus, tmp_path):
    file = tmp_path / "queues.yaml"
    file.write_text(BROKEN)
    async with service(server, file):
        assert [problem.path for problem in (await resolve(bus)).problems] == ["colour", "size"]
        assert applications((await resolve(bus, "rm-2", config=limited(7))).configuration) == 7
        file.write_text(limited(1))
        await eventually(lambda: resolved(bus, 1))


async def resolved(bus, count: int) -> bool:
    answer = await resolve(bus)
    return answer.HasField("configuration") and applications(answer.configuration) == count


async def test_missing_at_the_first_start(server, bus, tmp_path):
    file = tmp_path / "folder" / "queues.yaml"
    async with service(server, file):
        assert ["cannot be read" in problem.message for problem in (await resolve(bus)).problems] == [True]
        file.parent.mkdir()
        file.write_text(limited(1))
        await eventually(lambda: resolved(bus, 1))


async def test_restarts(server, bus, tmp_path):
    file = tmp_path / "queues.yaml"
    file.write_text(limited(1))
    async with service(server, file):
        await resolve(bus)
        await register(bus)
        await eventually(lambda: known(bus, 1))
        file.write_text(limited(2))
        assert await handed_out(bus, 1) == [2]
        await eventually(lambda: nobody_waits(bus))
    file.write_text(BROKEN)
    async with service(server, file):  # broken meanwhile: what was in force still is
        assert await resolved(bus, 2)
        await eventually(lambda: known(bus, 1))
        assert await nobody_waits(bus)
        assert await problems_of_file(bus)
    file.write_text(limited(3))
    async with service(server, file):  # changed meanwhile
        assert await handed_out(bus, 2) == [2, 3]
    async with service(server, file):  # nothing happened meanwhile
        await eventually(lambda: known(bus, 1))
        assert await nobody_waits(bus)
    assert len(await inbox(bus)) == 2


async def nobody_waits(bus) -> bool:
    return not any(rm["waits"] for rm in (await current(bus))["rms"])


async def test_two_of_them_send_one_message(server, bus, tmp_path):
    file = tmp_path / "queues.yaml"
    file.write_text(limited(1))
    async with service(server, file), service(server, file):
        await resolve(bus)
        await register(bus)
        await eventually(lambda: known(bus, 1))
        for count in (2, 3, 4):
            file.write_text(limited(count))
            await handed_out(bus, count - 1)
            await eventually(lambda: nobody_waits(bus))
        assert await handed_out(bus, 3) == [2, 3, 4]


async def test_a_registration_under_way_is_not_overtaken(server, bus, tmp_path):
    file = tmp_path / "queues.yaml"
    file.write_text(limited(1))
    async with service(server, file):
        await resolve(bus)
        await register(bus, state="registering")
        await eventually(lambda: known(bus, 1))
        file.write_text(limited(2))
        await eventually(lambda: in_force(bus, limited(2)))
        assert await inbox(bus) == []
        await register(bus)
        assert await handed_out(bus, 1) == [2]


async def test_a_registration_does_not_bring_an_old_text_back(server, bus, tmp_path):
    file = tmp_path / "queues.yaml"
    file.write_text(limited(1))
    async with service(server, file):
        await resolve(bus)
        await register(bus)
        await eventually(lambda: known(bus, 1))
        await resolve(bus)  # it registers again
        file.write_text(limited(2))
        assert await handed_out(bus, 1) == [2]
        await register(bus)  # and what it brings along arrives only now
        assert await handed_out(bus, 2) == [2, 2]


async def in_force(bus, text: str) -> bool:
    return (await current(bus))["file"]["checksum"] == remuda_config.checksum(text)


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


async def test_a_change_while_the_server_is_down(server, bus, tmp_path):
    file = tmp_path / "queues.yaml"
    file.write_text(limited(1))
    async with service(server, file):
        await resolve(bus)
        await register(bus)
        await eventually(lambda: known(bus, 1))
        await server.kill()
        file.write_text(limited(2))
        await server.start()
        await eventually(lambda: answers(bus))
        assert await handed_out(bus, 1) == [2]


async def test_an_unreadable_entry_of_an_rm_concerns_nobody_else(server, bus, tmp_path):
    file = tmp_path / "queues.yaml"
    file.write_text(limited(1))
    await bus.put(subjects.RMS.name, "rm-0", b"{")
    async with service(server, file):
        await register(bus)
        await eventually(lambda: known(bus, 1))
        assert await handed_out(bus, 1) == [1]  # it had nothing yet


PROCESS = """
import functools, pathlib, sys
from remuda_bus.process import run
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
    assert "revision 1 stays in force" in said.decode()
