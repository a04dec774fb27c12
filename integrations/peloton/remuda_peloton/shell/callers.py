"""The RPCs and bytes that callers have under way, bounded so that no caller takes the room of others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from .. import limits
from ..wire.rpcs import RpcError

FULL: Final = "RESOURCE_EXHAUSTED"


class Caller:
    """A caller that has RPCs under way. `name`: the name in its certificate, or its address. `receiving`: held while a
    request is received."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rpcs = 0
        self.bytes = 0
        self.receiving = asyncio.Semaphore(limits.RECEIVED_AT_ONCE)

    @contextmanager
    def holding(self, size: int) -> Iterator[None]:
        """While this many bytes of it are in memory. Raises RpcError when it has too many already."""
        if self.bytes and self.bytes + size > limits.BYTES_OF_CALLER:
            held = f"{self.bytes} bytes of its requests and responses are under way"
            raise RpcError(FULL, f"{self.name[:100]}: {held}, expected at most {limits.BYTES_OF_CALLER}")
        self.bytes += size
        try:
            yield
        finally:
            self.bytes -= size


class Callers:
    """Callers that have RPCs under way."""

    def __init__(self) -> None:
        self._callers: dict[str, Caller] = {}

    @contextmanager
    def calling(self, name: str) -> Iterator[Caller]:
        """While the caller has an RPC under way. Raises RpcError when it has too many."""
        caller = self._callers.setdefault(name, Caller(name))
        if caller.rpcs >= limits.RPCS_OF_CALLER:
            raise RpcError(FULL, f"{name[:100]}: {caller.rpcs} RPCs are under way, expected at most as many")
        caller.rpcs += 1
        try:
            yield caller
        finally:
            caller.rpcs -= 1
            if not caller.rpcs:
                del self._callers[name]


def name_of(names: frozenset[str], peer: str) -> str:
    """The name of a caller. `names`: the names in its certificate. `peer`: as gRPC writes it, such as
    `ipv4:10.0.0.1:4711`."""
    return ", ".join(sorted(names)) or peer.rpartition(":")[0] or peer


def metadata_of(pairs: object) -> Mapping[str, str]:
    """Metadata by key; of a key that is there twice, the last."""
    return dict(pairs or ())  # type: ignore[call-overload, no-any-return]
