"""Slurm. Where associations are among the files, the tree of accounts becomes the tree of queues; else each partition
of slurm.conf becomes a queue."""

from __future__ import annotations

from ruamel.yaml.comments import CommentedMap

from remuda_proto.names import GROUP

from . import tree
from .amounts import Amounts
from .notes import Notes
from .slurm_accounts import Accounts, Nodes, Order, bounded, bounds_of, least_of, limits_of, run_times, within
from .slurm_files import Entry, Slurm, is_set, is_slurm, read, seconds
from .slurm_notes import BESIDE_ACCOUNTS, OF_PARTITIONS, note_keys, note_qos, note_settings
from .sources import File, NotReadable

NAME = "slurm"


def recognises(file: File) -> bool:
    return is_slurm(file.text)


def translate(files: list[File], notes: Notes, capacity: Amounts) -> CommentedMap:
    """Translates files of Slurm into a draft of queues.yaml. `capacity`: what all nodes have together; without it,
    the capacity of the nodes in slurm.conf. Raises NotReadable.
    """
    found = read(files)
    if not found.partitions and not found.associations:
        raise NotReadable(f"{files[0].name}: no partition and no association inside")
    nodes = Nodes(found)
    note_settings(found, notes)
    preempts = _preempts(found, notes)
    order = Order(_half_life(found, notes), _backfills(found, notes))
    if found.associations:
        accounts = Accounts(found, notes, capacity or nodes.total(), order)
        draft, of_queues = accounts.draft(preempts, _packs(found)), accounts.qos()
        _note_partitions(found, nodes, notes)
    else:
        draft = _Partitions(found, nodes, notes, order).draft(preempts, _packs(found))
        of_queues = {one.keys.get("qos", "") for one in found.partitions}
    for one in found.qos.values():
        note_qos(one, one.name in of_queues, notes)
    return draft


def _packs(found: Slurm) -> bool:
    """Slurm fills nodes, unless the least loaded ones come first."""
    parameters = found.setting("selecttypeparameters").upper()
    by_load = [one.keys.get("lln", "").upper() == "YES" for one in found.partitions]
    return bool(found.settings or found.partitions) and "CR_LLN" not in parameters and not (by_load and all(by_load))


def _half_life(found: Slurm, notes: Notes) -> int:
    """Seconds; 0: past use does not count. Slurm's default is a week."""
    if not found.setting("prioritytype").endswith("multifactor"):
        return 0
    weight, place = found.settings.get("priorityweightfairshare", ("0", ""))
    if weight == "0":
        return 0
    text, place = found.settings.get("prioritydecayhalflife", ("7-0", place))
    half_life = seconds(text)
    if half_life is None:
        notes.none(
            place, f"PriorityDecayHalfLife {text}", "what was used long ago counts less",
            "Set `fair.half-life` of root to a long time, such as 8760h.",
        )  # fmt: skip
    return half_life or 0


def _backfills(found: Slurm, notes: Notes) -> bool:
    kind, place = found.settings.get("schedulertype", ("", ""))
    if kind != "sched/backfill":
        return False
    notes.near(
        place, "SchedulerType sched/backfill", "only asks that have reserved a node are promised a time",
        "All others are passed over by work that ends before it, or that leaves them room.",
    )  # fmt: skip
    return True


def _preempts(found: Slurm, notes: Notes) -> bool | None:
    """None: no slurm.conf says."""
    if not found.settings:
        return None
    kind, place = found.settings.get("preempttype", ("preempt/none", ""))
    mode = found.settings.get("preemptmode", ("OFF", place))[0].upper()
    if not is_set(kind.removeprefix("preempt/")) or mode == "OFF":
        return False
    notes.near(
        place, f"PreemptType {kind}", "a queue preempts for its guaranteed resources, from queues above theirs, of no "
        "higher priority", "Look at the guaranteed resources of what is to preempt.",
    )  # fmt: skip
    if mode not in ("CANCEL", "REQUEUE"):
        notes.near(
            found.settings.get("preemptmode", ("", place))[1], f"PreemptMode {mode}", "nothing is suspended",
            "The resource manager is asked to release, and may submit again.",
        )  # fmt: skip
    return True


