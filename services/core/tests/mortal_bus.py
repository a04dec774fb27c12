"""A bus of processes that can be killed."""

from __future__ import annotations

from collections.abc import Callable

from remuda_bus.bus import Handler, Serving, Unanswered
from remuda_bus.memory import MemoryBus


class Mortal(MemoryBus):
    """The bus of processes that can be killed: what they serve is away, and what they write does not arrive."""

    def __init__(self, server: MemoryBus) -> None:
        self.__dict__ = server.__dict__.copy()
        self.served: list[Serving] = []
        self.dead = False

    async def serve(
        self,
        subject: str,
        handler: Handler,
        name: str,
        answers: Callable[[], bool] | None = None,
        *,
        mine: Callable[[str], bool] | None = None,
        at_once: int = 0,
    ):
        serving = await super().serve(subject, handler, name, answers, mine=mine, at_once=at_once)
        self.served.append(serving)
        return serving

    async def put(self, *args, **options) -> int:
        await self.alive()
        return await super().put(*args, **options)

    async def delete(self, *args, **options) -> None:
        await self.alive()
        await super().delete(*args, **options)

    async def alive(self) -> None:
        if self.dead:
            raise Unanswered("it is dead")

    async def die(self) -> None:
        self.dead = True
        for serving in self.served:
            await serving.close()
        self.served.clear()
