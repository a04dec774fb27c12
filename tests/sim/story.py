"""The events of a run, line by line, to be printed when it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import structlog

if TYPE_CHECKING:
    from .process import Process

# The process whose code is running; None: the simulation's own.
CURRENT: ContextVar[Process | None] = ContextVar("process", default=None)
UNEXPECTED = ("exception", "critical")


class Violation(Exception):
    """Something that must never be."""


class Story:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.lines: list[str] = []
        self.violations: list[str] = []

    def tell(self, what: str) -> None:
        now = self._clock() - 1_000
        process = CURRENT.get()
        self.lines.append(f"{now:9.3f}  {process.name if process else '':<10} {what}")

    def violated(self, what: str) -> None:
        """For code whose exceptions would be caught elsewhere."""
        self.tell(f"VIOLATION {what}")
        self.violations.append(what)

    def digest(self) -> str:
        return sha256("\n".join(self.lines).encode()).hexdigest()

    @contextmanager
    def of_logs(self) -> Iterator[None]:
        """Log lines of the processes become part of the story. Bugs that were caught and logged count, too."""
        before = structlog.get_config()
        structlog.configure(
            processors=[self._logged], wrapper_class=structlog.make_filtering_bound_logger(20), context_class=dict
        )
        try:
            yield
        finally:
            structlog.configure(**before)

    def _logged(self, _: Any, method: str, event: MutableMapping[str, Any]) -> Any:
        error = event.pop("exc_info", None)
        said = " ".join(str(event[name]) if name == "event" else f"{name}={event[name]}" for name in event)
        if method in UNEXPECTED:
            self.violated(f"{said} ({error})")
        else:
            self.tell(said)
        raise structlog.DropEvent
