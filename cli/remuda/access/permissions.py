"""Permissions of each role on the bus, as NATS permissions: the only place that defines them.

A service gets what its code uses and nothing else. An RM lives in an account of its own, in which nothing exists but
what is imported for it (`rm_imports`): so even a reply subject that it invents leads nowhere but to itself. In one
account with the services it could have the server put the answer to a harmless request onto any subject, for JetStream
does not check which client chose the reply subject. Pure: knows names, not keys or files.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from remuda_bus import subjects
from remuda_bus.subjects import peloton_rpc, peloton_rpc_of
from remuda_operations.operator_api.methods import ACTING, READING
from remuda_operations.operators import Operator, client_token

SERVICES = (
    "core", "rmproxy", "config", "events", "grpc", "web", "resmgr", "placement", "archive", "history", "shadow",
)  # fmt: skip
FRONT_ENDS = ("grpc", "web")  # they act in the names of operators, as far as they are allowed to
PELOTON_CLIENTS = ("peloton-jobs", "peloton-hosts", "peloton-pools")  # over NATS; others use gRPC and certificates
ROLES = (*SERVICES, *PELOTON_CLIENTS, "operator", "admin")
MONITOR = "monitor"  # reads server metrics, in the system account
RM_DOMAIN = "remuda"  # the JetStream domain in the accounts of RMs
ANSWER_WITHIN = "15s"  # longer than the time-out of predicate requests to an RM
LOG_LEVELS = subjects.log_level("*")
ANYONE = "*"  # any operator, in any groups


@dataclass(frozen=True, slots=True)
class Permissions:
    publish: tuple[str, ...]
    subscribe: tuple[str, ...]
    answers: bool = False  # may answer each message that it receives once, on its reply subject

    def as_nats(self) -> dict[str, object]:
        """Returns the permissions in the form of the server's configuration."""
        allowed: dict[str, object] = {
            "publish": {"allow": list(self.publish)},
            "subscribe": {"allow": list(self.subscribe)},
        }
        if self.answers:
            allowed["allow_responses"] = {"max": 1, "expires": ANSWER_WITHIN}
        return allowed


def of_role(role: str, acts_as: Iterable[Operator | str] = ()) -> Permissions:
    """Returns the permissions of a role.

    `acts_as`: the operators in whose names a front end may act, with exactly these groups, or ANYONE. Raises KeyError
    when there is no such role.
    """
    publish, subscribe = _BY_ROLE[role]
    publish = (*publish, *(subject for operator in acts_as for subject in _acting_as(operator)))
    name = "remuda-cli" if role in ("operator", "admin") else f"remuda-{role}"
    own = (f"_INBOX.{name}.>",)
    if role in SERVICES:
        return Permissions(
            (*publish, *_EVERY_SERVICE, *_ANSWERS_TO), (*subscribe, *own, *_micro(name), subjects.log_level(role))
        )
    return Permissions(publish, (*subscribe, *own))


def _acting_as(operator: Operator | str) -> list[str]:
    name, groups = (operator, operator) if isinstance(operator, str) else (operator.token, operator.groups_token)
    acts = [subjects.administration(name, groups, "*", action) for action in subjects.ACTIONS]
    pools = subjects.peloton_change(name, groups, "*")
    return [subjects.configuration_change(name, groups, "*"), pools, *acts]


def of_rm(rm_id: str) -> Permissions:
    """Returns the permissions of an RM, in its own account."""
    name = subjects.callback_consumer(rm_id)
    publish = [local for _, local, _ in rm_imports(rm_id)]
    subscribe = [subject for _, subject in rm_exports(rm_id)]
    return Permissions(
        tuple(publish), (*subscribe, f"_INBOX.{name}.>", "_INBOX.remuda-cli.>", *_micro(name)), answers=True
    )


def of_operator(operator: Operator, *, logs: bool = False) -> Permissions:
    """Returns the permissions of an operator, in an account of its own. `logs`: may change log levels of services."""
    local = [one for one, _ in operator_imports(operator)]
    return Permissions((*local, *([LOG_LEVELS] if logs else [])), ("_INBOX.remuda-cli.>",))


def of_client() -> Permissions:
    """Returns the permissions of a client of Peloton's resource manager, in an account of its own."""
    return Permissions((peloton_rpc("*", "*", "*"),), ("_INBOX.>",))


