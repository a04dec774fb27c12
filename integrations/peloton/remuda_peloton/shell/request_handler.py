"""Handles RPCs: what changes something goes through the inbox, and is answered by the commit; questions are answered
from the state that this process has, as leader or as follower."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any

from remuda_bus import subjects, tracing
from remuda_bus.bus import Bus, BusError, Refused
from remuda_proto.remuda.resmgr.v1 import inbox_pb2, log_pb2
from remuda_replication.leader import Leader

from ..core import Core
from ..limits import ANSWERED_WITHIN_S, LONG_POLL_S, PAYLOAD_PARTS
from ..state import State
from ..wire.divide import divided
from ..wire.rpcs import Rpc
from .deciding import UNREADABLE


class Unavailable(Exception):
    """Nothing is decided now. The caller should try again."""


class RequestHandler:
    """Answers the RPCs of one process. `hot`: whether this process has caught up with the log."""

    def __init__(self, bus: Bus, log_id: str, core: Core, hot: Callable[[], bool]) -> None:
        self._bus = bus
        self._log_id = log_id
        self._core = core
        self._hot = hot
        self._answers: dict[str, asyncio.Future[bytes]] = {}
        self._changed = asyncio.Event()
        self._taking: Counter[object] = Counter()  # by kind of thing: asked for by takers that are not answered yet
        self.leader: Leader | None = None

    @property
    def state(self) -> State:
        return self._core.state

    def applied(self, commit: Any) -> None:
        """A commit is durable, and the state of this process has it."""
        decision: log_pb2.Decision
        for decision in commit.decisions:
            answer = self._answers.pop(decision.correlation_id, None) if decision.correlation_id else None
            if answer is None or answer.done():
                continue
            if decision.command == UNREADABLE:
                answer.set_exception(Unavailable("the leader could not read the request: its version is another one"))
            else:
                answer.set_result(decision.answer)
        self._changed.set()
        self._changed = asyncio.Event()

    async def answer(self, name: str, rpc: Rpc[Any, Any], request: Any) -> bytes:
        """The encoded response. Raises RpcError, Unavailable."""
        if not self._hot():
            raise Unavailable("this process is catching up with the log, try again")
        if rpc.question is not None:
            question = rpc.question
            return await self.ask(lambda state: question(state, request).SerializeToString())
        if rpc.check is not None:
            rpc.check(request)
        if rpc.waits is not None:
            return await self._wait_and_take(name, rpc, request)
        return await self._do(name, request)

    async def ask(self, question: Callable[[State], bytes]) -> bytes:
        """A leader's state may hold a commit that is not durable yet: it answers when it is."""
        if self.leader is None:
            return question(self._core.state)
        try:
            _, answer = await self.leader.ask(lambda: question(self._core.state))
        except Refused as error:
            raise Unavailable(str(error)) from None
        return answer

    async def _wait_and_take(self, name: str, rpc: Rpc[Any, Any], request: Any) -> bytes:
        """Wait until there is something to take, or the time of the request is over. What others of this process are
        about to take is not there: else all that wait would ask, and all but one in vain."""
        assert rpc.waits is not None
        loop = asyncio.get_running_loop()
        until = loop.time() + min(request.timeout / 1_000, LONG_POLL_S)
        while request.limit:
            changed, kind = self._changed, (name, getattr(request, "type", 0))
            if rpc.waits(self._core.state, request) > self._taking[kind]:
                self._taking[kind] += request.limit
                try:
                    if response := await self._do(name, request):
                        return response
                finally:
                    self._taking[kind] -= request.limit
            try:
                async with asyncio.timeout_at(until):
                    await changed.wait()
            except TimeoutError:
                break
        return b""

    async def _do(self, name: str, request: Any) -> bytes:
        """A request that is too large for one message is divided, and its parts are done one after the other. Encoded
        responses are put together by writing one behind the other."""
        parts = list(divided(request, self._bus.max_payload // PAYLOAD_PARTS))  # refused before any part is done
        return b"".join([await self._decided(name, part.SerializeToString()) for part in parts])

    async def _decided(self, name: str, request: bytes) -> bytes:
        """The answer of one command of the inbox, when its commit is durable."""
        token = uuid.uuid4().hex
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._answers[token] = answer
        command = inbox_pb2.Command(rpc=name, request=request, new_id=str(uuid.uuid4()), correlation_id=token)
        try:
            async with asyncio.timeout(ANSWERED_WITHIN_S):
                with tracing.span("resmgr.rpc", {}, rpc=name) as span:
                    await self._bus.append(
                        subjects.inbox(self._log_id), command.SerializeToString(), span.headers() or None
                    )
                return await answer
        except TimeoutError:
            raise Unavailable(f"{name} was not decided within {ANSWERED_WITHIN_S:.0f} s, try again") from None
        except BusError as error:
            raise Unavailable(f"the bus did not take {name}: {error}") from None
        finally:
            self._answers.pop(token, None)
