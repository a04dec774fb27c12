"""Limits and usage of users and groups."""

from __future__ import annotations

from ..case import Case
from ..compare import Difference, meaningful
from ..limited import broken, group_of, levels_of, limits_of, placed
from ..recording import Json
from .kind import Kind
from .lookups import dump_in, last_step


class LimitsHold(Kind):
    """A limit holds exactly

    A user or group never uses more of a queue than its limit allows, per resource, in every queue up to root. The
    reference lets several combinations exceed a limit: limits that do not name every resource, limits on several
    levels, wildcards beside named users. Usage above a limit also corrupts the sums of later decisions.
    """

    golden = "limits.txt: A limit names what it limits, and limits that exactly"
    blind = True

    def taints_from(self, case: Case) -> int | None:
        ours = set(broken(case, case.our_steps))
        return next((step for step, limit in broken(case, case.their_steps) if (step, limit) not in ours), None)


class UsageIsWhatIsUsed(Kind):
    """Usage is the sum of allocations

    The usage of a user, or of a group that has a limit, is the sum of the allocations of its applications. That holds
    also after a limit was added or removed, and after an application with pending asks has released all allocations.
    The reference books an application for ever in the group that was limited when the application arrived. When all
    allocations are released at once while asks are pending, they stay booked.
    """

    golden = "limits.txt: A new configuration has other limits: what runs goes on, and counts where it now has to"

    def explains(self, case: Case, difference: Difference) -> bool:
        path = difference.path
        if path[0] != "dump" or len(path) < 3 or path[1] not in ("users", "groups"):
            return False
        if {"maxResources", "maxApplications"} & {*path[4:]}:  # what a limit allows is not what is used
            return False
        if len(path) == 3:  # all the queues of one user or group
            listed = [difference.ours or {}, difference.theirs or {}]
            return all(
                self.explains(case, Difference(difference.step, (*path, queue), *(each.get(queue) for each in listed)))
                for queue in {**listed[0], **listed[1]}
            )
        last, group = last_step(case, difference.step), path[1] == "groups"
        if group and self._is_booked_anew(case, difference.step, path):
            return True
        if not self._gave_back(case, last, group, path[2]):
            return False
        mine, other = (self._sums(trace, difference.step, path) for trace in (case.ours, case.theirs))
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
        sums = self._sums(case.ours, step, path)
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

    def _sums(self, trace: Json, step: int, path: tuple[str, ...]) -> tuple[Json, Json] | None:
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
