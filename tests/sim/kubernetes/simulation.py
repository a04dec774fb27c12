"""A Kubernetes cluster whose pods the simulated scheduler places: one front end, or two with a lease. All of them, and
the API server, are killed and cut off at any step."""

from __future__ import annotations

import asyncio
import random as chance
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any
from unittest.mock import patch

from remuda_bus.bus import Bus
from remuda_kubernetes import limits
from remuda_kubernetes.plugin.plugin import PluginCall
from remuda_kubernetes.settings import KubernetesSettings
from remuda_kubernetes.shell.controller import Controller, shim_of
from remuda_kubernetes.shell.extender import Extender
from remuda_kubernetes.shell.lease import Holder, LeaseLost
from remuda_kubernetes.shim.effects import Bind, Effect
from remuda_kubernetes.shim.shim import Shim

from .. import services
from ..environment import loop_time_s
from ..process import Process
from ..simulation import Simulation, simulated
from ..story import CURRENT, Story
from .api_client import SimulatedClient
from .api_server import ApiServer
from .books import Books
from .default_scheduler import DefaultScheduler
from .devices import SETTING, SINCE, DevicePlane
from .world import MAPS, MODES, Mode, World

RM = "kubernetes"
# Of the API server. Objects are listed in pages, or streamed, or a streaming list is refused.
OLDEST, NEWEST = 20, 36
MINORS = (OLDEST, limits.GATES_SINCE, limits.STREAMS_SINCE, NEWEST, NEWEST)
REFUSES_STREAMS = 0.3
WITH_DEVICES = 0.4
BOOKMARK_S = 5.0
REPLACED_MEANWHILE = 0.15  # how often a pod is replaced while its binding is on the way
SOONER_S = 0.0001  # than any message arrives
QUIET_S = 16.0  # longer than the front end waits for a call that was lost, and before it tries it again


def run(seed: int, minor: int | None = None) -> Story:
    """As in `simulation.run`. `minor`: of the API server, whichever the seed says."""
    random = Random(f"{seed} kubernetes")
    with _environment(random):
        return simulated(random, lambda random, story: KubernetesSimulation(random, story, minor, seed).run())


@contextmanager
def _environment(random: Random) -> Iterator[None]:
    """Chance and time from the seed, and pages and watches short enough to end."""
    with (
        patch.object(chance, "uniform", random.uniform),
        patch.object(uuid, "uuid4", lambda: uuid.UUID(bytes=random.randbytes(16))),
        patch.object(Holder.__init__, "__defaults__", (loop_time_s,)),
        patch.multiple(
            limits,
            LIST_PAGE=7,
            UNFIT_SWEEPS=8,
            APPROVAL_SWEEPS=12,
            VOLUME_BIND_TIMEOUT_S=25.0,
            WATCH_S=20,
            WATCH_SILENCE_S=5.0,
            CALL_WITHIN_S=10.0,
        ),
    ):
        yield


OnEffect = Callable[[Effect | PluginCall, Shim], None]


def observed(shim: Shim, decided: OnEffect, wanted: OnEffect) -> Shim:
    """`decided`: called with each effect at once, `wanted` before it is carried out."""
    take, emit = shim.take, shim.cache.emit

    def emitted(effect: Effect) -> None:
        decided(effect, shim)
        emit(effect)

    def taken() -> list[Effect]:
        effects = take()
        for effect in effects:
            wanted(effect, shim)
        return effects

    shim.cache.emit = emitted  # type: ignore[method-assign]
    shim.take = taken  # type: ignore[method-assign]
    return shim


class FrontEnd:
    """Stands where another RM is."""

    def __init__(self, simulation: KubernetesSimulation) -> None:
        self.cluster = simulation.books
        self.resting = False
        self._simulation = simulation

    async def main(self, bus: Bus) -> None:
        await self._simulation.serve(bus)


