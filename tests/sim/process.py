"""A process of the simulation: it can be killed between any two steps, and is started again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from random import Random
from typing import Any, cast

from remuda_bus.bus import Bus, BusError
from remuda_bus.memory import MemoryBus

from .connection import Connection
from .network import Network
from .story import CURRENT, Story, Violation

ROUNDS_TO_END = 200

Main = Callable[[Bus], Coroutine[Any, Any, None]]


class Process:
    """`main` gets the connection of this life. `expected`: errors by which it may end, besides outages.
    `own_leases`: it never hears that another has the lease."""

    def __init__(
        self, name: str, main: Main, network: Network, random: Random, story: Story,
        *, expected: Callable[[BaseException], bool], own_leases: MemoryBus | None = None,
    ) -> None:  # fmt: skip
        self.name = name
        self.clock_s = 0.0  # how far its wall clock is ahead
        self.cores: list[Any] = []  # of this life
        self.connection: Connection | None = None
        self.links: list[Connection] = []  # of this life, to other servers than that of the bus
        self.lives = 0
        self.down_s = (0.05, 3.0)
        self._main = main
        self._network = network
        self._random = random
        self._story = story
        self._expected = expected
        self.own_leases = own_leases
        self._killed = False
        self.stopped: list[Callable[[], None]] | None = None  # what is due meanwhile
        self._stopped_s, self._stopped_at = 0.0, 0.0
        self._tasks: list[asyncio.Task[Any]] = []
        self._context = Context()
        self._context.run(CURRENT.set, self)
        self._working: asyncio.Task[None] | None = None

    def adopt(self, task: asyncio.Task[Any]) -> None:
        self._tasks.append(task)
        if len(self._tasks) > 200:
            self._tasks = [one for one in self._tasks if not one.done()]

    def work(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        return asyncio.get_running_loop().create_task(work, context=self._context)

    @property
    def alive(self) -> bool:
        return self._working is not None and not self._working.done()

    async def keep_running(self) -> None:
        """For ever: whenever it has ended, it is started again after a while."""
        while True:
            self.lives += 1
            self._killed = False
            self.cores, self.links = [], []
            self.connection = connection = Connection(self._network, self, self.own_leases)
            self._working = self.work(
                self._main(cast(Bus, connection))
            )  # its other verbs are found when they are asked for
            await asyncio.wait([self._working])
            self._judge(self._working)
            await self._end()
            await asyncio.sleep(self._random.uniform(*self.down_s))

    def stop(self, for_s: float) -> None:
        """SIGSTOP: what it had sent is on its way, time goes on, and it believes what it believed."""
        if self.alive and self.stopped is None:
            self._story.tell(f"{self.name} is stopped for {for_s:.1f} s")
            self.stopped, self._stopped_at = [], asyncio.get_running_loop().time()
            self._network.later(for_s, self.go_on)

    def go_on(self) -> None:
        if self.stopped is not None:
            self._stopped_s += asyncio.get_running_loop().time() - self._stopped_at
        due, self.stopped = self.stopped, None
        for one in due or ():
            one()

    def awake_s(self) -> float:
        """The time in which it was not stopped."""
        return asyncio.get_running_loop().time() - self._stopped_s

    def kill(self) -> None:
        """-9: from now on nothing it does has an effect."""
        if self.alive and self.connection is not None and self._working is not None:
            self._story.tell(f"{self.name} is killed")
            self._killed = True
            self.go_on()
            self._hang_up()
            for task in self._tasks:
                task.cancel()

    def link(self) -> Connection:
        """A connection of this life to another server, which ends with it."""
        self.links.append(link := Connection(self._network, self))
        return link

    def _hang_up(self) -> None:
        for connection in (self.connection, *self.links):
            if connection is not None:
                connection.hang_up()

    def _judge(self, ended: asyncio.Task[None]) -> None:
        if ended.cancelled() or self._killed:
            return
        error = ended.exception()
        self._story.tell(f"{self.name} ends: {said(error)}")
        for leaf in leaves(error):
            if not isinstance(leaf, BusError) and not self._expected(leaf):
                raise Violation(f"{self.name} dies: {said(leaf)}") from leaf

    async def _end(self) -> None:
        self._hang_up()
        for _ in range(ROUNDS_TO_END):
            alive = [task for task in self._tasks if not task.done()]
            if not alive:
                self._tasks = []
                return
            for task in alive:
                task.cancel()
            await asyncio.sleep(0)
        raise Violation(f"{self.name} does not end")


def leaves(error: BaseException | None) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for one in error.exceptions for leaf in leaves(one)]
    return [] if error is None else [error]


def said(error: BaseException | None) -> str:
    return "; ".join(f"{type(leaf).__name__}: {leaf}" for leaf in leaves(error)) or "it returned"
