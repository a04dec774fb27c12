"""Slurm's accounts as queues: the tree of associations, FairShare as guaranteed resources, users as access lists,
limits and placement rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml.comments import CommentedMap

from remuda_config.limits import MAX_RULES
from remuda_proto.names import USER

from . import tree
from .amounts import Amounts, shares
from .notes import Notes
from .slurm_files import Association, Entry, Keys, Slurm, capacity_of, hosts, is_set, seconds, tres
from .slurm_notes import OF_ASSOCIATIONS, OF_USERS, note_keys

_DIRECT = "direct"


@dataclass(slots=True)
class _Account:
    association: Association
    below: list[_Account] = field(default_factory=list)
    users: list[Association] = field(default_factory=list)
    is_direct: bool = False  # the leaf of users whose account has accounts below it

    @property
    def name(self) -> str:
        return self.association.account

    @property
    def keys(self) -> Keys:
        return self.association.keys


@dataclass(frozen=True, slots=True)
class Order:
    """How work is ordered in time. `half_life_s` 0: past use does not count."""

    half_life_s: int = 0
    backfills: bool = False

    def of_root(self) -> dict[str, Any]:
        return {"properties": {"fair.half-life": duration(self.half_life_s)}} if self.half_life_s else {}

    def of_leaf(self) -> dict[str, str]:
        return {"application.sort.policy": "fair-users"} if self.half_life_s else {}


def run_times(default_s: int | None, *longest_s: int | None) -> dict[str, str]:
    """Properties of a queue: its bounds on run times. An ask that names no time gets the default; without a default the
    longest time, so that none is refused for naming none."""
    longest = least(*(one or 0 for one in longest_s))
    default = min(default_s, longest or default_s) if default_s else longest
    found = {"runtime.default": default, "runtime.most": longest}
    return {name: duration(time_s) for name, time_s in found.items() if time_s}


def duration(time_s: int) -> str:
    for unit, size in (("h", 3600), ("m", 60)):
        if time_s % size == 0:
            return f"{time_s // size}{unit}"
    return f"{time_s}s"


@dataclass(frozen=True, slots=True)
class _Inherited:
    """The limits that an account passes on to the accounts below."""

    most: Amounts = field(default_factory=dict)
    longest_s: int = 0
    jobs: int = 0
    jobs_per_user: int = 0
    qos: str = ""


class Accounts:
    def __init__(self, found: Slurm, notes: Notes, capacity: Amounts, order: Order) -> None:
        self._found = found
        self._notes = notes
        # Past use is divided by weights; without it, shares are what is guaranteed.
        self._capacity = {} if order.half_life_s else capacity
        self._order = order
        self._paths: dict[str, list[str]] = {}  # leaf -> users whose default account it is
        self._clusters = list(dict.fromkeys(one.cluster for one in found.associations))
        own = [one for one in found.associations if one.cluster == self._clusters[0]]
        self._has_users = any(one.user and one.user != "root" for one in own)
        self._root = self._tree(own)
        self._used_qos: dict[str, list[str]] = {}

    def draft(self, preempts: bool | None, packs: bool) -> CommentedMap:
        self._note_associations()
        inherited = self._passed_on(self._root, _Inherited(), is_root=True)
        queues = list(self._below(self._root, tree.ROOT, inherited, self._capacity))
        rules: list[dict[str, Any]] = [{"name": "provided"}, *self._default_accounts()]
        root: dict[str, Any] = {"maxapplications": inherited.jobs} if inherited.jobs else {}
        self._note_used_qos()
        return tree.document(
            queues, submitacl="" if self._has_users else "*", rules=rules, preemption=preempts, packs_nodes=packs,
            root={**root, **self._order.of_root()}, backfills=self._order.backfills,
        )  # fmt: skip

    def qos(self) -> set[str]:
        """Returns the QOS whose limits queues have, of the draft that was made."""
        return set(self._used_qos)

    # The tree.

    def _tree(self, own: list[Association]) -> _Account:
        accounts: dict[str, _Account] = {}
        for one in own:
            if not one.user and one.account not in accounts:
                accounts[one.account] = _Account(one)
        root = accounts.pop("root", None) or _Account(Association("", self._clusters[0], "root", "", "", {}))
        for account in accounts.values():
            parent = accounts.get(account.association.parent, root)
            if tree.is_below(parent, account):
                parent = root
            parent.below.append(account)
        for one in own:
            if one.user:
                of = accounts.get(one.account, root)
                if of is root and one.account != "root":
                    made = Association(one.place, one.cluster, one.account, "root", "", {})
                    of = accounts[one.account] = _Account(made)
                    root.below.append(of)
                of.users.append(one)
        return root

    def _children(self, account: _Account) -> list[_Account]:
        """The accounts below; users of an account that has accounts below it have a leaf of their own."""
        users = [one for one in account.users if one.user != "root" or account.name != "root"]
        if not account.below or not users:
            return account.below
        own = Association(account.association.place, self._clusters[0], _DIRECT, account.name, "", {})
        own.keys["fairshare"] = str(sum(_share(one.keys) for one in users))
        return [*account.below, _Account(own, users=users, is_direct=True)]

    def _below(self, account: _Account, path: str, inherited: _Inherited, room: Amounts) -> Iterator[tree.Queue]:
        children = self._children(account)
        taken: set[str] = set()
        weights = {str(place): _share(one.keys) for place, one in enumerate(children)}
        parts = {name: shares(name, amount, weights) for name, amount in room.items()}
        for place, one in enumerate(children):
            name = tree.plain_name(one.name, taken)
            if one.is_direct:
                self._notes.near(
                    one.association.place, f"users of account {account.name}", "applications run in leaves only",
                    f"They have a queue {path}.{name}.",
                )  # fmt: skip
            share = {key: amounts[str(place)] for key, amounts in parts.items()}
            yield self._queue(one, name, f"{path}.{name}", inherited, share)

    def _queue(self, account: _Account, name: str, path: str, inherited: _Inherited, share: Amounts) -> tree.Queue:
        passed = self._passed_on(account, inherited)
        own = {key: amount for key, amount in passed.most.items() if inherited.most.get(key) != amount}
        children = self._children(account)
        limits: list[CommentedMap] = []
        access = None
        properties = self._weight(account)
        if not children:
            bounds = self._qos_bounds(passed.qos, path)
            passed = _Inherited(
                least_of(passed.most, bounds.most), least(passed.longest_s, bounds.longest_s),
                least(passed.jobs, bounds.jobs), passed.jobs_per_user,
            )  # fmt: skip
            properties |= {**run_times(None, passed.longest_s), **self._order.of_leaf()}
            own = least_of(own, bounds.most)
            limits = self._user_limits(account, passed, bounds)
            access = self._access(account, path)
        guaranteed = bounded(share, passed.most)
        comment = f"Account {account.name}" if not account.is_direct else "Users of the account itself"
        return tree.Queue(
            name, f"{comment}, FairShare {_share(account.keys)}", guaranteed, own, passed.jobs, properties, access,
            self._coordinators(account), limits,
            list(self._below(account, path, passed, guaranteed)) if children else (),
        )  # fmt: skip

    def _passed_on(self, account: _Account, above: _Inherited, is_root: bool = False) -> _Inherited:
        """The tighter one of what the account has and what is above it."""
        keys = account.keys
        most = limit_of(account.association, "grptres", self._notes)
        if is_root and most:
            self._notes.none(
                account.association.place, f"GrpTRES {keys['grptres']} of the cluster",
                "the resources of root are those of the nodes", "Limit the queues below it.",
            )  # fmt: skip
            most = {}
        return _Inherited(
            least_of(above.most, most), seconds(keys.get("maxwall", "")) or above.longest_s,
            least(above.jobs, count_of(keys, "grpjobs")),
            count_of(keys, "maxjobs") or above.jobs_per_user,
            _qos_of(account, above.qos),
        )  # fmt: skip

    def _weight(self, account: _Account) -> dict[str, str]:
        """FairShare; the least weight of a queue in place of 0, which Slurm serves last."""
        share = _share(account.keys)
        return {"fair.weight": str(share or 0.001)} if self._order.half_life_s and share != 1 else {}

    # Users.

    def _user_limits(self, account: _Account, passed: _Inherited, bounds: Bounds) -> list[CommentedMap]:
        everyone = bounded(bounds.per_user, passed.most)
        jobs = within(least(passed.jobs_per_user, bounds.jobs_per_user), passed.jobs)
        named = {}
        for one in account.users:
            most = limit_of(one, "grptres", self._notes)
            own = least(count_of(one.keys, "grpjobs"), count_of(one.keys, "maxjobs"))
            if (most or own) and USER.matches(one.user):
                amounts = least_of(everyone, bounded(most, passed.most))
                named[one.user] = (amounts, within(least(own, bounds.jobs_per_user), passed.jobs) if own else jobs)
        return limits_of(named, everyone, jobs)

    def _access(self, account: _Account, path: str) -> str | None:
        if not self._has_users:
            return None
        users = []
        for one in account.users:
            if not USER.matches(one.user):
                self._notes.none(one.place, f"user {one.user}", "a user cannot be called so", "The user is left out.")
            elif one.user not in users:
                users.append(one.user)
                default = one.keys.get("defaultaccount")
                if default is None or default == one.account:
                    self._paths.setdefault(path, []).append(one.user)
        return ",".join(users)

    def _coordinators(self, account: _Account) -> str:
        found = [
            one.user
            for one in self._found.associations
            if account.name in one.keys.get("coordinator", "").split(",") and USER.matches(one.user)
        ]
        return ",".join(dict.fromkeys(found))

    def _default_accounts(self) -> Iterator[dict[str, Any]]:
        """A rule for each account that is the default of users."""
        first: dict[str, str] = {}
        for path, users in self._paths.items():
            for user in users:
                first.setdefault(user, path)
        for path, users in list(self._paths.items())[: MAX_RULES - 1]:
            named = [user for user in users if first[user] == path and not user.endswith("$")]
            if named:
                yield {"name": "fixed", "value": path, "filter": tree.flow({"users": named})}
        for path in list(self._paths)[MAX_RULES - 1 :]:
            why = f"there are at most {MAX_RULES} placement rules"
            self._notes.none(path, "DefaultAccount", why, "Have applications name the queue.")

    # Quality of service.

    def _qos_bounds(self, name: str, path: str) -> Bounds:
        if not name:
            return Bounds()
        self._used_qos.setdefault(name, []).append(path)
        return self._qos(name)

    def _qos(self, name: str) -> Bounds:
        found = bounds_of(self._found.qos.get(name), self._notes)
        users = sum(1 for one in self._leaves(self._root, "") if one == name)
        # Limits of a QOS as a whole are those of a queue only where one queue uses it.
        return found if users == 1 else Bounds({}, found.longest_s, 0, found.per_user, found.jobs_per_user)

    def _leaves(self, account: _Account, qos: str) -> Iterator[str]:
        """The QOS of each leaf."""
        own = _qos_of(account, qos)
        children = self._children(account)
        if not children:
            yield own
        for one in children:
            yield from self._leaves(one, own)

    def _note_used_qos(self) -> None:
        for name, paths in self._used_qos.items():
            entry = self._found.qos.get(name)
            if entry is None:
                if name != "normal":  # every cluster has it, mostly without limits
                    self._notes.none(
                        paths[0], f"QOS {name}", "it is not in the files",
                        "Import the output of `sacctmgr show qos -P`, too.",
                    )  # fmt: skip
                continue
            bounds = bounds_of(entry, self._notes)
            if bounds.per_user or bounds.jobs_per_user:
                self._notes.near(
                    entry.place, f"limits of users in QOS {name}", "a limit belongs to a queue",
                    f"They hold in each queue that has it by default: {_listed(paths)}.",
                )  # fmt: skip
            if len(paths) > 1 and (bounds.most or bounds.jobs):
                self._notes.none(
                    entry.place, f"limits of QOS {name} as a whole", f"{len(paths)} queues use it",
                    "Put these queues below one that has the limit.",
                )  # fmt: skip

    # Notes.

    def _note_associations(self) -> None:
        own = [one for one in self._found.associations if one.cluster == self._clusters[0]]
        for cluster in self._clusters[1:]:
            self._notes.none(
                cluster, f"cluster {cluster}", f"queues are those of {self._clusters[0]}", "Import it by itself."
            )
        accounts = [one for one in own if not one.user]
        weighted = [
            one for one in accounts if any(
                _share(one.keys) != _share(other.keys) for other in accounts if one.parent == other.parent
            )
        ]  # fmt: skip
        if weighted and not self._capacity and not self._order.half_life_s:
            self._notes.none(
                weighted[0].place, f"FairShare of {len(weighted)} account{'' if len(weighted) == 1 else 's'}",
                "shares are those of guaranteed resources, and what there is to share is not known",
                "Import slurm.conf with its nodes, too, or give `--capacity vcore=...,memory=...`.",
            )  # fmt: skip
        users = [one for one in own if one.user and "fairshare" in one.keys and _share(one.keys) != 1]
        if users:
            self._notes.none(
                users[0].place, f"FairShare of {len(users)} user{'' if len(users) == 1 else 's'}",
                "users of a queue have equal shares",
                "Give one with a larger share a queue, or bound the others by limits.",
            )  # fmt: skip
        for one in own:
            what = f"user {one.user}" if one.user else f"account {one.account}"
            note_keys(one, what, (*OF_ASSOCIATIONS, *(OF_USERS if one.user else ())), self._notes)
            if "partition" in one.keys and one.user:
                self._notes.none(
                    one.place, f"partition {one.keys['partition']} of {what}", "queues are accounts",
                    "The limits hold in the queue as a whole.",
                )  # fmt: skip
            if one.keys.get("adminlevel", "").lower().startswith(("admin", "oper")) and one.user != "root":
                self._notes.elsewhere(
                    one.place, f"AdminLevel {one.keys['adminlevel']} of {what}", "administrators are a setting",
                    "Name them in `scheduler.acl` of remuda.yaml.",
                )  # fmt: skip


def _share(keys: Keys) -> int:
    """FairShare; `parent` counts as one share."""
    return count_of(keys, "fairshare") or (0 if keys.get("fairshare") == "0" else 1)


def _qos_of(account: _Account, above: str) -> str:
    """The QOS of jobs that name none."""
    listed = [one for one in account.keys.get("qos", "").split(",") if is_set(one)]
    return account.keys.get("defaultqos") or (listed[0] if len(listed) == 1 else "" if listed else above)


def _listed(paths: list[str]) -> str:
    return ", ".join(paths[:5]) + (f" and {len(paths) - 5} more" if len(paths) > 5 else "")


# Resources that are shared out. Kinds of one resource, such as gpu_a100, count as the resource itself.
_MEASURED = ("vcore", "memory", "gpu")
_LABELS = {"grptres": "GrpTRES", "maxtrespu": "MaxTRESPerUser"}


class Nodes:
    """The nodes of slurm.conf by name."""

    def __init__(self, found: Slurm) -> None:
        self._found = found
        self._by_name = {name: capacity_of(one.keys) for one in found.nodes for name in hosts(one.name)}
        self._features = {
            name: set(one.keys.get("feature", one.keys.get("features", "")).split(","))
            for one in found.nodes
            for name in hosts(one.name)
        }

    def total(self) -> Amounts:
        return {name: amount for name, amount in _sum(self._by_name.values()).items() if name in _MEASURED}

    def of(self, partition: Entry) -> frozenset[str]:
        """Returns the names of a partition's nodes."""
        names: set[str] = set()
        for one in hosts(partition.keys.get("nodes", "")):
            if one.upper() == "ALL":
                names.update(self._by_name)
            elif one in self._found.node_sets:
                names |= self._in_set(self._found.node_sets[one].keys)
            else:
                names.add(one)
        return frozenset(names)

    def capacity(self, partition: Entry) -> Amounts:
        """Returns what the nodes of a partition have together; {} if the files do not say."""
        if "tres" in partition.keys:
            amounts, _ = tres(partition.place, partition.keys["tres"])
            return {name: amount for name, amount in amounts.items() if name in _MEASURED}
        found = _sum(self._by_name[name] for name in self.of(partition) if name in self._by_name)
        return {name: amount for name, amount in found.items() if name in _MEASURED}

    def is_everything(self, partition: Entry) -> bool:
        return bool(self._by_name) and self.of(partition) >= self._by_name.keys()

    def _in_set(self, keys: Keys) -> set[str]:
        wanted = keys.get("feature", "")
        by_feature = {name for name, features in self._features.items() if wanted and wanted in features}
        return by_feature | set(hosts(keys.get("nodes", "")))


