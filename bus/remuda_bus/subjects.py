"""Every subject, header, stream and bucket of remuda, with its limits. They are declared here and nowhere else.

Subjects under `si.v1.>` are the contract with resource managers (docs/wire-contract.md); all others are internal. This
module knows no NATS client.

An RM's log is named by its rmID. The log of a Peloton resource manager has a name with a '.', which no rmID contains;
that name stands where rmIDs stand in subjects and keys.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from remuda_proto.names import RM_ID

PELOTON = "peloton"
MEMBER = "member"
KEY = re.compile(r"[A-Za-z0-9_=/.-]+")

REQUEST_KINDS = ("application", "allocation", "node", "configuration")
# Actions of operators on an RM: the last token of a request to rmproxy. All but the last become commands of the core.
ACTIONS = (
    "kill_application", "move_application", "hold_queue", "resume_queue", "drain_node",
    "undrain_node", "change_ask_priority", "release_one_allocation", "lend_quota", "end_loan",
    "forget_rm",
)  # fmt: skip
RM_ANSWERS = ("predicates", "preemption_predicates", "batch_predicates", "state_dump")
CALLBACK_KINDS = ("application", "allocation", "node", "container", "dead_letter")


def check_rm_id(rm_id: str) -> str:
    """The rmID, if it may be part of a subject. Raises ValueError that names it otherwise."""
    if not RM_ID.matches(rm_id):
        raise ValueError(f"rmID {rm_id!r}: expected {RM_ID.expected}")
    return rm_id


def check_one_rm(subject: str) -> str:
    """The subject, if it names exactly one RM. Raises ValueError otherwise, as for `*` in place of the rmID, or `>`."""
    parts = subject.split(".")
    at = 3 if parts[0] == "si" else 2
    if len(parts) <= at or ">" in parts or not RM_ID.matches(parts[at]):
        raise ValueError(f"subject {subject[:200]!r}: expected one that names one RM")
    return subject


def check_key(key: str) -> str:
    """The key of a bucket, if it names exactly one entry. Raises ValueError otherwise."""
    if not KEY.fullmatch(key):
        raise ValueError(f"key {key[:200]!r}: expected A-Z a-z 0-9 _ = / . -")
    return key


# Public subjects: the contract with resource managers.


def register(rm_id: str) -> str:
    return f"si.v1.rm.{rm_id}.register"


def request(rm_id: str, kind: str) -> str:
    return f"si.v1.rm.{rm_id}.{kind}"


def callback(rm_id: str, kind: str) -> str:
    return f"si.v1.rm.{rm_id}.callback.{kind}"


def event(rm_id: str) -> str:
    return f"si.v1.rm.{rm_id}.callback.event"


def heartbeat(rm_id: str) -> str:
    """Plain and empty, from the RM: a heartbeat."""
    return f"si.v1.rm.{rm_id}.heartbeat"


def deregister(rm_id: str) -> str:
    return f"si.v1.rm.{rm_id}.deregister"


def report_request(rm_id: str) -> str:
    """Plain and empty, from the scheduler: it has lost the state of the RM, which has to register and report."""
    return f"si.v1.rm.{rm_id}.report_wanted"


def question(rm_id: str, kind: str) -> str:
    """Requests that the RM answers (000): `kind` is one of RM_ANSWERS, or log_level where it is a front end of ours."""
    return f"si.v1.rm.{rm_id}.{kind}"


def rm_of(subject: str) -> str:
    """The rmID in a subject: si.v1.rm.<rm>..., remuda.{inbox,log,dead,ledger}.<rm>."""
    parts = subject.split(".")
    return parts[3] if parts[0] == "si" else parts[2]


# Internal subjects.


def inbox(rm_id: str) -> str:
    return f"remuda.inbox.{rm_id}"


def log(rm_id: str) -> str:
    return f"remuda.log.{rm_id}"


def dead_letter(rm_id: str) -> str:
    return f"remuda.dead.{rm_id}"


def ledger(rm_id: str, hour: int | str) -> str:
    """The subject of the use in an hour. `hour`: its number since 1970, or `*`."""
    return f"remuda.ledger.{rm_id}.{hour}"


def ledger_days(rm_id: str, day: int | str) -> str:
    """The sums of the hours of a day of UTC. `day`: its number since 1970, or `*`."""
    return f"remuda.ledger_days.{rm_id}.{day}"


RESOLVE_CONFIGURATION = "remuda.api.config.resolve"
CURRENT_CONFIGURATIONS = "remuda.api.config.current"  # for people: JSON of the active configurations of all RMs
CONFIGURATION_QUERIES = ("current", "get", "check", "history", "show", "diff")  # those that people may send


def configuration_query(kind: str) -> str:
    """Queries about the configuration and its versions. Request and reply are JSON."""
    return f"remuda.api.config.{kind}"


# Queries to the core about an RM that the RM itself may send, too: they read what there is.
CORE_QUERIES = (
    "queues", "nodes", "applications", "rejections", "allocations", "asks", "usage", "explain", "actions", "stats",
    "overview", "topology", "windows", "forecasts", "digest",
)  # fmt: skip
# Of them, those that are answered from an archive, too: the state at a commit has no forecasts.
PAST_QUERIES = tuple(kind for kind in CORE_QUERIES if kind not in ("forecasts", "digest"))
# Of the past alone: of which times there is a state; a replay is begun; those that are kept; the report of one.
PAST_SPAN, PAST_REPLAY, PAST_REPLAYS, PAST_REPORT = "span", "replay", "replays", "report"
ALL_OF_PAST = (*PAST_QUERIES, PAST_SPAN, PAST_REPLAY, PAST_REPLAYS, PAST_REPORT)
# For operators alone: they take seconds of a processor, and one at a time is answered.
PREVIEW, WHAT_IF, ETA = "preview", "whatif", "eta"
PLAYED_QUERIES = (PREVIEW, WHAT_IF, ETA)
GUESTS = "guests"  # for engines of shared hosts, and operators


def core_query(rm_id: str, kind: str) -> str:
    """Queries to a core about an RM: one of CORE_QUERIES or PLAYED_QUERIES, or GUESTS. Request and reply are JSON."""
    return f"remuda.api.core.{rm_id}.{kind}"


def past_query(rm_id: str, kind: str) -> str:
    """Queries about the past of an RM, to a service that reads an archive: one of ALL_OF_PAST. No RM can send them."""
    return f"remuda.api.past.{rm_id}.{kind}"


def leader_query(rm_id: str, kind: str) -> str:
    """Queries as of `core_query`, passed on to the leader of the RM by another core. RMs cannot send them."""
    return f"remuda.api.leader.{rm_id}.{kind}"


def core_process(instance: str) -> str:
    """Queries to a core process about itself, for people. The reply is JSON."""
    return f"remuda.api.cores.{token(instance)}"


def story(rm_id: str) -> str:
    """Queries to an event service for the story of an application, ask, allocation, node or queue. JSON."""
    return f"remuda.api.story.{rm_id}"


def front_end(instance: str, service: str = "grpc") -> str:
    """Queries to a front end about itself, for people. The reply is JSON: "host", "port", and of gRPC the number of
    "rms", of web the "scheme"."""
    return f"remuda.api.{service}.{token(instance)}"


STORAGE = "remuda.api.storage"  # disk space of the machine of `remuda up`: JSON {"free", "total", "level", "failed"}
STORAGE_CHANGED = "remuda.event.storage"  # the same JSON, published when `level` or `failed` changes


# Subjects of operators: the name and the groups of the operator are part of them.


def configuration_change(operator: str, groups: str, verb: str) -> str:
    """Changes of the configuration: update, rollback, confirm. `operator`, `groups`: as in `administration`."""
    return f"remuda.configuration.{operator}.{groups}.{verb}"


def own_configuration_change(verb: str) -> str:
    """Requests as of `configuration_change` in the account of an operator, as `own_administration`."""
    return f"remuda.configure.{verb}"


def operator_method(service: str, method: str) -> str:
    """Requests to a front end for a method of remuda.v1.Admin or Metrics (docs/api.md). In an operator's account, all
    methods; in the account of the services, those that read. `service`: admin or metrics."""
    return f"remuda.api.{service}.{method}"


def operator_change(operator: str, groups: str, method: str) -> str:
    """Requests to a front end for a method of remuda.v1.Admin that acts. `operator`, `groups`: as in
    `administration`. The NATS server maps `operator_method` of an operator's account to it."""
    return f"remuda.operate.{operator}.{groups}.{method}"


