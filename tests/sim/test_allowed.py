"""An RM that the settings do not allow tries to register again and again, whatever goes wrong meanwhile: rmproxy
refuses it each time, nothing of it is stored, and the other RMs work as without it."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, Refused
from remuda_proto.si.v1 import si_pb2 as si
from remuda_rmproxy import shell as rmproxy_shell
from remuda_rmproxy.settings import RmproxySettings

from . import services
from .process import Main, Process
from .simulation import Simulation, simulated
from .story import CURRENT, Story

STRANGER = "other-rm"


async def choosy_rmproxy(bus: Bus) -> None:
    process = CURRENT.get()
    assert process is not None
    settings = RmproxySettings(instance=f"{process.name}.{process.lives}", allowed_rms=("/rm-[0-9]+/",))
    await rmproxy_shell.main(bus, settings)


class WithStranger(Simulation):
    def __init__(self, random: Random, story: Story) -> None:
        super().__init__(random, story)
        self.refusals = 0
        self.processes.append(self._process(STRANGER, self._knock))

    def _process(self, name: str, main: Main) -> Process:
        return super()._process(name, choosy_rmproxy if main is services.rmproxy else main)

    async def _knock(self, bus: Bus) -> None:
        request = si.RegisterResourceManagerRequest(rmID=STRANGER, policyGroup="a").SerializeToString()
        while True:
            try:
                await bus.request(subjects.register(STRANGER), request)
                self.story.violated(f"{STRANGER} was let in")
            except Refused as refusal:
                self.refusals += refusal.code == 403
            except BusError:
                pass  # an outage
            await asyncio.sleep(0.2)

    async def _calm(self) -> None:
        await super()._calm()
        stored = await self.server.get(subjects.RMS.name, subjects.key_of(STRANGER))
        inbox = await self.server.last_message(subjects.INBOX.name, subjects.inbox(STRANGER))
        if stored is not None or inbox is not None:
            self.story.violated(f"something of {STRANGER} is stored")
        if not self.refusals:
            self.story.violated(f"{STRANGER} was never refused")


@pytest.mark.parametrize("seed", range(3))
def test_an_rm_that_is_not_allowed_is_never_let_in(seed: int) -> None:
    story = simulated(Random(seed), _simulate)
    said = "\n".join([*story.lines[-100:], *story.violations])
    assert not story.violations, said


async def _simulate(random: Random, story: Story) -> None:
    await WithStranger(random, story).run()
