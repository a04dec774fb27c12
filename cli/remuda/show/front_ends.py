"""gRPC front ends, their addresses and RMs: a part of `remuda status`."""

from __future__ import annotations

from rich.text import Text

from remuda_bus.queries.front_ends import FrontEnd


def line(found: list[FrontEnd]) -> Text:
    shown = [one.error or f"{one.host}:{one.port}, RMs {one.rms}" for one in found]
    return Text.assemble(("grpc     ", "dim"), "   ".join(shown))