def administration(operator: str, groups: str, rm_id: str, action: str) -> str:
    """Requests of operators to rmproxy: kill an application, drain a node and so on. `operator`, `groups`: as
    `operators` encodes them. Without keys a client states both. With keys the server does (`own_administration`)."""
    return f"remuda.admin.{operator}.{groups}.{rm_id}.{action}"


def own_administration(rm_id: str, action: str) -> str:
    """Requests as of `administration` in the account of an operator. The NATS server maps the subject to
    `administration` with the operator's name and groups."""
    return f"remuda.administer.{rm_id}.{action}"


def log_level(service: str) -> str:
    """Changes of the log level: all processes of the service answer. JSON. For administrators of the system, and for
    operators whom the owner of the keys names."""
    return f"remuda.process.{service}.log_level"


PELOTON_QUERIES = ("pools", "explain", "story", "preview")


def peloton_pools(cluster: str) -> str:
    """Changes of the pools of Peloton's resource manager. JSON. For administrators of the system."""
    return f"remuda.peloton.{cluster}.pools"


def peloton_change(operator: str, groups: str, cluster: str) -> str:
    """Changes as of `peloton_pools` in the name of an operator. `operator`, `groups`: as in `administration`."""
    return f"remuda.pools.{operator}.{groups}.{cluster}"


