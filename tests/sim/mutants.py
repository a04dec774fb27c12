"""Bugs, each put into the running code on purpose: what the simulation is for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from msgspec import structs

from remuda_bus import subjects
from remuda_bus.bus import Message
from remuda_config.shell.active_configuration import ActiveConfiguration
from remuda_config.shell.changes import AcceptedText
from remuda_core import commands, evolve, facts, snapshot
from remuda_core.decide import BY_COMMAND, loans
from remuda_core.shell.deciding import CommitInProgress
from remuda_core.state import State, budgets
from remuda_kubernetes import limits
from remuda_kubernetes.api.client import ApiError, Client, Expired
from remuda_kubernetes.api.objects import Pod
from remuda_kubernetes.api.reflector import Reflector
from remuda_kubernetes.plugin.plugin import OpenGate, Pin, PluginShim, Verdict, is_gated
from remuda_kubernetes.shell.calls import Calls
from remuda_kubernetes.shim.applications import Applications
from remuda_kubernetes.shim.effects import Release, name_of
from remuda_kubernetes.shim.resume import AllocationRow, Resumption
from remuda_kubernetes.shim.shim import Shim
from remuda_proto.remuda.v1 import log_pb2
from remuda_replication.log import Chain
from remuda_replication.rms.halts import Halts
from remuda_rmproxy.administration.action_request import ActionRequest
from remuda_rmproxy.administration.operator_actions import OperatorActions
from remuda_rmproxy.administration.outcome import Outcome
from remuda_rmproxy.inbound import translate
from remuda_rmproxy.inbound.forwarder import Forwarder
from remuda_rmproxy.inbound.request_queue import RequestQueue
from remuda_sdk.resource_manager.callbacks import Session

from .tenants import GOOD_RMS

Mutant = Callable[[pytest.MonkeyPatch], None]


def no_chain_check(patch: pytest.MonkeyPatch) -> None:
    """Every message of the log is in force."""

    def has_valid_parent(chain: Chain, commit: log_pb2.Commit) -> bool:
        return True

    patch.setattr(Chain, "_has_valid_parent", has_valid_parent)


def evolve_that_judges(patch: pytest.MonkeyPatch) -> None:
    """An allocation on a node that is drained is not released."""
    release = evolve.BY_FACT[facts.AllocationReleased]

    def judge(state: State, fact: Any) -> Any:
        allocation = state.partitions[fact.partition].allocations[fact.uuid]
        return allocation if allocation.node.draining else release(state, fact)

    by_fact: dict[Any, Any] = evolve.BY_FACT
    patch.setitem(by_fact, facts.AllocationReleased, judge)


def acknowledged_before_it_is_appended(patch: pytest.MonkeyPatch) -> None:
    """A request is deleted while its commands are on their way to the inbox."""

    def oldest_that_waits(queue: RequestQueue) -> int:
        return queue._waiting[0].seq if queue._waiting else queue._deferred_seq

    patch.setattr(RequestQueue, "oldest_seq", property(oldest_that_waits))


def timers_lost_on_restart(patch: pytest.MonkeyPatch) -> None:
    """A snapshot brings back everything but the timers."""
    restorers: dict[Any, Any] = snapshot.RESTORERS
    patch.setitem(restorers, snapshot.TimerRecord, lambda state, record: None)


def delivered_twice_handled_twice(patch: pytest.MonkeyPatch) -> None:
    """The core does not look whether it has handled a request."""
    answer = CommitInProgress.answer

    def credulous(commit: CommitInProgress, message: Message, traceparent: str = "") -> Iterator[None]:
        state = commit.core.state
        before = state.request_seq, state.request_part
        state.request_seq = state.request_part = 0
        yield from answer(commit, message, traceparent)
        state.request_seq, state.request_part = max(before, (state.request_seq, state.request_part))

    patch.setattr(CommitInProgress, "answer", credulous)


def acted_on_twice(patch: pytest.MonkeyPatch) -> None:
    """The core does not remember that it has allowed an action of an operator."""
    by_fact: dict[Any, Any] = evolve.BY_FACT
    patch.setitem(by_fact, facts.ActionTaken, lambda state, fact: None)


def loans_stay_in_settings(patch: pytest.MonkeyPatch) -> None:
    """A loan that is over leaves both queues with what was lent."""
    change = loans.change_queues

    def change_as_it_begins(partition: Any, key: Any, loan: Any, times: int, now_ms: int) -> Iterable[Any]:
        return change(partition, key, loan, times, now_ms) if times > 0 else ()

    patch.setattr(loans, "change_queues", change_as_it_begins)


def budgets_forget(patch: pytest.MonkeyPatch) -> None:
    """Use before a change does not count."""
    patch.setattr(budgets, "_gain", lambda *_: None)


def told_before_it_is_decided(patch: pytest.MonkeyPatch) -> None:
    """rmproxy tells an operator that an action is accepted when the command is in the inbox."""

    async def decide(actions: OperatorActions, request: ActionRequest) -> Outcome:
        command = request.command(True).SerializeToString()
        await actions._bus.append(subjects.inbox(request.rm_id), command)
        return Outcome("accepted", request.action_id)

    patch.setattr(OperatorActions, "_decide", decide)


def told_twice_heard_twice(patch: pytest.MonkeyPatch) -> None:
    """The SDK takes every callback for a new one."""
    patch.setattr(Session, "is_new", lambda session, message: True)


def forwarded_one_after_the_other(patch: pytest.MonkeyPatch) -> None:
    """No request is forwarded while one of another RM waits for anything."""
    work_once = Forwarder._work_once
    locks: dict[Forwarder, asyncio.Lock] = {}

    async def alone(forwarder: Forwarder, *arguments: Any) -> bool:
        async with locks.setdefault(forwarder, asyncio.Lock()):
            return await work_once(forwarder, *arguments)

    patch.setattr(Forwarder, "_work_once", alone)


def all_are_halted(patch: pytest.MonkeyPatch) -> None:
    """An RM is halted, and with it every other that is known."""
    halt = Halts.halt

    async def halt_all(halts: Halts, rm_id: str, reason: str) -> None:
        for name in (rm_id, *(f"rm-{number}" for number in range(1, GOOD_RMS + 1))):
            await halt(halts, name, reason)

    patch.setattr(Halts, "halt", halt_all)


def a_fault_ends_the_process(patch: pytest.MonkeyPatch) -> None:
    """An invalid request raises an unexpected exception, and ends its reader."""

    def parse(message: Any, payload: bytes) -> None:
        message.ParseFromString(payload)

    async def work_once(forwarder: Forwarder, queue: Any, carefully: bool) -> bool:
        await forwarder._worker.forward_some(queue)
        return carefully

    patch.setattr(translate, "_parse", parse)
    patch.setattr(Forwarder, "_work_once", work_once)


def written_for_good(patch: pytest.MonkeyPatch) -> None:
    """The file is written although another version may be in force by then."""

    async def is_in_force(active: ActiveConfiguration, current: AcceptedText) -> bool:
        return True

    patch.setattr(ActiveConfiguration, "_is_in_force", is_in_force)


def late_versions_count(patch: pytest.MonkeyPatch) -> None:
    """The core applies a version that is older than the one in force."""
    decide = BY_COMMAND[commands.Configure]

    def without_revision(state: State, command: Any, now_ms: int) -> Any:
        return decide(
            state, structs.replace(command, configuration=structs.replace(command.configuration, revision=0)), now_ms
        )

    by_command: dict[Any, Any] = BY_COMMAND
    patch.setitem(by_command, commands.Configure, without_revision)


def confirmed_by_itself(patch: pytest.MonkeyPatch) -> None:
    """A staged change stays when its time is over."""

    async def end_stage(active: ActiveConfiguration) -> None:
        pass

    patch.setattr(ActiveConfiguration, "end_stage", end_stage)


# Of the Kubernetes front end


def decided_bindings_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A front end that starts again takes it that what was decided was bound, too."""
    take = Resumption._take_allocation

    def forgetful(resumption: Resumption, row: AllocationRow) -> Any:
        response = take(resumption, row)
        if response is None or not response.new:
            return response
        entry = resumption._cache.pods[row.key]
        entry.uuid = row.uuid
        resumption._cache.put_on(entry, row.node)
        return None

    patch.setattr(Resumption, "_take_allocation", forgetful)


