"""Runs a test of single classes over the memory bus on virtual time, so that it does not wait for timers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import ParamSpec

from .loop import VirtualLoop

P = ParamSpec("P")


def on_virtual_time(test: Callable[P, Coroutine[object, object, None]]) -> Callable[P, None]:
    """Decorates a coroutine function. A memory bus in it needs the clock of the loop, to expire entries."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with asyncio.Runner(loop_factory=lambda: VirtualLoop(lambda task, context: None)) as runner:
            runner.run(test(*args, **kwargs))

    return run
