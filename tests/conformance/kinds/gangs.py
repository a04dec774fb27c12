"""Places of gangs."""

from __future__ import annotations

from ..case import Case, in_step, quantities, received
from ..compare import FINAL, Difference
from ..recording import Json
from ..reference_gangs import (
    start_the_clock_of_placeholders_while_accepted,
    withdraw_all_asks_of_a_gang_that_resumes,
)
from ..reference_rules import (
    end_the_time_with_the_last_place,
    replace_placeholders_on_draining_nodes,
    wait_for_places_that_were_too_small,
)
from .kind import Kind
from .lookups import ask_of, held, is_draining


class NoPlaceOnDrainingNodes(Kind):
    """A draining node gets no real allocations of a gang

    The real ask is placed on another node. YuniKorn starts it on the node that an operator is emptying by then.
    """

    golden = (
        "gangs.txt: On a node that takes nothing new no place is taken: the real one goes to another node, where its "
        "room is kept"
    )
    reference_rules = (replace_placeholders_on_draining_nodes,)

    def taints_from(self, case: Case) -> int | None:
        """Where theirs replaces a placeholder on a draining node, and ours keeps it."""
        where: dict[str, str] = {}
        for number, (ours, theirs) in enumerate(zip(case.our_steps, case.their_steps, strict=True)):
            where |= {e["UUID"]: e.get("nodeID", "") for e in in_step(theirs, "allocation", "new")}
            replaced = [
                {
                    e["UUID"]
                    for e in in_step(step, "allocation", "released")
                    if e.get("terminationType") == "PLACEHOLDER_REPLACED"
                }
                for step in (ours, theirs)
            ]
            kept = held(case.our_steps[: number + 1])
            if any(
                uuid in kept and is_draining(case, number, where.get(uuid, "")) for uuid in replaced[1] - replaced[0]
            ):
                return number
            mine = {e["UUID"]: e.get("nodeID", "") for e in in_step(ours, "allocation", "new")}
            elsewhere = [where[uuid] for uuid in mine if where.get(uuid, mine[uuid]) != mine[uuid]]
            if replaced[1] & replaced[0] and any(is_draining(case, number, node_id) for node_id in elsewhere):
                return number
        return None


class LargerGoOn(Kind):
    """A real ask that is larger than its placeholder is placed

    remuda releases the placeholder and places the ask like any other. In YuniKorn the ask waits until the gang
    times out.
    """

    golden = "gangs.txt: A real ask that is larger than the places goes elsewhere, and they are given up"
    reference_rules = (wait_for_places_that_were_too_small,)

    def taints_from(self, case: Case) -> int | None:
        """Where both give up a place, and ours places real asks of that application in which theirs does not."""
        places: dict[str, Json] = {}
        given_up: list[Json] = []
        for number, (ours, theirs) in enumerate(zip(case.our_steps, case.their_steps, strict=True)):
            placed = [{e["UUID"]: e for e in in_step(step, "allocation", "new")} for step in (ours, theirs)]
            places |= {uuid: e for uuid, e in placed[0].items() if e.get("placeholder")}
            gone = [
                {e["UUID"] for e in in_step(step, "allocation", "released") if e.get("terminationType") == "TIMEOUT"}
                for step in (ours, theirs)
            ]
            given_up += [places[uuid] for uuid in gone[0] & gone[1] if uuid in places]
            more = [e for uuid, e in placed[0].items() if uuid not in placed[1] and not e.get("placeholder")]
            if any(self._is_larger(each, place) for each in more for place in given_up):
                return number
        return None

    def _is_larger(self, real: Json, place: Json) -> bool:
        """Of one gang: it wants more than the placeholder has."""
        has = quantities(place.get("resourcePerAlloc"))
        groups = (real.get("taskGroupName", ""), place.get("taskGroupName", ""))
        return (
            real.get("applicationID") == place.get("applicationID")
            and groups[0] == groups[1] != ""
            and any(amount > has.get(name, 0) for name, amount in quantities(real.get("resourcePerAlloc")).items())
        )


class PlacesGivenUpAreCounted(Kind):
    """Each released placeholder is counted

    YuniKorn's record of a task group leaves out those that are too small or released one by one, and counts twice
    those that are being replaced at the timeout.
    """

    golden = "gangs.txt: Places that are too small are given up, one after the other, and are free for others"

    def explains(self, case: Case, difference: Difference) -> bool:
        path = difference.path
        if path[0] != "dump" or "placeholderData" not in path or path[-1] != "timedout":
            return False
        application, group = path[path.index("placeholderData") - 1], path[-2]
        last = len(case.scenario.steps) if difference.step == FINAL else difference.step
        ours, theirs = difference.ours or 0, difference.theirs or 0
        mine, _ = self._given_up(case.our_steps[: last + 1], application, group)
        other, replaced = self._given_up(case.their_steps[: last + 1], application, group)
        resumed = any(_enters(step, application, "Resuming") for step in case.their_steps[: last + 1])
        failed = any(_enters(step, application, "Failing") for step in case.their_steps[: last + 1])
        twice = replaced if resumed or failed else 0
        return ours == mine and (theirs < other or other < theirs <= other + twice)

    def _given_up(self, steps: list[Json], application: str, group: str) -> tuple[int, int]:
        """How many placeholders were released not to be replaced, and to be replaced."""
        places, gone, replaced = set(), set(), set()
        for _, what, element in received(steps, "allocation", "new", "released"):
            if element.get("applicationID") != application:
                continue
            if what == "new" and element.get("placeholder") and element.get("taskGroupName") == group:
                places.add(element["UUID"])
            elif what == "released" and element.get("terminationType") == "PLACEHOLDER_REPLACED":
                replaced.add(element["UUID"])
            elif what == "released":
                gone.add(element["UUID"])
        return len(places & gone), len(places & replaced)


