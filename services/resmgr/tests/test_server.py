"""A client made from the tables of fields alone, with YARPC's headers, runs a job on servers that are restarted."""

from __future__ import annotations

import asyncio
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import pytest

from remuda_resmgr import commands
from remuda_resmgr.check import check
from remuda_resmgr.core import Core
from remuda_resmgr.rules.lifecycle import PENDING
from remuda_resmgr.settings import Settings
from remuda_resmgr.shell.host import Host, Stopped
from remuda_resmgr.shell.periods import Periods, keep_time
from remuda_resmgr.shell.server import Server
from remuda_resmgr.wire.commits import Commit, decode, encode

RESMGR = "peloton.private.resmgr.ResourceManagerService"
RESPOOL = "peloton.api.v0.respool.ResourceManager"
HEADERS = (("rpc-caller", "peloton-jobmgr"), ("rpc-service", "peloton-resmgr"), ("rpc-encoding", "proto"))
JOB = "11111111-1111-4111-8111-111111111111"
WITHIN_S = 20.0
OFTEN = Periods(admission_s=0.01, entitlement_s=0.02, preemption_s=0.02, timers_s=0.02)
RUNNING, FINISHED = 1, 2  # Mesos' states


def message(**fields: Any) -> bytes:
    """Encode fields by their numbers: f1=..., f2=...; a list is repeated, a dict a message."""
    return b"".join(_field(int(name[1:]), value) for name, value in fields.items())


def _field(number: int, value: Any) -> bytes:
    if isinstance(value, list):
        return b"".join(_field(number, one) for one in value)
    if isinstance(value, float):
        return _varint(number << 3 | 1) + struct.pack("<d", value)
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    payload = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(payload)) + payload


def _varint(value: int) -> bytes:
    low, rest = value & 127, value >> 7
    return bytes([low]) if not rest else bytes([low | 128]) + _varint(rest)


def fields(payload: bytes) -> dict[int, list[Any]]:
    """Decode fields by their numbers."""
    found: dict[int, list[Any]] = {}
    place = 0
    while place < len(payload):
        value: Any
        tag, place = _read_varint(payload, place)
        if tag & 7 == 0:
            value, place = _read_varint(payload, place)
        elif tag & 7 == 1:
            value, place = struct.unpack("<d", payload[place : place + 8])[0], place + 8
        else:
            size, place = _read_varint(payload, place)
            value, place = payload[place : place + size], place + size
        found.setdefault(tag >> 3, []).append(value)
    return found


