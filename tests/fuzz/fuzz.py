"""A run of the fuzzer: a real system, a side RM that works, hostile RMs out of a seed, and the verdict."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from remuda.local.system import NATS
from remuda_bus import subjects
from remuda_bus.bus import Bus, Message
from remuda_operations.queries.front_ends import front_ends
from remuda_proto.remuda.v1 import log_pb2
from tests.patience import PATIENCE
from tests.system.grpc_client import port_of
from tests.tenants.hostile import raw_client
from tests.tenants.side import Side, p99, side_rm
from tests.tenants.watched import Watched, watched

from .asker import Asker
from .hostile import FuzzingRm
from .hostile_grpc import FuzzingClient, FuzzingPelotonClient
from .hostile_reader import FuzzingReader, restricted_web

HOSTILE_RMS = 4
HOSTILE_CLIENTS = 2  # over gRPC
PACE_S = 0.02  # of each, between two acts on average
READS_EVERY_S = 0.2  # a page may be made of some thousands of rows
SAMPLE_S = 1.0
IDLE_S = 2.0
SIDE_P99_S = 0.5 * PATIENCE
ANSWER_P99_S = 1.0 * PATIENCE  # of questions about the side RM
SETTLED_WITHIN_S = 60.0
ENDS_WITHIN_S = 20.0
# The services keep a bounded amount for hostile RMs, far less than this.
GROWS_MB = 300.0
# nats-server caches what it has on disk, and gives nothing back before it nears the limit of its memory.
SERVER_GROWS_MB = 1_000.0
# Over the last two thirds: what goes on to grow would get there in the end. nats-server grows until it nears the limit
# of its memory (3.7 MB/s in 40 s of a busy machine), so in a short run only a steep slope says something.
SLOPE_MB_PER_S = 4.0
SERVER_SLOPE_MB_PER_S = 12.0
SLOPE_AFTER_S = 30.0  # less says nothing


Fuzzing = FuzzingRm | FuzzingClient | FuzzingReader


@dataclass
class Report:
    seed: int
    seconds: float
    problems: list[str] = field(default_factory=list)
    sent: Counter[str] = field(default_factory=Counter)
    told: Counter[str] = field(default_factory=Counter)
    memory_mb: list[tuple[float, dict[str, float]]] = field(default_factory=list)
    idle_p99_s: float = 0.0
    side_p99_s: float = 0.0
    side_longest_s: float = 0.0
    side_asks: int = 0
    answer_p99_s: float = 0.0
    answers: int = 0
    halted: set[str] = field(default_factory=set)


async def fuzz(data: Path, seconds: float, seed: int) -> Report:
    report = Report(seed, seconds)
    async with watched(data, grpc_port=0, peloton_port=0) as system, side_rm(system.url) as side:
        began = time.monotonic()
        await asyncio.sleep(IDLE_S)
        report.idle_p99_s = p99(side.waits_s(began))
        report.memory_mb.append((0.0, system.memory_mb()))
        async with restricted_web(system.url, system.bus, data) as web:
            rms = await _rage(system, report, seconds, side.rm_id, web)
        await _judge(system, side, rms, report)
    return report


async def _rage(system: Watched, report: Report, seconds: float, side_id: str, web: str) -> list[Fuzzing]:
    """Lets hostile RMs do what they like. Each has a connection of its own, as tenants have."""
    rms: list[Fuzzing] = []
    began = time.monotonic()
    running = [asyncio.create_task(_one(system.url, number, report.seed, rms)) for number in range(HOSTILE_RMS)]
    port, peloton_port = await port_of(system.bus), await peloton_port_of(system.bus)
    running += [
        asyncio.create_task(_one_over_grpc(port, number, report.seed, rms)) for number in range(HOSTILE_CLIENTS)
    ]
    running.append(asyncio.create_task(_one_of_peloton(peloton_port, report.seed, rms)))
    asker = Asker(system.bus, side_id)
    running += [
        asyncio.create_task(_one_that_reads(web, side_id, report.seed, rms)),
        asyncio.create_task(asker.run()),
    ]
    while time.monotonic() - began < seconds:
        await asyncio.sleep(SAMPLE_S)
        report.memory_mb.append((time.monotonic() - began, system.memory_mb()))
    ended = [task for task in running if task.done()]
    if ended:  # the fuzzer itself is wrong
        report.problems.append(f"{len(ended)} hostile RMs have ended: {[task.exception() for task in ended]!r}")
    report.answers, report.answer_p99_s = len(asker.waits_s), p99(asker.waits_s)
    if asker.failed:
        report.problems.append(f"{len(asker.failed)} questions about the side RM failed, such as {asker.failed[:3]}")
    if report.answer_p99_s > ANSWER_P99_S:
        report.problems.append(f"p99 of answers about the side RM is {report.answer_p99_s * 1_000:.0f} ms")
    until = time.monotonic() + ENDS_WITHIN_S
    while (left := [task for task in running if not task.done()]) and time.monotonic() < until:
        for task in left:
            task.cancel()  # again: a client may swallow a cancellation that comes as its answer does
        await asyncio.wait(left, timeout=1.0)
    return rms


async def _one_over_grpc(port: int, number: int, seed: int, rms: list[Fuzzing]) -> None:
    client = FuzzingClient(port, f"hostile-grpc-{number}", f"{seed}.grpc.{number}", PACE_S)
    rms.append(client)
    await client.run()


async def _one_of_peloton(port: int, seed: int, rms: list[Fuzzing]) -> None:
    client = FuzzingPelotonClient(port, "hostile-peloton", f"{seed}.peloton", PACE_S)
    rms.append(client)
    await client.run()


async def _one_that_reads(url: str, side_id: str, seed: int, rms: list[Fuzzing]) -> None:
    rm_ids = [side_id, "nobody", *(f"hostile-{number}" for number in range(HOSTILE_RMS))]
    reader = FuzzingReader(url, rm_ids, f"{seed}.reader", READS_EVERY_S)
    rms.append(reader)
    await reader.run()


async def peloton_port_of(bus: Bus) -> int:
    """The port of Peloton's resource manager."""
    async with asyncio.timeout(ENDS_WITHIN_S):
        while True:
            for one in await front_ends(bus, service="resmgr"):
                if one.port:
                    return one.port


