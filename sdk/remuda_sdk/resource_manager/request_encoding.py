"""Requests of an RM, encoded into messages of the size that the bus accepts (000, RM and scheduler updates). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeVar

from remuda_bus.streams.split import split
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk.resource_manager import arguments, limits
from remuda_sdk.resource_manager.build import release_of

T = TypeVar("T")


Release = si.AllocationRelease | si.AllocationAskRelease


Releasable = Release | si.Allocation
RELEASABLE: tuple[type[Releasable], ...] = (si.Allocation, si.AllocationRelease, si.AllocationAskRelease)


Request = si.ApplicationRequest | si.AllocationRequest | si.NodeRequest | si.UpdateConfigurationRequest
KINDS: Mapping[str, type[Request]] = {
    "application": si.ApplicationRequest,
    "allocation": si.AllocationRequest,
    "node": si.NodeRequest,
    "configuration": si.UpdateConfigurationRequest,
}


class RequestEncoder:
    """Encodes the requests of one RM into messages of at most `limit` bytes and `limits.MAX_ITEMS` items each."""

    def __init__(self, rm_id: str) -> None:
        self.rm_id = rm_id

    def nodes(self, nodes: Iterable[si.NodeInfo], limit: int) -> Iterator[bytes]:
        for some in chunks(nodes):
            yield from sized(si.NodeRequest(rmID=self.rm_id, nodes=some), limit)

    def submissions(self, applications: Iterable[si.AddApplicationRequest], limit: int) -> Iterator[bytes]:
        for some in chunks(applications):
            yield from sized(si.ApplicationRequest(rmID=self.rm_id, new=some), limit)

    def removals(self, application_ids: Iterable[str], partition: str, limit: int) -> Iterator[bytes]:
        for some in chunks(application_ids):
            remove = [si.RemoveApplicationRequest(applicationID=one, partitionName=partition) for one in some]
            yield from sized(si.ApplicationRequest(rmID=self.rm_id, remove=remove), limit)

    def asks(self, asks: Iterable[si.AllocationAsk], limit: int) -> Iterator[bytes]:
        for some in chunks(asks):
            yield from sized(si.AllocationRequest(rmID=self.rm_id, asks=some), limit)

    def allocations(self, allocations: Iterable[si.Allocation], limit: int) -> Iterator[bytes]:
        for some in chunks(allocations):
            yield from sized(si.AllocationRequest(rmID=self.rm_id, allocations=some), limit)

    def releases(self, releases: Iterable[Releasable], limit: int) -> Iterator[bytes]:
        """Releases without a termination type become STOPPED_BY_RM."""
        for some in chunks(releases):
            request = si.AllocationReleasesRequest()
            for one in some:
                _add_release(request, one)
            yield from sized(si.AllocationRequest(rmID=self.rm_id, releases=request), limit)


def check_kind(kind: str, request: object) -> None:
    """Raises ValueError unless the request is one of this kind: others would be read as something else."""
    expected = KINDS[arguments.one_of("kind", kind, tuple(KINDS))]
    if not isinstance(request, expected):
        arguments.wrong("request", request, f"{expected.__name__} as kind {kind!r}")


def chunks(items: Iterable[T]) -> Iterator[Sequence[T]]:
    left = iter(items)
    while some := list(islice(left, limits.MAX_ITEMS)):
        yield some


def sized(request: Request, limit: int) -> Iterator[bytes]:
    """Yield the request, split into messages of at most `limit` bytes. Raises ValueError when one element alone is
    larger."""
    payload = request.SerializeToString()
    if len(payload) <= limit:
        yield payload
        return
    for part in split(request, limit):
        yield part.SerializeToString()


def _add_release(request: si.AllocationReleasesRequest, one: Releasable) -> None:
    if isinstance(one, si.Allocation):
        request.allocationsToRelease.append(release_of(one))
        return
    made: Release
    if isinstance(one, si.AllocationRelease):
        made = request.allocationsToRelease.add()
    else:
        made = request.allocationAsksToRelease.add()
    made.MergeFrom(one)  # type: ignore[arg-type]
    if made.terminationType == si.UNKNOWN_TERMINATION_TYPE:
        made.terminationType = si.STOPPED_BY_RM
