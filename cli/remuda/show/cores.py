"""Core processes, the RMs each leads and follows, and the lag: a part of `remuda status`."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from remuda_operations.queries.cores import Core, behind_s

from .. import limits


def table(cores: list[Core]) -> Table:
    result = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("core", "leads", "follows"):
        result.add_column(name, overflow="fold")
    late = behind_s(cores)
    for core in cores:
        if core.error:
            result.add_row(Text(core.instance), Text("does not answer", style="red"), "")
            continue
        follows = [_follows(one.rm, late.get((core.instance, one.rm), 0.0)) for one in core.rms if not one.leads]
        result.add_row(Text(core.instance), Text(", ".join(core.leads) or "-"), Text(", ".join(sorted(follows)) or "-"))
    return result


def _follows(rm: str, late_s: float) -> str:
    return f"{rm} ({late_s:.0f} s behind)" if late_s >= limits.BEHIND_WORTH_A_WORD_S else rm
