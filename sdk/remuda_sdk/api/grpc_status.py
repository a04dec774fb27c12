"""The meaning of a gRPC status of the front end for an RM (docs/grpc.md, Errors). Pure."""

from __future__ import annotations

from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from remuda_bus.bus import BusError, Full, Unanswered
from remuda_sdk.resource_manager.errors import RegistrationFailed, Superseded

RpcError = Any  # grpc.aio.AioRpcError; grpcio has no types

_CODES: Final = {
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.ABORTED: 409,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
}
_REFUSED: Final = 422
_OUTAGE: Final = 503
# Statuses after which another attempt may succeed: the front end, the connection to it, or what is behind it is away.
TRANSIENT: Final = frozenset(
    (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNKNOWN,
     grpc.StatusCode.INTERNAL)
)  # fmt: skip


def registration_failed(error: RpcError) -> RegistrationFailed:
    """With the codes that a registration over NATS has."""
    code = _CODES.get(error.code(), _OUTAGE)
    return RegistrationFailed(error.details() or "", _REFUSED if _name(error) == "REFUSED" else code)


def is_report_requested(error: RpcError) -> bool:
    """Whether the scheduler has lost the state of the RM, and wants a report."""
    return error.code() is grpc.StatusCode.FAILED_PRECONDITION and _name(error) == "REPORT_REQUESTED"


def error_of(error: RpcError) -> Exception:
    """The error of a stream as the RM sees it."""
    match error.code():
        case grpc.StatusCode.INVALID_ARGUMENT:
            return ValueError(error.details())
        case grpc.StatusCode.ABORTED:
            return Superseded(error.details())
        case grpc.StatusCode.RESOURCE_EXHAUSTED:
            return Full(error.details())
        case grpc.StatusCode.PERMISSION_DENIED:
            return PermissionError(error.details())
        case code if code in TRANSIENT:
            return Unanswered(f"{code.name}: {error.details()}")
        case code:
            return BusError(f"{code.name}: {error.details()}")


def _name(error: RpcError) -> str:
    """`ErrorInfo.reason` of the details; empty without one."""
    packed = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin", b"")
    try:
        details = status_pb2.Status.FromString(packed).details
        for detail in details:
            info = error_details_pb2.ErrorInfo()
            if detail.Unpack(info):
                return str(info.reason)
    except DecodeError:
        pass  # not of our front end
    return ""