def _sum(parts: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, 0) + amount
    return total


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of a QOS. `longest_s`: of a job's run time. `per_user`, `jobs_per_user`: of each user."""

    most: Amounts = field(default_factory=dict)
    longest_s: int = 0
    jobs: int = 0
    per_user: Amounts = field(default_factory=dict)
    jobs_per_user: int = 0


def bounds_of(entry: Entry | None, notes: Notes) -> Bounds:
    if entry is None:
        return Bounds()
    return Bounds(
        limit_of(entry, "grptres", notes), seconds(entry.keys.get("maxwall", "")) or 0, count_of(entry.keys, "grpjobs"),
        limit_of(entry, "maxtrespu", notes), count_of(entry.keys, "maxjobspu"),
    )  # fmt: skip


def limit_of(entry: Entry | Association, key: str, notes: Notes) -> Amounts:
    amounts, others = tres(entry.place, entry.keys.get(key, ""))
    for other in others:
        notes.none(
            entry.place, f"{other} of {_LABELS.get(key, key)}", "no ask has this resource",
            "Have the resource manager report it with nodes and asks.",
        )  # fmt: skip
    return amounts


def count_of(keys: Keys, key: str) -> int:
    value = keys.get(key, "")
    return int(value) if value.isdecimal() else 0


def limits_of(named: dict[str, tuple[Amounts, int]], everyone: Amounts, jobs: int) -> list[CommentedMap]:
    """Users with equal limits share one; that of all others is last."""
    alike: dict[tuple[tuple[tuple[str, int], ...], int], list[str]] = {}
    for user, (amounts, own) in named.items():
        alike.setdefault((tuple(sorted(amounts.items())), own), []).append(user)
    made = [tree.limit(users=users, maximum=dict(most), applications=own) for (most, own), users in alike.items()]
    if everyone or jobs:
        made.append(tree.limit(users=["*"], maximum=everyone, applications=jobs))
    return made


def least(*counts: int) -> int:
    """Returns the least of the counts that are set; 0: none is."""
    return min((count for count in counts if count), default=0)


def within(count: int, most: int) -> int:
    """Returns a count of applications, at most that of its queue; 0: no limit."""
    return min(count, most) if count and most else count


def least_of(one: Amounts, other: Amounts) -> Amounts:
    return {key: min(one.get(key, amount), amount) for key, amount in {**one, **other}.items()}


def bounded(amounts: Amounts, most: Amounts) -> Amounts:
    """Returns the amounts, at most those of `most` that it names."""
    return {key: min(amount, most.get(key, amount)) for key, amount in amounts.items()}
