"""RMs over gRPC: two front ends, which are killed, and RMs with the SDK's client, which go on at the other one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from unittest.mock import patch

import grpc
from google.protobuf.message import Message

from remuda_bus.bus import Bus, Unanswered
from remuda_grpc.identity import Clients
from remuda_grpc.resource_manager import ResourceManager
from remuda_grpc.scheduler import Scheduler
from remuda_grpc.sessions import Sessions
from remuda_proto.remuda.v1 import predicates_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk.api import ResourceManagerCallback, connect
from remuda_sdk.api.grpc_scheduler import GrpcScheduler, GrpcSession
from remuda_sdk.resource_manager.callbacks import Callback, DeadLetter, Session
from remuda_sdk.resource_manager.registration import Resync, Superseded
from remuda_sdk.resource_manager.requests import KINDS, RequestEncoder, RequestsOfRm

from .cluster import Cluster
from .grpc_wire import Handler, Wire
from .process import Process
from .resource_manager import Rm
from .simulation import Simulation, simulated
from .story import CURRENT, Story

ADDRESSES = ("front-1:3333", "front-2:3333")


def run(seed: int) -> Story:
    return simulated(Random(f"front ends {seed}"), _simulate)


async def _simulate(random: Random, story: Story) -> None:
    simulation = FrontEnds(random, story)
    with patch.object(grpc.aio, "insecure_channel", simulation.wire.channel):
        await simulation.run()


@dataclass
class Serving:
    process: Process
    rpcs: Mapping[str, Handler]


class FrontEnds(Simulation):
    """`_process` and `_make_rms` are called by the constructor of Simulation."""

    ASKERS = 0  # cores do as in the simulation without gRPC

    def __init__(self, random: Random, story: Story) -> None:
        super().__init__(random, story)
        self.wire = Wire(self.network, random)
        self.front_ends = [self._process(address.partition(":")[0], self._serve) for address in ADDRESSES]
        self.processes += self.front_ends
        # RMs and front ends are not stopped: gRPC's pings, which would end their streams, are not simulated.
        self.disasters = [kill_a_front_end, kill_an_rm]
        self.disasters += random.sample((Simulation._kill, Simulation._kill_a_core, Simulation._outage), 2)

    def _make_rms(self) -> Sequence[Rm]:
        clusters: list[Cluster] = []
        rms = [RmOverGrpc(f"rm-{number}", self.random, self.story, clusters) for number in (1, 2)]
        clusters += [rm.cluster for rm in rms]
        return rms

    async def _serve(self, bus: Bus) -> None:
        process = CURRENT.get()
        assert process is not None
        sessions, clients = Sessions(bus, f"{process.name}.{process.lives}"), Clients(False, ())
        scheduler, conversations = Scheduler(bus, sessions, clients), ResourceManager(bus, sessions, clients)
        rpcs: dict[str, Handler] = {
            "/si.v1.Scheduler/RegisterResourceManager": scheduler.register_resource_manager,
            "/remuda.v1.ResourceManager/Converse": conversations.converse,
            "/remuda.v1.ResourceManager/UpdateConfiguration": conversations.update_configuration,
        }
        for kind in ("Node", "Application", "Allocation"):
            rpcs[f"/si.v1.Scheduler/Update{kind}"] = scheduler.stream(kind.lower())
        address, serving = f"{process.name}:3333", Serving(process, rpcs)
        self.wire.listening[address] = serving
        try:
            await sessions.run()
        finally:
            if self.wire.listening.get(address) is serving:
                del self.wire.listening[address]


def kill_a_front_end(simulation: Simulation) -> None:
    assert isinstance(simulation, FrontEnds)
    simulation.random.choice(simulation.front_ends).kill()


def kill_an_rm(simulation: Simulation) -> None:
    names = [rm.cluster.rm_id for rm in simulation.rms]
    simulation.random.choice([process for process in simulation.processes if process.name in names]).kill()


class RmOverGrpc(Rm):
    """gRPC does not report whether a client has processed a callback. Those of the last seconds are repeated on another
    front end, and must change nothing. `behind`: callbacks wait for longer than that, so a new life has to report."""

    HEARS_ONCE = False
    behind = False

    def __init__(self, rm_id: str, random: Random, story: Story, neighbours: list[Cluster]) -> None:
        super().__init__(rm_id, random, story, neighbours)
        self._honest, self._slow = 1.0, 0.0
        self.ACTS = tuple((act, weight) for act, weight in Rm.ACTS if act is not Rm._deregister)

    def _resync(self) -> Resync:
        self.cluster.in_doubt |= self.behind
        self.behind = False
        return super()._resync()

    async def main(self, bus: Bus) -> None:
        async with connect(f"grpc://{','.join(ADDRESSES)}", register_within_s=20.0) as scheduler:
            assert isinstance(scheduler, GrpcScheduler)
            made = AnsweringInBatches if self.cluster.rm_id == "rm-2" else OverGrpc
            rm = made(scheduler, self)
            try:
                await self._register(rm, self._resync())  # type: ignore[arg-type]
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._hear(rm))  # type: ignore[arg-type]
                    group.create_task(self._work(rm, bus))  # type: ignore[arg-type]
                    group.create_task(scheduler.wait())
            except BaseExceptionGroup as errors:
                if errors.subgroup(Superseded) is not None:
                    self.cluster.in_doubt = True
                raise


class OverGrpc(RequestsOfRm, ResourceManagerCallback):
    """The verbs of the SDK's ResourceManager, by the interface of the specification."""

    def __init__(self, scheduler: GrpcScheduler, rm: RmOverGrpc) -> None:
        self._scheduler = scheduler
        self._rm = rm
        self._rm_id = rm_id = rm.cluster.rm_id
        self._encoder = RequestEncoder(rm_id)
        self._session = Session(rm_id)
        self._heard: asyncio.Queue[Callback] = asyncio.Queue()
        self._registered = asyncio.Event()

    @property
    def _limit(self) -> int:
        return 1024 * 1024

    async def _publish(self, kind: str, payloads: Iterable[bytes]) -> int:
        for payload in payloads:
            while not self._registered.is_set():  # the interface knows no RM while it registers again
                await self._registered.wait()  # returns although another registration has begun
            await self._update(kind, KINDS[kind].FromString(payload))
        return 0

    async def _update(self, kind: str, request: Message) -> None:
        try:
            await getattr(self._scheduler, f"update_{kind}")(request)
        except Unanswered:
            if self._registered.is_set():
                raise
            await self._registered.wait()  # another registration has begun meanwhile
            await self._update(kind, request)

    async def register(self, resync: Resync) -> None:
        request = si.RegisterResourceManagerRequest(
            rmID=self._rm_id, config=self._rm.CONFIGURATION, extraConfig={"resync": resync}
        )
        while resync == "report" and not self._heard.empty():
            self._heard.get_nowait()
        self._registered.clear()
        await self._scheduler.register_resource_manager(request, self)
        self._registered.set()

    def _connected_publisher(self) -> Registered:
        session = self._scheduler._sessions[self._rm_id]
        assert isinstance(session, GrpcSession)
        return Registered(int(session._registration))

    async def callbacks(self) -> AsyncIterator[Callback]:
        while True:
            callback = await self._heard.get()
            yield callback
            if releases := self._session.confirmations(callback):
                self._rm.behind = True
                await self.confirm(*releases)
                self._rm.behind = False

    async def _hear(self, callback: Callback) -> None:
        self._heard.put_nowait(callback)

    update_node = update_application = update_allocation = _hear  # type: ignore[assignment]

    def update_refused(self, letter: DeadLetter) -> None:
        self._heard.put_nowait(letter)


class AnsweringInBatches(OverGrpc):
    """Its predicates are asked over its conversation."""

    async def batch_predicates(
        self, request: predicates_pb2.BatchPredicatesRequest
    ) -> list[predicates_pb2.NodeVerdict]:
        return await self._rm.verdicts(request)


@dataclass
class Registered:
    registration: int
