"""`remuda config apply --preview`: show what a file would do, and ask, before it is put in force."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text

from remuda_bus.bus import Bus
from remuda_operations.queries.preview import Report, preview
from remuda_proto.remuda.v1 import config_pb2

from .. import limits
from ..client.connections import answered
from ..show.preview import proposed, show
from ..terminal.output import console
from .asking import ask, check_that_it_can_ask
from .configuration import configured_rms

PASSES, ROWS = 3, 10


def preview_first(url: str, file: Path, yes: bool) -> None:
    """Returns if the file is to be put in force. Raises UserError if not, or if it has problems."""
    check_that_it_can_ask(yes)
    configuration = proposed(file, False)
    rms, reports = answered(url, lambda bus: _look(bus, configuration))
    for report in reports:
        show(report, str(file))
    if (more := len(rms) - len(reports)) > 0:
        console.print(Text(f"\n{more:,} more resource managers use the file; they are not previewed", style="dim"))
    if not rms:
        console.print("no resource manager uses the file")
    ask(f"Put {file} in force?", yes)


async def _look(bus: Bus, configuration: config_pb2.Configuration) -> tuple[list[str], list[Report]]:
    """The resource managers that use the file, and reports about the first of them."""
    rms = sorted(
        rm["rm_id"]
        for rm in await configured_rms(bus)
        if rm["config_source"] in ("file", "built-in") and rm["state"] == "registered"
    )
    previewed = rms[: limits.PREVIEWED_RMS]
    return rms, [(await preview(bus, rm, configuration, PASSES, ROWS))[0] for rm in previewed]
