"""Progress in bytes: a live line on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from rich.status import Status

from .. import limits
from .output import console
from .units import duration, size


@contextlib.contextmanager
def progress(what: str, total: int = 0) -> Iterator[Callable[[int], None]]:
    """Yields a function that takes the bytes of each step. `total` 0: unknown."""
    done, began, said = 0, time.monotonic(), time.monotonic()
    live = console.is_terminal

    def step(count: int) -> None:
        nonlocal done, said
        done += count
        now = time.monotonic()
        if now - said < (limits.PROGRESS_DRAWN_EVERY_S if live else limits.PROGRESS_LINE_EVERY_S):
            return
        said = now
        text = _text(what, done, total, now - began)
        if live:
            status.update(text)
        else:
            console.print(text, markup=False, soft_wrap=True)

    with Status(f"0 {what}", console=console) if live else contextlib.nullcontext() as shown:
        status = shown or Status("")
        yield step


def _text(what: str, done: int, total: int, elapsed_s: float) -> str:
    if not total:
        return f"{size(done)} {what}"
    left_ms = elapsed_s * 1_000 * max(0, total - done) / max(1, done)
    return f"{size(done)} of {size(total)} {what} ({done / total:.0%}), about {duration(left_ms)} left"
