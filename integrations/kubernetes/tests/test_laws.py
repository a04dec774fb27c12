"""Laws of the shim, for any order of what the API server and a scheduler report.

The model of both sides books what the shim's effects cause. A pod is bound once at most. Every allocation that the
scheduler books has a pod, and every pod has an ask or an allocation, where it is bound.
"""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from integrations.kubernetes.tests.objects import node, pod
from remuda_kubernetes.api.objects import Pod
from remuda_kubernetes.shim.cache import ShimPolicy
from remuda_kubernetes.shim.effects import Ask, Bind, DeletePod, Effect, Release, ReportAllocation, ReportNode, Submit
from remuda_kubernetes.shim.resume import AllocationRow, ApplicationRow, AskRow, KeptState, NodeRow
from remuda_kubernetes.shim.shim import Shim
from remuda_proto.si.v1 import si_pb2 as si

NODES = ("n1", "n2")


class Machine(RuleBasedStateMachine):
    """The API server and the scheduler, as far as they matter."""

    pods = Bundle("pods")
    binding: type[Any] = Bind  # the effect of an allocation
    scheduler = "remuda"  # of all pods

    def __init__(self) -> None:
        super().__init__()
        self.shim = self.made_shim()
        self.server: dict[str, Pod] = {}  # by name
        self.asks: dict[str, si.AllocationAsk] = {}  # by UID, in the scheduler
        self.nodes: dict[str, si.NodeInfo] = {}  # as the scheduler knows them
        self.is_submitted = False
        self.booked: dict[str, tuple[str, str]] = {}  # UUID -> UID, node
        self.requested: dict[str, si.AllocationRelease] = {}  # releases that the scheduler waits for, by UUID
        self.bindings: list[Bind] = []  # calls under way
        self.bound: dict[str, str] = {}  # UID -> node
        self.numbers = itertools.count()
        for name in NODES:
            self.shim.node_changed(node(name))
        self.report()

    def made_shim(self) -> Shim:
        return Shim(ShimPolicy(frozenset({"remuda"})))

    # The scheduler's books follow from the effects

    def settle(self) -> None:
        while effects := self.shim.take():
            for effect in effects:
                self.book(effect)

    def book(self, effect: Effect) -> None:
        match effect:
            case Ask(ask):
                assert ask.allocationKey not in {uid for uid, _ in self.booked.values()}, "asked for while allocated"
                self.asks[ask.allocationKey] = ask
            case Release(si.AllocationAskRelease() as ask):
                self.asks.pop(ask.allocationKey, None)
            case Release(si.AllocationRelease() as release):
                asked = self.requested.pop(release.UUID, None)
                assert asked is None or release.terminationType in (asked.terminationType, si.STOPPED_BY_RM)
                self.booked.pop(release.UUID, None)
            case ReportAllocation(allocation):
                self.book_existing(allocation)
            case Submit():
                assert not self.is_submitted
                self.is_submitted = True
            case ReportNode(info):
                known = self.nodes.setdefault(info.nodeID, info)
                known.attributes.update(info.attributes)
                for allocation in info.existingAllocations:
                    self.book_existing(allocation)
            case Bind():
                self.bindings.append(effect)
            case DeletePod(name):
                if name.name in self.server:
                    self.gone(name.name)
            case _:
                pass

    def book_existing(self, allocation: si.Allocation) -> None:
        assert allocation.UUID not in self.booked
        assert self.bound[allocation.allocationKey] == allocation.nodeID
        self.booked[allocation.UUID] = allocation.allocationKey, allocation.nodeID

    # Users and the API server

    @rule(target=pods)
    def create(self) -> str:
        name = f"p{next(self.numbers)}"
        self.server[name] = pod(name, app="app", cpu="1", scheduler=self.scheduler)
        self.shim.pod_changed(self.server[name])
        self.settle()
        return name

    @rule(name=consumes(pods))
    def delete(self, name: str) -> None:
        if name in self.server:
            self.gone(name)
            self.settle()

    def gone(self, name: str) -> None:
        self.shim.pod_gone(self.server.pop(name))

    @rule(name=pods, on=st.sampled_from(NODES))
    def bind_past_the_scheduler(self, name: str, on: str) -> None:
        if name in self.server and self.server[name].uid not in self.bound:
            self.bind(name, on)

    def bind(self, name: str, on: str) -> None:
        assert self.server[name].uid not in self.bound, "bound twice"
        self.server[name] = pod(name, app="app", cpu="1", scheduler=self.scheduler, node=on)
        self.bound[self.server[name].uid] = on
        self.shim.pod_changed(self.server[name])
        self.settle()

    # Calls under way

    @rule(fails=st.booleans())
    def binding_is_answered(self, fails: bool) -> None:
        if not self.bindings:
            return
        call = self.bindings.pop(0)
        there = self.server.get(call.pod.name)
        if there is None or there.uid != call.pod.uid:
            return  # not found
        if fails or self.bound.get(there.uid, call.node) != call.node:
            self.shim.binding_refused(call.node)
            self.shim.binding_failed(there.uid, call.node, "no")
            self.settle()
            return
        if there.uid not in self.bound:
            self.bind(call.pod.name, call.node)
        self.shim.bound(there.uid, call.node)
        self.settle()

    # The scheduler

    @rule(data=st.data(), on=st.sampled_from(NODES))
    def allocate(self, data: st.DataObject, on: str) -> None:
        if not self.asks:
            return
        uid = data.draw(st.sampled_from(sorted(self.asks)))
        del self.asks[uid]
        uuid = f"u{next(self.numbers)}"
        self.booked[uuid] = uid, on
        new = si.Allocation(allocationKey=uid, UUID=uuid, nodeID=on, applicationID="default.app")
        self.shim.allocation(si.AllocationResponse(new=[new]))
        self.settle()

    @rule(data=st.data(), kind=st.sampled_from((si.TIMEOUT, si.PREEMPTED_BY_SCHEDULER, si.PLACEHOLDER_REPLACED)))
    def request_release(self, data: st.DataObject, kind: si.TerminationType.ValueType) -> None:
        if not self.booked:
            return
        uuid = data.draw(st.sampled_from(sorted(self.booked)))
        release = si.AllocationRelease(
            allocationKey=self.booked[uuid][0], UUID=uuid, applicationID="default.app", terminationType=kind
        )
        self.requested[uuid] = release
        self.shim.allocation(si.AllocationResponse(released=[release]))
        self.settle()

    @rule()
    def report(self) -> None:
        """The scheduler has lost everything."""
        self.asks.clear()
        self.booked.clear()
        self.nodes.clear()
        self.is_submitted = False
        self.requested.clear()
        self.shim.report()
        self.settle()

    @rule(data=st.data(), answered=st.booleans())
    def restart(self, data: st.DataObject, answered: bool) -> None:
        """The front end is killed; calls under way have happened, or never will. Another continues, after changes that
        no process has seen."""
        calls, self.bindings = self.bindings, []
        for call in calls if answered else ():
            there = self.server.get(call.pod.name)
            if there is not None and there.uid == call.pod.uid and there.uid not in self.bound:
                self.server[call.pod.name] = pod(
                    call.pod.name, app="app", cpu="1", node=call.node, scheduler=self.scheduler
                )
                self.bound[there.uid] = call.node
        for name in [name for name in sorted(self.server) if data.draw(st.integers(0, 4)) == 0]:
            del self.server[name]
        self.shim = self.made_shim()
        for name in NODES:
            self.shim.node_changed(node(name))
        for one in self.server.values():
            self.shim.pod_changed(one)
        self.shim.resume(self.kept())
        effects = self.shim.take()
        there_are = {one.uid for one in self.server.values()}
        decided = {uid for uid, _ in self.booked.values() if uid in there_are and uid not in self.bound}
        decided -= {release.allocationKey for release in self.requested.values()}
        assert {effect.pod.uid for effect in effects if isinstance(effect, self.binding)} == decided
        asked = [effect.ask for effect in effects if isinstance(effect, Ask)]
        assert not [ask for ask in asked if self.asks.get(ask.allocationKey) == ask], "asked for twice"
        for effect in effects:
            self.book(effect)
        self.settle()

    def kept(self) -> KeptState:
        releasing = {uuid: release.terminationType for uuid, release in self.requested.items()}
        return KeptState(
            [
                NodeRow(name, dict(one.attributes), amounts(one.schedulableResource), status="Schedulable")
                for name, one in self.nodes.items()
            ],
            [ApplicationRow("default.app", "Running")] if self.is_submitted else [],
            [
                AskRow("default.app", key, amounts(ask.resourceAsk), ask.priority, dict(ask.tags))
                for key, ask in self.asks.items()
            ],
            [
                AllocationRow(uuid, "default.app", uid, on, releasing.get(uuid, 0))
                for uuid, (uid, on) in self.booked.items()
            ],
        )

    # The laws

    @invariant()
    def every_booking_has_a_pod(self) -> None:
        there = {one.uid for one in self.server.values()}
        for uid, on in self.booked.values():
            assert uid in there
            assert self.bound.get(uid, on) == on
        uids = [uid for uid, _ in self.booked.values()]
        assert len(uids) == len(set(uids))

    @invariant()
    def every_pod_is_asked_for_or_booked(self) -> None:
        booked = {uid for uid, _ in self.booked.values()}
        for one in self.server.values():
            assert (one.uid in self.asks) != (one.uid in booked)

    @invariant()
    def every_bound_pod_is_booked_where_it_is(self) -> None:
        where = dict(self.booked.values())
        for one in self.server.values():
            if one.spec.node_name:
                assert where[one.uid] == one.spec.node_name


def amounts(of: si.Resource) -> dict[str, int]:
    return {name: one.value for name, one in of.resources.items()}


TestLaws = Machine.TestCase
