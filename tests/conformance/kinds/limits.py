"""Limits and usage of users and groups."""

from __future__ import annotations

from collections.abc import Iterator

from ..case import Case, in_step
from ..compare import Difference, amounts, meaningful
from ..limited import ANYONE, broken, group_of, levels_of, limits_of, placed
from ..recording import Json
from ..reference_configurations import limit_who_is_named_without_amounts_like_anyone
from .kind import Kind
from .lookups import dump_in, held, last_step


class LimitsHold(Kind):
    """A limit holds exactly

    In YuniKorn users exceed limits that do not name every resource, limits on several levels, and wildcards beside
    named users.
    """

    golden = "limits.txt: A limit names what it limits, and limits that exactly"
    blind = True

    def taints_from(self, case: Case) -> int | None:
        ours = set(broken(case, case.our_steps))
        return next((step for step, limit in broken(case, case.their_steps) if (step, limit) not in ours), None)


class NamedIsNotAnyone(Kind):
    """A limit of `*` is not one of a named user

    YuniKorn applies its amounts to a user whose limit in the same queue names only a number of applications.
    """

    golden = (
        "limits.txt: The limit of * does not apply to a user with a limit of his own, nor to one named without amounts"
    )
    reference_rules = (limit_who_is_named_without_amounts_like_anyone,)
    blind = True

    def explains(self, case: Case, difference: Difference) -> bool:
        """Theirs does not count all that the user has allocated, in a queue around such a limit or below it."""
        path = difference.path
        if path[:2] != ("dump", "users") or len(path) < 3 or {"maxResources", "maxApplications"} & {*path[4:]}:
            return False
        if len(path) < 5:  # all queues of the user, or all of one queue
            found = list(below(difference))
            return bool(found) and all(self.explains(case, each) for each in found)
        last = last_step(case, difference.step)
        limited = self._limited(case, last, path[2])
        if not any(f"{queue}.".startswith(f"{path[3]}.") or f"{path[3]}.".startswith(f"{queue}.") for queue in limited):
            return False
        mine, other = (sums_of(trace, difference.step, path) for trace in (case.ours, case.theirs))
        return mine is not None and other is not None and mine[0] == mine[1] and _less(other[0], other[1])

    def taints_from(self, case: Case) -> int | None:
        """Where ours places for such a user what theirs does not, and he has more than `*` allows then."""
        users = {
            each.get("applicationID", ""): str((each.get("ugi") or {}).get("user", ""))
            for _, each in case.applications()
        }
        queues = placed(case)
        for number, (ours, theirs) in enumerate(zip(case.our_steps, case.their_steps, strict=True)):
            mine, other = ({e["UUID"]: e for e in in_step(step, "allocation", "new")} for step in (ours, theirs))
            for name in {e.get("applicationID", "") for uuid, e in mine.items() if uuid not in other}:
                user, path = users.get(name, ""), f"{queues.get(name, '')}."
                for queue, most in self._limited(case, number, user).items():
                    has = self._held(case.our_steps[: number + 1], users, queues, user, queue)
                    if path.startswith(f"{queue}.") and any(has.get(each, 0) > amount for each, amount in most.items()):
                        return number
        return None

    def _limited(self, case: Case, step: int, user: str) -> dict[str, dict[str, int]]:
        """Queues that name the user in a limit without amounts, and `*` in one with amounts: these."""
        found = {}
        configuration = case.configuration_at(step)
        for queue, limits in (limits_of(configuration) if configuration is not None else {}).items():
            own = next((limit for limit in limits if user in limit.users), None)
            anyone = next((limit for limit in limits if ANYONE in limit.users), None)
            if own is not None and anyone is not None and not own.max_resources.resources:
                amounts_of = anyone.max_resources.resources.items()
                if amounts_of:
                    found[queue] = {name: most.value for name, most in amounts_of}
        return found

    def _held(self, steps: list[Json], users: dict[str, str], queues: dict[str, str], user: str, queue: str) -> Json:
        used: Json = {}
        for allocation in held(steps).values():
            name = allocation.get("applicationID", "")
            if users.get(name) == user and f"{queues.get(name, '')}.".startswith(f"{queue}."):
                for each, amount in amounts(allocation.get("resourcePerAlloc")).items():
                    used[each] = used.get(each, 0) + amount
        return used