def bound_already_is_a_failure(patch: pytest.MonkeyPatch) -> None:
    """A binding whose first answer was lost counts as failed."""

    async def bind(calls: Calls, placement: Any) -> str | None:
        try:
            await calls._retry(lambda: calls._place(placement), limits.BINDING_RETRY)
        except ApiError as error:
            return error.reason
        return None

    def no_release_of_bound_pods(shim: Shim, uid: str, node: str, reason: str) -> None:
        entry = shim.cache.pods.get(uid)
        if entry is not None and entry.uuid:
            shim._send_back(entry, reason)

    patch.setattr(Calls, "_bind", bind)
    patch.setattr(Shim, "binding_failed", no_release_of_bound_pods)


def released_before_it_is_gone(patch: pytest.MonkeyPatch) -> None:
    """A release is confirmed at once, while the pod ends."""
    released = Shim._released

    def confirm(shim: Shim, release: Any) -> None:
        released(shim, release)
        entry = shim.cache.pods.get(release.allocationKey)
        if entry is not None and entry.release is not None:
            shim.cache.emit(Release(entry.release))
            entry.release, entry.uuid = None, ""

    patch.setattr(Shim, "_released", confirm)


def lists_only_add(patch: pytest.MonkeyPatch) -> None:
    """What has gone while no watch ran stays."""

    have = Reflector._have

    def have_more(reflector: Reflector[Any], items: Iterable[Any], version: str) -> None:
        have(reflector, {**reflector._known, **{one.metadata.uid: one for one in items}}.values(), version)

    patch.setattr(Reflector, "_have", have_more)


