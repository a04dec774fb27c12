"""The documents are true: their examples run, their configuration loads, their tables are complete."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import grpc_tools
import nats
import pytest
from nats.aio.client import Client

from remuda.embedded import NatsServer
from remuda_bus import subjects
from tests.system.running import until

ROOT = Path(__file__).resolve().parents[2]
SERVICES = ("config", "core", "rmproxy", "events")
WITHIN_S = 30.0
MESSAGE = re.compile(r"^encode (\w+) > \w+\.bin <<'END'\n(.*?)\nEND\nnats pub [^\n]* (\S+) <", re.MULTILINE | re.DOTALL)


@pytest.fixture
async def url(tmp_path: Path) -> AsyncIterator[str]:
    """A whole system, of processes; the URL of its NATS server."""
    async with NatsServer(tmp_path / "nats") as server:
        services = []
        for name in SERVICES:
            command = [sys.executable, "-m", "remuda", "run", name, "--nats", server.url]
            with (tmp_path / f"{name}.log").open("wb") as log:
                services.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        try:
            await until_it_answers(server.url)
            yield server.url
        finally:
            for service in services:
                service.terminate()
            for service in services:
                service.wait(timeout=WITHIN_S)


def block(document: str, language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```", (ROOT / document).read_text(), flags=re.MULTILINE | re.DOTALL)
    assert found is not None, f"{document} has no {language} block"
    return found[1]


async def test_the_resource_manager_of_the_readme_runs(url: str) -> None:
    code = block("README.md", "python").replace("nats://127.0.0.1:4222", url)
    assert url in code
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    output, _ = await asyncio.wait_for(child.communicate(), WITHIN_S)
    assert child.returncode == 0, output.decode()
    assert sorted(line.split()[0] for line in output.decode().splitlines()) == [f"task-{n}" for n in range(5)]


async def test_the_session_by_hand_of_the_wire_contract_works(url: str) -> None:
    """Its messages, published as it says, lead to two allocations in the consumer it names."""
    shell = block("docs/wire-contract.md", "sh")
    messages = MESSAGE.findall(shell)
    assert len(messages) == 3
    connection = await nats.connect(url)
    try:
        assert await registered(connection, "by-hand")
        stream = connection.jetstream()
        for message_type, text, subject in messages:
            await stream.publish(subject, encode(message_type, text))
        callbacks = await stream.pull_subscribe_bind("rm-by-hand", "CALLBACKS")
        told: list[str] = []
        async with asyncio.timeout(WITHIN_S):
            while sum(text.count("new {") for text in told) < 2:
                for message in await callbacks.fetch(1, timeout=WITHIN_S):
                    if message.subject == "si.v1.rm.by-hand.callback.allocation":
                        told.append(protoc("decode", "AllocationResponse", message.data).decode())
                    await message.ack()
        assert all('allocationKey: "k1"' in text and 'nodeID: "n1"' in text for text in told)
    finally:
        await connection.close()


async def until_it_answers(url: str) -> None:
    """A first RM is registered: all services work together."""
    connection = await nats.connect(url)
    try:
        await until(lambda: registered(connection, "first"), WITHIN_S)
    finally:
        await connection.close()


async def registered(connection: Client, rm_id: str) -> bool:
    """False: there are no responders yet."""
    payload = encode("RegisterResourceManagerRequest", f'rmID: "{rm_id}"')
    try:
        reply = await connection.request(f"si.v1.rm.{rm_id}.register", payload, timeout=WITHIN_S)
    except nats.errors.NoRespondersError:
        return False
    return subjects.SERVICE_ERROR not in (reply.headers or {})


def encode(message_type: str, text: str) -> bytes:
    return protoc("encode", message_type, text.encode())


def protoc(what: str, message_type: str, payload: bytes) -> bytes:
    bundled = Path(grpc_tools.__file__).parent / "_proto"
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{ROOT / 'proto'}", f"-I{bundled}"]
    command += [f"--{what}=si.v1.{message_type}", "si/v1/si.proto"]
    done = subprocess.run(command, input=payload, capture_output=True, check=False, timeout=WITHIN_S)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout
