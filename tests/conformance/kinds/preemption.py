"""Allocations that are preempted, and the asks that preempt."""

from __future__ import annotations

from ..case import Case, available, in_step, quantities, received
from ..compare import Difference
from ..recording import Json
from ..reference_preemption import choose_one_victim_after_the_other, preempt_once_per_ask
from ..reference_rules import keep_nothing_for_preemptors
from .kind import Kind
from .lookups import bound_to, by_node, held, last_step, victims_of


class KeptForPreemptor(Kind):
    """Preempted resources go to the ask that preempted

    remuda reserves the node. YuniKorn gives the room to the ask ranked first, perhaps of the preempted application.
    """

    golden = "preemption.txt: A queue takes back what is guaranteed to it, the youngest go first"
    reference_rules = (keep_nothing_for_preemptors,)

    def explains(self, case: Case, difference: Difference) -> bool:
        path, ours = difference.path, difference.ours
        if difference.theirs is not None:
            return False
        if path[0] == "dump" and path[-1] == "reservations":
            kept = [_reservation(path, each) for each in ours or ()]
        elif path[0] == "event" and ours[2] == "NODE_RESERVATION":
            kept = [(ours[3], ours[4])]
        else:
            return False
        preempted = self._preempted_for(case, difference.step)
        return bool(kept) and all(each in preempted for each in kept)

    def _preempted_for(self, case: Case, step: int) -> set[tuple[str, str]]:
        """(node, key) of the asks that may preempt others, with the nodes on which both have preempted the same."""
        steps = range(min(last_step(case, step) + 1, len(case.scenario.steps)))
        nodes = {node for number in steps for node in self._freed(case, number)}
        return {(node, key) for node in nodes for key in self._preemptors(case)}

    def _preemptors(self, case: Case) -> set[str]:
        """Keys of the asks that may preempt others."""
        return {
            ask.get("allocationKey", "")
            for _, ask in case.asks()
            if (ask.get("preemptionPolicy") or {}).get("allowPreemptOther") or bound_to(ask)
        }

    def _freed(self, case: Case, step: int) -> set[str]:
        """The nodes on which both preempt in this step, where they preempt the same."""
        victims = [victims_of(steps[step]) for steps in (case.our_steps, case.their_steps)]
        alike = victims[0] == victims[1] or (not case.deterministic and len(victims[0]) == len(victims[1]))
        made = {e["UUID"]: e.get("nodeID", "") for _, _, e in received(case.our_steps[: step + 1], "allocation", "new")}
        return {made.get(uuid, "") for uuid in victims[0]} if alike else set()

    def taints_from(self, case: Case) -> int | None:
        """Where both preempt the same, and theirs gives the room on that node to another ask than ours; or where ours
        gives it to the ask later, and theirs preempts for another one."""
        kept: set[str] = set()
        for number, (ours, theirs) in enumerate(zip(case.our_steps, case.their_steps, strict=True)):
            nodes = self._freed(case, number)
            placed = [{e["UUID"]: e for e in in_step(step, "allocation", "new")} for step in (ours, theirs)]
            ours_alone, theirs_alone = (
                [e for uuid, e in mine.items() if uuid not in other and e.get("nodeID") in nodes]
                for mine, other in (placed, placed[::-1])
            )
            preemptors = self._preemptors(case)
            if theirs_alone and all(e.get("allocationKey") in preemptors for e in ours_alone):
                return number
            kept |= nodes
            late = [e for uuid, e in placed[0].items() if uuid not in placed[1] and e.get("nodeID") in kept]
            if victims_of(ours) != victims_of(theirs) and any(e.get("allocationKey") in preemptors for e in late):
                return number
        return None

    def leaves_blind(self, case: Case) -> bool:
        """Which of equal victims go, and so for whom the room is, is by chance there."""
        return not case.deterministic


def _reservation(path: tuple[str, ...], written: str) -> tuple[str, str]:
    """(node, key) of "node|key" of an application, or "application|key" of a node."""
    first, _, key = written.rpartition("|")
    return (path[path.index("nodes") + 1] if "nodes" in path else first), key


class PreemptsForEach(Kind):
    """An ask preempts for each of its allocations

    An ask may want several allocations: remuda preempts for one after the other. In YuniKorn it preempts once.
    """

    golden = "preemption.txt: An ask preempts for each of its allocations"
    reference_rules = (preempt_once_per_ask,)

    def taints_from(self, case: Case) -> int | None:
        """Where ours preempts more than theirs, for an ask for which both have preempted before."""
        several = {(ask.get("applicationID"), ask.get("allocationKey")) for ask in self._several(case)}
        gone: set[str] = set()
        for number, (ours, theirs) in enumerate(zip(case.our_steps, case.their_steps, strict=True)):
            mine, other = victims_of(ours), victims_of(theirs)
            placed = {
                (e.get("applicationID"), e.get("allocationKey"))
                for _, _, e in received(case.our_steps[: number + 1], "allocation", "new")
            }
            if mine > other and (gone or other) and placed & several:
                return number
            gone |= mine & other
        return None

    def _several(self, case: Case) -> list[Json]:
        """The asks for more than one allocation that may preempt others."""
        return [
            ask
            for _, ask in case.asks()
            if (ask.get("maxAllocations") or 0) > 1
            and ((ask.get("preemptionPolicy") or {}).get("allowPreemptOther") or bound_to(ask))
        ]


class NoMoreThanNeeded(Kind):
    """Preemption takes no more than needed

    YuniKorn keeps victims that turn out to be unnecessary, and does not count what is free on the node of a bound
    ask.
    """

    golden = "preemption.txt: Unnecessary victims are spared"
    reference_rules = (choose_one_victim_after_the_other,)

    def taints_from(self, case: Case) -> int | None:
        """Where theirs preempts the same and more on a node, or more on another node, for an ask to which ours is
        enough."""
        for number, (ours, theirs) in enumerate(zip(case.our_steps, case.their_steps, strict=True)):
            before = held(case.our_steps[:number])
            where = {uuid: each.get("nodeID", "") for uuid, each in before.items()}
            mine, other = (by_node(victims_of(step), where) for step in (ours, theirs))
            more = [node for node in mine.keys() & other.keys() if mine[node] < other[node]]
            most = max((len(other[node]) for node in other.keys() - mine.keys()), default=0)
            more += [node for node in mine.keys() - other.keys() if len(mine[node]) < most]
            if any(self._is_enough(case, number, node, [before[uuid] for uuid in mine[node]]) for node in more):
                return number
        return None

    def _is_enough(self, case: Case, step: int, node: str, victims: list[Json]) -> bool:
        """With these victims gone, an ask fits on the node that may preempt there and had not been placed before."""
        placed = {
            (e.get("applicationID"), e.get("allocationKey"))
            for _, _, e in received(case.our_steps[:step], "allocation", "new")
        }
        left = dict(available(case, case.our_steps[:step]).get(node, {}))
        for victim in victims:
            for name, amount in quantities(victim.get("resourcePerAlloc")).items():
                left[name] = left.get(name, 0) + amount
        return any(
            (bound_to(ask) or node) == node
            and (bound_to(ask) or (ask.get("preemptionPolicy") or {}).get("allowPreemptOther"))
            and (ask.get("applicationID"), ask.get("allocationKey")) not in placed
            and all(amount <= left.get(name, 0) for name, amount in quantities(ask.get("resourceAsk")).items())
            for at, ask in case.asks()
            if at.number < step
        )
