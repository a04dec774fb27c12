"""Half load for a while: no process grows, nothing remains unacknowledged. REMUDA_SOAK_S=600 by hand, see
docs/operations.md. Servers remember message IDs for two minutes, so they are judged only when it takes longer."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
from collections.abc import Callable

import pytest

from remuda_bus import subjects
from remuda_bus.bus import Bus
from tests.e2e.stack import SERVERS, SERVICES, Stack, in_thread

RM = "e2e-soak"
RATE = 500
SOAK_S = float(os.environ.get("REMUDA_SOAK_S", "120"))
WARM_UP = 0.4  # of the time
SAMPLE_S = 1.0
GROWTH = 0.04  # Python takes memory by the MB: 3 % of what a service holds
APPLICATIONS = 20

pytestmark = pytest.mark.timeout(SOAK_S + 180)


async def test_memory_is_flat_and_nothing_piles_up(stack: Stack, admin: Bus) -> None:
    asks = int(RATE * (SOAK_S + 30) / APPLICATIONS)
    load = await stack.load(
        RM, "--nodes", "200", "--apps", str(APPLICATIONS), "--asks", str(asks), "--rate", str(RATE), "--duration", "2",
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
    print({name: f"{samples[-1][1] / 1e6:.0f} MB {growth[name]:+.1%}" for name, samples in memory.items()}, pending)
    watched = (*SERVICES, *SERVERS) if subjects.CALLBACKS.duplicate_window_s < WARM_UP * SOAK_S else SERVICES
    assert {name: growth[name] for name in watched if growth[name] > GROWTH} == {}
    half = len(pending) // 2
    assert statistics.mean(pending[half:]) <= 2 * max(statistics.mean(pending[:half]), RATE)


def test_a_leak_grows_on_and_on_and_what_is_needed_once_is_kept() -> None:
    def growth(megabytes_at: Callable[[float], float]) -> float:
        return grown([(at, int(1e6 * megabytes_at(at))) for at in range(0, int(SOAK_S), 8)])

    def busy_once(moment: float) -> Callable[[float], float]:
        return lambda at: 35 if at < moment else 38

    assert growth(lambda at: 37 + at * RATE * 200 / 1e6) > GROWTH  # 200 bytes of every ask
    assert growth(lambda at: 37 + at % 16 / 8) < GROWTH
    assert max(growth(busy_once(part * SOAK_S)) for part in (0.5, 0.6, 0.7, 0.8, 0.9)) < GROWTH


def grown(samples: list[tuple[float, int]]) -> float:
    """The lesser growth of two: from the first third after the warm-up to the second, and from there to the last. What
    leaks grows on and on; a moment in which the machine was busy, and more was held at once, leaves its mark once.
    Medians, since a collection may lie between any two."""
    warm = [size for at, size in samples if at >= WARM_UP * SOAK_S]
    third = max(1, len(warm) // 3)
    first, last = statistics.median(warm[:third]), statistics.median(warm[-third:])
    second = statistics.median(warm[third:-third])
    return min(second / first, last / second) - 1


async def unacknowledged(admin: Bus) -> int:
    state = await admin.request(
        f"$JS.API.CONSUMER.INFO.{subjects.CALLBACKS.name}.{subjects.callback_consumer(RM)}", timeout_s=10
    )
    found = json.loads(state.payload)
    return int(found.get("num_ack_pending", 0)) + int(found.get("num_pending", 0))
