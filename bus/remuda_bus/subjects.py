"""Every subject, stream and bucket of remuda: the one place where names and limits of the bus are written down.

The public half (`si.v1.>`) is the contract with resource managers, docs/wire-contract.md; the rest is internal.
Knows nothing of NATS clients: it only names things.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

RM_ID = re.compile(r"[A-Za-z0-9_:-]{1,64}")

REQUEST_KINDS = ("application", "allocation", "node", "configuration")
CALLBACK_KINDS = ("application", "allocation", "node", "container", "dead_letter")


def check_rm_id(rm_id: str) -> str:
    """The rmID if it can be part of a subject; ValueError that names it otherwise."""
    if not RM_ID.fullmatch(rm_id):
        raise ValueError(f"rmID {rm_id!r}: expected 1 to 64 of A-Z a-z 0-9 _ : -")
    return rm_id


# Public: what a resource manager uses.


def register(rm_id: str) -> str:
    return f"si.v1.rm.{rm_id}.register"


def request(rm_id: str, kind: str) -> str:
    return f"si.v1.rm.{rm_id}.{kind}"


def callback(rm_id: str, kind: str) -> str:
    return f"si.v1.rm.{rm_id}.callback.{kind}"


def event(rm_id: str) -> str:
    return f"si.v1.rm.{rm_id}.callback.event"


def heartbeat(rm_id: str) -> str:
    """Plain, empty, from the RM: it is there."""
    return f"si.v1.rm.{rm_id}.heartbeat"


def deregister(rm_id: str) -> str:
    return f"si.v1.rm.{rm_id}.deregister"


def report_wanted(rm_id: str) -> str:
    """Plain, empty, from the scheduler: register and report, all that was known of you is gone."""
    return f"si.v1.rm.{rm_id}.report_wanted"


def predicates(rm_id: str) -> str:
    """Requests to the RM: may this ask start on that node?"""
    return f"si.v1.rm.{rm_id}.predicates"


def preemption_predicates(rm_id: str) -> str:
    """Requests to the RM: would this ask start on that node if these allocations went away?"""
    return f"si.v1.rm.{rm_id}.preemption_predicates"


def rm_of(subject: str) -> str:
    """The rmID in any subject that names one: si.v1.rm.<rm>..., remuda.{inbox,log,dead}.<rm>."""
    parts = subject.split(".")
    return parts[3] if parts[0] == "si" else parts[2]


# Internal.


def inbox(rm_id: str) -> str:
    return f"remuda.inbox.{rm_id}"


def log(rm_id: str) -> str:
    return f"remuda.log.{rm_id}"


def dead_letter(rm_id: str) -> str:
    return f"remuda.dead.{rm_id}"


RESOLVE_CONFIGURATION = "remuda.api.config.resolve"
CURRENT_CONFIGURATIONS = "remuda.api.config.current"  # for people: JSON of what is in force for whom


def core_query(rm_id: str, kind: str) -> str:
    """Queries to the core that leads an RM: queues, nodes, applications, explain, stats. Request and reply are JSON."""
    return f"remuda.api.core.{rm_id}.{kind}"


def core_process(instance: str) -> str:
    """What a core process does, for people: JSON."""
    return f"remuda.api.cores.{token(instance)}"


# Headers.

MSG_ID = "Nats-Msg-Id"
EXPECTED_LAST = "Nats-Expected-Last-Subject-Sequence"  # on the first of a batch: the subject must end there
LOG_SEQ = "Remuda-Log-Seq"  # on callbacks and events: stream sequence of the commit they tell of
LOG_HASH = "Remuda-Log-Hash"  # beside LOG_SEQ: of that commit, in hex; it stands for the whole log up to there
EVENT_INDEX = "Remuda-Event-Index"  # on events: which of that commit's records it is, from 0
LOG_FACT = "Remuda-Log-Fact"  # on callbacks: index in that commit of the last fact the message tells, from 0
REGISTRATION = "Remuda-Registration"  # on the reply to `register`, and on what the RM sends from then on: its number
AFTER = "Remuda-After"  # on callbacks: "<LOG_SEQ>.<LOG_FACT>" of the callback before; "0.-1" on the first
APPLICATION = "Remuda-Application"  # on questions to an RM: of the ask in question
PARTITION = "Remuda-Partition"  # on questions to an RM: the plain name
REASON = "Remuda-Reason"  # on dead letters
ORIGIN_SUBJECT = "Remuda-Subject"  # on dead letters: where the message was sent to
ORIGIN_SEQ = "Remuda-Request-Seq"  # on dead letters: its stream sequence there
SERVICE_ERROR = "Nats-Service-Error"
SERVICE_ERROR_CODE = "Nats-Service-Error-Code"
TRACEPARENT = "traceparent"

GIB = 1024**3
DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Stream:
    """A JetStream stream. Full streams refuse (`discard="new"`) wherever a message is somebody's truth."""

    name: str
    subjects: tuple[str, ...]
    why: str
    discard: Literal["new", "old"] = "new"
    max_bytes: int = 8 * GIB
    max_age_s: float = 0.0  # 0: no limit
    max_msgs_per_subject: int = -1
    duplicate_window_s: float = 120.0
    allow_atomic_batch: bool = False


