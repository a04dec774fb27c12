"""The network between all processes and the one server: its weather, subscriptions, and messages on their way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextvars import Context
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from remuda_bus.bus import Handler
from remuda_bus.memory import MemoryBus, matches

from .story import Story
from .weather import Weather

if TYPE_CHECKING:
    from .arrivals import Arrivals
    from .connection import Connection

Work = Callable[[], Coroutine[Any, Any, Any]]


@dataclass(eq=False, frozen=True, slots=True)
class Served:
    subject: str
    handler: Handler
    of: Connection
    answers: Callable[[], bool] | None
    mine: Callable[[str], bool] | None = None

    def is_asked(self, subject: str) -> bool:
        return (self.answers is None or self.answers()) and (self.mine is None or self.mine(subject))


class Network:
    """`judges`: off, the server takes what it should refuse, an append whose sender expected another to be the last,
    and does not say so. Then the chain alone tells leaders apart."""

    def __init__(self, server: MemoryBus, weather: Weather, random: Random, story: Story) -> None:
        self.server = server
        self.weather = weather
        self.random = random
        self.story = story
        self.judges = True
        self.endpoints: list[Served] = []
        self.listeners: list[tuple[str, Arrivals, Connection]] = []
        self.full = ""  # a subject on which nothing more is stored
        self.refused = 0  # messages that were to be stored there
        self.own = Context()  # of what no process does

    def later(self, delay_s: float, work: Callable[..., None], *args: Any) -> None:
        asyncio.get_running_loop().call_later(delay_s, work, *args, context=self.own)

    def pump(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(work, context=self.own)

    def asked(self, subject: str) -> list[Served]:
        """The receivers of a request: one of each queue group, and every other subscriber."""
        found = [one for one in self.endpoints if matches(one.subject, subject)]
        in_turn = [one for one in found if one.answers is None]
        return [*([self.random.choice(in_turn)] if in_turn else []), *(one for one in found if one.answers is not None)]


def at_once(work: Coroutine[Any, Any, Any]) -> Any:
    """The result of a verb of the server, which waits for nothing."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError(f"{work!r} waits")


async def one_by_one(parts: list[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part
