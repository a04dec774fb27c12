"""Answers the queries that are played on copies of the state: `preview`, what a proposed configuration would do, and
`whatif`, the smallest changes that would let an ask run; `eta`, when waiting asks will start (`remuda_core.trials`).

The copies are forked children, so the process that answers does nothing but fork. They have the lowest priority, and
bounds of time and memory. One such query is answered at a time in a process, and then none for a while.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

import msgspec
import structlog
from google.protobuf.message import DecodeError

from remuda_bus.bus import Refused
from remuda_bus.status_codes import BUSY, NOT_FOUND, UNAVAILABLE
from remuda_proto.bounds import shown
from remuda_proto.remuda.v1 import config_pb2
from remuda_replication.child import CHILD_NICENESS, Child, ChildFailed, InProcess, beside, confine, end_within
from remuda_replication.log import Position

from .. import limits
from ..core import Core
from ..decide.names import plain
from ..settings import Configuration
from ..trials.play import GivenUp, OnCopy, Played, copy_of, play
from ..trials.preview import preview
from ..trials.what_if import Ask, Change, search
from ..wire.configuration import read_configuration
from . import views
from .forecasts import Forecasts, sampled_of

log = structlog.get_logger()
Request = Mapping[str, Any]
Source = Child | InProcess
# Forks at a durable commit. Returns its position and the child.
Forking = Callable[[Callable[[], Source]], Awaitable[tuple[Position, Source]]]
# Works on a core that is a copy, and may play on further copies. Returns the answer: JSON, or a text with the reason of
# a refusal.
Job = Callable[[Core, OnCopy], bytes]


class Copies:
    """The queries of one process that are played on copies, one at a time."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock`: in seconds."""
        self._clock = clock
        self._busy = False
        self._rests_until = 0.0
        # Forecasts in the background rest longer, and what operators ask for does not wait for their rest.
        self._samples_after = 0.0
        self._sampling: asyncio.Task[None] | None = None

    async def preview(self, forked: Forking, core: Core, request: Request, now_ms: int, in_child: bool) -> bytes:
        """The effects of the configuration of the request, as JSON. `forked`: evaluates a function at a durable commit.
        `in_child`: whether the process may fork. Raises Refused."""
        passes = _number(request, "passes", limits.PREVIEW_PASSES, limits.PREVIEW_PASSES_MOST)
        rows = _number(request, "limit", limits.PREVIEW_ROWS, limits.PREVIEW_ROWS_MOST)
        encoded = request.get("configuration")
        if not isinstance(encoded, str):
            raise Refused(f"configuration is {shown(encoded)}, expected a remuda.v1.Configuration in base64")

        def job(copy: Core, on_copy: OnCopy) -> bytes:
            try:
                proposal = read(encoded)  # here, because it may be large
            except ValueError as error:
                return str(error).encode()
            unchanged = on_copy(lambda core: msgspec.msgpack.encode(play(core, passes, now_ms)))
            decoded = msgspec.msgpack.decode(unchanged, type=Played)
            return msgspec.json.encode({**_head(copy), **preview(copy, proposal, decoded, passes, now_ms, rows)})

        return await self._answer(forked, core, job, in_child)

    async def what_if(self, forked: Forking, core: Core, request: Request, now_ms: int, in_child: bool) -> bytes:
        """The smallest changes that would let the ask of the request run, as JSON. The parameters as of `preview`.
        Raises Refused."""
        ask = _pending(core, request)
        return await self._answer(forked, core, lambda copy, on_copy: _changes(copy, on_copy, ask, now_ms), in_child)

    async def eta(self, forked: Forking, core: Core, request: Request, forecasts: Forecasts, in_child: bool) -> bytes:
        """When waiting asks will start: all, those of an `application`, or one (`key`); at most `limit` of them, as
        JSON. Played anew if that was not done within the minute. The parameters as of `preview`. Raises Refused."""
        most = _number(request, "limit", limits.FORECAST_ROWS, limits.FORECAST_ROWS_MOST)
        application, key = (request.get(name) or "" for name in ("application", "key"))
        for name, value in (("application", application), ("key", key)):
            if not isinstance(value, str):
                raise Refused(f"{name} is {shown(value)}, expected a text")
        if key and not application:
            raise Refused("application is '', expected the application of the key")
        if not forecasts.is_new(core.state, application, key):
            await self._forecast(forked, core, forecasts, in_child)
        return forecasts.answer(core.state, application, key, most)

    def sample(self, forked: Forking, core: Core, forecasts: Forecasts) -> asyncio.Task[None] | None:
        """Forecast in the background, unless that was done within the minute, or something is played already. Returns
        the task, or None."""
        if self._busy or self._sampling is not None or self._clock() < max(self._rests_until, self._samples_after):
            return None
        if not forecasts.is_new(core.state):
            self._sampling = asyncio.create_task(self._sample(forked, core, forecasts))
        return self._sampling

    async def _sample(self, forked: Forking, core: Core, forecasts: Forecasts) -> None:
        began, rests_until = self._clock(), self._rests_until
        try:
            await self._forecast(forked, core, forecasts, in_child=True)
        except Refused as refused:
            log.warning("asks could not be forecast", rm=core.state.rm_id, reason=refused.reason)
        finally:
            now = self._clock()
            self._rests_until, self._sampling = rests_until, None
            self._samples_after = now + (now - began) * (1 / limits.FORECASTS_SHARE - 1)

    async def _forecast(self, forked: Forking, core: Core, forecasts: Forecasts, in_child: bool) -> None:
        forecasts.resolve(core.state)
        now_ms = forecasts.clock_ms()

        def job(copy: Core, _: OnCopy) -> bytes:
            begins_ms = max(now_ms, copy.state.now_ms)
            return msgspec.json.encode({**_head(copy), "at_ms": begins_ms, "sampled": sampled_of(copy, begins_ms)})

        forecasts.keep(await self._answer(forked, core, job, in_child))

    async def _answer(self, forked: Forking, core: Core, job: Job, in_child: bool) -> bytes:
        self._check()
        began: list[float] = []
        source: Source | None = None

        def fork() -> Source:
            began.append(self._begin())  # until then it is in nobody's way: the log of this RM may be full
            return Child(lambda: _in_child(core, job)) if in_child else InProcess(lambda: _in_process(core, job))

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


