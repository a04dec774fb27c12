"""Registrations while no rmproxy listens."""

from __future__ import annotations

import asyncio

import pytest

from remuda_bus import subjects
from remuda_bus.bus import Message, Reply
from remuda_bus.memory import MemoryBus
from remuda_sdk.resource_manager import ResourceManager, client
from remuda_sdk.resource_manager.registration import RegistrationFailed


async def answer(_: Message) -> Reply:
    return Reply(b"", {subjects.REGISTRATION: "1"})


async def test_a_registration_is_retried_until_rmproxy_listens():
    bus = MemoryBus()
    async with ResourceManager.connect(bus, "rm-1", register=False) as rm:
        registering = asyncio.create_task(rm.register())
        await asyncio.sleep(0)
        assert not registering.done()
        await bus.serve(subjects.register("*"), answer, "register")
        await asyncio.wait_for(registering, 2.0)


async def test_a_registration_fails_when_no_rmproxy_listens(monkeypatch):
    monkeypatch.setattr(client, "RESPONDERS_TIMEOUT_S", 0.1)
    async with ResourceManager.connect(MemoryBus(), "rm-1", register=False) as rm:
        with pytest.raises(RegistrationFailed, match="no scheduler answers"):
            await rm.register()
