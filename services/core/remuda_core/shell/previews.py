"""Answers the query `preview`: what a proposed configuration would do (`remuda_core.preview`). Plays on copies of the
state, also for `what_if`.

The copies of the state are forked children, so the process that answers does nothing but fork. They have the lowest
priority, and bounds of time and memory. One preview runs at a time in a process, and then none for a while.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

import msgspec
from google.protobuf.message import DecodeError

from remuda_bus import limits as bus_limits
from remuda_bus.bus import Refused
from remuda_bus.status_codes import BUSY, UNAVAILABLE
from remuda_proto.bounds import shown
from remuda_proto.remuda.v1 import config_pb2
from remuda_replication.child import Child, ChildFailed, InProcess, beside, confine, end_within
from remuda_replication.log import Position

from .. import limits
from ..core import Core
from ..preview.passes import Played, play
from ..preview.report import preview
from ..settings import Configuration
from ..snapshot import restore, save
from ..wire.configuration import read_configuration

Request = Mapping[str, Any]
Source = Child | InProcess
# Forks at a durable commit. Returns its position and the child.
Forking = Callable[[Callable[[], Source]], Awaitable[tuple[Position, Source]]]
# Plays on copies of a core, and yields the answer: JSON, or a text with the reason of a refusal.
Job = Callable[[Core], Iterator[bytes]]


class Previews:
    """The previews of one process, and other jobs that play on copies."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._busy = False
        self._rests_until = 0.0

    async def answer(self, forked: Forking, core: Core, request: Request, now_ms: int, in_child: bool) -> bytes:
        """The report as JSON. `forked`: evaluates a function at a durable commit. Raises Refused."""
        passes, rows = passes_of(request), rows_of(request)
        encoded = request.get("configuration")
        if not isinstance(encoded, str):
            raise Refused(f"configuration is {shown(encoded)}, expected a remuda.v1.Configuration in base64")
        work = _in_child if in_child else _in_process
        return await self.play(forked, core, lambda core: work(core, encoded, passes, rows, now_ms), in_child)

    async def play(self, forked: Forking, core: Core, job: Job, in_child: bool) -> bytes:
        """The answer of the job, which runs in a child or in this process. Raises Refused."""
        self._check()
        began: list[float] = []
        source: Source | None = None

        def fork() -> Source:
            began.append(self._begin())  # until then it is in nobody's way: the log of this RM may be full
            return (Child if in_child else InProcess)(lambda: job(core))

        try:
            position, source = await forked(fork)
            async with asyncio.timeout(2 * limits.PREVIEW_WITHIN_S):
                answer = b"".join([part async for part in source.output()])
            return _answered(answer, position)
        except (ChildFailed, TimeoutError) as error:
            reason = "it takes too long or too much memory, or it is a fault; the log of the core says which"
            raise Refused(f"what was to be played was given up ({error}): {reason}", UNAVAILABLE) from error
        except OSError as error:
            raise Refused(f"no process for the preview could be started: {error}", UNAVAILABLE) from error
        finally:
            if source is not None:
                await source.close()
            for at in began:
                self._end(at)

    def _begin(self) -> float:
        self._check()
        self._busy = True
        return self._clock()

    def _check(self) -> None:
        now = self._clock()
        if self._busy:
            raise Refused("this core plays another preview, try again", BUSY)
        if now < self._rests_until:
            raise Refused(f"the next preview may begin in {self._rests_until - now:.1f} s, try again", BUSY)

    def _end(self, began: float) -> None:
        now = self._clock()
        self._busy, self._rests_until = False, now + (now - began) * (1 / limits.PREVIEW_SHARE - 1)


def _answered(answer: bytes, position: Position) -> bytes:
    if not answer.startswith(b"{"):
        raise Refused(answer.decode())
    return b'%b,"log_seq":%d}' % (answer[:-1], position.seq)


def passes_of(request: Request) -> int:
    return _number(request, "passes", limits.PREVIEW_PASSES, limits.PREVIEW_PASSES_MOST)


def rows_of(request: Request) -> int:
    return _number(request, "limit", limits.PREVIEW_ROWS, limits.PREVIEW_ROWS_MOST)


def _number(request: Request, name: str, default: int, most: int) -> int:
    value = request.get(name, default)
    if type(value) is not int or not 1 <= value <= most:
        raise Refused(f"{name} is {shown(value)}, expected a number from 1 to {most}")
    return value


def _in_child(core: Core, encoded: str, passes: int, rows: int, now_ms: int) -> Iterator[bytes]:
    """Runs in the child. The proposal is read here, too, because it may be large."""
    yield_to_others()
    try:
        proposal = read(encoded)
    except ValueError as error:
        yield str(error).encode()
        return
    played = beside(lambda: msgspec.msgpack.encode(play(core, passes, now_ms)), limits.PREVIEW_WITHIN_S)
    yield _encoded(core, proposal, msgspec.msgpack.decode(played, type=Played), passes, rows, now_ms)


def yield_to_others() -> None:
    """For a child: the lowest priority, and bounds of time and memory."""
    end_within(limits.PREVIEW_WITHIN_S)
    os.nice(limits.PREVIEW_NICENESS - bus_limits.CHILD_NICENESS)
    confine(limits.PREVIEW_CPU_S, limits.PREVIEW_BYTES)


def _in_process(core: Core, encoded: str, passes: int, rows: int, now_ms: int) -> Iterator[bytes]:
    """The same on copies in this process, for a process that may not fork."""
    try:
        proposal = read(encoded)
    except ValueError as error:
        yield str(error).encode()
        return
    yield _encoded(copy_of(core), proposal, play(copy_of(core), passes, now_ms), passes, rows, now_ms)


def _encoded(core: Core, proposal: Configuration, unchanged: Played, passes: int, rows: int, now_ms: int) -> bytes:
    head = {"rm": core.state.rm_id, "state": core.state.rm_state, "at_ms": core.state.now_ms}
    return msgspec.json.encode({**head, **preview(core, proposal, unchanged, passes, now_ms, rows)})


def copy_of(core: Core) -> Core:
    rm_id = core.state.rm_id
    copy = Core(rm_id)
    copy.go_on_from(restore(rm_id, save(core.state)))
    return copy


def read(encoded: str) -> Configuration:
    """Raises ValueError, whose message names what is wrong."""
    try:
        payload = base64.b64decode(encoded, validate=True)
        if len(payload) > limits.PREVIEW_CONFIGURATION_BYTES:
            most = limits.PREVIEW_CONFIGURATION_BYTES
            raise ValueError(f"configuration has {len(payload)} bytes, expected at most {most}")
        return read_configuration(config_pb2.Configuration.FromString(payload))
    except (binascii.Error, DecodeError) as error:
        raise ValueError(f"configuration is no remuda.v1.Configuration in base64: {error}") from None
