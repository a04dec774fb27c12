"""The asyncio client of an RM: `async with ResourceManager.connect(url, "rm-1") as rm: ...`."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping
from types import TracebackType
from typing import Literal, Self

from remuda_bus import subjects, telemetry
from remuda_bus.bus import Bus, ChangedPast, Message, Refused, Unanswered
from remuda_bus.nats import connect
from remuda_proto.constants import NODE_PARTITION
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk import limits
from remuda_sdk.dispatch import HandlersOfRm, called
from remuda_sdk.heart import Heart
from remuda_sdk.inflow import Inflow
from remuda_sdk.outflow import Outflow
from remuda_sdk.session import Callback, RegistrationFailed, Releasable, ReportWanted, Session, Superseded, read, sized

PREDICATES = "predicates"  # in extraConfig: the RM wants to be asked before anything is placed
EVENTS = "events"  # ... wants to read events: a consumer of them is made for it
PREEMPTION_PREDICATES = "preemption_predicates"  # ... before anything is preempted
RESYNC = "resync"  # how an RM that registers again is brought up to date
HEARTBEAT_INTERVAL = "heartbeat.interval"  # how often it is heard
INVALID = 400
REFUSED = 409
INTERNAL = 500  # from here on it is not the request that was wrong
OUTAGE = 503

Resync = Literal["report", "replay"]


class ResourceManager(HandlersOfRm):
    """One RM. A call that publishes returns once the server has it on disk, with the stream sequence of the (last)
    message, which is what a DeadLetter refers to. It raises Full when the stream stays full, Unanswered when the server
    stays away, ValueError when one element is larger than the server takes. Calls keep their order, also when made at
    the same time.

    Callbacks come by `callbacks()` or to handlers (`on_allocation` and so on), not both. Questions of the scheduler are
    answered by `on_predicates` and `on_preemption_predicates`.
    """

    def __init__(self, url: str | Bus, registration: si.RegisterResourceManagerRequest, *, register: bool, events: bool,
                 confirm_releases: bool, heartbeat_s: float | None, connect_within_s: float | None,
                 register_within_s: float, retry_for_s: float) -> None:  # fmt: skip
        super().__init__()
        self._url = url
        self._registration = registration
        self._register_on_entry = register
        self._events = events
        self._confirm_releases = confirm_releases
        self._heartbeat_s = heartbeat_s
        self._connect_within_s = connect_within_s
        self._register_within_s = register_within_s
        self._retry_for_s = retry_for_s
        self._session = Session(registration.rmID)
        self._bus: Bus | None = None
        self._outflow: Outflow | None = None
        self._inflow: Inflow | None = None
        self._taker: object = None  # the latest loop over callbacks; one that was left must not be in the way
        self._handling: asyncio.Task[None] | None = None
        self._heart: Heart | None = None
        self._reporting: asyncio.Task[None] | None = None
        self._doubtful = False  # whether a registration of ours has come through
        self._superseded: Superseded | None = None

    @classmethod
    def connect(
        cls,
        url: str | Bus,
        rm_id: str,
        *,
        policy_group: str = "",
        config: str = "",
        extra_config: Mapping[str, str] | None = None,
        version: str = "",
        build_info: Mapping[str, str] | None = None,
        register: bool = True,
        events: bool = False,
        confirm_releases: bool = True,
        resync: Resync | None = None,
        heartbeat_s: float | None = None,
        connect_within_s: float | None = 10.0,
        register_within_s: float = 20.0,
        retry_for_s: float = 30.0,
    ) -> Self:
        """To be entered with `async with`, which connects and registers; `register=False`: call `register()` later.

        `url`: where the servers are, or a bus that is connected already and closed when this is left.

        `config` is the text of a queues.yaml; empty: that of `policy_group`, or the built-in default. `events`: events
        come with the callbacks. `confirm_releases`: what the scheduler wants released is confirmed once its callback
        was handled.

        `resync`: what becomes of what the scheduler knows of an RM that has registered before. "report", the default:
        it is forgotten, the RM reports everything anew. "replay": it stays, and every callback comes again that was not
        acknowledged. `heartbeat_s`: the RM is heard so often; when it is not, nothing is allocated for it. None: it
        need not be heard.

        `connect_within_s` None: for ever. `retry_for_s`: how long a full stream or an absent server is
        borne. Raises ValueError when `rm_id` is none."""
        registration = si.RegisterResourceManagerRequest(
            rmID=rm_id,
            policyGroup=policy_group,
            config=config,
            extraConfig=extra_config,
            version=version,
            buildInfo=build_info,
        )
        if resync is not None:
            registration.extraConfig[RESYNC] = resync
        if heartbeat_s is not None:
            registration.extraConfig[HEARTBEAT_INTERVAL] = f"{round(heartbeat_s * 1_000)}ms"
        return cls(
            url, registration, register=register, events=events, confirm_releases=confirm_releases,
            heartbeat_s=heartbeat_s, connect_within_s=connect_within_s, register_within_s=register_within_s,
            retry_for_s=retry_for_s,
        )  # fmt: skip

    @property
    def rm_id(self) -> str:
        return self._session.rm_id

    async def __aenter__(self) -> Self:
        """Raises RegistrationFailed; Unanswered when there is no server."""
        bus = self._bus = await self._connect()
        self._outflow = Outflow(bus, self.rm_id, self._retry_for_s)
        self._heart = Heart(bus, self.rm_id, self._heartbeat_s or limits.WITNESS_EVERY_S, self._says)
        try:
            await self._answer_questions(bus)
            await bus.subscribe(subjects.report_wanted(self.rm_id), self._report_is_wanted)
            if self._register_on_entry:
                await self.register()
        except BaseException:
            await bus.close()
            raise
        self._start_handling()
        return self

    async def _connect(self) -> Bus:
        if not isinstance(self._url, str):
            return self._url
        return await connect(self._url, f"rm-{subjects.key_of(self.rm_id)}", timeout_s=self._connect_within_s)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Raises what a handler has raised, unless something else went wrong already."""
        failure = await self._stop_handling()
        await self._stop_reporting()
        await self._stop_heart()
        if self._inflow is not None:
            await self._inflow.close()
        if self._bus is not None:
            await self._bus.close()
        if failure is not None and error is None:
            raise failure

    async def register(self, resync: Resync | None = None) -> None:
        """Returns once the core has accepted this RM. Registering again is allowed; `resync`: in another way than
        usual. What was published before is handled before. Raises RegistrationFailed."""
        request = si.RegisterResourceManagerRequest()
        request.CopyFrom(self._registration)
        if resync is not None:
            request.extraConfig[RESYNC] = resync
        reply = await self._ask_proxy(subjects.register(self.rm_id), request.SerializeToString(), "register")
        self._superseded = None
        number = self._outflow_().registration = int(reply.headers.get(subjects.REGISTRATION, "0"))
        if self._inflow is not None:
            await self._inflow.registered(number)  # meanwhile, one of the former registration may still be taken
        self._session.told.skips()
        if self._heart is not None:
            self._heart.start()

    async def deregister(self) -> None:
        """The RM ends: the scheduler forgets everything about it, and no callback comes any more. Raises
        RegistrationFailed when it is not taken, or Superseded."""
        try:
            await self._ask_proxy(subjects.deregister(self.rm_id), b"", "deregister")
        except RegistrationFailed as failed:
            if failed.code == REFUSED:
                raise Superseded(failed.reason) from None
            raise
        await self._stop_heart()
        if self._inflow is not None:
            await self._inflow.registered(0)

    async def _ask_proxy(self, subject: str, payload: bytes, kind: str) -> Message:
        """Nothing is published meanwhile, so that it is clear which registration it belongs to."""
        outflow = self._outflow_()
        with telemetry.span("rm.publish", rm=self.rm_id, kind=kind) as span:
            async with outflow.lane:
                if self._inflow is not None:
                    await self._inflow.acknowledge()
                self._doubtful = True
                headers = {**self._says(), **span.headers()}
                try:
                    reply = await self._connected().request(subject, payload, headers, self._register_within_s)
                except Refused as refusal:
                    self._doubtful = refusal.code >= INTERNAL
                    raise RegistrationFailed(refusal.reason, refusal.code) from None
                except Unanswered as error:
                    raise RegistrationFailed(f"no scheduler answers: {error}", OUTAGE) from error
                self._doubtful = False
                return reply

    async def _is_superseded(self) -> None:
        """The consumer of our registration is gone. Another registration took its place, and unless it may be one of
        ours, that is the end. Raises Superseded."""
        if not self._doubtful:
            number = self._outflow_().registration
            self._superseded = Superseded(f"another instance of {self.rm_id!r} has registered, {number} is over")
            await self._stop_heart()
            raise self._superseded

    def _says(self) -> dict[str, str]:
        """Which registration this is, and up to where it was told."""
        return {**self._outflow_().belonging(), **self._session.told.headers()}

    async def _report_is_wanted(self, _: Message) -> None:
        """All that the scheduler knew of this RM is gone. It asks again and again, until the RM has registered."""
        if self._reporting is None or self._reporting.done():
            self._reporting = asyncio.get_running_loop().create_task(self._report(), name=f"report of {self.rm_id}")

    async def _report(self) -> None:
        if self._wanted_report is None:
            await self._open_inflow().fail(ReportWanted(f"the scheduler has lost what it knew of {self.rm_id!r}"))
            return
        try:
            self._session.begin_anew()
            await self.register("report")
            await called(self._wanted_report)
        except RegistrationFailed as failed:
            if failed.code < INTERNAL:
                await self._open_inflow().fail(failed)
        except Exception as error:  # noqa: BLE001 - whoever waits for a callback has to hear of it
            await self._open_inflow().fail(error)

    async def _stop_heart(self) -> None:
        if self._heart is not None:
            await self._heart.stop()

    async def _stop_reporting(self) -> None:
        if self._reporting is not None:
            self._reporting.cancel()
            await asyncio.wait([self._reporting])

    # Nodes

    async def report_nodes(self, nodes: Iterable[si.NodeInfo]) -> int:
        """New nodes. Those without an action are created open."""
        return await self._send_nodes(nodes, si.NodeInfo.CREATE)

    async def update_nodes(self, nodes: Iterable[si.NodeInfo]) -> int:
        """Capacity, occupied resource, attributes of known nodes; attributes replace all former ones."""
        return await self._send_nodes(nodes, si.NodeInfo.UPDATE)

    async def drain(self, *node_ids: str, partition: str = "") -> int:
        """Nothing new goes there."""
        return await self._act(node_ids, si.NodeInfo.DRAIN_NODE, partition)

    async def undrain(self, *node_ids: str, partition: str = "") -> int:
        """Open again."""
        return await self._act(node_ids, si.NodeInfo.DRAIN_TO_SCHEDULABLE, partition)

    async def decommission(self, *node_ids: str, partition: str = "") -> int:
        """They are gone; what ran there is released."""
        return await self._act(node_ids, si.NodeInfo.DECOMISSION, partition)

    # Applications, asks, releases

    async def submit(self, *applications: si.AddApplicationRequest) -> int:
        return await self._publish("application", self._session.submissions(applications, self._limit))

    async def remove(self, *application_ids: str, partition: str = "") -> int:
        """They have ended, with all their asks and allocations."""
        return await self._publish("application", self._session.removals(application_ids, partition, self._limit))

    async def ask(self, asks: Iterable[si.AllocationAsk]) -> int:
        return await self._publish("allocation", self._session.asks(asks, self._limit))

    async def report_allocations(self, allocations: Iterable[si.Allocation]) -> int:
        """What runs already and was not reported with a node."""
        return await self._publish("allocation", self._session.allocations(allocations, self._limit))

    async def release(self, releases: Iterable[Releasable]) -> int:
        """Allocations (as they came, or as AllocationRelease) and asks (AllocationAskRelease)."""
        return await self._publish("allocation", self._session.releases(releases, self._limit))

    async def confirm(self, *releases: si.AllocationRelease) -> int:
        """What the scheduler wanted released is released. Only needed with `confirm_releases=False`, or to be
        earlier."""
        self._session.confirmed(releases)
        return await self.release(releases)

    async def update_configuration(
        self, text: str, *, policy_group: str = "", extra_config: Mapping[str, str] | None = None
    ) -> int:
        """`text` of a queues.yaml; empty: that of the policy group. A refusal comes as a DeadLetter."""
        request = si.UpdateConfigurationRequest(
            rmID=self.rm_id, policyGroup=policy_group, config=text, extraConfig=extra_config
        )
        return await self._publish("configuration", sized(request, self._limit))

    # Callbacks

    async def callbacks(self) -> AsyncIterator[Callback]:
        """Everything the RM is told, in order, for ever. A callback is acknowledged when the next one is asked for:
        whoever leaves the loop before, gets it again. Within a callback, read the fields in the order of their
        declaration."""
        taker = self._taker = object()
        inflow = self._open_inflow()
        if self._superseded is not None:
            raise self._superseded
        while True:
            message = await self._first(inflow)
            if self._taker is not taker:
                raise RuntimeError("callbacks are taken by another loop, or by handlers")
            callback, taken = read(message), self._session.taken(message)
            yield callback
            await self._confirm_if_asked(callback)
            taken()
            await inflow.done(message)

    async def _first(self, inflow: Inflow) -> Message:
        try:
            return await inflow.first(self._session.is_new)
        except ChangedPast:
            if self._heart is not None:
                await self._heart.beat()  # the scheduler looks as well, and halts this RM
            raise

    async def handle_for_ever(self) -> None:
        """Waits as long as handlers do their work; raises what one of them raises."""
        if self._handling is None:
            raise RuntimeError("there is no handler")
        await asyncio.shield(self._handling)

    def _open_inflow(self) -> Inflow:
        if self._inflow is None:
            events = self._events or self._handlers.wants(si.EventRecord)
            self._inflow = Inflow(
                self._connected(), self.rm_id, events, self._outflow_().registration, self._is_superseded
            )
        self._inflow.open()
        return self._inflow

    async def _answer_questions(self, bus: Bus) -> None:
        """Only an RM that declares predicates is asked. Where it has no handler for them, nothing is against it."""
        declared = self._registration.extraConfig
        if self._events or self._handlers.wants(si.EventRecord):
            declared[EVENTS] = "true"
        for name, handler, subject, answer in (
            (PREDICATES, self._predicates, subjects.predicates, self._answer_predicates),
            (
                PREEMPTION_PREDICATES,
                self._preemption_predicates,
                subjects.preemption_predicates,
                self._answer_preemption_predicates,
            ),
        ):
            if handler is not None:
                declared[name] = "true"
            if declared.get(name, "").lower() == "true":
                await bus.serve(subject(self.rm_id), answer, name)

    async def _answer_predicates(self, message: Message) -> bytes:
        if self._predicates is not None:
            await _refuse_with(self._predicates(si.PredicatesArgs.FromString(message.payload)))
        return b""

    async def _answer_preemption_predicates(self, message: Message) -> bytes:
        args = si.PreemptionPredicatesArgs.FromString(message.payload)
        if self._preemption_predicates is not None:
            await _refuse_with(self._preemption_predicates(args))
        return si.PreemptionPredicatesResponse(success=True, index=args.startIndex).SerializeToString()

    def _check_undeclared(self) -> None:
        if self._bus is not None:
            raise RuntimeError("predicates are declared at the registration: set their handler before connecting")

    async def _confirm_if_asked(self, callback: Callback) -> None:
        if self._confirm_releases:
            releases = self._session.confirmations(callback)
            if releases:
                await self.confirm(*releases)

    def _start_handling(self) -> None:
        if self._bus is not None and self._handlers and self._handling is None:
            self._handling = asyncio.get_running_loop().create_task(
                self._handle_all(), name=f"handlers of {self.rm_id}"
            )

    async def _handle_all(self) -> None:
        async for callback in self.callbacks():
            await self._handlers.handle(callback)

    async def _stop_handling(self) -> BaseException | None:
        handling, self._handling = self._handling, None
        if handling is None:
            return None
        handling.cancel()
        await asyncio.wait([handling])
        return None if handling.cancelled() else handling.exception()

    async def _send_nodes(self, nodes: Iterable[si.NodeInfo], action: si.NodeInfo.ActionFromRM.ValueType) -> int:
        return await self._publish("node", self._session.nodes(_acting(nodes, action), self._limit))

    async def _act(self, node_ids: Iterable[str], action: si.NodeInfo.ActionFromRM.ValueType, partition: str) -> int:
        attributes = {NODE_PARTITION: partition} if partition else None
        return await self._send_nodes((si.NodeInfo(nodeID=one, attributes=attributes) for one in node_ids), action)

    async def _publish(self, kind: str, payloads: Iterable[bytes]) -> int:
        if self._superseded is not None:
            raise self._superseded
        return await self._outflow_().publish(kind, payloads)

    @property
    def _limit(self) -> int:
        return self._outflow_().limit

    def _outflow_(self) -> Outflow:
        self._connected()
        assert self._outflow is not None
        return self._outflow

    def _connected(self) -> Bus:
        if self._bus is None:
            raise RuntimeError("not connected: use `async with ResourceManager.connect(...) as rm`")
        return self._bus


async def _refuse_with(reason: Awaitable[str | None] | str | None) -> None:
    """Raises Refused unless there is no reason."""
    if inspect.isawaitable(reason):
        reason = await reason
    if reason:
        raise Refused(str(reason), REFUSED)


def _acting(nodes: Iterable[si.NodeInfo], action: si.NodeInfo.ActionFromRM.ValueType) -> Iterable[si.NodeInfo]:
    for node in nodes:
        if node.action == si.NodeInfo.UNKNOWN_ACTION_FROM_RM:
            acting = si.NodeInfo(action=action)
            acting.MergeFrom(node)
            yield acting
        else:
            yield node