async def _one(url: str, number: int, seed: int, rms: list[Fuzzing]) -> None:
    async with raw_client(url) as client:
        rm = FuzzingRm(client, f"hostile-{number}", f"{seed}.{number}", PACE_S)
        rms.append(rm)
        await rm.run()


async def _judge(system: Watched, side: Side, rms: list[Fuzzing], report: Report) -> None:
    began = min(side.asked.values()) + IDLE_S
    if not await side.settled(SETTLED_WITHIN_S):
        report.problems.append(f"the side RM waits for more than {SETTLED_WITHIN_S:g} s: {side.output[-3:]}")
    waits_s = side.waits_s(began)
    report.side_p99_s, report.side_longest_s, report.side_asks = p99(waits_s), max(waits_s), len(waits_s)
    for rm in rms:
        report.sent += rm.sent
        report.told += rm.told
    if report.side_p99_s > SIDE_P99_S:
        report.problems.append(f"the side RM's p99 is {report.side_p99_s * 1_000:.0f} ms")
    report.problems += [f"{name} has ended: {said}" for name, said in system.ended().items()]
    report.halted = await system.halted()
    if foreign := report.halted - {rm.rm_id for rm in rms}:
        report.problems.append(f"halted, and not hostile: {foreign}")
    report.memory_mb.append((report.seconds, system.memory_mb()))
    report.problems += grows(report.memory_mb)
    unanswered = [what for rm in rms for what in rm.unanswered]
    if unanswered:
        report.problems.append(f"{len(unanswered)} requests without an answer, such as {unanswered[:3]}")
    defects = [what for rm in rms if not isinstance(rm, FuzzingRm) for what in rm.defects]
    if defects:
        report.problems.append(f"{len(defects)} RPCs or reads ended with a defect, such as {defects[:3]}")
    lost = await _untold(system.bus, rms, report)
    if lost:
        report.problems.append(f"{len(lost)} requests neither handled nor dead letters, such as {sorted(lost)[:5]}")


def grows(samples: list[tuple[float, dict[str, float]]]) -> list[str]:
    """Processes whose memory is not bounded."""
    problems = []
    first, last = samples[0][1], samples[-1][1]
    for name, mb in last.items():
        grown = mb - first.get(name, mb)
        if grown > (SERVER_GROWS_MB if name == NATS else GROWS_MB):
            problems.append(f"memory of {name} grew by {grown:.0f} MB")
        slope = slope_of(samples, name)
        most = SERVER_SLOPE_MB_PER_S if name == NATS else SLOPE_MB_PER_S
        if samples[-1][0] >= SLOPE_AFTER_S and slope > most:
            problems.append(f"memory of {name} goes on to grow by {slope:.1f} MB/s")
    return problems


def slope_of(samples: list[tuple[float, dict[str, float]]], name: str) -> float:
    """By how many MB a second a process grew over the last two thirds: the slope of the line that fits best."""
    begins_s = samples[-1][0] / 3
    found = [(at_s, mb[name]) for at_s, mb in samples if at_s >= begins_s and name in mb]
    if len({at_s for at_s, _ in found}) < 2:
        return 0.0
    return statistics.linear_regression(*zip(*found, strict=True)).slope


async def _untold(bus: Bus, rms: list[Fuzzing], report: Report) -> set[int]:
    """Requests that the server has stored, and that neither the core nor a dead letter has answered. Waits
    until all are there, or nothing comes any more."""
    sent = {seq for rm in rms for seq in rm.accepted}
    halted = {seq for rm in rms if rm.rm_id in report.halted for seq in rm.accepted}
    found: set[int] = set()
    until = time.monotonic() + SETTLED_WITHIN_S
    while (sent - halted - found) and time.monotonic() < until:
        letters = {seq for rm in rms for seq in await _dead_letters(bus, rm.rm_id)}
        handled = {seq for rm in rms for seq in await _handled(bus, rm.rm_id)}
        report.told["dead letters"], report.told["handled"] = len(letters & sent), len(handled & sent)
        found = letters | handled
        await asyncio.sleep(0.2)
    return sent - halted - found


async def _dead_letters(bus: Bus, rm_id: str) -> set[int]:
    letters = await _until_now(bus, subjects.DEAD_LETTERS.name, subjects.dead_letter(rm_id))
    return {int(letter.headers[subjects.ORIGIN_SEQ]) for letter in letters}


async def _handled(bus: Bus, rm_id: str) -> set[int]:
    commits = await _until_now(bus, subjects.LOG.name, subjects.log(rm_id))
    decisions = (one for commit in commits for one in log_pb2.Commit.FromString(commit.payload).decisions)
    return {decision.request_seq for decision in decisions if decision.request_seq}


async def _until_now(bus: Bus, stream: str, subject: str) -> list[Message]:
    """The messages of the stream on this subject up to the last one at the call."""
    last, found = await bus.last_message(stream, subject), list[Message]()
    if last is None:
        return found
    reader = await bus.read(stream, subject)
    while not found or found[-1].seq < last.seq:
        found += await reader.batch()
    await reader.close()
    return found
