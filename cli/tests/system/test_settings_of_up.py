"""`remuda up` with a file of settings."""

from __future__ import annotations

import grp
import json
import os
import pwd
from pathlib import Path

from cli.tests.running import Lines, finished, remuda, stopped
from cli.tests.test_settings import FILE, file
from remuda_sdk import ResourceManager, application

__all__ = ["file"]

BY_PRIMARY_GROUP = """
partitions:
  - name: default
    placementrules: [{name: primarygroup, create: true}]
    queues: [{name: root, submitacl: '*'}]
"""


async def test_up_takes_the_file_for_all_services_but_its_own_server(file: Path, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("the CA of another server")
    elsewhere = FILE.replace("nats: {", f"nats: {{ca: '{tmp_path / 'ca.pem'}', ")
    file.write_text(elsewhere + "rms: {allowed: ['allowed-*']}\ngroups: {resolver: os}\n")
    process = await remuda("up", "--plain", "--port", "0", "--data", str(tmp_path / "data"), "--settings", str(file))
    lines = Lines(process)
    url = (await lines.until(r"nats (nats://\S+),"))[1]
    await lines.until("ready: ")
    load = ("load", "--nats", url, "--nodes", "1", "--apps", "1", "--asks", "1")
    code, said = await finished(*load, "--rm", "other")
    assert code != 0 and "not among the RMs that the setting rms.allowed names" in said, said
    code, said = await finished(*load, "--rm", "allowed-1")
    assert code == 0, said
    assert await queue_of_mine(url) == f"root.{grp.getgrgid(pwd.getpwuid(os.getuid()).pw_gid).gr_name}"
    assert await stopped(process) == 0


async def queue_of_mine(url: str) -> str:
    """Where an application of this user is placed, which names no groups."""
    user = pwd.getpwuid(os.getuid()).pw_name
    async with ResourceManager.connect(url, "allowed-2", config=BY_PRIMARY_GROUP) as rm:
        await rm.submit(application("app-1", user=user))
        async for callback in rm.callbacks():
            assert not getattr(callback, "rejected", []), callback
            if getattr(callback, "accepted", []):
                break
        code, said = await finished("applications", "allowed-2", "--nats", url, "--json")
    assert code == 0, said
    [found] = json.loads(said)
    return str(found["queue"])
