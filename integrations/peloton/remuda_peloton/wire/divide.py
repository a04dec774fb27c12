"""Requests that are too large for one message of the inbox, divided at the elements of their repeated fields. An
element that is the report of a pool is divided itself: into reports of ranges of its runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

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
        for number, element in _elements(request, field, limit - whole.ByteSize()):
            size = _size(element)
            if size > limit - whole.ByteSize():
                raise RpcError(INVALID_ARGUMENT, f"{field.name}[{number}] has {size} bytes, expected at most {limit}")
            if size > left:
                yield part
                part, left = _copy(whole), limit - whole.ByteSize()
            getattr(part, field.name).append(element)
            left -= size
    yield part


def _elements(request: Any, field: FieldDescriptor, limit: int) -> Iterator[tuple[int, Any]]:
    """The elements of the field, each with its place in the request."""
    for number, element in enumerate(getattr(request, field.name)):
        if isinstance(element, hosts_pb2.RunsOfPool) and _size(element) > limit:
            yield from ((number, part) for part in ranges_of(element, limit))
        else:
            yield number, element


def _size(element: Any) -> int:
    """The size of an element with its tag and its length, at most, in bytes."""
    return (element.ByteSize() if isinstance(element, Message) else len(str(element).encode())) + 8


def ranges_of(report: hosts_pb2.RunsOfPool, limit: int) -> Iterator[hosts_pb2.RunsOfPool]:
    """Reports of at most `limit` bytes each, if no ID is longer. Each has all runs of its range, and together they have
    the range of the report."""
    part = hosts_pb2.RunsOfPool(pool_id=report.pool_id, from_run_id=report.from_run_id)
    longest = max(map(_size, (report.from_run_id, report.below_run_id, *report.run_ids)))
    left = room = limit - _size(part) - 2 * longest  # its bounds
    for run_id in sorted(report.run_ids):
        if _size(run_id) > left and part.run_ids:
            part.below_run_id = run_id
            yield part
            part, left = hosts_pb2.RunsOfPool(pool_id=report.pool_id, from_run_id=run_id), room
        part.run_ids.append(run_id)
        left -= _size(run_id)
    part.below_run_id = report.below_run_id
    yield part


def _copy(message: Any) -> Any:
    made = type(message)()
    made.CopyFrom(message)
    return made
