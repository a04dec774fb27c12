"""Two registrations of a new RM at the same time, of which the core refuses one."""

from __future__ import annotations

import asyncio
from itertools import count

import pytest

from remuda_bus import subjects
from remuda_bus.memory import MemoryBus
from remuda_replication.rms.faults import Faults
from remuda_replication.rms.halts import Halts
from remuda_rmproxy.inbound.configuration_resolver import ConfigurationResolver
from remuda_rmproxy.outbound.publishers import CallbackPublishers
from remuda_rmproxy.records.record_store import read_record
from remuda_rmproxy.records.registry import RmRegistry
from remuda_rmproxy.records.rm_record import RmRecord, State
from remuda_rmproxy.sessions.cursor_check import CursorCheck
from remuda_rmproxy.sessions.pending_answers import PendingAnswers
from remuda_rmproxy.sessions.registration import Registrar
from services.rmproxy.tests.forwarding import forwarder_of


def registrar_of(bus: MemoryBus, group: asyncio.TaskGroup) -> Registrar:
    registry, halts = RmRegistry(), Halts(bus, "test", lambda: 0)
    faults = Faults(bus, halts, "test", count(1).__next__)

    async def on_decision(rm_id: str, decision: object) -> None:
        raise AssertionError

    return Registrar(
        bus, registry, halts, CursorCheck(bus, registry, halts), forwarder_of(bus, registry, halts),
        ConfigurationResolver(bus), CallbackPublishers(bus, group, halts, faults, on_decision), PendingAnswers(), 1.0,
        10,
    )  # fmt: skip


@pytest.mark.parametrize(("state", "stays"), [("registering", False), ("registered", True)])
async def test_the_refused_one_does_not_remove_the_record_of_the_accepted_one(state: State, stays: bool) -> None:
    bus = MemoryBus()
    await bus.put(subjects.RMS.name, "rm-1", RmRecord("rm-1", state=state).encode())
    await bus.put(subjects.CONFIGURATIONS.name, subjects.configuration_key("rm-1"), b"{}")
    async with asyncio.TaskGroup() as group:
        await registrar_of(bus, group)._remove_refused("rm-1")
    assert ((await read_record(bus, "rm-1"))[0] is not None) == stays
    assert (await bus.get(subjects.CONFIGURATIONS.name, subjects.configuration_key("rm-1")) is not None) == stays
    await bus.close()
