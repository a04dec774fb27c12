"""A process that answers RPCs writes snapshots from forked children."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from integrations.peloton.tests.system.test_killed import calls, until_there
from integrations.peloton.tests.test_server import WITHIN_S, create_pool, message, set_capacity, task, url

__all__ = ["url"]
TASKS = 400  # a smaller state is written without a child
SNAPSHOTS = 8


@pytest.mark.timeout(120)
async def test_children_are_not_aborted_by_threads_of_grpc(url: str, tmp_path: Path) -> None:
    settings = ("instance=forks", "resmgr.port=0", "resmgr.cluster=forks", "resmgr.snapshots.facts=1",
                "resmgr.snapshots.apart=0s")  # fmt: skip
    sets = [argument for one in settings for argument in ("--set", one)]
    command = [sys.executable, "-m", "remuda", "run", "resmgr", "--nats", url, *sets]
    log = tmp_path / "log"
    with log.open("w") as file, subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT) as process:
        try:
            with calls(await until_there(url, "forks", leads=True)) as call:
                set_capacity(call, 10.0)
                pool = create_pool(call)
                end = time.monotonic() + 2 * WITHIN_S
                assert not call("EnqueueGangs", f1=pool, f2=[message(f1=task(number, 1)) for number in range(TASKS)])
                offset = 0
                while log.read_text().count(" snapshot ") < SNAPSHOTS and time.monotonic() < end:
                    offset += 1
                    call("NotifyTaskUpdates", f1=message(f1=offset))
            said = log.read_text()
            assert said.count(" snapshot ") >= SNAPSHOTS, said[-2_000:]
            assert "not written" not in said
        finally:
            process.kill()
