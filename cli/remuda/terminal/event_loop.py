"""Run a command's coroutine. Ctrl-C, SIGTERM and a closed terminal cancel it, so that every `async with` cleans up. A
second signal ends the process at once, and its child processes with it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import structlog

from ..errors import Stopped

T = TypeVar("T")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Returns the result of `main()`. Raises Stopped, after the clean-up, if a signal ended it. Log lines of
    libraries are dropped: commands print their own messages.
    """
    logging.basicConfig(handlers=[logging.NullHandler()])
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    return asyncio.run(_until_signal(main))


async def _until_signal(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(main())
    seen: list[signal.Signals] = []

    def on_signal(sign: signal.Signals) -> None:
        if seen:
            os._exit(128 + sign)
        seen.append(sign)
        task.cancel()

    for sign in SIGNALS:
        loop.add_signal_handler(sign, on_signal, sign)
    try:
        return await task
    except asyncio.CancelledError:
        if seen:
            raise Stopped(seen[0]) from None
        raise
    finally:
        for sign in SIGNALS:
            loop.remove_signal_handler(sign)