def own_peloton_change(cluster: str) -> str:
    """Requests as of `peloton_change` in the account of an operator, as `own_administration`."""
    return f"remuda.pools.{cluster}"


def peloton_query(cluster: str, kind: str) -> str:
    """Queries of operators to Peloton's resource manager: one of PELOTON_QUERIES. Request and reply are JSON."""
    return f"remuda.api.peloton.{cluster}.{kind}"


GUEST_KINDS = ("application", "allocation")


def guest_request(cluster: str, rm_id: str, kind: str) -> str:
    """Requests of a cluster of Peloton whose tasks are guests in the RM's partitions: an ApplicationRequest or an
    AllocationRequest of si.v1. JSON answer."""
    return f"remuda.guest.{cluster}.{rm_id}.{kind}"


# Names of logs, and where each log is.


def peloton_log(cluster: str) -> str:
    """The name of the log of a Peloton resource manager, in place of an rmID. Raises ValueError."""
    if not RM_ID.matches(cluster):
        raise ValueError(f"cluster {cluster!r}: expected {RM_ID.expected}")
    return f"{PELOTON}.{cluster}"


def peloton_rpc(cluster: str, role: str, name: str) -> str:
    """RPCs of a Peloton resource manager as endpoints of a NATS micro service: the same messages as over gRPC. `role`:
    of those that may call the RPC (`remuda_peloton.rules.access`)."""
    return f"{PELOTON}.{cluster}.{role}.{name}"


def peloton_rpc_of(client: str, cluster: str, role: str, name: str) -> str:
    """RPCs as of `peloton_rpc` for a client with a key of its own. `client`: its name, as `operators` encodes it. In
    the account of such a client the subject is that of `peloton_rpc`, and the NATS server adds the name."""
    return f"{peloton_rpc(cluster, role, name)}.{client}"


def is_peloton(log_id: str) -> bool:
    return log_id.startswith(f"{PELOTON}.")


def log_stream(log_id: str) -> str:
    """The stream of the log."""
    return "PELOTON_LOG" if is_peloton(log_id) else "LOG"


def inbox_stream(log_id: str) -> str:
    """The stream of the inbox."""
    return "PELOTON_INBOX" if is_peloton(log_id) else "INBOX"


def snapshots_of(log_id: str) -> str:
    """The object bucket with the snapshots of the log."""
    return "remuda_peloton_snapshots" if is_peloton(log_id) else "remuda_snapshots"


def member_kind(log_id: str) -> str:
    """The kind of the processes that lead or follow the log: cores, or Peloton's resource managers of one cluster."""
    return log_id.replace(":", "=") if is_peloton(log_id) else MEMBER


