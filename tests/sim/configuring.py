"""The configuration under fire: two configuration services with one file, an operator who changes it by requests, an
editor who changes it by hand, and RMs that use it. Some services are stopped after a version is stored and before its
text is in the file.

A version is in force as a whole or not at all, the history is complete, and in the end the file and the RMs have the
text in force."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from random import Random

from remuda_bus import subjects
from remuda_config.shell.version_store import FILE as IN_FORCE

from . import services
from .cluster import Cluster
from .configuration_operator import ConfigurationOperator
from .lies import Liar
from .process import Process
from .queues_file import FILE, QueuesFile
from .resource_manager import Rm
from .simulation import Simulation, simulated
from .story import Story
from .version_auditor import VersionAuditor

STOPPED = 0.15  # how often a service is stopped when a version has been stored
STOPPED_S = 7.0  # longer than a staged version stays


class RmOfFile(Rm):
    """Brings no configuration."""

    CONFIGURATION = ""
    ACTS = tuple(act for act in Rm.ACTS if act[0] is not Rm._configure)
    LIES = tuple(lie for lie in Liar.LIES if lie is not Liar._misconfigure)


class Configuring(Simulation):
    def __init__(self, random: Random, story: Story, file: QueuesFile) -> None:
        self.file = file
        super().__init__(random, story)
        self.versions = VersionAuditor(self.server, story)
        self.administrator = ConfigurationOperator(random, story, file, self.versions)
        self.background += [self.versions.follow(), self._stop_at_versions()]
        self.processes += [
            self._process("config-2", partial(services.config, FILE)),
            self._process("administrator", self.administrator.main),
            self._process("editor", self.administrator.edit_now_and_then),
        ]
        self.configs = [one for one in self.processes if one.name.startswith("config-")]
        self.disasters += [_kill_a_config] * 3

    def _make_config(self) -> Process:
        return self._process("config-1", partial(services.config, FILE))

    def _make_rms(self) -> Sequence[Rm]:
        clusters: list[Cluster] = []
        rms = [RmOfFile("rm-1", self.random, self.story, clusters)]
        clusters += [rm.cluster for rm in rms]
        return rms

    async def _stop_at_versions(self) -> None:
        """Before the service that has stored the version knows. Does not return."""
        async for entry in self.server.watch(subjects.CONFIGURATIONS.name):
            if entry.key == IN_FORCE and not self.weather.calm and self.random.random() < STOPPED:
                self.random.choice(self.configs).stop(self.random.uniform(0.1, STOPPED_S))

    async def _calm(self) -> None:
        self.administrator.resting = True
        self.file.writable = True
        self.administrator.edit()
        await super()._calm()
        self.versions.compare_answers(self.administrator.accepted, self.administrator.refused)
        await self.versions.compare_history()

    async def _unsettled(self) -> str:
        current = self.versions.current
        if current is None or current[0].is_staged:
            return f"version {current} is staged"
        if self.file.content != current[1].encode():
            return f"the file has {self.file.content!r}, in force is {current}"
        for rm in self.rms:
            applied = self.auditors[rm.cluster.rm_id].core.state.configuration
            if applied is None or applied.checksum != self.versions.checksum:
                return f"{rm.cluster.rm_id} has {applied}, in force is {current}"
        return await super()._unsettled()


def _kill_a_config(simulation: Simulation) -> None:
    assert isinstance(simulation, Configuring)
    simulation.random.choice(simulation.configs).kill()


def run(seed: int) -> Story:
    """As in `simulation.run`."""
    file = QueuesFile()

    async def simulate(random: Random, story: Story) -> None:
        await Configuring(random, story, file).run()

    return simulated(Random(f"{seed} configuring"), simulate, file)
