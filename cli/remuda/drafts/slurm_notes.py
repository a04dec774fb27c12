"""What of Slurm has no counterpart, or one elsewhere: tables of keys, each with the reason and what to do."""

from __future__ import annotations

from collections.abc import Iterable

from . import tree
from .notes import Notes
from .slurm_files import Association, Entry, Slurm, is_set

Table = Iterable[tuple[str, str, str, str]]  # key, as Slurm spells it, why, what to do

_PER_JOB = "a limit of one job"
_JOBS = "Have the resource manager check jobs as they are submitted."
_TIMES = ("the resource manager ends what runs too long", "Set `executionTimeoutMilliSeconds` of applications.")
_PAST = "past usage does not count"
_BUDGET = "Lower the maximum when a budget is used up."
_WAITING = "applications that wait are not counted"
_GRACE = ("gracetime", "GraceTime", "the resource manager decides how work ends", "Give it time to end.")
BESIDE_ACCOUNTS = (
    ("allowaccounts", "AllowAccounts", "queues are accounts", _JOBS),
    ("allowgroups", "AllowGroups", "queues are accounts", _JOBS),
    ("qos", "QOS", "queues are accounts", "Limit the queues of its accounts."),
    ("prioritytier", "PriorityTier", "queues are accounts", "Raise the priority of asks."),
)
OF_PARTITIONS = (
    ("maxtime", "MaxTime", *_TIMES),
    ("defaulttime", "DefaultTime", *_TIMES),
    ("maxnodes", "MaxNodes", _PER_JOB, _JOBS),
    ("minnodes", "MinNodes", _PER_JOB, _JOBS),
    ("maxcpuspernode", "MaxCPUsPerNode", "nodes are not divided between queues", "Report fewer cores of these nodes."),
    ("denyaccounts", "DenyAccounts", "access lists only allow", "List the groups that may submit in `submitacl`."),
    ("denyqos", "DenyQos", "there is no QOS", _JOBS),
    ("allowqos", "AllowQos", "there is no QOS", _JOBS),
    ("priorityjobfactor", "PriorityJobFactor", "a priority is one number", "Raise the priority of asks."),
    _GRACE,
    ("oversubscribe", "OverSubscribe", "what an ask has, no other one has", "Ask for less."),
    ("exclusiveuser", "ExclusiveUser", "users share nodes", "Use a predicate of the resource manager."),
    ("tresbillingweights", "TRESBillingWeights", "nothing is billed", "Usage is in the metrics."),
    ("alternate", "Alternate", "an application stays in its queue", "`remuda move` moves it."),
)
# What Slurm has where nothing is set.
_DEFAULTS = {
    "minnodes": ("0", "1"), "priorityjobfactor": ("1",), "prioritytier": ("1",), "gracetime": ("0", "00:00:00"),
    "oversubscribe": ("NO",), "exclusiveuser": ("NO",), "usagefactor": ("1.000000", "1"), "priority": ("0",),
    "flags": (), "maxcpuspernode": (),
}  # fmt: skip


def note_keys(one: Entry | Association, what: str, table: Table, notes: Notes) -> None:
    """Adds a note for each key of the table that is set to something."""
    for key, label, why, instead in table:
        value = one.keys.get(key, "")
        if is_set(value) and value not in _DEFAULTS.get(key, ()):
            note = notes.elsewhere if (why, instead) == _TIMES else notes.none
            note(one.place, f"{label} {value} of {what}", why, instead)


OF_ASSOCIATIONS = (
    ("maxtres", "MaxTRESPerJob", _PER_JOB, _JOBS),
    ("maxtrespn", "MaxTRESPerNode", _PER_JOB, _JOBS),
    ("maxnodes", "MaxNodesPerJob", _PER_JOB, _JOBS),
    ("maxcpus", "MaxCPUsPerJob", _PER_JOB, _JOBS),
    ("maxwall", "MaxWall", *_TIMES),
    ("maxsubmit", "MaxSubmitJobs", _WAITING, _JOBS),
    ("grpsubmit", "GrpSubmitJobs", _WAITING, _JOBS),
    ("grpwall", "GrpWall", _PAST, "Usage is in the metrics."),
    ("grptresmins", "GrpTRESMins", _PAST, _BUDGET),
    ("grpcpumins", "GrpCPUMins", _PAST, _BUDGET),
    ("grptresrunmins", "GrpTRESRunMins", "it is not known how long work runs", "Limit what is used at a time."),
    ("maxtresmins", "MaxTRESMins", _PER_JOB, _JOBS),
    ("priority", "Priority", "an association has no priority", "Raise the priority of asks, or `priority.offset`."),
)


def note_qos(one: Entry, notes: Notes) -> None:
    if one.keys.get("priority", "0") != "0":
        notes.elsewhere(
            one.place, f"Priority {one.keys['priority']} of QOS {one.name}", "asks have a priority",
            f"Give the asks of such jobs the priority {one.keys['priority']}.",
        )  # fmt: skip
    note_keys(one, f"QOS {one.name}", _OF_QOS, notes)


_OF_QOS = (
    ("preempt", "Preempt", "guarantees and priorities decide", "Look at the guaranteed resources of queues."),
    _GRACE,
    ("usagefactor", "UsageFactor", "nothing is billed", "Usage is in the metrics."),
    ("maxwall", "MaxWall", *_TIMES),
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
    "prioritydecayhalflife": ("PriorityDecayHalfLife", _PAST, "Shares are of what is in use now."),
    "priorityusageresetperiod": ("PriorityUsageResetPeriod", _PAST, "Shares are of what is in use now."),
    "priorityflags": ("PriorityFlags", "a priority is one number", "Give asks their priority."),
    "priorityfavorsmall": ("PriorityFavorSmall", "size does not count", "Give small asks a higher priority."),
    "topologyplugin": ("TopologyPlugin", "nodes have no topology", tree.PACK_APPLICATIONS),
    "licenses": ("Licenses", "every resource is that of a node", "Bound them by `maxapplications` of a queue."),
    "jobsubmitplugins": ("JobSubmitPlugins", "remuda sees asks, not jobs", _JOBS),
    "preemptexempttime": ("PreemptExemptTime", "all that runs may be preempted", "Asks forbid it."),
    "overtimelimit": ("OverTimeLimit", *_TIMES),
}  # fmt: skip


def note_settings(found: Slurm, notes: Notes) -> None:
    for key, (label, why, instead) in _SETTINGS.items():
        value, place = found.settings.get(key, ("", ""))
        if is_set(value) and value not in ("0", "topology/none", "topology/default", "topology/flat"):
            notes.none(place, f"{label} {value}", why, instead)
    weights = [key for key in found.settings if key.startswith("priorityweight") and found.settings[key][0] != "0"]
    if weights:
        notes.near(
            found.settings[weights[0]][1], f"{len(weights)} PriorityWeight settings", "a priority is one number",
            "Queues are ordered by share, applications by priority and age.",
        )  # fmt: skip
    scheduler, place = found.settings.get("schedulertype", ("", ""))
    if scheduler == "sched/backfill":
        notes.near(
            place, "SchedulerType sched/backfill", "it is not known how long work runs",
            "An ask that does not fit is passed over, and reserves a node when it has waited.",
        )  # fmt: skip
    if found.settings.get("selecttype", ("", ""))[0] == "select/linear":
        notes.near(
            found.settings["selecttype"][1], "SelectType select/linear", "asks get what they ask for, not whole nodes",
            "Ask for as much as a node has.",
        )  # fmt: skip
    for one in found.includes:
        notes.none(one.place, f"Include {one.name}", "it is not read", "Import this file, too.")
