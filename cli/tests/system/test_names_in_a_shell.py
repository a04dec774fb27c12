"""Completion of names, and the views of the command line, on a running system."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

from cli.tests.running import finished
from remuda.embedded import NatsServer
from tests.system.running import QUEUES
from tests.system.test_web import rm_with_work, web_of

# As `python -m remuda`. Many of these start at the same time, and none of them is a person who waits.
PATIENT = "from remuda import limits, main; limits.COMPLETE_WITHIN_S = 60; main.app()"


async def completed(url: str, line: str) -> list[str]:
    words = {"_REMUDA_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PATIENT, stdout=PIPE, env={**os.environ, **words, "REMUDA_NATS_URL": url}
    )
    output, _ = await process.communicate()
    return output.decode().split()


async def test_names_are_completed_and_shown(server: NatsServer, tmp_path: Path) -> None:
    (tmp_path / "queues.yaml").write_text(QUEUES)
    async with web_of(server.url, tmp_path / "queues.yaml") as web:
        rm = await rm_with_work(web, "rm-1")
        found = await asyncio.gather(
            *(
                completed(server.url, f"remuda {line}")
                for line in (
                    "top rm",
                    "applications rm-1 --queue root.",
                    "explain rm-1 a",
                    "story a",
                    "explain rm-1 app b",
                    "config show ",
                    "config set root.",
                    "story n",
                    "story root.",
                )
            )
        )
        assert found == [["rm-1"], ["root.a"], ["app"], ["app"], ["big"], ["1"], ["root.a"], ["n1"], ["root.a"]]
        commands = (["top", "rm-1", "--plain"], ["events", "-n", "50"], ["applications", "rm-1", "-o", "yaml"])
        shown = await asyncio.gather(*(finished(*one, "--nats", server.url) for one in commands))
        assert [code for code, _ in shown] == [0, 0, 0]
        top, events, listing = (text for _, text in shown)
        assert "1 wait  too large for every node" in top and "root" in top
        assert "rm-1 app app" in events and "user: alice" in listing
        await rm.__aexit__(None, None, None)
