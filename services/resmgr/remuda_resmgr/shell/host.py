"""Decides commands as they come, and answers each when its facts are durable.

While one commit is being appended, the facts of further commands are collected for the next. If an append or a decision
fails, nothing is decided any more: the process has to start again from the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from ..commands import Command
from ..core import Core
from ..facts import Fact
from ..state import State
from ..wire.commits import Commit, encode

Append = Callable[[bytes], Awaitable[None]]


class Stopped(Exception):
    """This process does not decide any more. Another may: the caller should try again."""


class Host:
    """`append` returns when the commit is durable. `run` has to run, or no command is answered."""

    def __init__(self, core: Core, append: Append, clock_ms: Callable[[], int]) -> None:
        self._core = core
        self._append = append
        self._clock_ms = clock_ms
        self._facts: list[Fact] = []
        self._durable: asyncio.Future[None] | None = None  # of the commit that collects facts
        self._appending: asyncio.Future[None] | None = None
        self._work = asyncio.Event()
        self._moved = asyncio.Event()
        self._fault: Exception | None = None
        self._stopped = False
        self.changes = 0  # how often something was decided

    @property
    def state(self) -> State:
        return self._core.state

    @staticmethod
    def time_s() -> float:
        """A time that only goes on, in s."""
        return asyncio.get_running_loop().time()

    async def do(self, command: Command) -> Any:
        """Decide a command. Returns its answer when it is durable. Raises Stopped."""
        if self._stopped:
            raise Stopped
        try:
            facts, answer = self._core.handle(command, self._clock_ms())
        except Exception as fault:
            # Some facts may have been applied, and will not be in the log.
            self._fault, self._stopped = fault, True
            self._work.set()
            raise
        if facts:
            self._facts.extend(facts)
            if self._durable is None:
                self._durable = asyncio.get_running_loop().create_future()
            self._work.set()
            self._notify()
        await self._until_durable()
        return answer

    async def ask(self, question: Callable[[State], Any]) -> Any:
        """Evaluate a question. Returns its answer when the state that it has seen is durable. Raises Stopped."""
        if self._stopped:
            raise Stopped
        answer = question(self.state)
        await self._until_durable()
        return answer

    async def moved(self, since: int, timeout_s: float) -> bool:
        """Wait until something was decided after `changes` was `since`. False: the time was over before."""
        try:
            async with asyncio.timeout(timeout_s):
                while self.changes == since and not self._stopped:
                    await self._moved.wait()
        except TimeoutError:
            return False
        return True

    async def run(self) -> None:
        """Append commits. Raises what `append` or a decision has raised, after which this host is stopped."""
        try:
            while True:
                await self._work.wait()
                self._work.clear()
                if self._fault is not None:
                    raise self._fault
                facts, self._facts = self._facts, []
                self._appending, self._durable = self._durable, None
                assert self._appending is not None
                await self._append(encode(Commit(self.state.now_ms, tuple(facts))))
                done, self._appending = self._appending, None
                done.set_result(None)
        finally:
            self._stopped = True
            for waiting in (self._appending, self._durable):
                if waiting is not None and not waiting.done():
                    waiting.set_exception(Stopped())
                    waiting.exception()  # nobody may be left to see it
            self._notify()

    async def _until_durable(self) -> None:
        latest = self._durable or self._appending
        if latest is not None:
            await asyncio.shield(latest)

    def _notify(self) -> None:
        self.changes += 1
        self._moved.set()
        self._moved = asyncio.Event()