def client_import(client: str) -> tuple[str, str]:
    """Returns (subject there, subject in the account of the services) of what such a client may send to the
    services.

    The second subject contains the client's name, which the client does not send. Peloton's resource manager knows its
    roles and pools.
    """
    return peloton_rpc("*", "*", "*"), peloton_rpc_of(client_token(client), "*", "*", "*")


def operator_imports(operator: Operator) -> list[tuple[str, str]]:
    """Returns (subject there, subject in the account of the services) of what the operator may send to the services.

    The second subject of an action or a change contains the operator's name and groups, which the operator does not
    send.
    """
    acts = subjects.administration(operator.token, operator.groups_token, "*", "*")
    changes = subjects.configuration_change(operator.token, operator.groups_token, "*")
    name, groups = operator.token, operator.groups_token
    acting = [(subjects.operator_method("admin", one), subjects.operator_change(name, groups, one)) for one in ACTING]
    queries = [subjects.configuration_query(kind) for kind in subjects.CONFIGURATION_QUERIES]
    queries += [subjects.operator_method(service, method) for service, method in READING]
    return [
        (subjects.own_administration("*", "*"), acts),
        (subjects.own_configuration_change("*"), changes),
        (subjects.own_peloton_change("*"), subjects.peloton_change(name, groups, "*")),
        *acting,
        *((query, query) for query in (_ANY_QUERY, _ANY_PAST, _ANY_OF_PELOTON, *queries)),
    ]


def rm_imports(rm_id: str) -> list[tuple[str, str, str]]:
    """Returns (kind of answer, subject there, subject in the account of the services) of what the RM may send to the
    services and to JetStream.

    The API of JetStream has another name there: under the usual one the server itself would answer first that the RM's
    account has no JetStream.
    """
    sends = [("singleton", f"si.v1.rm.{rm_id}.{kind}") for kind in _RM_SENDS]
    # About itself: why it waits, what it uses. Not previews or searches, which one RM could keep from all others.
    sends += [("singleton", subjects.core_query(rm_id, kind)) for kind in subjects.CORE_QUERIES]
    sends += [("singleton", f"$JS.ACK.{stream}.{durable}.>") for stream, durable in _durables(rm_id)]
    calls = [
        (answer, f"CONSUMER.{verb}.{stream}.{durable}")
        for stream, durable in _durables(rm_id)
        for verb, answer in (("INFO", "singleton"), ("RESET", "singleton"), ("MSG.NEXT", "stream"))
    ]
    return [
        *((answer, subject, subject) for answer, subject in sends),
        *((answer, f"$JS.{RM_DOMAIN}.API.{call}", f"$JS.API.{call}") for answer, call in calls),
    ]


def rm_exports(rm_id: str) -> list[tuple[str, str]]:
    """Returns (kind of answer, subject) of what the services may send to the RM."""
    kinds = [("singleton", f"si.v1.rm.{rm_id}.{kind}") for kind in _RM_ANSWERS]
    # Administrators change the levels of all processes of a front end.
    return [*kinds, ("stream", subjects.question(rm_id, "log_level"))]


def _durables(rm_id: str) -> list[tuple[str, str]]:
    return [
        (subjects.CALLBACKS.name, subjects.callback_consumer(rm_id)),
        (subjects.EVENTS.name, subjects.event_consumer(rm_id)),
    ]


_ANY_QUERY = subjects.core_query("*", "*")
_ANY_PAST = subjects.past_query("*", "*")
_ANY_OF_PELOTON = subjects.peloton_query("*", "*")
_RM_SENDS = ("register", *subjects.REQUEST_KINDS, "heartbeat", "deregister")
_FOR_RMS = (subjects.CALLBACKS.name, subjects.EVENTS.name)
_RM_ANSWERS = (*subjects.RM_ANSWERS, "report_wanted")


def _reads(*streams: str) -> tuple[str, ...]:
    return (*_reads_from_leader(*streams), *_sees_last(*streams))


def _reads_from_leader(*streams: str) -> tuple[str, ...]:
    return tuple(
        subject
        for stream in streams
        for subject in (
            f"$JS.API.CONSUMER.CREATE.{stream}",
            f"$JS.API.STREAM.INFO.{stream}",
            f"$JS.API.STREAM.MSG.GET.{stream}",
            f"$JS.FC.{stream}.>",
        )
    )


def _sees_last(*streams: str) -> tuple[str, ...]:
    return tuple(f"$JS.API.DIRECT.GET.{stream}{end}" for stream in streams for end in ("", ".>"))


