"""The cost of idle RMs: a core process with thousands of them, on a server of its own.

    python bench/idle.py [--rms N] [--seconds N]

Prints how long the start took, memory per RM, and processor time per minute of the core's process once it leads all."""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import tempfile
import time
from pathlib import Path

import uvloop

from remuda.embedded import NatsServer
from remuda_bus import subjects
from remuda_bus.nats import NatsBus, connect
from remuda_core.shell.main import main as core_main
from remuda_core.shell.settings import CoreSettings

LEADS_WITHIN_S = 600.0


def used_kib() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() // 1024


def cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def led(bus: NatsBus) -> int:
    answer = json.loads((await bus.request(subjects.core_process("bench"), timeout_s=30)).payload)
    return sum(one["leads"] for one in answer["rms"])


async def measure(rms: int, seconds: float) -> None:
    with tempfile.TemporaryDirectory() as directory:
        async with NatsServer(Path(directory)) as server:
            bus = await connect(server.url, "bench", timeout_s=5)
            await bus.declare()
            for number in range(rms):
                await bus.put(subjects.RMS.name, f"idle-{number}", b"{}")
            own = await connect(server.url, "core", timeout_s=5)
            before, began, cpu = used_kib(), time.monotonic(), cpu_s()
            core = asyncio.create_task(core_main(own, CoreSettings(nats_url=server.url, instance="bench")))
            async with asyncio.timeout(LEADS_WITHIN_S):
                while not core.done() and await led_or_none(bus) < rms:  # noqa: ASYNC110
                    await asyncio.sleep(1.0)
            print(f"{rms} RMs led after {time.monotonic() - began:.1f} s, {cpu_s() - cpu:.1f} s of processor time")
            print(f"memory: {(used_kib() - before) / rms:.1f} KiB per RM, {used_kib() / 1024:.0f} MiB in all")
            await asyncio.sleep(15.0)  # queues are cleaned once
            cpu, began = cpu_s(), time.monotonic()
            await asyncio.sleep(seconds)
            print(f"idle: {60 * (cpu_s() - cpu) / (time.monotonic() - began):.2f} s of processor time per minute")
            core.cancel()
            await asyncio.wait([core])
            await own.close()
            await bus.close()


async def led_or_none(bus: NatsBus) -> int:
    try:
        return await led(bus)
    except Exception:  # noqa: BLE001 - it is not there yet, or too busy
        return 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rms", type=int, default=5_000)
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    uvloop.run(measure(options.rms, options.seconds))


if __name__ == "__main__":
    main()
