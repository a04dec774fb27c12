"""Archives of seeds of the simulation (`tests/sim`): kills, outages and clocks that jump included."""

from __future__ import annotations

from random import Random

from tests.identity.recorder import Recorder
from tests.sim.simulation import Simulation, WithDevices, WithRacks, simulated
from tests.sim.story import Story


def recorded(seed: int) -> tuple[Story, list[Recorder]]:
    """Play a seed. Returns its story, and what was recorded of each RM."""
    recorders: list[Recorder] = []
    kind = {1: WithDevices, 3: WithRacks}.get(seed % 4, Simulation)

    async def simulate(random: Random, story: Story) -> None:
        simulation = kind(random, story)
        recorders.extend(Recorder(simulation.server, rm.cluster.rm_id) for rm in simulation.rms)
        simulation.background += tuple(one.follow() for one in recorders)
        await simulation.run()

    return simulated(Random(seed), simulate), recorders