def _looks_into(*buckets: str) -> tuple[str, ...]:
    """Not with DIRECT.GET, whose reply is the stored message as it is: a role that writes to the bucket could have what
    it has written put onto any subject, into the inbox of an RM or before rmproxy in an operator's name."""
    return _reads_from_leader(*(f"KV_{bucket}" for bucket in buckets))


def _object_store(bucket: str) -> tuple[str, ...]:
    return (f"$O.{bucket}.>", *_reads(f"OBJ_{bucket}"), f"$JS.API.STREAM.PURGE.OBJ_{bucket}")


def _calls_peloton(role: str) -> tuple[str, ...]:
    return tuple(peloton_rpc("*", one, "*") for one in (role, "read"))


def _micro(name: str) -> tuple[str, ...]:
    return tuple(f"$SRV.{verb}{end}" for verb in ("PING", "INFO", "STATS") for end in ("", f".{name}", f".{name}.>"))


_EVERY_SERVICE = (
    "$JS.API.STREAM.INFO.*",  # are the streams as they should be? Making and changing them is the admin's
    f"$JS.API.STREAM.MSG.GET.KV_{subjects.LEASES.name}",  # does the bus answer? (health)
)
_ANSWERS_TO = ("_INBOX.>", "_R_.>")  # those of services and people; those of RMs, in an account of their own
_LEASES = subjects.LEASES.name
_PELOTON = subjects.PELOTON
_LEADERS = subjects.LEADERS.name
_RMS = subjects.RMS.name
_HALTS = subjects.HALTS.name
_FAULTS = subjects.FAULTS.name
_VERSIONS = subjects.CONFIGURATION_VERSIONS.name
# All data of a forgotten RM.
_FORGETS = (
    *(f"$JS.API.STREAM.PURGE.{stream}" for stream in ("LOG", "INBOX", "EVENTS", "DEAD_LETTERS")),
    *_sees_last(subjects.EVENTS.name, subjects.DEAD_LETTERS.name),
    *_object_store(subjects.SNAPSHOTS.name),
    *_object_store(subjects.LEDGERS.name),
    *_looks_into(_LEADERS, subjects.EVENT_BOOKMARKS.name, subjects.CONFIGURATIONS.name, subjects.FORGOTTEN.name),
    *_looks_into(_VERSIONS),
    f"$KV.{_LEADERS}.*",
    f"$KV.{subjects.EVENT_BOOKMARKS.name}.>",
    f"$KV.{subjects.CONFIGURATIONS.name}.rm.*",
    f"$KV.{_VERSIONS}.rm.*.*",
    f"$KV.{subjects.FORGOTTEN.name}.{subjects.LIFE}",
    f"$KV.{_LEASES}.{subjects.forget_lease('*')}",
    subjects.lease_holder(subjects.forget_lease("*")),
)
# A front end queries for operators. It acts in the names of those that it is allowed to (`of_role`).
_FOR_OPERATORS = (
    "$SRV.PING",
    subjects.core_query("*", "*"),
    subjects.past_query("*", "*"),
    "remuda.api.cores.*",
    "remuda.api.grpc.*",
    subjects.story("*"),
    *(subjects.configuration_query(kind) for kind in subjects.CONFIGURATION_QUERIES),
    *_reads(subjects.EVENTS.name, subjects.LEDGER.name),
    *_looks_into(_LEASES, _HALTS, _FAULTS, subjects.EVENT_BOOKMARKS.name),
)
_GUEST_QUERIES = ("stats", subjects.GUESTS, "nodes", "allocations", "asks", "explain", "rejections")
_BY_ROLE: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "core": (
        (
            *_reads(subjects.INBOX.name, subjects.LOG.name),
            "remuda.log.*",
            "$JS.API.STREAM.PURGE.LOG",  # behind the oldest snapshot and the last published callback
            "$JS.API.STREAM.PURGE.INBOX",
            *_sees_last(subjects.CALLBACKS.name, subjects.EVENTS.name),
            *_looks_into(_RMS, _LEASES, _LEADERS, _HALTS, _FAULTS, subjects.EVENT_BOOKMARKS.name),
            f"$KV.{_LEASES}.{subjects.MEMBER}.*",
            f"$KV.{_LEADERS}.*",
            f"$KV.{_HALTS}.*",
            f"$KV.{_FAULTS}.*.*",
            *_object_store(subjects.SNAPSHOTS.name),
            subjects.lease_holder(f"{subjects.MEMBER}.*"),
            subjects.leader_query("*", "*"),  # questions that the leader has to answer
        ),
        (
            subjects.core_query("*", "*"),
            subjects.leader_query("*", "*"),
            "remuda.api.cores.*",
            subjects.lease_holder(f"{subjects.MEMBER}.*"),
        ),
    ),
    "rmproxy": (
        (
            "$JS.API.STREAM.PURGE.REQUESTS",  # behind what is in the inbox
            "$JS.API.STREAM.MSG.DELETE.REQUESTS",  # what an RM has too much of
            *_reads(subjects.LOG.name, subjects.CALLBACKS.name, subjects.REQUESTS.name),
            "remuda.inbox.*",
            "remuda.dead.*",
            *(f"si.v1.rm.*.callback.{kind}" for kind in subjects.CALLBACK_KINDS),
            *(f"si.v1.rm.*.{kind}" for kind in _RM_ANSWERS),
            "$JS.API.STREAM.PURGE.CALLBACKS",  # behind what RMs have acknowledged
            "$JS.API.CONSUMER.CREATE.CALLBACKS.*.si.v1.rm.*.callback.*",
            "$JS.API.CONSUMER.CREATE.EVENTS.*.si.v1.rm.*.callback.event",
            *(
                f"$JS.API.CONSUMER.{verb}.{stream}.*"
                for verb in ("INFO", "RESET", "DELETE")
                for stream in ("CALLBACKS", "EVENTS")
            ),
            *(f"$JS.API.CONSUMER.{verb}.CALLBACKS" for verb in ("LIST", "NAMES")),
            "$JS.API.CONSUMER.MSG.NEXT.CALLBACKS.*",
            *_looks_into(_RMS, _LEASES, _HALTS, _FAULTS),
            *_sees_last(subjects.INBOX.name),  # is there anything that the core has not handled?
            *_FORGETS,
            f"$KV.{_RMS}.*",
            f"$KV.{_HALTS}.*",
            f"$KV.{_FAULTS}.*.*",
            f"$KV.{_LEASES}.{subjects.RMPROXY_LEASE}",
            subjects.lease_holder(subjects.RMPROXY_LEASE),
            subjects.RESOLVE_CONFIGURATION,
        ),
        (
            *(f"si.v1.rm.*.{kind}" for kind in ("register", "heartbeat", "deregister")),
            *(subjects.administration("*", "*", "*", action) for action in subjects.ACTIONS),
            *(subjects.guest_request("*", "*", kind) for kind in subjects.GUEST_KINDS),
            subjects.lease_holder(subjects.RMPROXY_LEASE),
        ),
    ),
    "config": (
        (
            *_looks_into(_RMS, subjects.CONFIGURATIONS.name, _VERSIONS),
            f"$KV.{subjects.CONFIGURATIONS.name}.>",
            f"$KV.{_VERSIONS}.>",
            "remuda.inbox.*",
        ),
        ("remuda.api.config.*", subjects.configuration_change("*", "*", "*")),
    ),
    "events": (
        (
            *_reads(subjects.LOG.name, subjects.EVENTS.name, f"OBJ_{subjects.SNAPSHOTS.name}"),
            "si.v1.rm.*.callback.event",
            "remuda.ledger.*.*",
            "remuda.ledger_days.*.*",
            *_sees_last(subjects.LEDGER.name),
            *_object_store(subjects.LEDGERS.name),
            *_looks_into(_RMS, _LEASES, _HALTS, _FAULTS, subjects.EVENT_BOOKMARKS.name),
            f"$KV.{_LEASES}.{subjects.EVENTS_LEASE}",
            f"$KV.{subjects.EVENT_BOOKMARKS.name}.>",
            f"$KV.{_HALTS}.*",
            f"$KV.{_FAULTS}.*.*",
            subjects.lease_holder(subjects.EVENTS_LEASE),
        ),
        (subjects.lease_holder(subjects.EVENTS_LEASE), subjects.story("*")),
    ),
    # Reads what it copies. It writes nothing on the bus but its lease.
    "archive": (
        (
            *_reads(subjects.LOG.name, subjects.INBOX.name, f"OBJ_{subjects.SNAPSHOTS.name}"),
            *_looks_into(_RMS, _LEASES),
            f"$KV.{_LEASES}.{subjects.ARCHIVE_LEASE}",
            subjects.lease_holder(subjects.ARCHIVE_LEASE),
        ),
        (subjects.lease_holder(subjects.ARCHIVE_LEASE),),
    ),
    # Reads what the archive reads, and writes nothing on the bus.
    "shadow": (
        (*_reads(subjects.LOG.name, subjects.INBOX.name, f"OBJ_{subjects.SNAPSHOTS.name}"), *_looks_into(_RMS)),
        (),
    ),
    # Reads an archive, and nothing on the bus.
    "history": ((), (subjects.past_query("*", "*"),)),
    # The permissions of an RM, for every RM: certificates say which client is which.
    "grpc": (
        (
            *(f"si.v1.rm.*.{kind}" for kind in (*subjects.REQUEST_KINDS, "register", "heartbeat")),
            *(f"$JS.API.CONSUMER.{verb}.{stream}.*" for verb in ("INFO", "RESET", "MSG.NEXT") for stream in _FOR_RMS),
            *(f"$JS.ACK.{stream}.*.>" for stream in _FOR_RMS),
            *_looks_into(_RMS, subjects.FRONT_ENDS.name),
            f"$KV.{subjects.FRONT_ENDS.name}.*",
            *_FOR_OPERATORS,
        ),
        (
            "remuda.api.grpc.*",
            *(f"si.v1.rm.*.{kind}" for kind in subjects.RM_ANSWERS),
            *(subjects.operator_method(service, "*") for service in ("admin", "metrics")),
            subjects.operator_change("*", "*", "*"),
        ),
    ),
    "web": (
        (
            *_looks_into(_RMS),
            *_FOR_OPERATORS,
            _ANY_OF_PELOTON,
            f"$JS.API.STREAM.INFO.{subjects.DEAD_LETTERS.name}",
            f"$JS.API.DIRECT.GET.{subjects.DEAD_LETTERS.name}",
        ),
        ("remuda.api.web.*",),
    ),
    # Peloton's resource manager: its own streams and keys, and nothing of any RM.
    "resmgr": (
        (
            *_reads(subjects.PELOTON_INBOX.name, subjects.PELOTON_LOG.name),
            f"remuda.inbox.{_PELOTON}.*",
            f"remuda.log.{_PELOTON}.*",
            f"$JS.API.STREAM.PURGE.{subjects.PELOTON_INBOX.name}",
            f"$JS.API.STREAM.PURGE.{subjects.PELOTON_LOG.name}",
            *_looks_into(_LEASES, _LEADERS, _HALTS, _FAULTS),
            f"$KV.{_LEASES}.{_PELOTON}.*.*",
            f"$KV.{_LEADERS}.{_PELOTON}.*",
            f"$KV.{_HALTS}.{_PELOTON}.*",
            f"$KV.{_FAULTS}.{_PELOTON}.*.*",
            *_object_store(subjects.PELOTON_SNAPSHOTS.name),
            subjects.lease_holder(f"{_PELOTON}.*.*"),
        ),
        (
            "remuda.api.resmgr.*",
            _ANY_OF_PELOTON,
            subjects.peloton_pools("*"),
            subjects.peloton_change("*", "*", "*"),
            peloton_rpc("*", "*", "*"),
            peloton_rpc_of("*", "*", "*", "*"),
            subjects.lease_holder(f"{_PELOTON}.*.*"),
        ),
    ),
    # An engine speaks gRPC with resmgr, whose address it asks for. That of shared hosts asks an RM's core for room:
    # rmproxy sees to it that it is about guests alone.
    "placement": (
        (
            "remuda.api.resmgr.*",
            "$SRV.PING",
            *_calls_peloton("placement"),
            *(subjects.guest_request("*", "*", kind) for kind in subjects.GUEST_KINDS),
            *(subjects.core_query("*", kind) for kind in _GUEST_QUERIES),
            *_looks_into(_LEASES),
            f"$KV.{_LEASES}.engine.*",
            subjects.lease_holder("engine.*"),
        ),
        (subjects.lease_holder("engine.*"),),
    ),
    **{role: (_calls_peloton(role.partition("-")[2]), ()) for role in PELOTON_CLIENTS},
    # Reads and queries.
    "operator": (
        (
            "remuda.api.>",
            peloton_rpc("*", "read", "*"),
            subjects.question("*", "state_dump"),
            "$SRV.>",
            "$JS.API.STREAM.INFO.*",
            "$JS.API.CONSUMER.INFO.*.*",
            *_looks_into(_RMS, _LEASES, _LEADERS, _HALTS, _FAULTS, subjects.EVENT_BOOKMARKS.name),
            *_reads(subjects.DEAD_LETTERS.name, subjects.LEDGER.name),
        ),
        (),
    ),
    # Creates streams, rebuilds RMs, restores backups.
    "admin": ((">",), (">",)),
}