def below(difference: Difference) -> Iterator[Difference]:
    """The differences one level deeper, of two objects."""
    ours, theirs = difference.ours or {}, difference.theirs or {}
    for name in {**ours, **theirs}:
        mine, other = ours.get(name), theirs.get(name)
        if mine != other:
            yield Difference(difference.step, (*difference.path, name), mine, other)


def _less(one: Json, other: Json) -> bool:
    """Different, and nothing is more."""
    return one != other and all(amount <= other.get(name, 0) for name, amount in one.items())


class UsageIsWhatIsUsed(Kind):
    """Usage is the sum of allocations

    YuniKorn books an application for ever in the group that was limited when it arrived, and keeps allocations
    booked that are released at once while asks are pending.
    """

    golden = "limits.txt: A new configuration has other limits: what runs goes on, and counts where it now has to"

    def explains(self, case: Case, difference: Difference) -> bool:
        path = difference.path
        if path[0] != "dump" or len(path) < 3 or path[1] not in ("users", "groups"):
            return False
        if {"maxResources", "maxApplications"} & {*path[4:]}:  # what a limit allows is not what is used
            return False
        if len(path) == 3:  # all the queues of one user or group
            return all(self.explains(case, each) for each in below(difference))
        last, group = last_step(case, difference.step), path[1] == "groups"
        if group and self._is_booked_anew(case, difference.step, path):
            return True
        if not self._gave_back(case, last, group, path[2]):
            return False
        mine, other = (sums_of(trace, difference.step, path) for trace in (case.ours, case.theirs))
        return mine is not None and mine[0] == mine[1] and (other is None or other[0] != other[1])

    def _is_booked_anew(self, case: Case, step: int, path: tuple[str, ...]) -> bool:
        """Each application that only one of the two books for the group in this queue: in theirs, it was of the group
        when it came, and is no more; in ours the other way round. The sums of ours are right."""
        mine, other = (self._booked(trace, step, path) for trace in (case.ours, case.theirs))
        if mine == other:
            return False
        submitted = {each.get("applicationID", ""): (at.number, each) for at, each in case.applications()}
        for name in mine ^ other:
            came, application = submitted.get(name, (0, {}))
            queue, groups = placed(case).get(name, ""), _groups(application)
            was, now = (self._group(case, at, queue, groups) == path[2] for at in (came, last_step(case, step)))
            if (was, now) != (name in other, name in mine):
                return False
        sums = sums_of(case.ours, step, path)
        return sums is None or sums[0] == sums[1]

    def _group(self, case: Case, step: int, queue: str, groups: list[str]) -> str | None:
        """The one of these groups that limits count in this queue, by the configuration of this step."""
        configuration = case.configuration_at(step)
        return None if configuration is None else group_of(levels_of(limits_of(configuration), queue), groups)

    def _booked(self, trace: Json, step: int, path: tuple[str, ...]) -> set[str]:
        listed = meaningful(dump_in(trace, step)).get(path[1], {}).get(path[2], {}).get(path[3], {})
        return set(listed.get("runningApplications", ()))

    def _gave_back(self, case: Case, last: int, group: bool, name: str) -> bool:
        """An application of the user or group has released everything at once."""
        of = {
            each.get("applicationID", "")
            for _, each in case.applications()
            if name in (_groups(each) if group else [(each.get("ugi") or {}).get("user")])
        }
        return any(
            step.number <= last and not release.get("UUID") and release.get("applicationID", "") in of
            for step, release in case.releases()
        )


def sums_of(trace: Json, step: int, path: tuple[str, ...]) -> tuple[Json, Json] | None:
    """(what is listed, what its running applications have allocated); None where a group is not listed."""
    read = meaningful(dump_in(trace, step))
    listed = read.get(path[1], {}).get(path[2], {}).get(path[3])
    if listed is None and path[1] == "groups":
        return None
    listed = listed or {}
    used: dict[str, int] = {}
    for partition in read.get("partitions", {}).values():
        for name, application in partition.get("applications", {}).items():
            inside = f"{application['queueName']}.".startswith(f"{path[3]}.")
            counts = path[1] == "users" and application["user"] == path[2]
            if inside and (counts or name in listed.get("runningApplications", ())):
                for allocation in application.get("allocations", {}).values():
                    for each, amount in allocation["resource"].items():
                        used[each] = used.get(each, 0) + amount
    return listed.get("resourceUsage", {}), used


def _groups(application: Json) -> list[str]:
    return list((application.get("ugi") or {}).get("groups") or ())
