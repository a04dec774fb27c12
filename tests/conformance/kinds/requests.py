"""Refusals and answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ..case import Case, in_step, quantities, received
from ..compare import FINAL, Difference, amounts
from ..in_process import UUID_OF
from ..recording import Json, Step
from ..reference_rules import accept_nonsense, rank_updated_asks_as_new_ones
from .kind import Kind
from .lookups import applications_in, ask_of, held, is_same_ask, names_application, nodes_at, state_of, withdrawn

NODE_ACTIONS: Final = ("CREATE", "CREATE_DRAIN", "UPDATE", "DRAIN_NODE", "DRAIN_TO_SCHEDULABLE", "DECOMISSION")


class Nonsense(Kind):
    """Invalid elements are rejected

    YuniKorn accepts empty IDs and keys, negative amounts and counts, and its sums are wrong from then on.
    """

    golden = "asks.txt: Every ask refused"
    reference_rules = (accept_nonsense,)
    blind = True

    def taints_from(self, case: Case) -> int | None:
        for step, what, element in _elements(case):
            if is_nonsense(what, element) and _refused(case.our_steps[step.number], what, element) and not _refused(
                case.their_steps[step.number], what, element
            ):  # fmt: skip
                return step.number
        return None


def _elements(case: Case) -> list[tuple[Step, str, Json]]:
    found = [(step, "node", node) for step, node in case.nodes()]
    found += [(step, "application", application) for step, application in case.applications()]
    found += [(step, "ask", ask) for step, ask in case.asks()]
    return sorted(found, key=lambda each: each[0].number)


def is_nonsense(what: str, element: Json) -> bool:
    if what == "ask":
        amounts = quantities(element.get("resourceAsk")).values()
        return (
            not element.get("allocationKey")
            or not element.get("applicationID")
            or min(amounts, default=0) < 0
            or int(element.get("maxAllocations", 0)) < 0
        )
    if what == "node":
        resources = [quantities(element.get(name)) for name in ("schedulableResource", "occupiedResource")]
        return not element.get("nodeID") or any(amount < 0 for each in resources for amount in each.values())
    return not element.get("applicationID") or min(quantities(element.get("placeholderAsk")).values(), default=0) < 0


def _refused(step: Json, what: str, element: Json) -> bool:
    kind = "allocation" if what == "ask" else what
    identity = {"ask": "allocationKey", "node": "nodeID", "application": "applicationID"}[what]
    return any(each.get(identity, "") == element.get(identity, "") for each in in_step(step, kind, "rejected"))


class UnknownReleaseAnswered(Kind):
    """A release of something unknown is acknowledged

    An RM that releases something unknown waits for an answer. YuniKorn sends none; remuda returns the release.
    """

    golden = "releases.txt: A release of an unknown allocation is acknowledged and changes nothing"

    def explains(self, case: Case, difference: Difference) -> bool:
        ours = difference.ours
        if difference.path[0] != "allocation callback" or difference.theirs is not None or ours["what"] != "released":
            return False
        uuid, application = ours["UUID"], ours["applicationID"]
        if ours["terminationType"] != "STOPPED_BY_RM" or difference.step == FINAL:
            return False
        asked = any(
            step.number == difference.step
            and each.get("applicationID", "") == application
            and uuid
            in (
                _uuid(each, steps[: difference.step], names)
                for steps, names in zip((case.our_steps, case.their_steps), case.names, strict=True)
            )
            for step, each in case.releases()
        )
        known = [held(steps[: difference.step]).get(uuid) for steps in (case.our_steps, case.their_steps)]
        return asked and not any(each and each.get("applicationID") == application for each in known)


def _uuid(release: Json, steps: list[Json], names: Mapping[str, str]) -> str:
    """The allocations of a release: by its UUID, or those of a key that the RM knows after these steps."""
    written = str(release.get("UUID", ""))
    named = UUID_OF.fullmatch(written)
    if named is None:
        return names.get(written, written)
    key, place = named.groups()
    made = [e["UUID"] for _, _, e in received(steps, "allocation", "new") if e.get("allocationKey") == key]
    if not made:
        return f"unknown-{key}"
    return str(made[-1] if place is None else made[min(int(place), len(made) - 1)])


class UnknownNodeAnswered(Kind):
    """An action for an unknown node is rejected

    remuda rejects an update, drain or removal of an unknown node, and an unknown action. YuniKorn only logs it.
    """

    golden = "nodes.txt: Every action refused"

    def explains(self, case: Case, difference: Difference) -> bool:
        ours = difference.ours
        if difference.path[0] != "node callback" or difference.theirs is not None or ours["what"] != "rejected":
            return False
        name = ours["nodeID"]
        actions = {
            node.get("action", "")
            for step, node in case.nodes()
            if step.number == difference.step and node.get("nodeID", "") == name
        }
        answered = (in_step(case.their_steps[difference.step], "node", what) for what in ("accepted", "rejected"))
        if not actions or any(each.get("nodeID", "") == name for answers in answered for each in answers):
            return False
        known = [nodes_at(case, steps[: difference.step]) for steps in (case.our_steps, case.their_steps)]
        unknown = all(name not in there for there in known) and not any(a.startswith("CREATE") for a in actions)
        return unknown or not actions & {*NODE_ACTIONS}


class AskUpdated(Kind):
    """An ask can be updated

    An ask with a known key replaces resource, priority and count. YuniKorn allocates the old ask beside the new one.
    """

    golden = "asks.txt: The same key again replaces the ask; what was allocated stays"
    blind = True

    def taints_from(self, case: Case) -> int | None:
        """From where theirs makes something of the old ask, and ours does not."""
        found = [self._wrong(case, step, ask) for step, ask in self._updates(case)]
        return min((each for each in found if each is not None), default=None)

    def _updates(self, case: Case) -> Iterator[tuple[int, Json]]:
        """(step, new ask) where some of the old one is pending."""
        known: dict[tuple[str, str], tuple[int, int]] = {}
        for step, ask in case.asks():
            name = (ask.get("applicationID", ""), ask.get("allocationKey", ""))
            if name in known:
                since, wanted = known[name]
                made = [
                    e for _, _, e in received(case.their_steps[since : step.number], "allocation", "new")
                    if is_same_ask(e, name)
                ]  # fmt: skip
                if len(made) < wanted and not withdrawn(case, name, since, step.number):
                    yield step.number, ask
            known[name] = (step.number, int(ask.get("maxAllocations", 0)))

    def _wrong(self, case: Case, since: int, ask: Json) -> int | None:
        """The first step in which theirs allocates what the ask does not say, or its pending sum is not that of its
        asks; ours does neither by then."""
        for number in range(since, len(case.scenario.steps)):
            ours, theirs = (self._is_wrong(steps, since, number, ask) for steps in (case.our_steps, case.their_steps))
            if theirs and not ours:
                return number
        return None

    def _is_wrong(self, steps: list[Json], since: int, until: int, ask: Json) -> bool:
        name = (ask.get("applicationID", ""), ask.get("allocationKey", ""))
        made = [e for _, _, e in received(steps[since : until + 1], "allocation", "new") if is_same_ask(e, name)]
        said = {each: amount for each, amount in quantities(ask.get("resourceAsk")).items() if amount}
        if len(made) > int(ask.get("maxAllocations", 0)):
            return True
        if any(amounts(e.get("resourcePerAlloc")) != said for e in made):
            return True
        application = applications_in(steps[until].get("dump")).get(name[0])
        pending: dict[str, int] = {}
        for request in (application or {}).get("requests") or ():
            for each, amount in amounts(request.get("resource")).items():
                pending[each] = pending.get(each, 0) + amount * int(request.get("pendingCount", 0))
        return application is not None and amounts(application.get("pendingResource")) != amounts(pending)


class UpdatedAskKeepsItsAge(Kind):
    """An updated ask keeps its age

    It is ranked as of when its key first came. In YuniKorn it is as old as the correction, and loses its place.
    """

    golden = "asks.txt: A changed ask keeps its age, its new priority counts"
    reference_rules = (rank_updated_asks_as_new_ones,)

    def taints_from(self, case: Case) -> int | None:
        """Where ours places an updated ask before one that came between it and its update, and theirs the other way
        round."""
        asked = [(at.number, ask) for at, ask in case.asks()]
        between = list(self._between(asked))
        for number, (ours, theirs) in enumerate(zip(case.our_steps, case.their_steps, strict=True)):
            mine, other = ([ask_of(e) for e in in_step(step, "allocation", "new")] for step in (ours, theirs))
            for since, updated, younger in between:
                if since <= number and _goes_first(mine, updated, younger) and _goes_first(other, younger, updated):
                    return number
        return None

    def _between(self, asked: list[tuple[int, Json]]) -> Iterator[tuple[int, tuple[str, str], tuple[str, str]]]:
        """(step of the update, updated ask, ask of the same application and priority that came in between)."""
        first: dict[tuple[str, str], int] = {}
        for place, (step, ask) in enumerate(asked):
            name = ask_of(ask)
            for _, other in asked[first.setdefault(name, place) + 1 : place]:
                key = ask_of(other)
                alike = int(other.get("priority") or 0) == int(ask.get("priority") or 0)
                if key[0] == name[0] and key != name and alike:
                    yield step, name, key


def _goes_first(placed: list[tuple[str, str]], one: tuple[str, str], other: tuple[str, str]) -> bool:
    return one in placed and (other not in placed or placed.index(one) < placed.index(other))


class AskOver(Kind):
    """An ask is reported as over while it has allocations

    remuda reports it when nothing of the ask is pending and it is withdrawn, its application removed, or its gang
    times out. YuniKorn also reports asks whose allocations are gone, and not those withdrawn before.
    """

    golden = "releases.txt: A removed application gives back all it holds"

    def explains(self, case: Case, difference: Difference) -> bool:
        name = self._ask(difference.path[0], difference.ours or difference.theirs)
        if name is None:
            return False
        if difference.theirs is None:
            both = (case.our_steps[: difference.step], case.their_steps[: difference.step])
            there = all(any(is_same_ask(e, name) for e in held(steps).values()) for steps in both)
            reported = any(is_same_ask(e, name) for e in self._reported(case, difference.step))
            return (there or reported) and withdrawn(case, name, 0, difference.step)
        wanted, since = 0, 0
        for step, ask in case.asks():
            if step.number <= difference.step and (ask.get("applicationID"), ask.get("allocationKey")) == name:
                wanted, since = int(ask.get("maxAllocations", 0)), step.number
        made = [
            sum(is_same_ask(e, name) for _, _, e in received(steps[since : difference.step + 1], "allocation", "new"))
            for steps in (case.our_steps, case.their_steps)
        ]
        return 0 < wanted <= min(made)

    def _reported(self, case: Case, until: int) -> Iterator[Json]:
        """Allocations that the RM has reported as running before this step."""
        for step, node in case.nodes():
            yield from (node.get("existingAllocations") or () if step.number < until else ())
        yield from (each for step, each in case.elements("allocation", "allocations") if step.number < until)

    def _ask(self, where: str, told_of: Any) -> tuple[str, str] | None:
        """Of the event or callback, (application, key)."""
        if where == "event":
            over = told_of[:3] in (["APP", "REMOVE", "REQUEST_CANCEL"], ["APP", "REMOVE", "REQUEST_TIMEOUT"])
            return (told_of[3], told_of[4]) if over else None
        if where == "allocation callback" and told_of["what"] == "releasedAsks":
            return told_of["applicationID"], told_of["allocationKey"]
        return None


class FailingTakesNoAsks(Kind):
    """A failing application accepts no asks

    Its asks can never be allocated, so remuda rejects them with the reason. YuniKorn accepts and never answers
    them.
    """

    golden = "differences.txt: An ask of a Failing application is rejected"
    blind = True

    def explains(self, case: Case, difference: Difference) -> bool:
        callback, event = difference.ours, difference.theirs
        if difference.path[0] == "allocation callback" and event is None and callback["what"] == "rejected":
            theirs = in_step(case.their_steps[difference.step], "allocation", "rejected")
            name = (callback["applicationID"], callback["allocationKey"])
            return _fails(case, difference.step, name[0]) and not any(is_same_ask(e, name) for e in theirs)
        if difference.path[0] == "event" and callback is None and event[:3] == ["APP", "ADD", "APP_REQUEST"]:
            rejected = in_step(case.our_steps[difference.step], "allocation", "rejected")
            return any(is_same_ask(e, (event[3], event[4])) for e in rejected) and _fails(
                case, difference.step, event[3]
            )
        return False

    def taints_from(self, case: Case) -> int | None:
        for step, ask in case.asks():
            name = ask.get("applicationID", "")
            rejected = [
                names_application(in_step(s[step.number], "allocation", "rejected"), name)
                for s in (case.our_steps, case.their_steps)
            ]
            if rejected == [True, False] and _fails(case, step.number, name):
                return step.number + 1
        return None


def _fails(case: Case, step: int, application: str) -> bool:
    """In both answers it is failing before this step."""
    return all(state_of(steps[:step], application) == "Failing" for steps in (case.our_steps, case.their_steps))
