"""The controller of the front end: reflectors and callbacks change the shim, and the shim's effects go to the scheduler
and the API server.

The process ends when a message cannot be sent. At its start it compares the cluster with what the scheduler has kept,
so nothing depends on what an earlier process knew."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import fields, replace
from functools import partial
from http import HTTPStatus
from itertools import groupby
from typing import Any

import msgspec
import structlog

from remuda_bus import health
from remuda_bus.bus import Bus, BusError, Refused
from remuda_kubernetes import limits
from remuda_kubernetes.api.client import (
    BUDGETS,
    BUDGETS_BETA,
    CLAIMS,
    CSI_DRIVERS,
    CSI_NODES,
    DEVICE_CLASSES,
    GROUP_OBJECTS,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    STORAGE_CAPACITIES,
    STORAGE_CAPACITIES_BETA,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
    VOLUMES,
    Client,
    Pace,
    Resource,
    config_maps,
)
from remuda_kubernetes.api.objects import ConfigMap, Pod
from remuda_kubernetes.api.reflector import Reflector
from remuda_kubernetes.metrics import Places, PodCounts
from remuda_kubernetes.plugin.plugin import PluginPolicy, PluginShim, hold_of, pin_of
from remuda_kubernetes.settings import KubernetesSettings
from remuda_kubernetes.shell.calls import Calls, Traces
from remuda_kubernetes.shell.lease import Holder
from remuda_kubernetes.shell.start import until_answered
from remuda_kubernetes.shim.config_maps import MapsConfiguration, configuration_of, values_of
from remuda_kubernetes.shim.effects import (
    Ask,
    Effect,
    Message,
    RecordEvent,
    Release,
    ReportAllocation,
    ReportNode,
    Submit,
    Withdraw,
    name_of,
)
from remuda_kubernetes.shim.resume import AllocationRow, ApplicationRow, AskRow, KeptState, NodeRow
from remuda_kubernetes.shim.shim import Shim
from remuda_operations.queries.core import ask_core, pages_of
from remuda_operations.queries.errors import NoAnswer, RequestRefused
from remuda_operations.queries.rows import Forecast, ForecastsPage, PageToken
from remuda_proto.remuda.v1 import predicates_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_replication.process import set_log_level
from remuda_sdk.resource_manager import ResourceManager
from remuda_sdk.resource_manager.callbacks import Callback, DeadLetter
from remuda_sdk.resource_manager.registration import WRONG_CONFIGURATION, RegistrationFailed

log = structlog.get_logger()

OnObject = Callable[[Any], None]


class Controller:
    """Runs a front end until it is cancelled (`run()`). `minor`: the minor part of the API server's version,
    1.<minor>."""

    def __init__(self, bus: Bus, client: Client, settings: KubernetesSettings, shim: Shim, minor: int) -> None:
        self._bus = bus
        self._client = client
        self._settings = settings
        self._shim = shim
        self._minor = minor
        if minor < limits.EVICTIONS_SINCE:
            client.eviction_version = "policy/v1beta1"
        shim.budgets.policy = settings.budgets
        self._traces = Traces()
        places = Places()
        self._counts = PodCounts(places)
        self._calls = Calls(client, settings.instance, self._on_shim, self._traces, places)
        self._wake = asyncio.Event()
        self._is_reported = False
        self._configuration_due = asyncio.Event()
        self._maps = WatchedMaps(settings.config_maps, shim.cache.emit, self._configuration_due.set)
        self._applied = MapsConfiguration()
        self._rejected = ""  # why the registration was without the configuration
        self._configuration_request = 0  # stream sequence of the last one

    async def run(self) -> None:
        """Run the front end until it is cancelled. Raises LeaseLost, in an ExceptionGroup, and what the bus and the
        RM's session raise."""
        reflectors = self._reflectors()
        health.PROCESS_HEALTH.set_status("reads the Kubernetes cluster", ready=False)
        async with asyncio.TaskGroup() as tasks:
            for reflector in reflectors:
                tasks.create_task(reflector.run())
            tasks.create_task(self._calls.run())
            for reflector in reflectors:
                await reflector.synced.wait()
            if not self._settings.lease:
                await self._schedule(tasks)
                return
            lease = Holder(self._client, self._client.namespace, self._settings.lease, self._settings.instance)
            waits = f"waits for the lease {self._settings.lease}"
            health.PROCESS_HEALTH.set_status(waits, ready=not self._is_extender)  # else it would be asked
            await lease.acquire()
            tasks.create_task(lease.hold())
            try:
                await self._schedule(tasks)
            finally:
                await lease.release()

    @property
    def _is_extender(self) -> bool:
        return isinstance(self._shim, PluginShim) and self._shim.is_asked

    async def _schedule(self, tasks: asyncio.TaskGroup) -> None:
        if isinstance(self._shim, PluginShim) and self._shim.is_asked:
            from remuda_kubernetes.shell.extender import Extender  # it imports a server of HTTP

            tasks.create_task(Extender(self._shim, self._settings, self._wake.set).run())
        rm = self._resource_manager()
        async with rm:
            await self._register(rm)
            await self._resume(rm)
            await asyncio.gather(
                self._send(rm), self._receive(rm), self._sweep(), self._configure(rm), self._forecast(rm)
            )

    # Configuration

    async def _register(self, rm: ResourceManager) -> None:
        """With the configuration of the ConfigMaps. If the scheduler refuses it, without."""
        self._configuration_due.clear()
        configuration = self._maps.configuration
        self._apply(configuration)
        try:
            await rm.register(config=configuration.text, extra_config=configuration.extra)
        except RegistrationFailed as failed:
            if failed.code != WRONG_CONFIGURATION or not (configuration.text or configuration.extra):
                raise
            log.error("the scheduler refuses the configuration of the ConfigMaps", reason=failed.reason)
            await rm.register()
            self._rejected = failed.reason

    def _apply(self, configuration: MapsConfiguration) -> None:
        """The front end's own settings."""
        cache, own = self._shim.cache, self._settings.policy
        image = configuration.placeholder_image or own.placeholder_image
        cache.policy = replace(
            cache.policy,
            placeholder_image=image,
            placeholder_user=configuration.placeholder_user,
            gangs=own.gangs and configuration.gangs,
            volume_bind_timeout_s=configuration.volume_bind_timeout_s,
        )
        if configuration.calls != self._applied.calls:
            self._client.pace = Pace(*configuration.calls) if configuration.calls is not None else None
        if configuration.log_level != self._applied.log_level:
            set_log_level(configuration.log_level or self._settings.log_level)
        self._applied = configuration

    async def _configure(self, rm: ResourceManager) -> None:
        """Send changes. The scheduler keeps the last good configuration, and reports what is wrong as a dead letter."""
        if self._rejected:
            self._maps.rejected(self._rejected)
        is_refreshed = self._maps.configuration.is_refreshed
        while True:
            await self._configuration_due.wait()
            self._configuration_due.clear()
            if is_refreshed:
                configuration = self._maps.configuration
                self._apply(configuration)
                group = self._settings.policy_group
                self._configuration_request = await rm.update_configuration(
                    configuration.text, policy_group=group, extra_config=configuration.extra
                )

    async def _resume(self, rm: ResourceManager) -> None:
        """Compare the cluster with what the scheduler has kept. Callbacks up to that state say nothing new."""
        kept = await read_kept_state(self._bus, rm.rm_id)
        if self._is_reported:
            return  # the scheduler has lost its state meanwhile
        if kept is None:
            await rm.register("report")
            self._report()
            return
        state, log_seq = kept
        rm.skip_callbacks(log_seq)
        self._on_shim(lambda shim: shim.resume(state))
        log.info("continues", nodes=len(state.nodes), asks=len(state.asks), allocations=len(state.allocations))
        self._set_status()

    def _reflectors(self) -> list[Reflector[Any]]:
        shim, maps = self._shim, self._maps
        for kind in () if self._settings.gangs_of_others else GROUP_OBJECTS:
            shim.applications.groups_served(kind, are_served=False)

        has_budgets = shim.budgets.empty_selects_all = self._minor >= limits.BUDGETS_SINCE
        streams = self._minor >= limits.STREAMS_SINCE

        def of(resource: Resource[Any], changed: OnObject, gone: OnObject, **more: Any) -> Reflector[Any]:
            return Reflector(self._client, resource, self._waking(changed), self._waking(gone), streams=streams, **more)

        claims, found = shim.volumes, self._settings.predicates
        volumes: list[Any] = (
            [
                (STORAGE_CLASSES, claims.class_changed, claims.class_gone),
                (VOLUMES, claims.volume_changed, claims.volume_gone),
                (CLAIMS, claims.claim_changed, claims.claim_gone),
                (CSI_DRIVERS, claims.driver_changed, claims.driver_gone),
                (CSI_NODES, claims.csi_node_changed, claims.csi_node_gone),
                (VOLUME_ATTACHMENTS, claims.attachment_changed, claims.attachment_gone),
            ]
            if found
            else []
        )
        shim.cache.storage.has_capacities = self._minor >= limits.STORAGE_CAPACITIES_BETA_SINCE
        if found and shim.cache.storage.has_capacities:
            is_beta = self._minor < limits.STORAGE_CAPACITIES_SINCE
            capacities = STORAGE_CAPACITIES_BETA if is_beta else STORAGE_CAPACITIES
            volumes.append((capacities, claims.capacity_changed, claims.capacity_gone))
        return [
            of(PRIORITY_CLASSES, shim.priority_class_changed, shim.priority_class_gone),
            of(NAMESPACES, shim.namespace_changed, shim.namespace_gone),
            of(NODES, shim.node_changed, shim.node_gone),
            *(of(*one) for one in volumes),
            of(DEVICE_CLASSES, shim.device_class_changed, shim.device_class_gone, served=lambda are_served: None),
            *self._device_reflectors(of),
            *(self._group_reflector(kind, of) for kind in GROUP_OBJECTS if self._settings.gangs_of_others),
            of(BUDGETS if has_budgets else BUDGETS_BETA, shim.budgets.changed, shim.budgets.gone),
            of(PODS, self._pod_changed, self._pod_gone, listed=self._pods_listed),
            *([of(config_maps(self._client.namespace), maps.changed, maps.gone)] if self._settings.config_maps else []),
        ]

    def _device_reflectors(self, of: Callable[..., Reflector[Any]]) -> list[Reflector[Any]]:
        """Claims and devices, if devices are allocated here."""
        claims = self._shim.device_claims
        if not self._shim.cache.policy.device_classes:
            return []

        def served(are_served: bool) -> None:
            claims.served(are_served=are_served)
            self._wake.set()

        return [
            of(RESOURCE_SLICES, claims.slice_changed, claims.slice_gone, served=served),
            of(RESOURCE_CLAIMS, claims.claim_changed, claims.claim_gone, served=served),
        ]

    def _group_reflector(self, kind: str, of: Callable[..., Reflector[Any]]) -> Reflector[Any]:
        applications = self._shim.applications

        def served(are_served: bool) -> None:
            applications.groups_served(kind, are_served=are_served)
            self._wake.set()

        changed, gone = partial(applications.group_changed, kind), partial(applications.group_gone, kind)
        return of(GROUP_OBJECTS[kind], changed, gone, served=served)

    def _pod_changed(self, pod: Pod) -> None:
        if self._shim.cache.policy.manages(pod):
            self._traces.seen(pod)
        self._shim.pod_changed(pod)

    def _pod_gone(self, pod: Pod) -> None:
        self._traces.gone(pod)
        self._shim.pod_gone(pod)

    def _pods_listed(self) -> None:
        self._on_shim(lambda shim: shim.pods_listed())

    def _waking(self, change: OnObject) -> OnObject:
        def changed(value: Any) -> None:
            change(value)
            self._wake.set()

        return changed

    def _on_shim(self, change: Callable[[Shim], None]) -> None:
        change(self._shim)
        self._wake.set()

    def _resource_manager(self) -> ResourceManager:
        is_informed = self._maps.configuration.is_informed
        rm = ResourceManager.connect(
            self._bus,
            self._settings.rm,
            policy_group=self._settings.policy_group,
            confirm_releases=False,
            register=False,
            resync="replay",
            heartbeat_s=limits.HEARTBEAT_S,
            events=self._settings.informational if is_informed is None else is_informed,
        )
        rm.on_report_requested(self._report)
        if self._settings.predicates or isinstance(self._shim, PluginShim):
            rm.on_batch_predicates(self._verdicts)
            rm.on_preemption_predicates(self._fits_without)
        return rm

    def _verdicts(self, asked: predicates_pb2.BatchPredicatesRequest) -> list[predicates_pb2.NodeVerdict]:
        """Raises Refused: the pods of the class are gone."""
        try:
            return list(self._shim.questions.verdicts(asked.allocation_key, asked.predicate_class, asked.node_ids))
        except LookupError as error:
            raise Refused(str(error), HTTPStatus.NOT_FOUND) from None

    def _fits_without(self, asked: si.PreemptionPredicatesArgs) -> si.PreemptionPredicatesResponse:
        victims = list(asked.preemptAllocationKeys)
        spared = self._shim.budgets.spared(asked.allocationKey, asked.nodeID, victims)
        if spared:
            return si.PreemptionPredicatesResponse(success=False, sparedAllocationKeys=spared)
        index = self._shim.predicates.fits_without(asked.allocationKey, asked.nodeID, victims, asked.startIndex)
        return si.PreemptionPredicatesResponse(success=index is not None, index=index or 0)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(limits.SWEEP_EVERY_S)
            self._on_shim(lambda shim: shim.sweep())
            if self._shim.cache.sweeps % limits.METRIC_SWEEPS == 1:
                self._counts.update(self._shim.cache)

    async def _forecast(self, rm: ResourceManager) -> None:
        """Have events tell when waiting pods will start. That is asked for while pods wait, and left out where no core
        answers: the next minute has newer forecasts."""
        while True:
            await asyncio.sleep(limits.FORECASTS_EVERY_S)
            if not any(entry.is_asked and entry.is_waiting for entry in self._shim.cache.pods.values()):
                continue
            found: list[Forecast] = []
            with suppress(BusError):
                async for page in pages_of(self._bus, "forecasts", ForecastsPage, rm=rm.rm_id):
                    found += page.forecasts
            now_ms = time.time_ns() // 1_000_000
            self._on_shim(partial(Shim.forecast, forecasts=found, now_ms=now_ms))

    def _report(self) -> None:
        self._is_reported = True
        if self._maps.configuration.text or self._maps.configuration.extra:
            self._configuration_due.set()  # the registration was without
        self._on_shim(Shim.report)
        cache = self._shim.cache
        log.info("reports the cluster", nodes=len(cache.nodes), pods=len(cache.pods))
        self._set_status()

    def _set_status(self) -> None:
        health.PROCESS_HEALTH.set_status(f"schedules pods of {self._settings.rm}")

    # The scheduler

    async def _receive(self, rm: ResourceManager) -> None:
        async for callback in rm.callbacks():
            self._take(callback)
            self._wake.set()

    def _take(self, callback: Callback) -> None:
        shim = self._shim
        match callback:
            case si.AllocationResponse():
                shim.allocation(callback)
            case si.ApplicationResponse():
                shim.application(callback)
            case si.NodeResponse():
                shim.node(callback)
            case si.UpdateContainerSchedulingStateRequest():
                shim.scheduling_state(callback)
            case si.EventRecord():
                shim.event(callback)
            case DeadLetter(reason, seq) if seq == self._configuration_request:
                self._maps.rejected(reason)
            case DeadLetter():
                log.error("the scheduler could not handle a request", reason=callback.reason)

    async def _send(self, rm: ResourceManager) -> None:
        """Send the effects of the shim, in order. Effects that come meanwhile go with the next messages."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            effects = self._shim.take()
            self._calls.add(effect for effect in effects if not isinstance(effect, Message))
            await self._publish(rm, [effect for effect in effects if isinstance(effect, Message)])

    async def _publish(self, rm: ResourceManager, messages: list[Message]) -> None:
        """Neighbours of one kind go together."""
        for kind, some in groupby(messages, type):
            of_kind: Any = list(some)
            if kind is Ask:
                traces = self._traces.exported(one.ask.allocationKey for one in of_kind)
                await rm.ask((one.ask for one in of_kind), traces=traces)
            else:
                await _SENDERS[kind](rm, of_kind)


_SENDERS: dict[type[Effect], Callable[[ResourceManager, Any], Coroutine[Any, Any, int]]] = {
    Submit: lambda rm, some: rm.submit(*(one.application for one in some)),
    Withdraw: lambda rm, some: rm.remove(*(one.application_id for one in some)),
    Release: lambda rm, some: rm.release(one.release for one in some),
    ReportAllocation: lambda rm, some: rm.report_allocations(one.allocation for one in some),
    ReportNode: lambda rm, some: rm.report_nodes(one.node for one in some),
}


def shim_of(settings: KubernetesSettings, version: Mapping[str, str]) -> Shim:
    if settings.mode == "shim":
        return Shim(settings.policy)
    policy = plugin_policy(settings, version)
    log.info("lets other schedulers place pods", placed_by=sorted(policy.placed_by), hold=policy.hold, pin=policy.pin)
    return PluginShim(policy)


async def version_of(client: Client) -> dict[str, str]:
    """The page `/version` of the API server, for which it waits."""
    page = await until_answered(lambda: client.call("GET", "/version"), "waits for the Kubernetes API server")
    return msgspec.json.decode(page, type=dict[str, str])


def plugin_policy(settings: KubernetesSettings, version: Mapping[str, str]) -> PluginPolicy:
    of = settings.policy
    return PluginPolicy(
        **{field.name: getattr(of, field.name) for field in fields(of)} | {"device_classes": ()},
        placed_by=frozenset(settings.placed_by),
        hold=hold_of(settings.hold, version),
        pin=pin_of(settings.pin, version),
    )


class _Position(msgspec.Struct):
    log_seq: int


class _Page(msgspec.Struct):
    nodes: list[NodeRow] = []
    applications: list[ApplicationRow] = []
    asks: list[AskRow] = []
    allocations: list[AllocationRow] = []
    next: PageToken | None = None


async def read_kept_state(bus: Bus, rm_id: str) -> tuple[KeptState, int] | None:
    """The state, and the sequence of a commit that it contains. None: there was no answer in time.

    Asks are read before allocations: an ask that is allocated meanwhile is in both."""
    try:
        async with asyncio.timeout(limits.KEPT_STATE_WITHIN_S):
            while True:
                try:
                    return await _read(bus, rm_id)
                except (NoAnswer, RequestRefused) as error:  # a core may just take over
                    log.info("waits for what the scheduler knows", rm=rm_id, error=str(error))
                    await asyncio.sleep(limits.KEPT_STATE_RETRY_S)
    except TimeoutError:
        return None


async def _read(bus: Bus, rm_id: str) -> tuple[KeptState, int]:
    at = (await ask_core(bus, "digest", _Position, rm=rm_id)).log_seq
    state = KeptState()
    pages = partial(pages_of, bus, shape=_Page, rm=rm_id, min_log_seq=at)
    for kind in ("nodes", "applications", "asks", "allocations"):
        async for page in pages(kind):
            state.nodes += page.nodes
            state.applications += page.applications
            state.asks += page.asks
            state.allocations += page.allocations
    return state, at


Record = Callable[[RecordEvent], None]


class WatchedMaps:
    """Follows the ConfigMaps of the configuration. A map that cannot be read is reported, and counts as it was before.
    `names`: the names of the maps; a later map overrides an earlier one. `on_change`: called when `configuration` has
    changed."""

    def __init__(self, names: tuple[str, ...], record: Record, on_change: Callable[[], None]) -> None:
        self._names = names
        self._record = record
        self._on_change = on_change
        self._maps: dict[str, ConfigMap] = {}
        self._values: dict[str, dict[str, str]] = {}
        self._newest = ""  # the map that was changed last
        self.configuration = MapsConfiguration()

    def changed(self, of: ConfigMap) -> None:
        name = of.metadata.name
        if name not in self._names:
            return
        self._maps[name], self._newest = of, name
        try:
            self._values[name] = values_of(of)
        except ValueError as error:
            self.rejected(str(error))
            return
        self._take()

    def gone(self, of: ConfigMap) -> None:
        if self._maps.pop(of.metadata.name, None) is not None:
            self._values.pop(of.metadata.name, None)
            self._take()

    def _take(self) -> None:
        try:
            configuration = configuration_of(self._values[name] for name in self._names if name in self._values)
        except ValueError as error:
            self.rejected(str(error))
            return
        if configuration != self.configuration:
            self.configuration = configuration
            self._on_change()

    def rejected(self, reason: str) -> None:
        """The newest change has no effect: what was valid before stays."""
        of = self._maps.get(self._newest)
        if of is not None:
            note = f"the configuration stays as it was: {reason}"
            event = RecordEvent("ConfigMap", name_of(of.metadata), "ConfigurationRejected", "Configuration", note, True)
            self._record(event)
