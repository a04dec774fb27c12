"""RMs that are halted, as `remuda status` shows them."""

from __future__ import annotations

import time
from typing import Any

from rich.text import Text

from remuda_replication.rms.halts import FAULT, Halt


def describe(halt: dict[str, Any]) -> Text:
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(halt["at_ms"] / 1_000))
    is_fault = halt["cause"] == FAULT
    what = "After the cause is mended, run: " if is_fault else "To delete its log and let it report anew, run: "
    return Text.assemble(
        (f"{halt['rm_id']} is HALTED since {when}: {halt['reason']} (detected by {halt['by']})\n", "bold red"),
        (f"  No core schedules for it. {what}", "red"),
        (Halt(**halt).command, "bold"),
    )
