"""The machine of the processes: clocks on virtual time, and nonces from the seed."""

from __future__ import annotations

import asyncio
import gc
import secrets
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from random import Random
from typing import Any

from remuda_core.shell.answer_pace import AnswerPace
from remuda_core.shell.rm_standby import RmStandby
from remuda_events.ledger import follower, projection
from remuda_events.shell import LagWarning
from remuda_operations.ledger import hours
from remuda_peloton.core import Core as ResmgrCore

from .queues_file import QueuesFile, replacements
from .story import CURRENT

BORN_S = 1_700_000_000
HOUR_MS = 20_000  # of ledgers: a simulation lasts some minutes
ANSWER_S = 0.002  # of processor time, for each answer


def loop_time_s() -> float:
    return asyncio.get_running_loop().time()


def wall_clock_s() -> float:
    process = CURRENT.get()
    return BORN_S + loop_time_s() + (process.clock_s if process is not None else 0.0)


@contextmanager
def environment(random: Random, file: QueuesFile) -> Iterator[None]:
    """`file`: that of the configuration service."""

    def noted(kind: type[Any]) -> Any:
        make = kind.__init__

        def init(made: Any, *args: Any, **options: Any) -> None:
            make(made, *args, **options)
            process = CURRENT.get()
            if process is not None:
                process.cores.append(made.core if isinstance(made, RmStandby) else made)

        return init

    def token_hex(nbytes: int = 16) -> str:
        return random.randbytes(nbytes).hex()

    replaced: list[tuple[Any, str, Any]] = [
        (time, "time", wall_clock_s),
        (time, "time_ns", lambda: int(wall_clock_s() * 1_000_000_000)),
        (time, "monotonic", loop_time_s),
        (time, "perf_counter", loop_time_s),
        (secrets, "token_hex", token_hex),
        (LagWarning.__init__, "__defaults__", (wall_clock_s,)),
        (AnswerPace.__init__, "__defaults__", (loop_time_s, count(0.0, ANSWER_S).__next__)),
        (uuid, "uuid4", lambda: uuid.UUID(bytes=random.randbytes(16), version=4)),
        *((module, "HOUR_MS", HOUR_MS) for module in (hours, projection, follower)),
        (RmStandby, "__init__", noted(RmStandby)),
        (ResmgrCore, "__init__", noted(ResmgrCore)),
        *replacements(file),
    ]
    before = [(of, name, getattr(of, name)) for of, name, _ in replaced]
    gc.disable()  # what it finalises, it finalises when it likes
    try:
        for of, name, value in replaced:
            setattr(of, name, value)
        yield
    finally:
        for of, name, value in before:
            setattr(of, name, value)
        gc.enable()
