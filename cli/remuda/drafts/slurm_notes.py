"""Settings of Slurm that have no counterpart, or one elsewhere: tables of keys, each with the reason and what to do."""

from __future__ import annotations

from collections.abc import Iterable

from . import tree
from .notes import Notes
from .slurm_files import Association, Entry, Slurm, is_set

Table = Iterable[tuple[str, str, str, str]]  # key, as Slurm spells it, why, what to do

_PER_JOB = "a limit of one job"
_JOBS = "Have the resource manager check jobs as they are submitted."
_TIMES = ("a bound on the run time of single asks", "Set `executionTimeoutMilliSeconds` of such asks.")
_MEMORY = ("an ask gets the memory that it names", "Have the resource manager name the default.")
_SWITCHES = ("its switches are in another file", tree.NAME_LEVELS)
_ELSEWHERE = (_TIMES, _MEMORY, _SWITCHES)
_PAST = "a budget is for a period"
_BUDGET = "Set `budget` of the queue, with the period that it is for."
_WAITING = "applications that wait are not counted"
_GRACE = ("gracetime", "GraceTime", "the resource manager decides how work ends", "Give it time to end.")
BESIDE_ACCOUNTS = (
    ("maxtime", "MaxTime", "queues are accounts", "Set `runtime.most` of queues."),
    ("defaulttime", "DefaultTime", "queues are accounts", "Set `runtime.default` of queues."),
    ("allowaccounts", "AllowAccounts", "queues are accounts", _JOBS),
    ("allowgroups", "AllowGroups", "queues are accounts", _JOBS),
    ("qos", "QOS", "queues are accounts", "Limit the queues of its accounts."),
    ("prioritytier", "PriorityTier", "queues are accounts", "Raise the priority of asks."),
)
OF_PARTITIONS = (
    ("maxnodes", "MaxNodes", _PER_JOB, _JOBS),
    ("minnodes", "MinNodes", _PER_JOB, _JOBS),
    ("maxcpuspernode", "MaxCPUsPerNode", "nodes are not divided between queues", "Report fewer cores of these nodes."),
    ("denyaccounts", "DenyAccounts", "access lists only allow", "List the groups that may submit in `submitacl`."),
    ("denyqos", "DenyQos", "there is no QOS", _JOBS),
    ("allowqos", "AllowQos", "there is no QOS", _JOBS),
    ("priorityjobfactor", "PriorityJobFactor", "a priority is one number", "Raise the priority of asks."),
    _GRACE,
    (
        "oversubscribe",
        "OverSubscribe",
        "work shares a node, and has what it asks for alone",
        "Ask for as much as it is to have.",
    ),
    ("defmempercpu", "DefMemPerCPU", *_MEMORY),
    ("defmempernode", "DefMemPerNode", *_MEMORY),
    ("maxmempercpu", "MaxMemPerCPU", _PER_JOB, _JOBS),
    ("maxmempernode", "MaxMemPerNode", _PER_JOB, _JOBS),
    ("allocnodes", "AllocNodes", "an ask does not say which host it comes from", _JOBS),
    ("exclusiveuser", "ExclusiveUser", "users share nodes", "Use a predicate of the resource manager."),
    ("tresbillingweights", "TRESBillingWeights", "nothing is billed", "Usage is in the metrics."),
    ("alternate", "Alternate", "an application stays in its queue", "`remuda move` moves it."),
)
# What Slurm has where nothing is set.
_DEFAULTS = {
    "minnodes": ("0", "1"), "priorityjobfactor": ("1",), "prioritytier": ("1",), "gracetime": ("0", "00:00:00"),
    "oversubscribe": ("NO",), "exclusiveuser": ("NO",), "usagefactor": ("1.000000", "1"), "priority": ("0",),
    "flags": (), "maxcpuspernode": (), "defmempercpu": ("0", "UNLIMITED"), "defmempernode": ("0", "UNLIMITED"),
    "maxmempercpu": ("0",), "maxmempernode": ("0",), "allocnodes": ("ALL",),
}  # fmt: skip

# Values that mean something else than the others of their key.
_OF_VALUES = {
    ("oversubscribe", "EXCLUSIVE"): ("asks get what they ask for, not whole nodes", "Ask for as much as a node has.")
}


def note_keys(one: Entry | Association, what: str, table: Table, notes: Notes) -> None:
    """Adds a note for each key of the table that is set to something."""
    for key, label, why, instead in table:
        value = one.keys.get(key, "")
        if is_set(value) and value not in _DEFAULTS.get(key, ()):
            why, instead = _OF_VALUES.get((key, value.upper()), (why, instead))
            note = notes.elsewhere if (why, instead) in _ELSEWHERE else notes.none
            note(one.place, f"{label} {value} of {what}", why, instead)