class KubernetesSimulation(Simulation):
    """`_make_rms` is called by the constructor of Simulation."""

    ASKERS = 0  # the front end asks
    payloads = (8 * 1024 * 1024,)
    settled_within_s = 240.0  # gangs that want the same nodes time out one after the other

    def __init__(self, random: Random, story: Story, minor: int | None = None, seed: int = 0) -> None:
        self.mode = random.choice([one for one in MODES if minor is None or _can(one, minor)])
        self.minor = random.choice([one for one in MINORS if _can(self.mode, one)]) if minor is None else minor
        self.api = ApiServer(story, self.minor)
        self.api.streams = self.minor >= limits.STREAMS_SINCE and random.random() >= REFUSES_STREAMS
        story.tell(f"mode: {self.mode}, version 1.{self.minor}, streaming lists: {self.api.streams}")
        of_devices = Random(f"{seed} devices")
        has_devices = self.minor >= SINCE and not self.mode.is_plugin and of_devices.random() < WITH_DEVICES
        devices = DevicePlane(of_devices, self.api, has_devices)
        story.tell(f"devices: {has_devices}")
        self.world = World(random, story, self.api, self.mode, devices)
        self.books = Books(RM, self.api, self.mode, self.world.storage, devices)
        self._has_lease = random.random() < 0.5
        self._unstable = random.choice((0.0, 0.02, 0.1))
        super().__init__(random, story)
        self.books.core = self.auditors[RM].core
        self.fronts = [process for process in self.processes if process.name == RM]
        if self._has_lease:
            self.fronts.append(self._process(f"{RM}-2", self.serve))
            self.processes.append(self.fronts[1])
        self.background += [self.world.run(), self.world.keep(), self._bookmark()]
        is_extended = self.mode.hold == "extender"
        self.default_scheduler = DefaultScheduler(
            random, story, self.api, self.world.storage, is_extended, self.network.later
        )
        if self.mode.is_plugin:
            self.background.append(self.default_scheduler.run())
            self.disasters += [kill_the_default_scheduler] * 2
        self.disasters += [kill_a_front, kill_the_api_server, end_watches, compact, *[cut_off_a_front] * 3]

    async def run(self) -> None:
        async def answers(extender: Extender) -> None:
            """Stands where its HTTP server is."""
            self.default_scheduler.extenders[extender] = None
            try:
                await asyncio.Event().wait()
            finally:
                del self.default_scheduler.extenders[extender]

        with patch.object(Extender, "run", answers):
            await super().run()

    def _make_rms(self) -> Any:
        return [FrontEnd(self)]

    def _process(self, name: str, main: Any) -> Process:
        return Process(name, main, self.network, self.random, self.story, expected=_expected)

    async def serve(self, bus: Bus) -> None:
        process = CURRENT.get()
        assert process is not None
        settings = KubernetesSettings(
            instance=f"{process.name}.{process.lives}",
            rm=RM,
            config_maps=MAPS,
            lease="remuda" if self._has_lease else "",
            mode="plugin" if self.mode.is_plugin else "shim",
            hold=self.mode.hold,
            pin=self.mode.pin,
            device_classes=SETTING if self.world.devices.is_on else (),
        )
        client = SimulatedClient(self.api, process.link(), self.weather, self.random, self._unstable)
        shim = self.books.shims[process.name] = observed(
            shim_of(settings, {"major": "1", "minor": str(self.minor)}), self.books.decided, self._wanted
        )
        await Controller(bus, client, settings, shim, self.minor).run()

    def _wanted(self, effect: Effect | PluginCall, shim: Shim) -> None:
        """Now and then the user has another pod of that name by the time a binding arrives."""
        self.books.wanted(effect, shim)
        if isinstance(effect, Bind) and not self.world.resting and self.random.random() < REPLACED_MEANWHILE:
            self.network.later(SOONER_S, self.world.replace, effect.pod.name, effect.pod.uid)

    async def _calm(self) -> None:
        self.world.rest()
        self.default_scheduler.resting = True
        await super()._calm()

    async def _unsettled(self) -> str:
        if why := await super()._unsettled():
            return why
        if loop_time_s() - self.api.changed_at < QUIET_S:
            return "the cluster changes"
        if any(pod["metadata"].get("deletionTimestamp") for pod in self.api.all("pods")):
            return "a pod is being deleted"
        return self.books.waits()

    async def _bookmark(self) -> None:
        while True:
            await asyncio.sleep(BOOKMARK_S)
            self.api.bookmark()

    def kill_api_server(self) -> None:
        if self.api.is_up:
            for_s = self.random.uniform(0.1, 6.0)
            self.story.tell(f"the API server is killed, for {for_s:.1f} s")
            self.api.kill()
            self.network.later(for_s, self._start_api_server)

    def _start_api_server(self) -> None:
        self.story.tell("the API server is there again")
        self.api.is_up = True
        if self.random.random() < 0.5:
            self.api.compact()


def _can(mode: Mode, minor: int) -> bool:
    return mode.hold != "gates" or minor >= limits.GATES_SINCE


def _expected(error: BaseException) -> bool:
    return services.expected(error) or isinstance(error, LeaseLost)


def _of(simulation: Simulation) -> KubernetesSimulation:
    assert isinstance(simulation, KubernetesSimulation)
    return simulation


def kill_a_front(simulation: Simulation) -> None:
    simulation.random.choice(_of(simulation).fronts).kill()


def kill_the_api_server(simulation: Simulation) -> None:
    _of(simulation).kill_api_server()


def kill_the_default_scheduler(simulation: Simulation) -> None:
    _of(simulation).default_scheduler.kill()


def end_watches(simulation: Simulation) -> None:
    _of(simulation).api.end_watches()


def compact(simulation: Simulation) -> None:
    simulation.story.tell("the API server forgets older versions")
    _of(simulation).api.compact()


def cut_off_a_front(simulation: Simulation) -> None:
    """From the API server, whose watches end. It forgets what has changed since."""
    process, for_s = simulation.random.choice(_of(simulation).fronts), simulation.random.uniform(0.1, 12.0)
    simulation.story.tell(f"{process.name} is cut off from the API server for {for_s:.1f} s")
    for link in process.links:
        link.cut(for_s)
    end_watches(simulation)
    simulation.network.later(for_s, compact, simulation)
