"""Half load for a while: no process grows, no message stays unacknowledged. REMUDA_SOAK_S=600 by hand, see
docs/operations.md. Servers remember message IDs for two minutes, so they are judged only when it takes longer."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
from collections.abc import Callable
from typing import NamedTuple

import pytest

from remuda_bus import subjects
from remuda_bus.bus import Bus
from tests.e2e.stack import SERVERS, SERVICES, Stack, in_thread

RM = "e2e-soak"
RATE = 500
SOAK_S = float(os.environ.get("REMUDA_SOAK_S", "120"))
WARM_UP = 0.4  # of the time
SAMPLE_S = 1.0
GROWTH = 0.04  # on and on: Python takes memory by the MB, 3 % of what a service holds
STEP = 0.2  # in all: a busy moment has taken 6 %
APPLICATIONS = 20

pytestmark = pytest.mark.timeout(SOAK_S + 180)


async def test_memory_is_flat_and_nothing_piles_up(stack: Stack, admin: Bus) -> None:
    asks = int(RATE * (SOAK_S + 30) / APPLICATIONS)
    load = await stack.load(
        RM, "--nodes", "200", "--apps", str(APPLICATIONS), "--asks", str(asks), "--rate", str(RATE), "--duration", "2s",
        output=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    loop = asyncio.get_running_loop()
    began = loop.time()
    memory: dict[str, list[tuple[float, int]]] = {name: [] for name in (*SERVICES, *SERVERS)}
    pending: list[int] = []
    while (now := loop.time() - began) < SOAK_S:
        for name in memory:
            await in_thread(lambda name: memory[name].append((now, stack.memory_bytes(name))), name)
        pending.append(await unacknowledged(admin))
        await asyncio.sleep(SAMPLE_S)
    assert load.returncode is None, "the load ended too early"
    load.terminate()
    await load.wait()
    growth = {name: grown(samples) for name, samples in memory.items()}
    print({name: f"{samples[-1][1] / 1e6:.0f} MB {growth[name]}" for name, samples in memory.items()}, pending)
    watched = (*SERVICES, *SERVERS) if subjects.CALLBACKS.duplicate_window_s < WARM_UP * SOAK_S else SERVICES
    assert {name: growth[name] for name in watched if growth[name].leaks} == {}
    half = len(pending) // 2
    assert statistics.mean(pending[half:]) <= 2 * max(statistics.mean(pending[:half]), RATE)


def test_a_leak_grows_on_and_on_or_by_much_and_a_busy_moment_does_not() -> None:
    def growth(megabytes_at: Callable[[float], float]) -> Growth:
        return grown([(at, int(1e6 * megabytes_at(at))) for at in range(0, int(SOAK_S), 8)])

    def once(moment: float, to: float) -> Callable[[float], float]:
        return lambda at: 35 if at < moment * SOAK_S else to

    assert growth(lambda at: 37 + at * RATE * 200 / 1e6).leaks  # 200 bytes of every ask
    assert all(growth(once(moment, to=43)).leaks for moment in (0.6, 0.7, 0.8))
    assert not any(growth(once(moment, to=38)).leaks for moment in (0.5, 0.6, 0.7, 0.8, 0.9))
    assert not growth(lambda at: 37 + at % 16 / 8).leaks


class Growth(NamedTuple):
    """The growth after the warm-up: from the first third to the second or from the second to the last, the smaller one;
    and in all. A leak grows on and on, or by much at once; a moment in which the machine was busy, and more had to
    be held, has a small effect, once."""

    on_and_on: float
    in_all: float

    @property
    def leaks(self) -> bool:
        return self.on_and_on > GROWTH or self.in_all > STEP

    def __str__(self) -> str:
        return f"{self.in_all:+.1%}"


def grown(samples: list[tuple[float, int]]) -> Growth:
    """By medians, since the garbage collector may run between any two samples."""
    warm = [size for at, size in samples if at >= WARM_UP * SOAK_S]
    third = max(1, len(warm) // 3)
    first, second, last = (statistics.median(part) for part in (warm[:third], warm[third:-third], warm[-third:]))
    return Growth(min(second / first, last / second) - 1, last / first - 1)


async def unacknowledged(admin: Bus) -> int:
    state = await admin.request(
        f"$JS.API.CONSUMER.INFO.{subjects.CALLBACKS.name}.{subjects.callback_consumer(RM)}", timeout_s=10
    )
    found = json.loads(state.payload)
    return int(found.get("num_ack_pending", 0)) + int(found.get("num_pending", 0))
