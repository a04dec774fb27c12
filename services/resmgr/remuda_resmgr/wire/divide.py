"""Requests that are too large for one message of the inbox, divided at the elements of their repeated fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor

from remuda_proto.remuda.resmgr.v1 import hosts_pb2, pools_pb2

from .rpcs import INVALID_ARGUMENT, RpcError

# They replace all that there is.
AS_A_WHOLE: Final = (hosts_pb2.RankHostsRequest, pools_pb2.ApplyPoolsRequest)


def divided(request: Any, limit: int) -> Iterator[Any]:
    """The request, or requests that together ask for the same, of at most `limit` bytes each, in order. Raises RpcError
    when one element alone, or what is not repeated, is larger, and for a request that means its elements as a whole."""
    if request.ByteSize() <= limit:
        yield request
        return
    if isinstance(request, AS_A_WHOLE):
        raise RpcError(INVALID_ARGUMENT, f"the request has {request.ByteSize()} bytes, expected at most {limit}")
    whole = type(request)()
    repeated: list[FieldDescriptor] = []
    for field, value in request.ListFields():
        if field.is_repeated:
            repeated.append(field)
        elif field.message_type is not None:
            getattr(whole, field.name).CopyFrom(value)
        else:
            setattr(whole, field.name, value)
    if whole.ByteSize() > limit:
        raise RpcError(INVALID_ARGUMENT, f"{whole.ByteSize()} bytes are not in lists, expected at most {limit}")
    part, left = _copy(whole), limit - whole.ByteSize()
    for field in repeated:
        for number, element in enumerate(getattr(request, field.name)):
            size = (element.ByteSize() if field.message_type else len(str(element).encode())) + 8
            if size > limit - whole.ByteSize():
                raise RpcError(INVALID_ARGUMENT, f"{field.name}[{number}] has {size} bytes, expected at most {limit}")
            if size > left:
                yield part
                part, left = _copy(whole), limit - whole.ByteSize()
            getattr(part, field.name).append(element)
            left -= size
    yield part


def _copy(message: Any) -> Any:
    made = type(message)()
    made.CopyFrom(message)
    return made
