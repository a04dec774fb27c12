"""gRPC front ends, their addresses and RMs: a part of `remuda status`."""

from __future__ import annotations

from typing import Final

from rich.text import Text

from remuda_operations.queries.front_ends import FrontEnd

KINDS: Final = ("grpc", "web", "resmgr")


def line(kind: str, found: list[FrontEnd]) -> Text:
    return Text.assemble((f"{kind:8} ", "dim"), "   ".join(one.error or _address(one) for one in found))


def _address(one: FrontEnd) -> str:
    address = f"[{one.host}]:{one.port}" if ":" in one.host else f"{one.host}:{one.port}"
    return f"{one.scheme}://{address}" if one.scheme else f"{address}, RMs {one.rms}"