@dataclass(frozen=True, slots=True)
class Bucket:
    """A JetStream key-value bucket. A ':' of an rmID is written '=' in keys (`key_of`), which no rmID contains."""

    name: str
    why: str
    ttl_s: float = 0.0  # 0: entries stay
    history: int = 1


@dataclass(frozen=True, slots=True)
class ObjectBucket:
    """A JetStream object bucket: large values that come in parts. What is in front of the first '.' of a name is its
    owner, which uploads one object at a time."""

    name: str
    why: str
    max_bytes: int = 8 * GIB


def key_of(rm_id: str) -> str:
    return rm_id.replace(":", "=")


def rm_of_key(key: str) -> str:
    return key.replace("=", ":")


REQUESTS = Stream(
    "REQUESTS",
    tuple(f"si.v1.rm.*.{kind}" for kind in REQUEST_KINDS),
    "what RMs ask; trimmed behind what rmproxy has forwarded",
    allow_atomic_batch=True,
)
INBOX = Stream(
    "INBOX",
    ("remuda.inbox.*",),
    "commands in the order the core handles them; with LOG a complete bug report, and trimmed like it",
    allow_atomic_batch=True,  # order: what follows a refused message must not overtake it
)
LOG = Stream("LOG", ("remuda.log.*",), "the truth: commits of facts", max_bytes=64 * GIB)
CALLBACKS = Stream(
    "CALLBACKS",
    tuple(f"si.v1.rm.*.callback.{kind}" for kind in CALLBACK_KINDS),
    "what RMs are told; trimmed behind what they have acknowledged",
    allow_atomic_batch=True,  # order, as in INBOX
)
EVENTS = Stream(
    "EVENTS",
    ("si.v1.rm.*.callback.event",),
    "the event history, derived from LOG, so the oldest may go",
    discard="old",
    max_bytes=2 * GIB,
    max_age_s=7 * DAY_S,
    allow_atomic_batch=True,
)
DEAD_LETTERS = Stream(
    "DEAD_LETTERS",
    ("remuda.dead.*",),
    "what could not be handled, with the reason, for an operator to look at",
    discard="old",
    max_bytes=1 * GIB,
    max_age_s=30 * DAY_S,
)
STREAMS = (REQUESTS, INBOX, LOG, CALLBACKS, EVENTS, DEAD_LETTERS)

# A holder that dies is noticed by asking it, so this is for one that hangs or is cut off; and none is to lose its lease
# because a server of a cluster was replaced, or because the machine was too busy for seconds: where all start anew at
# once, it is busier still.
LEASES = Bucket("remuda_leases", "who leads; an entry that is not renewed goes", ttl_s=6.0)
RMS = Bucket("remuda_rms", "which RMs there are: key_of(rmID) -> JSON of rmproxy's session.Rm")
CONFIGURATIONS = Bucket(
    "remuda_configurations",
    "the last good text, so that a broken file never leaves an RM without; and which text each RM has",
    history=64,
)
EVENT_BOOKMARKS = Bucket(
    "remuda_event_bookmarks",
    'key_of(rmID) -> JSON {"seq", "hash"}: the commit up to which all is told, should EVENTS keep no record of that RM',
)
HALTS = Bucket("remuda_halts", "RMs whose streams have lost or changed their past: key_of(rmID) -> JSON of halts.Halt")
BUCKETS = (LEASES, RMS, CONFIGURATIONS, EVENT_BOOKMARKS, HALTS)

CORE_LEASE = "core"
MEMBER = "member"


def core_lease(rm_id: str) -> str:
    """Key in LEASES: its holder leads the RM."""
    return f"{CORE_LEASE}.{key_of(rm_id)}"


def lease_holder(key: str) -> str:
    """Who holds this lease answers here, with JSON {"holder", "epoch"}."""
    return f"remuda.api.lease.{key}"


def member(instance: str) -> str:
    """Key in LEASES by which a core process announces itself."""
    return f"{MEMBER}.{token(instance)}"


def token(instance: str) -> str:
    """The name of a process as part of a subject or a key."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", instance)


SNAPSHOTS = ObjectBucket(
    "remuda_snapshots", "states to start from: <key_of(rmID)>.<sequence of the last commit that is in it>"
)
OBJECT_BUCKETS = (SNAPSHOTS,)

RMPROXY_LEASE = "rmproxy"  # key in LEASES: its holder forwards requests and tells RMs
EVENTS_LEASE = "events"  # key in LEASES: its holder writes the event history


def callback_consumer(rm_id: str) -> str:
    """Durable on CALLBACKS, one per RM, made anew by rmproxy at each registration, whose number is in its metadata."""
    return f"rm-{key_of(rm_id)}"


def event_consumer(rm_id: str) -> str:
    """Durable on EVENTS, made by an RM that wants events."""
    return f"rm-{key_of(rm_id)}-events"
