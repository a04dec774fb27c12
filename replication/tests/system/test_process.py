"""Service processes: start, stop by a signal, and the logged reason of a failure."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process

import pytest
from nats.aio.client import Client

from remuda.embedded import NatsServer
from remuda_bus import limits
from remuda_bus.nats import connect
from remuda_bus.settings import load
from remuda_replication.process import Settings

SERVICE = """
import asyncio, sys
from remuda_bus import tracing
from remuda_bus.bus import Bus
from remuda_bus.settings import load
from remuda_replication.process import Settings, run

class Own(Settings):
    greeting: str = "hello"

    @property
    def needs_bus(self) -> bool:
        return self.greeting != "alone"

async def main(bus: Bus, settings: Own) -> None:
    if settings.greeting == "alone":
        print(bus, flush=True)
        return
    if settings.greeting == "bug":
        raise KeyError("a bug")
    if settings.greeting == "bad":
        raise ValueError("greeting: 'bad', expected something nicer")
    if settings.greeting == "bad for one":
        fault = ValueError("no such place")
        fault.add_note("of rm-1")
        raise fault
    if settings.greeting == "done":
        return
    try:
        with tracing.span("greeting"):
            await bus.publish("greeting", settings.greeting.encode())
        await asyncio.Event().wait()
    finally:
        print("cleaned up", flush=True)

run("test", main, load(Own).settings)
"""


async def start(url: str, greeting: str = "hello", **environment: str) -> Process:
    environment |= {"REMUDA_NATS_URL": url, "REMUDA_GREETING": greeting, "REMUDA_LOG_FORMAT": "json", "PATH": ""}
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVICE, stdout=PIPE, stderr=PIPE, env=environment
    )


async def ended(process: Process) -> tuple[int, str, list[dict[str, str]]]:
    out, err = await asyncio.wait_for(process.communicate(), 15)
    assert process.returncode is not None
    return process.returncode, out.decode(), [json.loads(line) for line in err.decode().splitlines()]


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_stops_the_process(server: NatsServer, sign: signal.Signals) -> None:
    client = Client()
    await client.connect(server.url)
    greetings = await client.subscribe("greeting")
    process = await start(server.url)
    assert (await greetings.next_msg(10)).data == b"hello"
    ping = await client.request("$SRV.PING.remuda-test", timeout=5)
    assert json.loads(ping.data)["name"] == "remuda-test"
    process.send_signal(sign)
    code, out, lines = await ended(process)
    assert (code, out) == (0, "cleaned up\n")
    assert [line["event"] for line in lines] == ["started", "stopping", "stopped"]
    assert {line["service"] for line in lines} == {"test"}
    await client.close()


async def test_an_absent_trace_collector_does_not_delay_the_end(server: NatsServer) -> None:
    """The process ends as fast as without traces, and logs the failed export in one line."""
    client = Client()
    await client.connect(server.url)
    greetings = await client.subscribe("greeting")
    process = await start(server.url, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:1")
    await greetings.next_msg(10)
    process.terminate()
    began = time.monotonic()
    code, _, lines = await ended(process)
    assert code == 0 and time.monotonic() - began < limits.TRACE_EXPORT_TIMEOUT_S + 1.5
    assert [line["event"] for line in lines][:3] == ["started", "stopping", "stopped"]
    assert [line["level"] for line in lines[3:]] in ([], ["error"])
    await client.close()


async def test_it_declares_streams(server: NatsServer) -> None:
    assert (await ended(await start(server.url, "done")))[0] == 0
    bus = await connect(server.url, "look", timeout_s=5)
    assert await bus.last_message("LOG", "remuda.log.*") is None
    await bus.close()


@pytest.mark.parametrize(
    ("greeting", "error", "traced"),
    [
        ("bad", "ValueError: greeting: 'bad', expected something nicer", False),
        ("bug", "KeyError: 'a bug'", True),
        ("bad for one", "ValueError: no such place; of rm-1", True),
    ],
)
async def test_a_failure_is_logged_with_its_reason(server: NatsServer, greeting: str, error: str, traced: bool) -> None:
    code, _, lines = await ended(await start(server.url, greeting))
    assert code == 1
    assert lines[-1]["event"] == "failed"
    assert lines[-1]["error"] == error
    assert ("exception" in lines[-1]) == traced


async def test_waiting_for_the_bus_is_logged(server: NatsServer) -> None:
    await server.stop()
    process = await start(server.url, "done")
    assert process.stderr is not None
    first = json.loads(await asyncio.wait_for(process.stderr.readline(), 15))
    assert (first["event"], first["url"]) == ("waiting for the bus", server.url)
    await server.start()
    code, _, lines = await ended(process)
    assert code == 0
    assert "started" in [line["event"] for line in lines]


async def test_a_process_that_waits_for_the_bus_can_be_stopped(server: NatsServer) -> None:
    await server.stop()
    process = await start(server.url)
    assert process.stderr is not None
    await asyncio.wait_for(process.stderr.readline(), 15)
    process.terminate()
    assert (await ended(process))[0] == 0


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REMUDA_NATS_URL", "nats://elsewhere:4222")
    monkeypatch.setenv("REMUDA_INSTANCE", "core-1")
    settings = load(Settings).settings
    assert (settings.nats_url, settings.instance, settings.log_level) == ("nats://elsewhere:4222", "core-1", "info")
    monkeypatch.setenv("REMUDA_LOG_FORMAT", "xml")
    with pytest.raises(ValueError, match="log.format"):
        load(Settings)


async def test_process_that_needs_no_bus_runs_without() -> None:
    code, out, _ = await ended(await start("nats://127.0.0.1:1", "alone"))
    assert (code, out.strip()) == (0, "None")
