"""Output on the terminal: the console, and lines of log-like output."""

from __future__ import annotations

import re
import shutil
import sys
import time
from pathlib import Path

from rich.console import Console

from .. import limits

_LOG_TIME = re.compile(r"^\d{4}-\d\d-\d\dT[\d:.]+Z +")
SMALLEST_SCREEN = (60, 16)  # columns, rows: the smallest terminal for a live screen


console = Console(highlight=False)
errors = Console(stderr=True, highlight=False)


def own_command() -> str:
    """`remuda` as a shell finds it here: by its name, or by the path with which it was started."""
    started = sys.argv[0]
    found = shutil.which("remuda")
    is_other = Path(started).name == "remuda" and (found is None or not Path(found).samefile(started))
    return started if is_other else "remuda"


def widen() -> None:
    """From now on, tables have all columns and lines of any length."""
    console.width = limits.WIDE_COLUMNS


def is_wide() -> bool:
    return console.width >= limits.WIDE_COLUMNS


def is_live(plain: bool) -> bool:
    """Whether stdout is a terminal large enough for a live screen."""
    return (
        not plain
        and sys.stdout.isatty()
        and console.width >= SMALLEST_SCREEN[0]
        and console.height >= SMALLEST_SCREEN[1]
    )


def print_line(source: str, text: str) -> None:
    """Print one line with time and source, without markup or wrapping."""
    print(f"{time.strftime('%H:%M:%S')} {source:<11} {text}", flush=True)


def print_log_line(source: str, text: str) -> None:
    """Print a line of a service's log without the time it begins with."""
    print_line(source, _LOG_TIME.sub("", text))
