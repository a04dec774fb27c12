"""The names of logs, and the streams that hold them. An RM's log is named by its rmID.

The log of a Peloton resource manager has a name with a '.', which no rmID contains. That name stands where rmIDs stand
in subjects and keys."""

from __future__ import annotations

import re

from remuda_proto.names import RM_ID

PELOTON = "peloton"
MEMBER = "member"


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
    """The same RPCs for a client with a key of its own. `client`: its name, as `operators` encodes it. In the account
    of such a client the subject is that of `peloton_rpc`, and the NATS server adds the name."""
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
