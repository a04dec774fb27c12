"""Texts are read in worker processes: what ends a worker, or takes it too long, is a problem of the text alone."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

import remuda_config
from remuda_config import limits
from remuda_config.shell.worker_pool import WorkerPool
from services.config.tests.running_service import BROKEN, limited


def large(queues: int) -> str:
    """A valid text of 22 values a queue."""
    amounts = "{guaranteed: {memory: 1G, vcore: 10}, max: {memory: 2G, vcore: 20}}"
    lines = [f"    - {{name: q{number}, submitacl: '*', resources: {amounts}}}" for number in range(queues)]
    return "\n".join(["partitions:", "- name: default", "  queues:", "  - name: root", "    queues:", *lines])


async def problem_of(pool: WorkerPool, text: str, cpu_s: int = limits.LOAD_CPU_S) -> str:
    with pytest.raises(remuda_config.Invalid) as refused:
        await pool.load(text, "registration", cpu_s)
    (problem,) = refused.value.problems
    return problem.message


async def test_the_same_configuration_and_the_same_problems():
    async with WorkerPool() as pool:
        assert await pool.load(limited(3), "x") == remuda_config.load(limited(3), "x")
        with pytest.raises(remuda_config.Invalid) as here:
            remuda_config.load(BROKEN)
        with pytest.raises(remuda_config.Invalid) as there:
            await pool.load(BROKEN, "x")
        assert there.value.problems == here.value.problems


async def test_of_many_problems_some_are_named_and_all_are_counted():
    text = "partitions: []\n" + "".join(f"key{number}: x\n" for number in range(limits.MAX_PROBLEMS + 500))
    async with WorkerPool() as pool:
        with pytest.raises(remuda_config.Invalid) as refused:
            await pool.load(text, "x")
    assert len(refused.value.problems) == limits.MAX_PROBLEMS + 1
    assert str(refused.value.problems[-1]) == "and 501 more"


async def test_a_text_that_takes_too_long_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limits, "LOAD_TIMEOUT_S", 600.0)  # a busy machine may give a worker little
    text = large(8_000) + "# \t\n"  # with a tab, for the slow composer
    async with WorkerPool() as pool:
        assert await problem_of(pool, text, cpu_s=1) == f"a text of {len(text)} bytes takes more than 1 s to read"
        assert (await pool.load(limited(3), "x")).partitions


async def test_a_text_that_is_not_read_in_time_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limits, "LOAD_TIMEOUT_S", -29.9)
    async with WorkerPool() as pool:
        expected = "a text of 80 bytes is not read within 0.1 s: it is too large, or this machine is too busy"
        stopped = asyncio.create_task(problem_of(pool, "#" * 80, cpu_s=30))
        while not stopped.done():
            for process in children():
                os.kill(process, signal.SIGSTOP)
            await asyncio.sleep(0.001)
        assert await stopped == expected


async def test_a_text_that_takes_too_much_memory_is_refused():
    text = large(3_000)
    async with WorkerPool(memory_bytes=64_000_000) as pool:
        assert f"a text of {len(text)} bytes ended the process that reads it" in await problem_of(pool, text, cpu_s=30)
        assert (await pool.load(limited(3), "x")).partitions


async def test_a_worker_that_dies_is_replaced():
    async with WorkerPool() as pool:
        (worker,) = pool._idle
        os.kill(worker._process.pid, signal.SIGKILL)
        assert (await pool.load(limited(3), "x")).partitions


async def test_a_text_whose_worker_dies_twice_is_refused():
    text = large(8_000)
    async with WorkerPool() as pool:
        loading = asyncio.create_task(problem_of(pool, text, cpu_s=30))
        killed: set[int] = set()
        while not loading.done():
            for process in children() - killed:
                os.kill(process, signal.SIGKILL)
                killed.add(process)
            await asyncio.sleep(0.01)
        assert await loading == f"a text of {len(text)} bytes ended the process that reads it (status -9)"


def children() -> set[int]:
    with open(f"/proc/self/task/{os.getpid()}/children") as found:
        return {process for process in map(int, found.read().split()) if b"remuda_config.worker" in command_of(process)}


def command_of(process: int) -> bytes:
    with open(f"/proc/{process}/cmdline", "rb") as found:
        return found.read()


async def test_no_worker_outlives_the_service():
    async with WorkerPool() as pool:
        await asyncio.gather(*(pool.load(limited(number), "x") for number in range(4)))
        assert children()
    assert not children()


async def test_leaders_on_the_same_machine_come_first():
    async with WorkerPool() as pool:
        worker = pool._idle[0]._process.pid
        await pool.load(limited(3), "x")
        assert os.getpriority(os.PRIO_PROCESS, worker) == min(
            os.getpriority(os.PRIO_PROCESS, 0) + limits.WORKER_NICENESS, 19
        )
