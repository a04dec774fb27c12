"""The service as a process of its own: killed at any moment, it tells everything once; and it gives way to others."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from remuda.embedded import NatsServer
from remuda_bus import subjects
from remuda_bus.nats import NatsBus
from services.events.tests.history_log import commit_of, expected, history_of, register, write, writer_of
from tests.patience import PATIENCE

COMMITS, FACTS = 6, 200  # in each life; in each commit
START = """
from remuda_bus.settings import load
from remuda_events.settings import EventsSettings
from remuda_events.shell import main
from remuda_replication.process import run
run("events", main, load(EventsSettings).settings)
"""


@contextmanager
def events_process(server: NatsServer) -> Iterator[subprocess.Popen[bytes]]:
    environment = {**os.environ, "REMUDA_NATS_URL": server.url}
    environment.pop("OTEL_EXPORTER_OTLP_ENDPOINT", None)
    process = subprocess.Popen([sys.executable, "-c", START], env=environment)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def test_killed_again_and_again_it_writes_every_record_once(bus: NatsBus, server: NatsServer):
    await register(bus)
    moments = random.Random(7)
    written = 0
    writer = await writer_of(bus)
    for life in range(3):
        with events_process(server):
            for number in range(COMMITS):
                await writer.append(commit_of(FACTS, 100 * life + number))
            written = len(
                await history_of(bus, written + moments.randrange(1, 4 * FACTS))
            )  # and is cut off at whatever follows
    assert 0 < written < 3 * COMMITS * 2 * FACTS
    killed = await bus.get(subjects.LEASES.name, subjects.EVENTS_LEASE)
    with events_process(server) as last:
        whole = await expected(bus)
        assert len(whole) == 3 * COMMITS * 2 * FACTS
        assert await history_of(bus, len(whole)) == whole
        # The one before may have written all of it, so that this one is still starting.
        async with asyncio.timeout(60 * PATIENCE):
            held = killed
            while held is None or (killed is not None and held.revision == killed.revision):
                await asyncio.sleep(0.05)
                held = await bus.get(subjects.LEASES.name, subjects.EVENTS_LEASE)
        last.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(last.wait, 10) == 0


async def test_it_runs_at_a_lower_priority(bus: NatsBus, server: NatsServer):
    await register(bus)
    await write(bus, 1)
    with events_process(server) as process:
        await history_of(bus, 2)
        assert os.getpriority(os.PRIO_PROCESS, process.pid) == 19
