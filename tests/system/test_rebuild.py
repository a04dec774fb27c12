"""`remuda rebuild` deletes what belongs to one RM, and nothing before that RM's name was typed."""

from __future__ import annotations

import asyncio
import os
import pty
import sys
from pathlib import Path

import pytest

from cli.tests.running import finished
from remuda.admin.rebuild import delete_and_request_report
from remuda.embedded import NatsServer
from remuda.errors import UserError
from remuda_bus import subjects
from remuda_bus.nats import NatsBus

STREAMS = (subjects.LOG.name, subjects.INBOX.name, subjects.CALLBACKS.name)


async def with_two_rms(bus: NatsBus) -> None:
    for rm in ("a", "b"):
        await bus.put(subjects.RMS.name, rm, b'{"rm_id": "%s", "state": "registered"}' % rm.encode())
        for subject in (subjects.log(rm), subjects.inbox(rm), subjects.callback(rm, "node")):
            await bus.append(subject, b"1234")


async def ends(bus: NatsBus, rm: str) -> list[bool]:
    found = (subjects.log(rm), subjects.inbox(rm), subjects.callback(rm, "node"))
    return [await bus.last_message(stream, subject) is not None for stream, subject in zip(STREAMS, found, strict=True)]


@pytest.mark.parametrize("name", ["*", ">", "a.*", "", "a b", "a" * 5_000, "a\n"])
async def test_no_name_but_that_of_one_rm_is_taken(server: NatsServer, bus: NatsBus, tmp_path: Path, name: str) -> None:
    await with_two_rms(bus)
    code, said = await finished("rebuild", name, "--nats", server.url, "--directory", str(tmp_path), "--yes")
    assert code == 1 and "expected 1 to 64 of" in said and "Traceback" not in said and len(said) < 300
    with pytest.raises(UserError):
        await delete_and_request_report(bus, name, tmp_path)
    assert await ends(bus, "a") == await ends(bus, "b") == [True] * 3


async def test_without_a_terminal_it_wants_yes(server: NatsServer, bus: NatsBus, tmp_path: Path) -> None:
    await with_two_rms(bus)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "remuda", "rebuild", "a", "--nats", server.url,
        stdin=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE, cwd=tmp_path,
    )  # fmt: skip
    said = (await process.communicate())[1].decode()
    assert process.returncode == 1 and "needs a confirmation" in said
    assert await ends(bus, "a") == [True] * 3


@pytest.mark.parametrize(("typed", "goes_on"), [("y", False), ("b", False), ("", False), ("a", True)])
async def test_it_says_what_it_deletes_and_wants_the_name(
    server: NatsServer, bus: NatsBus, tmp_path: Path, typed: str, goes_on: bool
) -> None:
    await with_two_rms(bus)
    ours, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "remuda", "rebuild", "a", "--nats", server.url,
        stdin=theirs, stdout=theirs, stderr=theirs, cwd=tmp_path, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    try:
        said = await asyncio.to_thread(_until, ours, "Type a to go on")
        assert "NOT halted" in said
        rows = {line.split()[0]: line.split()[1:3] for line in said.splitlines() if line.strip()}
        assert {stream: rows[stream] for stream in STREAMS} == {stream: ["1", "4"] for stream in STREAMS}
        os.write(ours, f"{typed}\n".encode())
        said = await asyncio.to_thread(
            _until, ours, "waiting for the RM to register" if goes_on else "cancelled; nothing was changed"
        )
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        os.close(ours)
    assert await ends(bus, "a") == [not goes_on] * 3
    assert await ends(bus, "b") == [True] * 3


def _until(terminal: int, word: str) -> str:
    said = ""
    while word not in said:
        said += os.read(terminal, 4_096).decode()
    return said
