"""Reads and checks the request of an RM to register. Pure."""

from __future__ import annotations

from google.protobuf.message import DecodeError

from remuda_bus import subjects
from remuda_bus.bus import Message, Refused
from remuda_proto.bounds import joined, shown
from remuda_proto.si.v1 import si_pb2 as si
from remuda_rmproxy.inbound import request_bounds
from remuda_rmproxy.records.extra_config import check_extra_config
from remuda_rmproxy.records.status_codes import INVALID


def read_registration(message: Message) -> si.RegisterResourceManagerRequest:
    """Raises Refused 400 with a reason that names the field, the value and what was expected."""
    rm_id = subjects.rm_of(message.subject)
    try:
        request = si.RegisterResourceManagerRequest.FromString(message.payload)
    except DecodeError as error:
        raise Refused(f"not a RegisterResourceManagerRequest: {error}", INVALID) from None
    try:
        subjects.check_rm_id(request.rmID)
        subjects.check_rm_id(rm_id)
    except ValueError as error:
        raise Refused(str(error), INVALID) from None
    if request.rmID != rm_id:
        raise Refused(f"rmID {shown(request.rmID)}: the subject {message.subject} is that of {shown(rm_id)}", INVALID)
    if problems := joined(request_bounds.violations(request)):
        raise Refused(problems, INVALID)
    check_extra_config(request.extraConfig)
    return request
