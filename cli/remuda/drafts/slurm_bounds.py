"""Bounds of Slurm in amounts of remuda: limits of associations and QOS, and what nodes have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ruamel.yaml.comments import CommentedMap

from . import tree
from .amounts import Amounts
from .notes import Notes
from .slurm_files import Association, Entry, Keys, Slurm, capacity_of, hosts, tres

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
        """The names of a partition's nodes."""
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
        """What the nodes of a partition have together; {} if the files do not say."""
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
    """What a QOS bounds. `per_user`, `jobs_per_user`: of each user."""

    most: Amounts = field(default_factory=dict)
    jobs: int = 0
    per_user: Amounts = field(default_factory=dict)
    jobs_per_user: int = 0


def bounds_of(entry: Entry | None, notes: Notes) -> Bounds:
    if entry is None:
        return Bounds()
    return Bounds(
        limit_of(entry, "grptres", notes), count_of(entry.keys, "grpjobs"),
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
    """The least of the counts that are set; 0: none is."""
    return min((count for count in counts if count), default=0)


def within(count: int, most: int) -> int:
    """A count of applications, at most that of its queue; 0: no limit."""
    return min(count, most) if count and most else count


def least_of(one: Amounts, other: Amounts) -> Amounts:
    return {key: min(one.get(key, amount), amount) for key, amount in {**one, **other}.items()}
