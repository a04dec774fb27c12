"""Output on the terminal: the console, and lines of log-like output."""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Container, Iterable
from pathlib import Path

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from .. import limits

_LOG_TIME = re.compile(r"^\d{4}-\d\d-\d\dT[\d:.]+Z +")
_GLUE = "\ue000"  # stands for a space at which no line ends
SMALLEST_SCREEN = (60, 16)  # columns, rows: the smallest terminal for a live screen


console = Console(highlight=False)
errors = Console(stderr=True, highlight=False)


class Unbroken:
    """A text, or a table of texts, whose pieces marked by `unbroken` stay on one line when rich prints it."""

    def __init__(self, content: RenderableType) -> None:
        self._content = content

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self._content, options):
            yield segment._replace(text=segment.text.replace(_GLUE, " "))

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement.get(console, options, self._content)


def unbroken(listed: str) -> str:
    """Lets lines end only behind the commas of a list such as `vcore 23 of 64, memory 184Gi of 512Gi`."""
    return re.sub(r"(?<!,) ", _GLUE, listed)


def queue_in(partition: str, path: str) -> str:
    """Returns the path of a queue, with its partition where that says anything."""
    return path if partition in ("", "default") else f"{partition}: {path}"


def table_of(
    *names: str, rows: Iterable[Iterable[str | Text]] = (), numbers: Container[str] = (), left: int = 0,
    title: str | None = None,
) -> Table:  # fmt: skip
    """Returns a table without lines, with a column for each name, and `left` blanks before the first column.
    `rows`: of texts without markup. `numbers`: the names of columns that are aligned to the right.
    """
    table = Table(box=None, padding=(0, 2, 0, left), header_style="dim", title=title, title_justify="left")
    for name in names:
        table.add_column(name, overflow="fold", justify="right" if name in numbers else "left")
    for row in rows:
        table.add_row(*(Text(one) if isinstance(one, str) else one for one in row))
    return table


def own_command() -> str:
    """Returns `remuda` as a shell finds it here: by its name, or by the path with which it was started."""
    started = sys.argv[0]
    found = shutil.which("remuda")
    is_other = Path(started).name == "remuda" and (found is None or not Path(found).samefile(started))
    return started if is_other else "remuda"


def widen() -> None:
    """Gives tables all columns and lines of any length, from now on."""
    console.width = limits.WIDE_COLUMNS


def is_wide() -> bool:
    return console.width >= limits.WIDE_COLUMNS


def is_live(plain: bool) -> bool:
    """Returns whether stdout is a terminal large enough for a live screen."""
    return (
        not plain
        and sys.stdout.isatty()
        and console.width >= SMALLEST_SCREEN[0]
        and console.height >= SMALLEST_SCREEN[1]
    )


def print_entry(lead: str, text: Text) -> None:
    """Prints an entry of a log: on a terminal wrapped between words, indented behind its lead; elsewhere one line."""
    if not console.is_terminal or is_wide():
        console.print(Text.assemble(lead, "  ", text), soft_wrap=True)
        return
    entry = Table.grid(padding=(0, 2, 0, 0))
    entry.add_row(Text(lead, style="dim", no_wrap=True), text)
    console.print(entry)


def print_line(source: str, text: str) -> None:
    """Prints one line with time and source, without markup or wrapping."""
    print(f"{time.strftime('%H:%M:%S')} {source:<11} {text}", flush=True)


def print_log_line(source: str, text: str) -> None:
    """Prints a line of a service's log without the time it begins with."""
    print_line(source, _LOG_TIME.sub("", text))
