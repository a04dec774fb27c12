"""A client made from the tables of fields alone, with YARPC's headers, runs a job on servers that are restarted."""

from __future__ import annotations

import asyncio
import json
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import pytest

from remuda.embedded import NatsServer
from remuda_bus import subjects
from remuda_bus.bus import BusError
from remuda_bus.nats import connect
from remuda_peloton.shell.main import main
from remuda_peloton.shell.settings import ResmgrSettings

RESMGR = "peloton.private.resmgr.ResourceManagerService"
RESPOOL = "peloton.api.v0.respool.ResourceManager"
HOSTS = "remuda.resmgr.v1.Hosts"
HEADERS = (("rpc-caller", "peloton-jobmgr"), ("rpc-service", "peloton-resmgr"), ("rpc-encoding", "proto"))
JOB = "11111111-1111-4111-8111-111111111111"
WITHIN_S = 20.0
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


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with bus_in(tmp_path) as url:
        yield url


@contextmanager
def bus_in(directory: Path) -> Iterator[str]:
    """The address of a bus."""
    loop = asyncio.new_event_loop()
    nats = NatsServer(directory / "nats")
    loop.run_until_complete(nats.start())
    yield nats.url
    loop.run_until_complete(nats.stop())
    loop.close()


@contextmanager
def server(url: str, instance: str = "resmgr", **others: Any) -> Iterator[Call]:
    """A process that is killed at the end: it starts from the log alone."""
    loop, started, end = asyncio.new_event_loop(), threading.Event(), asyncio.Event()
    ports: list[int] = []
    settings = ResmgrSettings(
        nats_url=url, instance=instance, port=0, entitlement_s=0.02, preemption_s=0.02,
        sustained_over_allocation_count=1, **others,
    )  # fmt: skip

    async def serve() -> None:
        bus = await connect(url, "remuda-resmgr", timeout_s=5)
        await bus.declare()
        serving = asyncio.create_task(main(bus, settings))
        while not ports:
            with suppress(BusError):
                about = await bus.request(subjects.front_end(instance, "resmgr"), timeout_s=0.2)
                found = json.loads(about.payload)
                ports.extend([found["port"]] if found["leads"] else [])
            await asyncio.sleep(0.01)
        started.set()
        await end.wait()
        serving.cancel()
        await asyncio.wait([serving])
        await bus.close()

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


def set_capacity(call: Call, cpu: float) -> None:
    assert not call("SetCapacity", HOSTS, f1=cpu, f3=10_000.0, f4=10_000.0)


def identifier(value: str) -> bytes:
    return message(f1=value)


def task(instance: int, run: int) -> bytes:
    resource = message(f1=2.0, f2=100.0, f3=10.0)
    task_id = f"{JOB}-{instance}"
    return message(
        f1=f"t{instance}", f2=identifier(task_id), f3=identifier(JOB), f4=identifier(f"{task_id}-{run}"), f5=resource,
        f6=1, f7=1, f10=1,
    )  # fmt: skip


def create_pool(call: Call, cpu: float = 10.0, memory: float = 10_000.0, disk: float = 1_000.0) -> bytes:
    """The ID of a new pool with these limits, as a message."""
    resources = [
        message(f1=kind, f2=0.0, f3=most, f4=1.0) for kind, most in (("cpu", cpu), ("memory", memory), ("disk", disk))
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


def test_a_job_from_the_first_gang_to_the_last_event(url: str) -> None:
    with server(url) as call:
        set_capacity(call, 10.0)
        pool = create_pool(call)
        gang = message(f1=[task(0, 1), task(1, 1)])
        assert not call("EnqueueGangs", f1=pool, f2=gang)
        refused = call("EnqueueGangs", f1=pool, f2=gang)
        failed = fields(fields(refused[1][0])[3][0])[1]
        assert [fields(one)[3] for one in failed] == [[2], [2]]  # ALREADY_EXIST
    with server(url) as call:
        gangs = call("DequeueGangs", f1=10, f2=5_000, f3=1)[2]
        assert len(gangs) == 1 and len(fields(gangs[0])[1]) == 2
    with server(url) as call:
        (placement,) = place(call, gangs)
        assert fields(placement)[2] == [b"host-1"] and len(fields(placement)[8]) == 2
    with server(url) as call:
        assert not call("UpdateTasksState", f1=message(
            f1=identifier(f"{JOB}-0"), f2=identifier(f"{JOB}-0-1"), f3=15
        ))  # fmt: skip
        assert call("NotifyTaskUpdates", f1=[event(7, 0, 1, RUNNING), event(8, 1, 1, RUNNING)])[2] == [8]
        hosts = call("GetTasksByHosts", f1="host-1")[2]
        assert len(fields(fields(hosts[0])[2][0])[1]) == 2
    with server(url) as call:
        assert not call("EnqueueGangs", f1=pool, f2=message(f1=[task(0, 2)]))
        assert len(call("GetOrphanTasks")[1]) == 1
        assert not call("KillTasks", f1=identifier(f"{JOB}-0"))
        assert call("NotifyTaskUpdates", f1=[event(9, 0, 1, FINISHED), event(10, 1, 1, FINISHED)])[2] == [10]
        assert not call("GetOrphanTasks") and not call("GetActiveTasks")
        assert not call("DeleteResourcePool", RESPOOL, f1=message(f1="/pool"))


def test_tasks_above_the_entitlement_are_preempted_and_enqueued_again(url: str) -> None:
    with server(url) as call:
        set_capacity(call, 10.0)
        pool = create_pool(call)
        assert not call("EnqueueGangs", f1=pool, f2=[message(f1=task(0, 1)), message(f1=task(1, 1))])
        gangs: list[bytes] = []
        while len(gangs) < 2:
            gangs += call("DequeueGangs", f1=10, f2=5_000).get(2, [])
        place(call, gangs)
        call("NotifyTaskUpdates", f1=[event(1, 0, 1, RUNNING), event(2, 1, 1, RUNNING)])
    with server(url) as call:
        set_capacity(call, 2.0)  # the cluster has shrunk
        (candidate,) = call("GetPreemptibleTasks", f1=10, f2=5_000)[3]
        task_id = fields(fields(candidate)[1][0])[1][0].decode()
        assert fields(candidate)[2] == [1]
        call("KillTasks", f1=identifier(task_id))
        instance = int(task_id.rpartition("-")[2])
        assert not call("EnqueueGangs", f1=pool, f2=message(f1=task(instance, 2)))
    with server(url) as call:
        active = {name: entry for one in call("GetActiveTasks")[4] for name, entry in [pair(one)]}
        assert [fields(entry)[1] for entry in fields(active[b"PENDING"])[1]] == [[f"{task_id}-2".encode()]]
        assert len(fields(active[b"RUNNING"])[1]) == 1


def pair(entry: bytes) -> tuple[bytes, bytes]:
    """An entry of a map."""
    found = fields(entry)
    return found[1][0], found[2][0]


def test_errors_name_what_was_expected(url: str) -> None:
    with server(url) as call:
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
