"""Errors as gRPC status: a code, the reason, and `google.rpc` details that name the field. Pure."""

from __future__ import annotations

import re
from typing import Final

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.protobuf.message import Message as Proto
from google.rpc import error_details_pb2, status_pb2

from remuda_bus.bus import BusError, Full, Refused
from remuda_bus.untrusted import shortened
from remuda_grpc import limits

DOMAIN: Final = "remuda"
DETAILS: Final = "grpc-status-details-bin"

# Codes of rmproxy (docs/wire-contract.md, Errors).
_BY_CODE: Final = {
    400: (grpc.StatusCode.INVALID_ARGUMENT, "INVALID"),
    404: (grpc.StatusCode.NOT_FOUND, "NOT_REGISTERED"),
    409: (grpc.StatusCode.ABORTED, "SUPERSEDED"),
    422: (grpc.StatusCode.INVALID_ARGUMENT, "REFUSED"),
    429: (grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_REQUESTS"),
    503: (grpc.StatusCode.UNAVAILABLE, "OUTAGE"),
}
# Reasons begin with the field: rmID, or partitions[0].name, or a field and its key, as in extraConfig resync.
_FIELD: Final = re.compile(r"[A-Za-z][\w.\[\]]*(?: [a-z][\w.]*(?= ))?")


class Failure(Exception):
    """The status that ends an RPC. `name`: for programs (`ErrorInfo.reason`). `field`: of the request."""

    def __init__(self, code: grpc.StatusCode, name: str, reason: str, field: str = "") -> None:
        super().__init__(f"{code.name}: {reason}")
        self.code = code
        self.name = name
        self.reason = reason
        self.field = field

    @property
    def message(self) -> str:
        return shortened(self.reason, limits.REASON_CHARACTERS)

    def trailing_metadata(self) -> tuple[tuple[str, bytes], ...]:
        """Returns the details as `google.rpc.Status`, in the metadata where clients look for it."""
        details: list[Proto] = [error_details_pb2.ErrorInfo(reason=self.name, domain=DOMAIN)]
        if self.field:
            violation = error_details_pb2.BadRequest.FieldViolation(field=self.field, description=self.message)
            details.append(error_details_pb2.BadRequest(field_violations=[violation]))
        if self.code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED):
            details.append(error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(seconds=limits.RETRY_AFTER_S)))
        packed = []
        for detail in details:
            packed.append(any_pb2.Any())
            packed[-1].Pack(detail)
        number: int = self.code.value[0]
        status = status_pb2.Status(code=number, message=self.message, details=packed)
        return ((DETAILS, status.SerializeToString()),)


def invalid(field: str, reason: str) -> Failure:
    """Returns the failure for a wrong request of the client. `reason`: begins with the field and its value."""
    return Failure(grpc.StatusCode.INVALID_ARGUMENT, "INVALID", reason, field)


def superseded(reason: str) -> Failure:
    """Returns the failure for a client that has to open its streams anew, or whose RM another instance has taken
    over.
    """
    return Failure(grpc.StatusCode.ABORTED, "SUPERSEDED", reason)


def report_requested(rm_id: str) -> Failure:
    """Returns the failure for an RM whose state in the scheduler an operator has removed (`remuda rebuild`)."""
    reason = f"the scheduler has lost what it knew of rmID {rm_id!r}: register with resync report, and report"
    return Failure(grpc.StatusCode.FAILED_PRECONDITION, "REPORT_REQUESTED", reason, "rmID")


def failure_of(error: BusError) -> Failure:
    """Returns the status for a refusal or an outage of the bus."""
    if isinstance(error, Refused):
        code, name = _BY_CODE.get(error.code, (grpc.StatusCode.INTERNAL, "INTERNAL"))
        field = _FIELD.match(error.reason) if code is grpc.StatusCode.INVALID_ARGUMENT else None
        return Failure(code, name, error.reason, field[0].replace(" ", ".") if field else "")
    if isinstance(error, Full):
        return Failure(grpc.StatusCode.RESOURCE_EXHAUSTED, "FULL", f"the scheduler takes no more requests now: {error}")
    return Failure(grpc.StatusCode.UNAVAILABLE, "OUTAGE", f"the scheduler does not answer: {error}")
