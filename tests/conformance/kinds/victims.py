"""Choice and time of victims."""

from __future__ import annotations

from collections.abc import Iterator

from ..case import Case, in_step, queue_configs, received
from ..limited import placed
from ..recording import Json
from ..reference_preemption import (
    choose_one_victim_after_the_other,
    compare_priorities_with_the_offset_of_the_meeting_queue,
    preempt_before_the_next_ask,
)
from .kind import Kind
from .lookups import bound_asks, bound_to, by_node, victims_of


class Asked:
    """The asks of the RM up to a step, by application and key, and the ask of each UUID."""

    def __init__(self, case: Case, step: int) -> None:
        self.asks: dict[tuple[str, str], Json] = {
            (ask.get("applicationID", ""), ask.get("allocationKey", "")): ask
            for at, ask in case.asks()
            if at.number <= step
        }
        self.made: dict[str, Json] = {}
        for steps in (case.our_steps, case.their_steps):
            self.made |= {e["UUID"]: e for _, _, e in received(steps[: step + 1], "allocation", "new")}

    def of(self, uuid: str) -> Json:
        made = self.made.get(uuid, {})
        return self.asks.get((made.get("applicationID", ""), made.get("allocationKey", "")), {})

    def waiting(self, steps: list[Json]) -> Iterator[tuple[tuple[str, str], Json]]:
        """Asks that got nothing in these steps."""
        got = {(e["applicationID"], e["allocationKey"]) for _, _, e in received(steps, "allocation", "new")}
        yield from ((name, ask) for name, ask in self.asks.items() if name not in got)


def priority_of(ask: Json) -> int:
    return int(ask.get("priority") or 0)


def reluctance(ask: Json) -> tuple[bool, bool]:
    """The rank of an allocation among those that may be preempted: first those that allow it, then those that do not,
    and of both, the originators last."""
    policy = ask.get("preemptionPolicy") or {}
    return not policy.get("allowPreemptSelf", False), bool(ask.get("Originator") or ask.get("originator"))


class WillingGoFirst(Kind):
    """An ask for one node preempts first what allows it

    remuda takes first what allows it (`allowPreemptSelf`), and originators last. YuniKorn looks at priority and age
    alone.
    """

    golden = "preemption.txt: An ask that is bound to a node preempts first what allows it"
    reference_rules = (choose_one_victim_after_the_other,)

    def taints_from(self, case: Case) -> int | None:
        for number, (ours, theirs) in enumerate(zip(case.our_steps, case.their_steps, strict=True)):
            if not (victims_of(ours) and victims_of(theirs)):
                continue
            asked = Asked(case, number)
            where = {uuid: made.get("nodeID", "") for uuid, made in asked.made.items()}
            mine, other = (by_node(victims_of(step), where) for step in (ours, theirs))
            nodes = {bound_to(ask) for ask in bound_asks(case, number)}
            if any(self._more_reluctant(asked, mine[n], other[n]) for n in mine.keys() & other.keys() & nodes):
                return number
        return None

    def _more_reluctant(self, asked: Asked, ours: set[str], theirs: set[str]) -> bool:
        """Each victim of the reference alone is ranked behind every victim of ours alone."""
        mine, other = ([reluctance(asked.of(uuid)) for uuid in each] for each in (ours - theirs, theirs - ours))
        return bool(mine and other) and max(mine) < max(other)


class ComparedWhereTheyMeet(Kind):
    """Priorities are compared below the queue where ask and victim meet

    Offsets and fences up to there count for both. YuniKorn adds the offset of that queue to the priority of the ask
    alone.
    """

    golden = (
        "preemption.txt: Ask and victim are compared below the queue where their ways meet, whatever the offset of "
        "that queue"
    )
    reference_rules = (compare_priorities_with_the_offset_of_the_meeting_queue,)

    def taints_from(self, case: Case) -> int | None:
        for number, (ours, theirs) in enumerate(zip(case.our_steps, case.their_steps, strict=True)):
            for uuids, by_ours in (
                (victims_of(ours) - victims_of(theirs), True),
                (victims_of(theirs) - victims_of(ours), False),
            ):
                if uuids and any(self._depends(case, number, uuid, by_ours) for uuid in uuids):
                    return number
        return None

    def _depends(self, case: Case, step: int, uuid: str, by_ours: bool) -> bool:
        """For some ask, it is a victim by the one comparison and not by the other."""
        asked, queues = Asked(case, step), placed(case)
        victim = asked.of(uuid)
        path = queues.get(victim.get("applicationID", ""), "")
        before = (case.our_steps if by_ours else case.their_steps)[:step]
        for (application, _), ask in asked.waiting(before):
            meeting = common(queues.get(application, ""), path)
            if not (ask.get("preemptionPolicy") or {}).get("allowPreemptOther") or not meeting:
                continue
            wants = seen_below(case, step, queues[application], meeting, priority_of(ask))
            has = seen_below(case, step, path, meeting, priority_of(victim))
            if (wants >= has) != (wants + offset_of(case, step, meeting) >= has):
                return (wants >= has) == by_ours
        return False


def common(path: str, other: str) -> str:
    """The lowest queue that is above both leaf queues; "": they are the same, or one is unknown."""
    if not path or not other or path == other:
        return ""
    shared = []
    for one, two in zip(path.split(".")[:-1], other.split(".")[:-1], strict=False):
        if one != two:
            break
        shared.append(one)
    return ".".join(shared)


def seen_below(case: Case, step: int, path: str, meeting: str, priority: int) -> int:
    """Through the offsets and fences from the leaf queue up to the queue below `meeting`."""
    configured = queue_configs(case.configuration_at(step))
    while path != meeting:
        properties = dict(configured[path].properties) if path in configured else {}
        fence = properties.get("priority.policy") == "fence"
        priority = int(properties.get("priority.offset", 0)) + (0 if fence else priority)
        path = path.rpartition(".")[0]
    return priority


def offset_of(case: Case, step: int, path: str) -> int:
    configured = queue_configs(case.configuration_at(step)).get(path)
    return int(dict(configured.properties).get("priority.offset", 0)) if configured is not None else 0


class PlacedBeforePreempted(Kind):
    """Preemption is for asks that nothing else helps

    remuda preempts after a pass has placed what finds room. In YuniKorn an ask preempts in its turn, although the
    next one may use up what is guaranteed.
    """

    golden = "preemption.txt: A pass places all asks before it preempts"
    reference_rules = (preempt_before_the_next_ask,)

    def taints_from(self, case: Case) -> int | None:
        for number, (ours, theirs) in enumerate(zip(case.our_steps, case.their_steps, strict=True)):
            if (
                victims_of(theirs)
                and victims_of(theirs) != victims_of(ours)
                and self._placed_behind(case, number, ours, theirs)
            ):
                return number
        return None

    def _placed_behind(self, case: Case, step: int, ours: Json, theirs: Json) -> bool:
        """Ours places an ask first that comes behind one for which theirs may have preempted."""
        asked, order = Asked(case, step), list(Asked(case, step).asks)
        first = next(iter(in_step(ours, "allocation", "new")), None)
        if first is None:
            return False
        name = (first["applicationID"], first["allocationKey"])
        behind = (-priority_of(asked.asks.get(name, {})), order.index(name) if name in order else -1)
        return any(
            (ask.get("preemptionPolicy") or {}).get("allowPreemptOther")
            and (-priority_of(ask), order.index(other)) < behind
            for other, ask in asked.waiting(case.their_steps[:step])
        )
