"""Facts as messages of log.proto, and back."""

from __future__ import annotations

import re
from typing import Any, Final

from remuda_proto.remuda.resmgr.v1 import log_pb2 as pb

from ..facts import Fact, kinds
from .messages import codec


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()


_WRITERS: Final = {kind: (_snake(kind.__name__), codec(kind)[0]) for kind in kinds()}
_READERS: Final = {_snake(kind.__name__): codec(kind)[1] for kind in kinds()}


def write_fact(fact: Fact) -> pb.Fact:
    name, write = _WRITERS[type(fact)]
    message: dict[str, Any] = {name: write(fact)}
    return pb.Fact(**message)


def read_fact(message: pb.Fact) -> Fact:
    """Raises KeyError for a fact that this version does not know."""
    kind = message.WhichOneof("fact")
    fact: Fact = _READERS[kind or ""](getattr(message, kind or ""))
    return fact