OF_ASSOCIATIONS = (
    ("maxtres", "MaxTRESPerJob", _PER_JOB, _JOBS),
    ("maxtrespn", "MaxTRESPerNode", _PER_JOB, _JOBS),
    ("maxnodes", "MaxNodesPerJob", _PER_JOB, _JOBS),
    ("maxcpus", "MaxCPUsPerJob", _PER_JOB, _JOBS),
    ("maxsubmit", "MaxSubmitJobs", _WAITING, _JOBS),
    ("grpsubmit", "GrpSubmitJobs", _WAITING, _JOBS),
    ("grpwall", "GrpWall", "run times are not added up", "Usage is in the metrics."),
    ("grptresmins", "GrpTRESMins", _PAST, _BUDGET),
    ("grpcpumins", "GrpCPUMins", _PAST, _BUDGET),
    ("grptresrunmins", "GrpTRESRunMins", "what is left to run is not added up", "Limit what is used at a time."),
    ("maxtresmins", "MaxTRESMins", _PER_JOB, _JOBS),
    ("priority", "Priority", "an association has no priority", "Raise the priority of asks, or `priority.offset`."),
)
OF_USERS = (("maxwall", "MaxWall", *_TIMES),)


def note_qos(one: Entry, of_queues: bool, notes: Notes) -> None:
    """Adds the notes of a QOS. `of_queues`: whether queues have its limits."""
    if one.keys.get("priority", "0") != "0":
        notes.elsewhere(
            one.place, f"Priority {one.keys['priority']} of QOS {one.name}", "asks have a priority",
            f"Give the asks of such jobs the priority {one.keys['priority']}.",
        )  # fmt: skip
    note_keys(one, f"QOS {one.name}", _OF_QOS if of_queues else (*OF_USERS, *_OF_QOS), notes)


_OF_QOS = (
    ("preempt", "Preempt", "guarantees and priorities decide", "Look at the guaranteed resources of queues."),
    _GRACE,
    ("usagefactor", "UsageFactor", "nothing is billed", "Usage is in the metrics."),
    ("maxtres", "MaxTRES", _PER_JOB, _JOBS),
    ("maxtrespn", "MaxTRESPerNode", _PER_JOB, _JOBS),
    ("mintres", "MinTRES", _PER_JOB, _JOBS),
    ("maxtrespa", "MaxTRESPA", "the maximum of a queue is that of the account", "Set `max` of its queue."),
    ("maxjobspa", "MaxJobsPA", "`maxapplications` of a queue is that of the account", "Set it there."),
    ("maxsubmitpu", "MaxSubmitPU", _WAITING, _JOBS),
    ("maxsubmitpa", "MaxSubmitPA", _WAITING, _JOBS),
    ("grpsubmit", "GrpSubmit", _WAITING, _JOBS),
    ("grptresmins", "GrpTRESMins", _PAST, _BUDGET),
    ("flags", "Flags", "a queue has no such switch", "Nothing takes its place."),
)  # fmt: skip

# Settings of slurm.conf that decide what is scheduled. All others are those of its daemons.
_SETTINGS = {
    "priorityusageresetperiod": (
        "PriorityUsageResetPeriod", "past use fades, and is not reset", "Take `fair.half-life` out and put it in again."
    ),
    "priorityflags": ("PriorityFlags", "a priority is one number", "Give asks their priority."),
    "priorityfavorsmall": ("PriorityFavorSmall", "size does not count", "Give small asks a higher priority."),
    "topologyplugin": ("TopologyPlugin", *_SWITCHES),
    "defmempercpu": ("DefMemPerCPU", *_MEMORY),
    "defmempernode": ("DefMemPerNode", *_MEMORY),
    "defmempergpu": ("DefMemPerGPU", *_MEMORY),
    "maxmempercpu": ("MaxMemPerCPU", _PER_JOB, _JOBS),
    "licenses": ("Licenses", "every resource is that of a node", "Bound them by `maxapplications` of a queue."),
    "jobsubmitplugins": ("JobSubmitPlugins", "remuda sees asks, not jobs", _JOBS),
    "preemptexempttime": ("PreemptExemptTime", "all that runs may be preempted", "Asks forbid it."),
    "overtimelimit": ("OverTimeLimit", "work ends at its bound", "Raise `runtime.most` and the bounds of asks."),
}  # fmt: skip


def note_settings(found: Slurm, notes: Notes) -> None:
    for key, (label, why, instead) in _SETTINGS.items():
        value, place = found.settings.get(key, ("", ""))
        if is_set(value) and value.lower() not in ("0", "no", "topology/none", "topology/default", "topology/flat"):
            note = notes.elsewhere if (why, instead) in _ELSEWHERE else notes.none
            note(place, f"{label} {value}", why, instead)
    weights = [key for key in found.settings if key.startswith("priorityweight") and found.settings[key][0] != "0"]
    if weights:
        notes.near(
            found.settings[weights[0]][1], f"{len(weights)} PriorityWeight settings", "ranks are not added up",
            "Priority comes first, then the share, then age; with a half-life, what has waited `fair.patience` (48 h) "
            "goes before the share.",
        )  # fmt: skip
    if found.setting("selecttype") == "select/linear":
        notes.near(
            found.settings["selecttype"][1], "SelectType select/linear", "asks get what they ask for, not whole nodes",
            "Ask for as much as a node has.",
        )  # fmt: skip
    for one in found.includes:
        notes.none(one.place, f"Include {one.name}", "it is not read", "Import this file, too.")
