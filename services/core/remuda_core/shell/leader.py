"""The leader of one resource manager: reads its inbox, has the core decide, appends one commit, and again.

It leads while it holds the lease, but what fences is the chain: a commit somebody else has overtaken is refused, and
then this process dies. Without a doubt about what is durable there is nothing to die for: who has lost only the lease
follows again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog
from google.protobuf.message import DecodeError

from remuda_bus import subjects, telemetry
from remuda_bus.bus import Bus, Full, Message, NobodyListens, Reader
from remuda_bus.lease import Lease
from remuda_bus.log import LogWriter, Position
from remuda_proto.remuda.v1 import inbox_pb2, log_pb2

from .. import commands, limits
from ..core import Core
from ..facts import Fact
from ..wire import Scribe
from .clock import Clock
from .snapshots import Snapshots

log = structlog.get_logger()


class Leader:
    """Raises LostLeadership, ChangedPast or an outage of the bus: whatever it was, the process has to die and be born
    again from the log. `core` stands where `writer` goes on."""

    def __init__(
        self,
        bus: Bus,
        core: Core,
        lease: Lease,
        writer: LogWriter,
        clock_ms: Callable[[], int],
        snapshots: Snapshots,
    ) -> None:
        self.rm_id = core.state.rm_id
        self.core = core
        self._bus = bus
        self._clock_ms = Clock(clock_ms, asyncio.get_running_loop().time, core.state.now_ms).now_ms
        self._lease = lease
        self._writer = writer
        self._snapshots = snapshots
        self._more_to_schedule = True
        self._last_tick_ms = 0
        self._next_clean_ms = 0

    @property
    def position(self) -> Position:
        """The last commit that is durable."""
        return self._writer.position

    async def lead(self, may_stay: Callable[[], bool]) -> Position:
        """As long as the lease is held and `may_stay()`, which is asked at least every second. Returns the last commit:
        the core stands there, and all is durable."""
        log.info("leading", rm=self.rm_id, log_seq=self.position.seq, epoch=self._lease.epoch)
        inbox = await self._bus.read(subjects.INBOX.name, subjects.inbox(self.rm_id), self.core.state.inbox_seq)
        try:
            await self._loop(inbox, lambda: self._lease.held and may_stay())
        finally:
            await self._snapshots.close()
            await inbox.close()
        log.info("led", rm=self.rm_id, log_seq=self.position.seq, lease="kept" if self._lease.held else "lost")
        return self.position

    async def _loop(self, inbox: Reader, goes_on: Callable[[], bool]) -> None:
        """While one commit is on its way into the log, the next is decided on top of it, to be appended when the first
        is durable. Nobody hears of either before that; if the first fails, both die with this process."""
        appending: asyncio.Future[None] = asyncio.ensure_future(asyncio.sleep(0))
        try:
            while goes_on():
                messages = await self._take(inbox, 0.0)
                if not messages and not self._more_to_schedule:
                    await appending
                    messages = await self._take(inbox, self._patience_s())
                if self._snapshots.wanted():
                    await appending
                    self._snapshots.take(self.position)
                commit, trace = await self._decide(messages)
                if messages or commit.decisions:
                    self._snapshots.count(sum(len(decision.facts) for decision in commit.decisions))
                    await appending
                    appending = asyncio.ensure_future(self._append(commit, trace))
                    await asyncio.sleep(0)  # it begins
            await appending
        finally:
            appending.cancel()

    async def _take(self, inbox: Reader, timeout_s: float) -> list[Message]:
        return await inbox.batch(limits.COMMANDS_PER_COMMIT, limits.INBOX_BYTES_PER_COMMIT, timeout_s)

    def _patience_s(self) -> float:
        """How long to wait for a command before there is something to do without one."""
        return max(0.0, (self._next_tick_ms() - self._clock_ms()) / 1000)

    def _next_tick_ms(self) -> int:
        alarm_ms = self.core.state.timers.next_ms()
        regular_ms = self._last_tick_ms + limits.TICK_MS
        return regular_ms if alarm_ms is None else min(regular_ms, max(alarm_ms, self._last_tick_ms + limits.ALARMS_MS))

    async def _decide(self, messages: list[Message]) -> tuple[log_pb2.Commit, dict[str, str]]:
        """One commit for all of them, a pass of scheduling, and the headers that carry its trace."""
        now_ms = self._clock_ms()
        scribe, commit = Scribe(), log_pb2.Commit(epoch=self._lease.epoch)
        traced: list[dict[str, str]] = []
        for message in messages:
            with telemetry.span("core.decide", message.headers, rm=self.rm_id) as span:
                self._answer(scribe, commit, message, now_ms, span.headers())
            if span.headers():
                traced.append(span.headers())
            await asyncio.sleep(0)  # the commit before this one is on its way, let it go on
        if now_ms >= self._next_tick_ms():
            self._last_tick_ms = now_ms
            self._own(scribe, commit, "Tick", self.core.handle(commands.Tick(), now_ms), {})
        if now_ms >= self._next_clean_ms:
            self._next_clean_ms = now_ms + limits.CLEAN_QUEUES_MS
            self._own(scribe, commit, "CleanQueues", self.core.handle(commands.CleanQueues(), now_ms), {})
        trace = traced[0] if traced else {}
        facts = self.core.handle(commands.Schedule(limits.ALLOCATIONS_PER_PASS), now_ms)
        self._more_to_schedule = len(facts) >= limits.ALLOCATIONS_PER_PASS
        self._own(scribe, commit, "Schedule", facts, trace)
        state = self.core.state
        commit.inbox_seq, commit.now_ms = state.inbox_seq, state.now_ms
        return commit, trace

    def _answer(
        self, scribe: Scribe, commit: log_pb2.Commit, message: Message, now_ms: int, trace: dict[str, str]
    ) -> None:
        state = self.core.state
        state.inbox_seq = message.seq
        try:
            command = inbox_pb2.Command.FromString(message.payload)
        except DecodeError:
            log.error("a command that cannot be read is passed over", rm=self.rm_id, inbox_seq=message.seq)
            commit.decisions.add(inbox_seq=message.seq, command="Unreadable")
            return
        position = (command.request_seq, command.request_part)
        if command.request_seq and position <= (state.request_seq, state.request_part):
            return  # forwarded twice: it has been handled
        name, asked = scribe.read(command)
        decision = commit.decisions.add(
            inbox_seq=message.seq,
            command=name,
            correlation_id=command.correlation_id,
            traceparent=trace.get(subjects.TRACEPARENT, ""),
            request_seq=command.request_seq,
            request_part=command.request_part,
        )
        if command.request_seq:
            state.request_seq, state.request_part = position
        scribe.write(self.core.handle_all(asked, now_ms), decision)

    def _own(self, scribe: Scribe, commit: log_pb2.Commit, name: str, facts: list[Fact], trace: dict[str, str]) -> None:
        if facts:
            decision = commit.decisions.add(command=name, traceparent=trace.get(subjects.TRACEPARENT, ""))
            scribe.write(facts, decision)

    async def _append(self, commit: log_pb2.Commit, trace: dict[str, str]) -> None:
        with telemetry.span("core.commit", trace, rm=self.rm_id, inbox_seq=commit.inbox_seq) as span:
            began = asyncio.get_running_loop().time()
            while True:
                try:
                    await self._writer.append(commit, span.headers() or None)
                    return
                except NobodyListens:
                    if asyncio.get_running_loop().time() - began >= limits.LEADERLESS_S:
                        raise
                    await asyncio.sleep(limits.LEADERLESS_RETRY_S)
                except Full as error:
                    log.error(
                        "the log is full, nothing can be decided until there is room", rm=self.rm_id, error=str(error)
                    )
                    await asyncio.sleep(limits.FULL_RETRY_S)
