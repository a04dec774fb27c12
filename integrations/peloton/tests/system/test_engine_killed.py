"""An engine as a process, killed while a job runs; another one goes on."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from integrations.peloton.tests.system.test_killed import calls, until_there
from integrations.peloton.tests.test_server import HOSTS as HOSTS_SERVICE
from integrations.peloton.tests.test_server import WITHIN_S, Call, create_pool, event, fields, message, task, url

__all__ = ["url"]
RUNNING = 1
HOSTS = "hosts: [{hostname: host-1, cpu: 4, memory: 5000, disk: 500, ports: 31000-31010}]\n"


@contextmanager
def process(bus_url: str, service: str, *settings: str) -> Iterator[subprocess.Popen[bytes]]:
    sets = [argument for one in settings for argument in ("--set", one)]
    command = [sys.executable, "-m", "remuda", "run", service, "--nats", bus_url, *sets]
    started = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield started
    finally:
        started.kill()
        started.wait()


def until_hosts(call: Call) -> None:
    """Until the file is applied."""
    end = time.monotonic() + WITHIN_S
    while 1 not in call("ListHosts", HOSTS_SERVICE):
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.timeout(120)
async def test_engines_place_what_a_killed_engine_has_left(url: str, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts.yaml"
    hosts.write_text(HOSTS)
    settings = (
        "instance=resmgr", "resmgr.port=0", f"resmgr.hosts_file={hosts}", "resmgr.timeouts.placing=1s",
        "resmgr.backoff.step=0s",
    )  # fmt: skip
    with process(url, "resmgr", *settings), calls(await until_there(url, "resmgr", leads=True)) as call:
        until_hosts(call)
        pool = create_pool(call, 4.0, 5_000.0, 500.0)
        assert not call("EnqueueGangs", f1=pool, f2=message(f1=task(0, 1)))
        assert call("DequeueGangs", f1=10, f2=5_000)[2]  # by an engine that is never seen again
        with process(url, "placement", "instance=engine-1", "placement.hold=1s") as engine:
            (placement,) = call("GetPlacements", f1=10, f2=10_000)[2]
            assert fields(placement)[2] == [b"host-1"]
            engine.kill()
        call("NotifyTaskUpdates", f1=[event(1, 0, 1, RUNNING)])
        hosts.write_text("hosts: [")  # the last good one stays
        assert not call("EnqueueGangs", f1=pool, f2=message(f1=task(1, 1)))
        with process(url, "placement", "instance=engine-2"):
            (placement,) = call("GetPlacements", f1=10, f2=10_000)[2]
            assert fields(placement)[2] == [b"host-1"]
