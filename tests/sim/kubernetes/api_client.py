"""The front end's client, over a simulated connection to the API server: calls get lost, before or after their effect,
fail, and overtake each other; watches end, break, fall silent, and come late."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from random import Random
from typing import Any

import msgspec

from remuda_bus.bus import Unanswered
from remuda_kubernetes import limits
from remuda_kubernetes.api.client import JSON, ApiError, Away, Client, error_of
from remuda_kubernetes.api.credentials import Credentials, FixedToken

from ..arrivals import Arrivals
from ..connection import Connection
from ..weather import Fate, Weather
from .api_server import ApiServer

NAMESPACE = "remuda"
BINDINGS_UNSTABLE = 0.1


class SimulatedClient(Client):
    """`unstable`: how often the API server fails a call; bindings fail more often."""

    def __init__(self, server: ApiServer, link: Connection, weather: Weather, random: Random, unstable: float) -> None:
        super().__init__(Credentials("https://simulated", None, FixedToken(""), NAMESPACE))
        self._server = server
        self._link = link
        self._weather = weather
        self._random = random
        self._unstable = unstable

    async def call(
        self,
        verb: str,
        path: str,
        body: Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        form: str = JSON,
        query: Mapping[str, str] | None = None,
    ) -> bytes:
        sent = None if body is None else msgspec.json.decode(msgspec.json.encode(body))
        answer: bytes = await self._ask(f"{verb} {path}", lambda: self._server.call(verb, path, sent, query))
        return answer

    async def lines(self, path: str, query: Mapping[str, str]) -> AsyncIterator[bytes]:
        arrivals = self._link.arriving()
        lane = object()

        def push(one: bytes | ApiError | None) -> None:
            arrivals.come([one], self._link.delay_s(lane))

        end: Callable[[], None] = await self._ask(f"WATCH {path}", lambda: self._server.watch(path, query, push))
        ends_at = asyncio.get_running_loop().time() + float(query["timeoutSeconds"])
        try:
            while asyncio.get_running_loop().time() < ends_at:
                yield await self._next(arrivals)
        except EOFError:
            return
        finally:
            end()
            self._link.forget(arrivals)

    async def _next(self, arrivals: Arrivals) -> bytes:
        """Raises Away after a silence, EOFError when the watch has ended."""
        for one in await arrivals.take(1, timeout_s=limits.WATCH_S + limits.WATCH_SILENCE_S):
            if isinstance(one, ApiError):
                raise one
            if one is None:
                raise EOFError
            assert isinstance(one, bytes)
            return one
        raise Away("silence", 0)

    async def _ask(self, what: str, work: Callable[[], Any]) -> Any:
        """Raises ApiError."""

        def arrived(answered: asyncio.Future[Any], fate: Fate) -> None:
            result: Any = None
            error: ApiError | None = None
            unstable = max(self._unstable, BINDINGS_UNSTABLE) if what.endswith("/binding") else self._unstable
            fails = not self._weather.calm and self._random.random() < unstable
            if not self._server.is_up:
                error = Away(f"{what}: connection refused", 0)
            elif fails and self._random.random() < 0.5:
                error = error_of(429, f"{what}: too many requests")
            else:
                try:
                    result = work()
                except ApiError as refused:
                    error = refused
                if fails:
                    error = error_of(504, f"{what}: etcd has not answered in time")
            self._link.answer(answered, fate, result, error)

        try:
            return await self._link.ask("", arrived, limits.CALL_WITHIN_S, what)
        except Unanswered as error:
            raise Away(str(error), 0) from None