class RealAsksStay(Kind):
    """A gang that resumes keeps its real asks

    YuniKorn withdraws all asks, not only placeholders, so the application runs only if the RM asks again.
    """

    golden = "gangs.txt: The real asks of a gang that resumes stay"
    reference_rules = (withdraw_all_asks_of_a_gang_that_resumes,)

    def taints_from(self, case: Case) -> int | None:
        """Where both take back something of an application that resumes, and only theirs a real ask."""
        real = {ask_of(e) for _, e in case.asks() if not e.get("placeholder")}
        for number, (ours, theirs) in enumerate(zip(case.our_steps, case.their_steps, strict=True)):
            mine, other = (_timed_out_asks(step) for step in (ours, theirs))
            for name, _ in (other - mine) & real:
                resumes = [_enters(step, name, "Resuming") for step in (ours, theirs)]
                if all(resumes) and not any(each[0] == name for each in mine & real):
                    return number
        return None


def _timed_out_asks(step: Json) -> set[tuple[str, str]]:
    return {ask_of(e) for e in in_step(step, "allocation", "releasedAsks") if e.get("terminationType") == "TIMEOUT"}


def _enters(step: Json, application: str, state: str) -> bool:
    return any(
        (e.get("applicationID", ""), e["state"]) == (application, state)
        for e in in_step(step, "application", "updated")
    )


class ClockInAnyState(Kind):
    """The first placeholder starts the time of a gang, in any state

    Placeholders of a started application time out like others. YuniKorn starts the time only for an Accepted
    application.
    """

    golden = "gangs.txt: The time of a gang starts with its first placeholder, though it has started already"
    reference_rules = (start_the_clock_of_placeholders_while_accepted,)

    def taints_from(self, case: Case) -> int | None:
        """Where only ours gives up places of an application whose first one came when it was not Accepted."""
        for number, (ours, theirs) in enumerate(zip(case.our_steps, case.their_steps, strict=True)):
            mine, other = (self._given_up(case, step) for step in (ours, theirs))
            if any(self._late(case.their_steps[: number + 1], name) for name in mine - other):
                return number
        return None

    def _given_up(self, case: Case, step: Json) -> set[str]:
        """Applications whose placeholders, or asks for such, time out."""
        places = {ask_of(e) for _, e in case.asks() if e.get("placeholder")}
        released = {
            (e.get("applicationID", ""), e.get("UUID", "").partition("#")[0])
            for e in in_step(step, "allocation", "released")
            if e.get("terminationType") == "TIMEOUT"
        }
        return {name for name, key in (released | _timed_out_asks(step)) & places}

    def _late(self, steps: list[Json], application: str) -> bool:
        """It had started when its first placeholder was allocated."""
        state = ""
        for step in steps:
            for callback in step["callbacks"]:
                for each in callback["msg"].get("updated") or ():
                    state = each["state"] if each.get("applicationID", "") == application else state
                for each in callback["msg"].get("new") or ():
                    if each.get("placeholder") and each.get("applicationID", "") == application:
                        return state not in ("", "Accepted")
        return False


class PendingPlacesTimeOut(Kind):
    """A gang times out while only pending placeholders are left

    In YuniKorn the timeout ends with the last allocated placeholder, and the gang may wait for ever for its other
    members.
    """

    golden = "gangs.txt: ... and when it has started: real asks do not wait for places that do not come"
    reference_rules = (end_the_time_with_the_last_place,)

    def taints_from(self, case: Case) -> int | None:
        """Where ours gives up asks for placeholders, of an application without allocated ones, and theirs does not."""
        places = {(e["applicationID"], e["allocationKey"]) for _, e in case.asks() if e.get("placeholder")}
        for number, (ours, theirs) in enumerate(zip(case.our_steps, case.their_steps, strict=True)):
            mine, others = (_timed_out_asks(step) for step in (ours, theirs))
            there = held(case.our_steps[:number]).values()
            holding = {e["applicationID"] for e in there if e.get("placeholder")}
            if any(application not in holding for application, _ in (mine - others) & places):
                return number
        return None
