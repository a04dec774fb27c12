"""`remuda shadow`: what a shadow has found."""

from __future__ import annotations

from pathlib import Path

import msgspec
from rich.text import Text

from ..errors import UserError
from ..terminal.output import console
from ..terminal.units import time_of
from .replay import ROWS, show_report


def shadow(directory: Path, as_json: bool) -> None:
    """Raises UserError."""
    from ..history.shadow_report import ShadowReport, read

    paths = sorted((directory / "reports").glob("*.json"))
    if not paths:
        raise UserError(f"{directory}: expected the directory of a shadow (shadow.directory) with reports")
    try:
        found: list[ShadowReport] = [one for path in paths if (one := read(path)) is not None]
    except ValueError as error:
        raise UserError(str(error)) from None
    if as_json:
        print(msgspec.json.encode(found).decode())
        return
    for report in found:
        until = f" up to {time_of(report.at_ms)}" if report.at_ms else ""
        over = ", which is over" if report.is_over else ""
        console.print(Text(f"{report.rm}: {report.against}{over}{until}: {report.summary()}"), soft_wrap=True)
        for difference in report.differences[:ROWS]:
            console.print(Text(f"  {difference['text']}"), soft_wrap=True)
        if report.effect is not None:
            show_report(report.effect)