class _Partitions:
    def __init__(self, found: Slurm, nodes: Nodes, notes: Notes, order: Order) -> None:
        self._found = found
        self._nodes = nodes
        self._notes = notes
        self._order = order
        tiers = [_tier(one) for one in found.partitions]
        self._lowest = min(tiers, default=1)
        self._has_tiers = len(set(tiers)) > 1
        self._is_open = not any(map(_restricted, found.partitions))
        self._never = [one.keys.get("preemptmode", "").upper() == "OFF" for one in found.partitions]

    def draft(self, preempts: bool | None, packs: bool) -> CommentedMap:
        if preempts is None and all(self._never):  # so `scontrol` shows a cluster without preemption
            preempts = False
        by_tier = bool(preempts) and self._found.setting("preempttype").endswith("partition_prio")
        taken: set[str] = set()
        queues, rules = [], [{"name": "provided"}]
        for one in self._found.partitions:
            queues.append(self._queue(one, tree.plain_name(one.name, taken), by_tier, preempts is not False))
            if one.keys.get("default", "").upper() == "YES":
                rules.append({"name": "fixed", "value": f"{tree.ROOT}.{queues[-1].name}"})
        self._note_nodes()
        return tree.document(
            queues, submitacl="*" if self._is_open else "", rules=rules, preemption=preempts, packs_nodes=packs,
            root=self._order.of_root(), backfills=self._order.backfills,
        )  # fmt: skip

    def _described(self, one: Entry) -> str:
        count = len(self._nodes.of(one))
        return f"{count} node{'' if count == 1 else 's'}" if count else "nodes are not in the files"

    def _queue(self, one: Entry, name: str, by_tier: bool, preempts: bool) -> tree.Queue:
        bounds = bounds_of(self._found.qos.get(one.keys.get("qos", "")), self._notes)
        whole = self._nodes.capacity(one)
        most = {} if self._nodes.is_everything(one) else whole
        most = least_of(most, bounds.most)
        properties = {}
        if self._has_tiers:
            properties.update({"priority.policy": "fence", "priority.offset": str(_tier(one))})
        if preempts and one.keys.get("preemptmode", "").upper() == "OFF":
            properties["preemption.policy"] = "disabled"
        longest = seconds(one.keys.get("maxtime", "")), bounds.longest_s
        properties.update(run_times(seconds(one.keys.get("defaulttime", "")), *longest), **self._order.of_leaf())
        self._note(one, f"{tree.ROOT}.{name}")
        return tree.Queue(
            name, f"Partition {one.name}: {self._described(one)}",
            bounded(whole, most) if by_tier and _tier(one) > self._lowest else {}, most,
            bounds.jobs, properties, self._access(one),
            limits=limits_of({}, bounded(bounds.per_user, most), within(bounds.jobs_per_user, bounds.jobs)),
        )  # fmt: skip

    def _access(self, one: Entry) -> str | None:
        """`AllowGroups` and `AllowAccounts` as groups; None where root lets everyone in."""
        if self._is_open:
            return None
        if one.keys.get("rootonly", "").upper() == "YES":
            return ""
        if not _restricted(one):
            return "*"
        names: list[str] = []
        for key in ("allowgroups", "allowaccounts"):
            listed = [name for name in one.keys.get(key, "").split(",") if is_set(name)]
            bad = [name for name in listed if not GROUP.matches(name)]
            if bad:
                self._notes.none(
                    one.place, f"{key} {', '.join(bad)}", "a group cannot be called so", "They are left out."
                )
            names += (name for name in listed if name not in bad)
            if listed and key == "allowaccounts":
                self._notes.near(
                    one.place, f"AllowAccounts of partition {one.name}", "there are no accounts",
                    "They are groups in `submitacl`: make them groups of users, or import the associations, too.",
                )  # fmt: skip
        return f" {','.join(dict.fromkeys(names))}".rstrip()

    def _note(self, one: Entry, path: str) -> None:
        note_keys(one, f"partition {one.name}", OF_PARTITIONS, self._notes)
        if one.keys.get("state", "UP").upper() not in ("UP", "UNKNOWN"):
            self._notes.elsewhere(
                one.place, f"State {one.keys['state']} of partition {one.name}", "operators hold a queue",
                f"Run `remuda hold RM {path}`.",
            )  # fmt: skip
        qos = one.keys.get("qos", "")
        if is_set(qos) and qos not in self._found.qos:
            self._notes.none(
                one.place, f"QOS {qos} of partition {one.name}", "it is not in the files",
                "Import the output of `sacctmgr show qos -P`, too.",
            )  # fmt: skip

    def _note_nodes(self) -> None:
        """Which nodes a queue may use is not said by queues."""
        parts = [(one, self._nodes.of(one)) for one in self._found.partitions]
        for place, (one, names) in enumerate(parts):
            if not names or self._nodes.is_everything(one):
                continue
            shared = [other.name for at, (other, others) in enumerate(parts) if at != place and names & others]
            instead = "Have asks name a node or an attribute by a predicate of the resource manager"
            if not shared:
                instead += ", or report these nodes in a partition of their own"
            why = "a queue bounds how much is used, not on which nodes"
            if shared:
                why += f"; it shares nodes with {', '.join(shared)}"
            self._notes.elsewhere(one.place, f"Nodes of partition {one.name}", why, f"{instead}.")


def _tier(one: Entry) -> int:
    value = one.keys.get("prioritytier", one.keys.get("priority", "1"))
    return int(value) if value.isdecimal() else 1


def _restricted(one: Entry) -> bool:
    return any(is_set(one.keys.get(key)) for key in ("allowgroups", "allowaccounts")) or (
        one.keys.get("rootonly", "").upper() == "YES"
    )


def _note_partitions(found: Slurm, nodes: Nodes, notes: Notes) -> None:
    """Partitions beside accounts: queues are accounts then."""
    for one in found.partitions:
        count = len(nodes.of(one))
        notes.elsewhere(
            one.place, f"partition {one.name}" + (f" with {count} nodes" if count else ""),
            "queues are accounts, and bound how much is used, not on which nodes",
            "Have asks name their nodes by a predicate of the resource manager, or report nodes in partitions.",
        )  # fmt: skip
        note_keys(one, f"partition {one.name}", (*BESIDE_ACCOUNTS, *OF_PARTITIONS), notes)