def _number(request: Request, name: str, default: int, most: int) -> int:
    value = request.get(name, default)
    if type(value) is not int or not 1 <= value <= most:
        raise Refused(f"{name} is {shown(value)}, expected a number from 1 to {most}")
    return value


def _in_child(core: Core, job: Job) -> Iterator[bytes]:
    """Do the job in this process, which is a copy: a forked child, of the lowest priority, with bounds of time and
    memory. Further copies are its children."""
    end_within(limits.PREVIEW_WITHIN_S)
    os.nice(limits.PREVIEW_NICENESS - CHILD_NICENESS)
    confine(limits.PREVIEW_CPU_S, limits.PREVIEW_BYTES)
    until = time.monotonic() + limits.WHAT_IF_WITHIN_S

    def on_copy(work: Callable[[Core], bytes]) -> bytes:
        if time.monotonic() > until:
            raise GivenUp
        return beside(lambda: work(core), limits.PREVIEW_WITHIN_S)

    yield job(core, on_copy)


def _in_process(core: Core, job: Job) -> Iterator[bytes]:
    """Do the job on copies in this process, which may not fork."""
    yield job(copy_of(core), lambda work: work(copy_of(core)))


def _head(core: Core) -> dict[str, object]:
    return {"rm": core.state.rm_id, "state": core.state.rm_state, "at_ms": core.state.now_ms}


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


def _pending(core: Core, request: Request) -> Ask:
    """The ask that the request is about. Raises Refused if it is not pending."""
    application, key, partition = (request.get(name) or "" for name in ("application", "key", "partition"))
    if not isinstance(partition, str):
        raise Refused(f"partition is {shown(partition)}, expected a text")
    for name, value in (("application", application), ("key", key)):
        if not isinstance(value, str) or not value:
            raise Refused(f"{name} is {shown(value)}, expected the {name} of a pending ask")
    for found in core.state.partitions.values():
        its = found.applications.get(application)
        if its is not None and key in its.asks and partition.strip().lower() in ("", plain(found.name)):
            return Ask(found.name, application, key)
    raise Refused(f"application {application[:64]!r} has no pending ask {key[:64]!r}", NOT_FOUND)


def _changes(core: Core, on_copy: OnCopy, ask: Ask, now_ms: int) -> bytes:
    found = search(core, ask, on_copy, now_ms)
    _, pending = ask.of(core)
    return msgspec.json.encode(
        {
            **_head(core),
            "partition": plain(ask.partition),
            "application": ask.application,
            "queue": pending.application.queue.path,
            "key": ask.key,
            "resource": pending.ask.resource,
            "runs": found.runs,
            "constraints": [views.constraint(one, 0) for one in found.constraints],
            "changes": [_row(change) for change in found.changes],
            "trials": found.trials,
            "complete": found.complete,
            "passes": limits.WHAT_IF_PASSES,
        }
    )


def _row(change: Change) -> dict[str, object]:
    steps = [{**msgspec.to_builtins(step), "text": str(step)} for step in change.steps]
    return {"steps": steps, "exact": change.exact, "tried": change.tried, "of": change.of}
