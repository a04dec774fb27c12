"""The service in this process, on a real NATS server, and what tests ask of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

import remuda_config
from remuda.embedded import NatsServer
from remuda_bus import subjects
from remuda_bus.bus import BusError, Refused
from remuda_bus.nats import NatsBus, connect
from remuda_config.shell import ConfigSettings, active_configuration, api, changes, main, version_watch
from remuda_proto.remuda.v1 import config_pb2, inbox_pb2
from services.config.tests.texts import queues
from tests.patience import PATIENCE

WITHIN_S = 10.0


@contextlib.asynccontextmanager
async def service(server: NatsServer, file: Path | None = None, **given: Any) -> AsyncIterator[None]:
    """The service with a connection of its own, as in a process; answering when the block begins, gone after it.
    `given`: settings of the service."""
    bus = await connect(server.url, "config")
    settings = ConfigSettings(nats_url=server.url, **given)
    work = asyncio.create_task(main(bus, settings, file))
    try:
        await eventually(lambda: work.done() or answers(bus))
        yield
        assert not work.done(), work
    finally:
        ended = work.done()
        work.cancel()
        (result,) = await asyncio.gather(work, return_exceptions=True)
        await bus.close()
        if ended and isinstance(result, Exception):  # otherwise a test would only say what it has waited for
            raise result


async def answers(bus: NatsBus) -> bool:
    """Whether it has loaded its file, and serves what it serves last: changes."""
    with contextlib.suppress(BusError):
        await bus.request(subjects.CURRENT_CONFIGURATIONS, timeout_s=0.5)
        try:
            await bus.request(subjects.configuration_change("root", "-", "unknown"), timeout_s=0.5)
        except Refused:
            return True
    return False


async def eventually(condition):
    """Returns the value of the condition as soon as it is true; it may be a coroutine function."""
    deadline = time.monotonic() + WITHIN_S * PATIENCE
    while True:
        value = condition()
        value = await value if asyncio.iscoroutine(value) else value
        if value:
            return value
        assert time.monotonic() < deadline, condition
        await asyncio.sleep(0.02)


@contextlib.contextmanager
def stopped_clock() -> Iterator[None]:
    """No staged change ends meanwhile, however slow the machine is."""
    at_ms = changes.now_ms()
    with pytest.MonkeyPatch.context() as patch:
        for module in (active_configuration, api, version_watch):
            patch.setattr(module, "now_ms", lambda: at_ms)
        yield


async def resolve(bus, rm_id="rm-1", config="", **extra) -> config_pb2.ResolvedConfiguration:
    request = config_pb2.ResolveConfiguration(rm_id=rm_id, policy_group="group", config=config, extra_config=extra)
    answer = await bus.request(subjects.RESOLVE_CONFIGURATION, request.SerializeToString())
    return config_pb2.ResolvedConfiguration.FromString(answer.payload)


async def current(bus) -> dict[str, Any]:
    return json.loads((await bus.request(subjects.CURRENT_CONFIGURATIONS)).payload)


async def register(
    bus, rm_id="rm-1", source="file", state="registered", extra_config=None, checksum="", registration=1
) -> None:
    """The record of an RM, as rmproxy writes it."""
    value = {"rm_id": rm_id, "policy_group": "group", "version": "", "config_source": source, "state": state}
    value |= {"extra_config": extra_config or {}, "config_checksum": checksum, "registration": registration}
    await bus.put(subjects.RMS.name, subjects.key_of(rm_id), json.dumps(value).encode())


async def join(bus, rm_id="rm-1", state="registered", **extra) -> config_pb2.Configuration:
    """An RM that uses the file asks for its configuration, which is returned, and gets a record, which the service
    knows of then."""
    configuration = (await resolve(bus, rm_id, **extra)).configuration
    await register(bus, rm_id, state=state, checksum=configuration.checksum)
    await eventually(lambda: is_on_record(bus, rm_id))
    return configuration


async def inbox(bus, rm_id="rm-1") -> list[inbox_pb2.Configure]:
    reader = await bus.read(subjects.INBOX.name, subjects.inbox(rm_id))
    messages = await reader.batch(timeout_s=0.2)
    await reader.close()
    return [inbox_pb2.Command.FromString(message.payload).configure for message in messages]


def limited(applications: int) -> str:
    return queues(f"- {{name: a, maxapplications: {applications}}}")


def applications(configuration: config_pb2.Configuration) -> int:
    return configuration.partitions[0].root.queues[0].max_applications


async def sent(bus, count: int, rm_id="rm-1") -> list[int]:
    """maxapplications of queue a in each Configure, once there are `count` of them."""

    async def enough():
        found = await inbox(bus, rm_id)
        return found if len(found) >= count else None

    return [applications(configure.configuration) for configure in await eventually(enough)]


async def is_on_record(bus, rm_id="rm-1") -> bool:
    return any(rm["rm_id"] == rm_id for rm in (await current(bus))["rms"])


async def problems_of_file(bus) -> list[dict[str, Any]]:
    return (await current(bus))["file"]["problems"]


async def file_problem(bus, message: str) -> bool:
    return any(message in problem["message"] for problem in await problems_of_file(bus))


async def resolved(bus, count: int) -> bool:
    answer = await resolve(bus)
    return answer.HasField("configuration") and applications(answer.configuration) == count


async def no_rm_waits(bus) -> bool:
    return not any(rm["waits"] for rm in (await current(bus))["rms"])


async def is_active(bus, text: str) -> bool:
    return (await current(bus))["file"]["checksum"] == remuda_config.checksum(text)


BROKEN = limited(1) + "colour: red\nsize: 5\n"