def _read_varint(payload: bytes, place: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = payload[place]
        value, shift, place = value | (byte & 127) << shift, shift + 7, place + 1
        if byte < 128:
            return value, place


Call = Callable[..., dict[int, list[Any]]]


@contextmanager
def server(log: list[bytes]) -> Iterator[Call]:
    """A server that starts from the log. Facts that it has not appended are lost when it ends."""
    core = Core(Settings(sustained_over_allocation_count=1))
    for payload in log:
        commit = decode(payload)
        core.replay(commit.facts, commit.now_ms)
    check(core.state)
    loop, started, end = asyncio.new_event_loop(), threading.Event(), asyncio.Event()
    ports: list[int] = []

    async def append(commit: bytes) -> None:
        await asyncio.sleep(0)
        log.append(commit)

    async def serve() -> None:
        host = Host(core, append, lambda: int(time.time() * 1_000))
        front = Server(host, "127.0.0.1:0")
        tasks = [asyncio.create_task(host.run()), asyncio.create_task(keep_time(host, OFTEN, core.settings))]
        await front.start()
        ports.append(front.port)
        started.set()
        await end.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await front.stop()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    try:
        assert started.wait(WITHIN_S)
        with grpc.insecure_channel(f"127.0.0.1:{ports[0]}") as channel:

            def call(rpc: str, service: str = RESMGR, /, **request: Any) -> dict[int, list[Any]]:
                method = channel.unary_unary(f"/{service}/{rpc}")
                return fields(method(message(**request), timeout=WITHIN_S, metadata=HEADERS))

            yield call
    finally:
        loop.call_soon_threadsafe(end.set)
        thread.join(WITHIN_S)
        loop.close()


@pytest.fixture
def log() -> list[bytes]:
    """The log of a resource manager that knows its capacity."""
    core = Core()
    facts, _ = core.handle(commands.SetCapacity((10.0, 0.0, 10_000.0, 10_000.0), 0.0), 1)
    return [encode(Commit(1, tuple(facts)))]


def identifier(value: str) -> bytes:
    return message(f1=value)


def task(instance: int, run: int) -> bytes:
    resource = message(f1=2.0, f2=100.0, f3=10.0)
    task_id = f"{JOB}-{instance}"
    return message(
        f1=f"t{instance}", f2=identifier(task_id), f3=identifier(JOB), f4=identifier(f"{task_id}-{run}"), f5=resource,
        f6=1, f7=1, f10=1,
    )  # fmt: skip


def create_pool(call: Call) -> bytes:
    """The ID of a new pool, as a message."""
    resources = [
        message(f1=kind, f2=0.0, f3=most, f4=1.0)
        for kind, most in (("cpu", 10.0), ("memory", 10_000.0), ("disk", 1_000.0))
    ]
    config = message(f2="pool", f6=resources, f7=identifier("root"))
    answer = call("CreateResourcePool", RESPOOL, f2=config)
    assert 1 not in answer
    pool: bytes = answer[2][0]
    return pool


def event(offset: int, instance: int, run: int, state: int) -> bytes:
    status = message(f1=identifier(f"{JOB}-{instance}-{run}"), f2=state)
    return message(f1=offset, f2=1, f3=status)


def place(call: Call, gangs: list[bytes]) -> list[bytes]:
    """Place the tasks of gangs on a host, and return their placements."""
    tasks = [fields(one) for gang in gangs for one in fields(gang)[1]]
    pairs = [message(f1=one[2][0], f2=one[4][0]) for one in tasks]
    assert not call("SetPlacements", f1=message(f2="host-1", f5=[31_000, 31_001], f6=1, f8=pairs))
    return list(call("GetPlacements", f1=10, f2=5_000)[2])


def test_a_job_from_the_first_gang_to_the_last_event(log: list[bytes]) -> None:
    with server(log) as call:
        pool = create_pool(call)
        gang = message(f1=[task(0, 1), task(1, 1)])
        assert not call("EnqueueGangs", f1=pool, f2=gang)
        refused = call("EnqueueGangs", f1=pool, f2=gang)
        failed = fields(fields(refused[1][0])[3][0])[1]
        assert [fields(one)[3] for one in failed] == [[2], [2]]  # ALREADY_EXIST
    with server(log) as call:
        gangs = call("DequeueGangs", f1=10, f2=5_000, f3=1)[2]
        assert len(gangs) == 1 and len(fields(gangs[0])[1]) == 2
    with server(log) as call:
        (placement,) = place(call, gangs)
        assert fields(placement)[2] == [b"host-1"] and len(fields(placement)[8]) == 2
    with server(log) as call:
        assert not call("UpdateTasksState", f1=message(
            f1=identifier(f"{JOB}-0"), f2=identifier(f"{JOB}-0-1"), f3=15
        ))  # fmt: skip
        assert call("NotifyTaskUpdates", f1=[event(7, 0, 1, RUNNING), event(8, 1, 1, RUNNING)])[2] == [8]
        hosts = call("GetTasksByHosts", f1="host-1")[2]
        assert len(fields(fields(hosts[0])[2][0])[1]) == 2
    with server(log) as call:
        assert not call("EnqueueGangs", f1=pool, f2=message(f1=[task(0, 2)]))
        assert len(call("GetOrphanTasks")[1]) == 1
        assert not call("KillTasks", f1=identifier(f"{JOB}-0"))
        assert call("NotifyTaskUpdates", f1=[event(9, 0, 1, FINISHED), event(10, 1, 1, FINISHED)])[2] == [10]
        assert not call("GetOrphanTasks") and not call("GetActiveTasks")
        assert not call("DeleteResourcePool", RESPOOL, f1=message(f1="/pool"))


def test_tasks_above_the_entitlement_are_preempted_and_enqueued_again(log: list[bytes]) -> None:
    with server(log) as call:
        pool = create_pool(call)
        assert not call("EnqueueGangs", f1=pool, f2=[message(f1=task(0, 1)), message(f1=task(1, 1))])
        gangs: list[bytes] = []
        while len(gangs) < 2:
            gangs += call("DequeueGangs", f1=10, f2=5_000).get(2, [])
        place(call, gangs)
        call("NotifyTaskUpdates", f1=[event(1, 0, 1, RUNNING), event(2, 1, 1, RUNNING)])
    core = Core()
    for payload in log:
        commit = decode(payload)
        core.replay(commit.facts, commit.now_ms)
    facts, _ = core.handle(commands.SetCapacity((2.0, 0.0, 10_000.0, 10_000.0), 0.0), core.state.now_ms)
    log.append(encode(Commit(core.state.now_ms, tuple(facts))))  # the cluster has shrunk
    with server(log) as call:
        (candidate,) = call("GetPreemptibleTasks", f1=10, f2=5_000)[3]
        task_id = fields(fields(candidate)[1][0])[1][0].decode()
        assert fields(candidate)[2] == [1]
        call("KillTasks", f1=identifier(task_id))
        instance = int(task_id.rpartition("-")[2])
        assert not call("EnqueueGangs", f1=pool, f2=message(f1=task(instance, 2)))
    pending = Core()
    for payload in log:
        commit = decode(payload)
        pending.replay(commit.facts, commit.now_ms)
    assert pending.state.runs[task_id].state == PENDING


def test_errors_name_what_was_expected(log: list[bytes]) -> None:
    with server(log) as call:
        for request, code in (({}, "INVALID_ARGUMENT"), ({"f1": identifier("nowhere")}, "NOT_FOUND")):
            with pytest.raises(grpc.RpcError) as refused:
                call("GetPendingTasks", **request)
            assert refused.value.code().name == code and "respoolID" in refused.value.details()
        with pytest.raises(grpc.RpcError) as refused:
            call("EnqueueGangs", f2=b"\xff\xff")
        assert refused.value.code().name == "INVALID_ARGUMENT"
        unknown_state = message(f1=identifier("x"), f2=77)
        with pytest.raises(grpc.RpcError) as refused:
            call("NotifyTaskUpdates", f1=message(f1=1, f2=1, f3=unknown_state))
        assert refused.value.code().name == "INVALID_ARGUMENT"


async def test_after_a_failed_append_nothing_is_answered() -> None:
    async def append(commit: bytes) -> None:
        raise OSError("the disk is full")

    host = Host(Core(), append, lambda: 1)
    running = asyncio.create_task(host.run())
    with pytest.raises(Stopped):
        await host.do(commands.SetCapacity((1.0, 1.0, 1.0, 1.0)))
    with pytest.raises(OSError):
        await running
    with pytest.raises(Stopped):
        await host.ask(lambda state: state.capacity)
