"""Two processes of one resource manager: the leader is killed, and the other one has everything."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from integrations.peloton.tests.test_server import (
    HEADERS,
    JOB,
    RESMGR,
    RESPOOL,
    WITHIN_S,
    Call,
    create_pool,
    event,
    fields,
    identifier,
    message,
    place,
    set_capacity,
    task,
    url,
)  # fmt: skip
from remuda_bus import subjects
from remuda_bus.bus import BusError
from remuda_bus.nats import connect
from remuda_replication.rms.halts import FAULT, PAST, Halts

__all__ = ["url"]
RUNNING, FINISHED = 1, 2


@contextmanager
def process(bus_url: str, instance: str) -> Iterator[subprocess.Popen[bytes]]:
    settings = (f"instance={instance}", "resmgr.port=0", "resmgr.snapshots.apart=0s", "resmgr.snapshots.facts=1")
    sets = [argument for one in settings for argument in ("--set", one)]
    command = [sys.executable, "-m", "remuda", "run", "resmgr", "--nats", bus_url, *sets]
    started = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield started
    finally:
        started.kill()
        started.wait()


async def until_there(bus_url: str, instance: str, *, leads: bool) -> int:
    """The port of the process, once it leads, or follows."""
    bus = await connect(bus_url, "test", timeout_s=5)
    end = time.monotonic() + 2 * WITHIN_S
    try:
        while time.monotonic() < end:
            try:
                about = await bus.request(subjects.front_end(instance, "resmgr"), timeout_s=0.3)
            except BusError:
                continue
            found = json.loads(about.payload)
            if found["leads"] == leads:
                return int(found["port"])
    finally:
        await bus.close()
    raise AssertionError(f"{instance} is not there")


@contextmanager
def calls(port: int) -> Iterator[Call]:
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:

        def call(rpc: str, service: str = RESMGR, /, **request: Any) -> dict[int, list[Any]]:
            method = channel.unary_unary(f"/{service}/{rpc}")
            end = time.monotonic() + WITHIN_S
            while True:
                try:
                    return fields(method(message(**request), timeout=WITHIN_S, metadata=HEADERS, wait_for_ready=True))
                except grpc.RpcError as error:
                    if "catching up" not in str(error) or time.monotonic() > end:  # nothing was done: clients try again
                        raise
                    time.sleep(0.05)

        yield call


@pytest.mark.timeout(120)
async def test_a_killed_leader_leaves_its_work_to_the_other(url: str) -> None:
    with process(url, "one") as one:
        port = await until_there(url, "one", leads=True)
        with process(url, "two"):
            second = await until_there(url, "two", leads=False)
            with calls(port) as call:
                set_capacity(call, 10.0)
                pool = create_pool(call)
                assert not call("EnqueueGangs", f1=pool, f2=message(f1=[task(0, 1), task(1, 1)]))
                gangs = call("DequeueGangs", f1=10, f2=5_000)[2]
            with calls(second) as call:  # a process that follows takes RPCs, too
                assert len(place(call, gangs)) == 1
                call("NotifyTaskUpdates", f1=[event(1, 0, 1, RUNNING), event(2, 1, 1, RUNNING)])
            one.send_signal(signal.SIGKILL)
            with calls(await until_there(url, "two", leads=True)) as call:
                hosts = call("GetTasksByHosts", f1="host-1")[2]
                assert len(fields(fields(hosts[0])[2][0])[1]) == 2
                assert not call("KillTasks", f1=identifier(f"{JOB}-0"))
                assert call("NotifyTaskUpdates", f1=[event(3, 1, 1, FINISHED)])[2] == [3]
                assert not call("GetActiveTasks")


@pytest.mark.timeout(120)
async def test_a_halt_is_ended_by_the_commands_of_operators(url: str, tmp_path: Path) -> None:
    log_id = subjects.peloton_log("default")

    async def halt(cause: str) -> None:
        bus = await connect(url, "test", timeout_s=5)
        await Halts(bus, "test", lambda: 1).halt(log_id, "a test", cause)
        await bus.close()
        await until_there(url, "one", leads=False)

    with process(url, "one"):
        with calls(await until_there(url, "one", leads=True)) as call:
            create_pool(call)
        await halt(FAULT)
        said = remuda("resume", log_id, "--yes", "--json", url=url)
        assert (json.loads(said)["leader"], json.loads(said)["behind"]) == ("one", False)
        with calls(await until_there(url, "one", leads=True)) as call:
            assert len(call("Query", RESPOOL)[2]) == 2, "nothing is deleted"
        await halt(PAST)
        remuda("rebuild", log_id, "--yes", "--directory", str(tmp_path), url=url)
        with calls(await until_there(url, "one", leads=True)) as call:
            assert len(call("Query", RESPOOL)[2]) == 1, "only root is left"
    assert list(tmp_path.glob("peloton.default-*.saved.gz"))


def remuda(*arguments: str, url: str) -> str:
    command = (sys.executable, "-m", "remuda", *arguments, "--nats", url)
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert not done.returncode, done.stderr
    return done.stdout