def member(instance: str, kind: str = MEMBER) -> str:
    """Key in LEASES: the lease of a process of the kind (`member_kind`)."""
    return f"{kind}.{token(instance)}"


def token(instance: str) -> str:
    """The name of a process as part of a subject or a key."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", instance)


# Headers.

MSG_ID = "Nats-Msg-Id"
EXPECTED_LAST = "Nats-Expected-Last-Subject-Sequence"  # on the first message of a batch: the last one of its subject
LOG_SEQ = "Remuda-Log-Seq"  # on callbacks and events: stream sequence of the commit they are derived from
LOG_HASH = "Remuda-Log-Hash"  # beside LOG_SEQ: SHA-256 of that commit, in hex
EVENT_INDEX = "Remuda-Event-Index"  # on events: index of the record among those of its commit, from 0
LOG_FACT = "Remuda-Log-Fact"  # on callbacks: index in that commit of the last fact in the message, from 0
REGISTRATION = "Remuda-Registration"  # on the reply to `register`, requests and heartbeats: number of the registration
NO_REGISTRATION = 0  # of the consumer of an RM that has deregistered
RESUME = "Remuda-Resume"  # on an empty request to `register`: make the consumers of the registration again
AFTER = "Remuda-After"  # on callbacks: "<LOG_SEQ>.<LOG_FACT>" of the callback before; "0.-1" on the first
APPLICATION = "Remuda-Application"  # on questions to an RM: the application of the ask
PARTITION = "Remuda-Partition"  # on questions to an RM: the plain name of the partition
REASON = "Remuda-Reason"  # on dead letters: the reason
ORIGIN_SUBJECT = "Remuda-Subject"  # on dead letters: the subject of the request
ORIGIN_SEQ = "Remuda-Request-Seq"  # on dead letters: the stream sequence of the request
SERVICE_ERROR = "Nats-Service-Error"
SERVICE_ERROR_CODE = "Nats-Service-Error-Code"
TRACEPARENT = "traceparent"

GIB = 1024**3
DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Stream:
    """A JetStream stream. A full stream refuses new messages (`discard="new"`) unless its messages are only
    informative."""

    name: str
    subjects: tuple[str, ...]
    why: str
    discard: Literal["new", "old"] = "new"
    max_bytes: int = 8 * GIB
    max_age_s: float = 0.0  # 0: no limit
    # Messages per subject; -1: no limit. Beyond it, the stream refuses messages on that subject (`discard="new"`), or
    # deletes the oldest ones of that subject (`discard="old"`). Other subjects are not affected.
    max_msgs_per_subject: int = -1
    max_consumers: int = 0  # 0: the server's default, 1,000
    duplicate_window_s: float = 120.0
    allow_atomic_batch: bool = False


@dataclass(frozen=True, slots=True)
class Bucket:
    """A JetStream key-value bucket. A ':' of an rmID is written '=' in keys (`key_of`), which no rmID contains."""

    name: str
    why: str
    ttl_s: float = 0.0  # 0: entries do not expire
    history: int = 1


@dataclass(frozen=True, slots=True)
class ObjectBucket:
    """A JetStream object bucket: large values, uploaded in parts. The name of an object up to its first '.' is its
    owner, which uploads one object at a time."""

    name: str
    why: str
    max_bytes: int = 8 * GIB


def key_of(rm_id: str) -> str:
    """The rmID as part of a key: each ':' becomes '=', which no rmID contains."""
    return rm_id.replace(":", "=")


def rm_of_key(key: str) -> str:
    """The rmID in a key: the inverse of `key_of`."""
    return key.replace("=", ":")


# Each RM may have a durable consumer on CALLBACKS and on EVENTS: room for twice as many RMs as one system should have.
CONSUMERS_OF_RMS = 10_000

REQUESTS = Stream(
    "REQUESTS",
    tuple(f"si.v1.rm.*.{kind}" for kind in REQUEST_KINDS),
    "what RMs ask; trimmed behind what rmproxy has forwarded",
    # Requests are forwarded within milliseconds and trimmed soon after. Only an RM that floods, or waits for its core,
    # has so many.
    max_msgs_per_subject=100_000,
    allow_atomic_batch=True,
)
INBOX = Stream(
    "INBOX",
    ("remuda.inbox.*",),
    "commands in the order the core handles them; with LOG a complete bug report, and trimmed like it",
    allow_atomic_batch=True,  # for order: later messages must not overtake a refused one
)
LOG = Stream("LOG", ("remuda.log.*",), "the truth: commits of facts", max_bytes=64 * GIB)
PELOTON_INBOX = Stream("PELOTON_INBOX", (f"remuda.inbox.{PELOTON}.*",), "RPCs; trimmed like the log", max_bytes=3 * GIB)
PELOTON_LOG = Stream("PELOTON_LOG", (f"remuda.log.{PELOTON}.*",), "commits of facts and answers", max_bytes=7 * GIB)
CALLBACKS = Stream(
    "CALLBACKS",
    tuple(f"si.v1.rm.*.callback.{kind}" for kind in CALLBACK_KINDS),
    "what RMs are told; trimmed behind what they have acknowledged",
    # Of each kind. rmproxy publishes no more while 10,000 are not acknowledged, and deletes acknowledged ones every ten
    # seconds.
    max_msgs_per_subject=100_000,
    max_consumers=CONSUMERS_OF_RMS,
    allow_atomic_batch=True,  # for order, as in INBOX
)
EVENTS = Stream(
    "EVENTS",
    ("si.v1.rm.*.callback.event",),
    "the event history, derived from LOG, so the oldest may go",
    discard="old",
    max_bytes=2 * GIB,
    max_age_s=7 * DAY_S,
    max_msgs_per_subject=1_000_000,  # a tenth of the stream, so one RM does not displace the events of others
    max_consumers=CONSUMERS_OF_RMS,
    allow_atomic_batch=True,
)
DEAD_LETTERS = Stream(
    "DEAD_LETTERS",
    ("remuda.dead.*",),
    "what could not be handled, with the reason, for an operator to look at",
    discard="old",
    max_bytes=1 * GIB,
    max_age_s=30 * DAY_S,
    # More than an operator reads. rmproxy keeps at most 64 kB of each, so an RM fills at most a sixteenth of the
    # stream.
    max_msgs_per_subject=1_000,
    allow_atomic_batch=True,
)
LEDGER = Stream(
    "LEDGER",
    ("remuda.ledger.*.*", "remuda.ledger_days.*.*"),
    "closed hours of use, and their sums by day, derived from LOG; empty unless events.ledger is set",
    discard="old",
    max_bytes=3 * GIB,  # an RM with a thousand applications in each hour adds some 100 MB a year
    max_age_s=400 * DAY_S,  # a year, and the month that is compared with that of the year before
    allow_atomic_batch=True,
)
STREAMS = (REQUESTS, INBOX, LOG, CALLBACKS, EVENTS, DEAD_LETTERS, LEDGER, PELOTON_INBOX, PELOTON_LOG)

# Requests to its holder detect a dead one, so the expiry is for holders that hang or are cut off. It is long enough for
# the replacement of a server in a cluster and for a machine that is busy for seconds.
LEASES = Bucket("remuda_leases", "the processes that work; an entry that is not renewed goes", ttl_s=6.0)
LEADERS = Bucket(
    "remuda_leaders",
    "key_of(rmID) -> JSON of leaders.Ownership: the core process that leads the RM, as long as its lease is valid",
)
RMS = Bucket("remuda_rms", "which RMs there are: key_of(rmID) -> JSON of rmproxy's RmRecord")
CONFIGURATIONS = Bucket(
    "remuda_configurations",
    "the last good text, so that a broken file never leaves an RM without; and which text each RM has",
    history=64,
)
EVENT_BOOKMARKS = Bucket(
    "remuda_event_bookmarks",
    'key_of(rmID) -> JSON {"seq", "hash"}: the commit up to which all is told, should EVENTS keep no record of that '
    "RM; ledger_key(rmID) -> JSON of remuda_operations.ledger.bookmark.Bookmark",
)
HALTS = Bucket("remuda_halts", "RMs whose streams have lost or changed their past: key_of(rmID) -> JSON of halts.Halt")
FAULTS = Bucket("remuda_faults", "exceptions at a message of an RM: fault_key(rmID, stream) -> JSON of faults.Fault")
FORGOTTEN = Bucket(
    "remuda_forgotten",
    "LIFE -> when an RM was forgotten last, ms since 1970: the life of RMs without a record; keeps UUIDs unique",
)
FRONT_ENDS = Bucket(
    "remuda_front_ends",
    'key_of(rmID) -> JSON {"instance", "token"}: the gRPC front end that an RM is connected to: the newest claim',
)
CONFIGURATION_VERSIONS = Bucket(
    "remuda_configuration_versions",
    "version_key -> JSON of remuda_config.versions.Version with its text; keys are reused in turn, which bounds them",
)
BUCKETS = (
    LEASES, LEADERS, RMS, CONFIGURATIONS, CONFIGURATION_VERSIONS, EVENT_BOOKMARKS, HALTS, FAULTS, FORGOTTEN, FRONT_ENDS,
)  # fmt: skip
LIFE = "life"


def configuration_key(rm_id: str) -> str:
    """Key in CONFIGURATIONS: the entry that names the text of the RM."""
    return f"rm.{key_of(rm_id)}"


FILE_VERSIONS_KEPT = 64  # some months of changes; each takes at most twice the largest text (4 MB)
RM_VERSIONS_KEPT = 8  # of one RM, of which there may be 5,000, each with another text in each request


def version_key(number: int, rm_id: str | None = None) -> str:
    """Key in CONFIGURATION_VERSIONS: a version of the text that an RM has brought, or of the file's configuration."""
    return f"rm.{key_of(rm_id)}.{number % RM_VERSIONS_KEPT}" if rm_id else f"file.{number % FILE_VERSIONS_KEPT}"