def bound_by_name(patch: pytest.MonkeyPatch) -> None:
    """A binding meets another pod of the same name."""

    async def bind(client: Client, namespace: str, name: str, uid: str, node: str) -> None:
        body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
        await client.call("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/binding", body)

    patch.setattr(Client, "bind", bind)


def gangs_are_created_once(patch: pytest.MonkeyPatch) -> None:
    """An application that was completed, and begins again, has no placeholders any more."""
    submit = Applications.submit

    def keep(applications: Applications, application: Any) -> None:
        created = set(application.created)
        submit(applications, application)
        application.created |= created

    patch.setattr(Applications, "submit", keep)


def a_watch_that_ends_begins_anywhere(patch: pytest.MonkeyPatch) -> None:
    """A version that has expired is replaced by the current one, without a list."""
    run = Reflector._watch

    async def watch(reflector: Reflector[Any]) -> None:
        try:
            await run(reflector)
        except Expired:
            _, reflector._version = await reflector._client.list(reflector._resource)

    patch.setattr(Reflector, "_watch", watch)


def gates_are_opened_at_once(patch: pytest.MonkeyPatch) -> None:
    """The gate of a pod is removed before it has an allocation."""
    pod_changed = PluginShim.pod_changed

    def hasty(shim: PluginShim, pod: Pod) -> None:
        pod_changed(shim, pod)
        if is_gated(pod) and shim.cache.is_live:
            shim._calls.append(OpenGate(name_of(pod.metadata), "", Pin.FREE, pod))

    patch.setattr(PluginShim, "pod_changed", hasty)


def all_nodes_pass(patch: pytest.MonkeyPatch) -> None:
    """The extender lets each pod run everywhere."""
    patch.setattr(PluginShim, "filter", lambda shim, pod, nodes: Verdict(nodes))


KUBERNETES_MUTANTS: tuple[Mutant, ...] = (
    decided_bindings_are_forgotten, bound_already_is_a_failure, released_before_it_is_gone, lists_only_add,
    bound_by_name, gangs_are_created_once, a_watch_that_ends_begins_anywhere, gates_are_opened_at_once,
    all_nodes_pass,
)  # fmt: skip
# Mutants of the configuration are found in runs that change it.
CONFIGURATION_MUTANTS: tuple[Mutant, ...] = (
    written_for_good, late_versions_count, confirmed_by_itself,
)  # fmt: skip
# Mutants of the isolation of RMs are found in runs with a hostile RM.
TENANTS_MUTANTS: tuple[Mutant, ...] = (forwarded_one_after_the_other, all_are_halted, a_fault_ends_the_process)
MUTANTS: tuple[Mutant, ...] = (
    no_chain_check,
    evolve_that_judges,
    acknowledged_before_it_is_appended,
    timers_lost_on_restart,
    delivered_twice_handled_twice,
    told_twice_heard_twice,
    acted_on_twice,
    loans_stay_in_settings,
    budgets_forget,
    told_before_it_is_decided,
)
