"""Placement on nodes."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial

from ..case import Case, available, in_step, quantities, received
from ..recording import Json
from ..reference_nodes import keep_reservations_of_draining_nodes, leave_out_of_the_node_what_it_has_no_room_for
from ..reference_recovery import reject_nodes_with_bad_allocations
from ..reference_rules import (
    limit_everything_by_the_cluster,
    order_equals_by_chance,
    place_on_nodes_that_are_not_ready,
    reserve_where_the_ask_leaves_least,
    reserve_without_bounds,
    stop_at_a_bound_ask_without_room,
)
from .kind import Kind
from .lookups import applications_in, bound_asks, bound_to, sums, victims_of


class NotReadyTakesNothing(Kind):
    """A node that is not ready gets no allocations

    An RM sets `ready: false` on a node that cannot start anything. YuniKorn counts such nodes and places there.
    """

    golden = "nodes.txt: Not ready: nothing new"
    reference_rules = (place_on_nodes_that_are_not_ready,)

    def taints_from(self, case: Case) -> int | None:
        """Where theirs places something on such a node, and ours has placed nothing there by then."""
        for node_id, (first, last) in _not_ready(case):
            ours, theirs = (
                [
                    first + number for number, _, new in received(steps[first:last], "allocation", "new")
                    if new.get("nodeID") == node_id
                ]
                for steps in (case.our_steps, case.their_steps)
            )  # fmt: skip
            if theirs and (not ours or theirs[0] < ours[0]):
                return theirs[0]
        return None


class BadAllocationsAreOccupied(Kind):
    """A node is accepted although an allocation on it cannot be booked

    YuniKorn rejects the node with all that runs there. remuda counts the allocation as occupied, and tells the RM
    why.
    """

    golden = (
        "recovery.txt: One of them is wrong: the node is accepted, the others are booked, and the wrong one counts as "
        "occupied"
    )
    reference_rules = (reject_nodes_with_bad_allocations,)

    def taints_from(self, case: Case) -> int | None:
        """Where theirs rejects a node with existing allocations, and ours accepts it and rejects one of these."""
        for step, node in case.nodes():
            keys = {each.get("allocationKey", "") for each in node.get("existingAllocations") or ()}
            ours, theirs = case.our_steps[step.number], case.their_steps[step.number]
            refused = {each.get("allocationKey", "") for each in in_step(ours, "allocation", "rejectedAllocations")}
            accepted, rejected = (
                any(each.get("nodeID") == node.get("nodeID") for each in in_step(answer, "node", word))
                for answer, word in ((ours, "accepted"), (theirs, "rejected"))
            )
            if accepted and rejected and keys & refused:
                return step.number
        return None


def _not_ready(case: Case) -> list[tuple[str, tuple[int, int]]]:
    """(node, from which step, until which) it was not ready."""
    found: list[tuple[str, tuple[int, int]]] = []
    since: dict[str, int] = {}
    for step, node in case.nodes():
        ready = (node.get("attributes") or {}).get("ready")
        if ready is None:
            continue
        if str(ready).lower() == "false":
            since.setdefault(node["nodeID"], step.number)
        elif node["nodeID"] in since:
            found.append((node["nodeID"], (since.pop(node["nodeID"]), step.number)))
    return found + [(node_id, (first, len(case.scenario.steps))) for node_id, first in since.items()]


class BoundAskHoldsUpNobody(Kind):
    """An ask for one node does not block other asks

    In YuniKorn an ask for an unknown node blocks all others of its application, and one for a full node every ask
    ranked behind it.
    """

    golden = "nodes.txt: A required node that is not there yet, or takes nothing"
    reference_rules = (stop_at_a_bound_ask_without_room,)

    def taints_from(self, case: Case) -> int | None:
        for number, (ours, theirs) in enumerate(zip(case.our_steps, case.their_steps, strict=True)):
            placed = [{e["UUID"]: e for e in in_step(step, "allocation", "new")} for step in (ours, theirs)]
            more = [e for uuid, e in placed[0].items() if uuid not in placed[1]]
            preempts = bool(victims_of(ours) - victims_of(theirs))
            if (more or preempts) and any(self._blocks(case, number, ask, more) for ask in bound_asks(case, number)):
                return number
        return None

    def _blocks(self, case: Case, step: int, ask: Json, more: list[Json]) -> bool:
        """It waits in theirs before or after the step: for a full node, or for an unknown one, and something of its
        application was placed."""
        name = (ask.get("applicationID"), ask.get("allocationKey"))
        for steps in (case.their_steps[:step], case.their_steps[: step + 1]):
            new = [e for _, _, e in received(steps, "allocation", "new")]
            if any((e.get("applicationID"), e.get("allocationKey")) == name for e in new):
                return False
            left = available(case, steps).get(bound_to(ask))
            if left is None and any(e["applicationID"] == name[0] for e in more):
                return True
            need = quantities(ask.get("resourceAsk"))
            if left is not None and any(amount > left.get(each, 0) for each, amount in need.items()):
                return True
        return False


class ClusterIsNoQuota(Kind):
    """The free resources of the cluster are no quota

    YuniKorn places no ask above the free resources of the partition, as after a node has shrunk below its usage,
    nor lets a bound one preempt.
    """

    golden = (
        "preemption.txt: An ask that is bound to a node has whatever it needs there, of no higher priority, and at once"
    )
    reference_rules = (limit_everything_by_the_cluster,)

    def taints_from(self, case: Case) -> int | None:
        for number, (ours, theirs) in enumerate(zip(case.our_steps, case.their_steps, strict=True)):
            placed = [{e["UUID"]: e for e in in_step(step, "allocation", "new")} for step in (ours, theirs)]
            needs = [quantities(e.get("resourcePerAlloc")) for uuid, e in placed[0].items() if uuid not in placed[1]]
            if victims_of(ours) and not victims_of(theirs):
                needs += [quantities(ask.get("resourceAsk")) for ask in bound_asks(case, number)]
            if needs and self._beyond_all_there_is(case, number, needs):
                return number
        return None

    def _beyond_all_there_is(self, case: Case, step: int, needs: list[dict[str, int]]) -> bool:
        left: dict[str, int] = {}
        for node in available(case, case.their_steps[: step + 1]).values():
            for name, amount in node.items():
                left[name] = left.get(name, 0) + amount
        return any(amount > left.get(name, 0) for need in needs for name, amount in need.items())


class DrainedIsKeptForNobody(Kind):
    """A node that drains loses its reservation

    Its ask goes elsewhere. In YuniKorn the node stays reserved, and the ask is placed there as soon as it fits.
    """

    golden = "nodes.txt: A draining node is reserved only for asks that are bound to it"
    reference_rules = (keep_reservations_of_draining_nodes,)

    def taints_from(self, case: Case) -> int | None:
        """Where an RM drains a node for whose ask ours ends the reservation, and theirs does not."""
        for step, node in case.nodes():
            name = node.get("nodeID", "")
            ended = [_unreserved(steps[step.number], name) for steps in (case.our_steps, case.their_steps)]
            keys = ended[0] - ended[1] - {ask.get("allocationKey", "") for ask in bound_asks(case, step.number)}
            if node.get("action") == "DRAIN_NODE" and keys:
                return step.number
        return None


def _unreserved(step: Json, node_id: str) -> set[str]:
    """Keys of the asks whose reservations of this node end."""
    return {
        event.get("referenceID", "")
        for event in step.get("events") or ()
        if (event.get("eventChangeType"), event.get("eventChangeDetail"), event.get("objectID"))
        == ("REMOVE", "NODE_RESERVATION", node_id)
    }


class ReportedIsOnItsNode(Kind):
    """A reported allocation is booked on its node, full or not

    YuniKorn books one that does not fit with application and queue only, and places too much on the node.
    """

    golden = "recovery.txt: More than there is, and of something the node has not"
    reference_rules = (leave_out_of_the_node_what_it_has_no_room_for,)

    def taints_from(self, case: Case) -> int | None:
        """Where both accept a node that reports more than it has room for."""
        for step, node in case.nodes():
            name = node.get("nodeID", "")
            left = quantities(node.get("schedulableResource"))
            needs = [quantities(node.get("occupiedResource"))]
            needs += [quantities(each.get("resourcePerAlloc")) for each in node.get("existingAllocations") or ()]
            for need in needs:
                left = {each: left.get(each, 0) - need.get(each, 0) for each in {**left, **need}}
            accepted = all(
                any(e.get("nodeID", "") == name for e in in_step(steps[step.number], "node", "accepted"))
                for steps in (case.our_steps, case.their_steps)
            )
            if accepted and len(needs) > 1 and min(left.values(), default=0) < 0:
                return step.number
        return None


class LacksLeast(Kind):
    """The node with the smallest shortfall is reserved

    An ask that fits no node reserves the one with the smallest shortfall. YuniKorn computes the reverse, and takes
    the first node when all are too small.
    """

    golden = "reservations.txt: An ask that fits no node reserves the one that lacks least"
    reference_rules = (reserve_where_the_ask_leaves_least,)

    def taints_from(self, case: Case) -> int | None:
        for number, (ours, theirs) in enumerate(zip(case.our_steps, case.their_steps, strict=True)):
            mine, other = _reserved(ours), _reserved(theirs)
            for key in sorted(mine.keys() & other.keys()):
                if mine[key] != other[key] and self._lacks_less(case, number, key, mine[key], other[key]):
                    return number
        return None

    def _lacks_less(self, case: Case, step: int, key: str, ours: str, theirs: str) -> bool:
        left = available(case, case.our_steps[: step + 1])
        asked = [ask for at, ask in case.asks() if at.number <= step and ask.get("allocationKey") == key]
        need = quantities(asked[-1].get("resourceAsk")) if asked else {}

        def lacks(node_id: str) -> float:
            have = left.get(node_id, {})
            return sum((n - max(have.get(name, 0), 0)) / n for name, n in need.items() if n > max(have.get(name, 0), 0))

        return 0 < lacks(ours) < lacks(theirs)


class ReservationsAreBounded(Kind):
    """Reservations are bounded

    YuniKorn reserves any number of nodes of sufficient nominal capacity, without regard to quotas, until the ask is
    placed. remuda [bounds them](semantics.md#11-reservations).
    """

    # Recognised where YuniKorn keeps more than a quarter of the nodes.
    golden = "reservations.txt: Asks of one queue keep a quarter of the nodes, all asks one half"
    reference_rules = (reserve_without_bounds,)

    def taints_from(self, case: Case) -> int | None:
        mine, other = set[str](), set[str]()
        for number, (ours, theirs) in enumerate(zip(case.our_steps, case.their_steps, strict=True)):
            for kept, step in ((mine, ours), (other, theirs)):
                for change, node_id in _changes_of_reservations(step):
                    (kept.add if change == "ADD" else kept.discard)(node_id)
            nodes = len(available(case, case.their_steps[: number + 1]))
            if len(other) > len(mine) and len(other) > max(1, nodes // 4):
                return number
        return None


def _changes_of_reservations(step: Json) -> list[tuple[str, str]]:
    """ADD or REMOVE, and the node."""
    return [
        (event.get("eventChangeType", ""), event.get("objectID", ""))
        for event in step.get("events") or ()
        if event.get("eventChangeDetail") == "NODE_RESERVATION"
    ]


def _reserved(step: Json) -> dict[str, str]:
    """Allocation key -> node, of the reservations made."""
    return {
        event.get("referenceID", ""): event.get("objectID", "")
        for event in step.get("events") or ()
        if event.get("eventChangeDetail") == "NODE_RESERVATION" and event.get("eventChangeType") == "ADD"
    }


class EqualCandidates(Kind):
    """Equal candidates have an order

    YuniKorn takes the order of a hash map. remuda orders equal queues by name, applications by ID, placeholders and
    victims by age.
    """

    # Recognised where YuniKorn's own answers varied and all sums are equal in the end.
    golden = "order_of_queues.txt: Equal shares: the larger pending amount, then the name"
    blind = True
    reference_rules = (nullcontext, *(partial(order_equals_by_chance, seed) for seed in range(8)))
    in_any_order = True

    def taints_from(self, case: Case) -> int | None:
        if case.deterministic:
            return None
        for number, (ours, theirs) in enumerate(zip(case.our_steps, case.their_steps, strict=True)):
            sequences = [
                [
                    (what, e.get("UUID"), e.get("nodeID"))
                    for _, what, e in received([step], "allocation", "new", "released")
                ]
                for step in (ours, theirs)
            ]
            if sequences[0] != sequences[1]:
                return number
        return None

    def leaves_blind(self, case: Case) -> bool:
        """Where in the end all queues have the same sums, all applications the same states,
        and as many victims were preempted."""
        ours, theirs = (self._outcome(trace) for trace in (case.ours, case.theirs))
        return ours == theirs

    def _outcome(self, trace: Json) -> tuple[object, ...]:
        final = trace.get("final")
        states = {name: application["applicationState"] for name, application in applications_in(final).items()}
        return sums(final), states, sum(len(victims_of(step)) for step in trace["steps"])