def fault_key(rm_id: str, stream: str) -> str:
    """Key in FAULTS: the newest fault of the RM at a message of this stream."""
    return f"{key_of(rm_id)}.{stream}"


def forget_lease(rm_id: str) -> str:
    """Key in LEASES: the lease of the process that forgets the RM."""
    return f"forget.{key_of(rm_id)}"


def engine_lease(cluster: str, rm_id: str, partition: str) -> str:
    """Key in LEASES: the lease of the engine that places tasks of Peloton on nodes of the RM's partition."""
    return f"engine.{token(cluster)}={key_of(rm_id)}={token(partition)}"


def lease_holder(key: str) -> str:
    """Requests to the holder of a lease. The reply is JSON {"holder", "epoch"}."""
    return f"remuda.api.lease.{key}"


SNAPSHOTS = ObjectBucket(
    "remuda_snapshots", "states to start from: <key_of(rmID)>.<sequence of the last commit that is in it>"
)
PELOTON_SNAPSHOTS = ObjectBucket("remuda_peloton_snapshots", "the same of Peloton's logs", max_bytes=2 * GIB)
LEDGERS = ObjectBucket(
    "remuda_ledgers",
    "hours of ledgers that are not closed: <key_of(rmID)>.<sequence of the last commit that is in it>",
    max_bytes=2 * GIB,
)
OBJECT_BUCKETS = (SNAPSHOTS, PELOTON_SNAPSHOTS, LEDGERS)

RMPROXY_LEASE = "rmproxy"  # key in LEASES: its holder forwards requests and publishes callbacks
EVENTS_LEASE = "events"  # key in LEASES: its holder writes the event history
ARCHIVE_LEASE = "archive"  # key in LEASES: its holder writes the archive


_OF_LEDGER = ".ledger"


def ledger_key(rm_id: str) -> str:
    """Key in EVENT_BOOKMARKS: where the ledger of the RM has got to, if the RM has one."""
    return f"{key_of(rm_id)}{_OF_LEDGER}"


def rm_of_ledger_key(key: str) -> str | None:
    """The rmID in such a key; None: it is another one."""
    return rm_of_key(key.removesuffix(_OF_LEDGER)) if key.endswith(_OF_LEDGER) else None


def callback_consumer(rm_id: str) -> str:
    """The durable consumer of an RM on CALLBACKS. rmproxy replaces it at each registration, whose number is in its
    metadata."""
    return f"rm-{key_of(rm_id)}"


def event_consumer(rm_id: str) -> str:
    """The durable consumer on EVENTS of an RM that reads events."""
    return f"rm-{key_of(rm_id)}-events"
