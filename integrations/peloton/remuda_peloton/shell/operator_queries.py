"""Answers queries of operators, `remuda.api.peloton.<cluster>.<kind>`, in JSON (docs/queries.md).

The leader answers.
"""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, Final, TypeVar

import msgspec

from remuda_bus import subjects
from remuda_bus.bus import Bus, HistoryChanged, LogTrimmed, Message, Refused
from remuda_bus.status_codes import BUSY, NOT_FOUND, UNAVAILABLE
from remuda_bus.subjects import PELOTON_QUERIES
from remuda_bus.untrusted import Malformed, json_object
from remuda_operations.queries.fields import expect_fields
from remuda_proto.bounds import shown
from remuda_proto.remuda.resmgr.v1 import log_pb2
from remuda_replication.log import LogReader

from .. import limits
from ..core import Core
from ..explain import TaskRow, explanation, pool_rows
from ..preview import preview
from ..rules.lifecycle import PLACING, RESERVED
from ..rules.pools import InvalidPool, find_by_path, path_of
from ..state import State
from ..story import Story
from ..wire import pool_rpcs
from ..wire.guests import application_of, key_of
from ..wire.messages import read_fact
from .pools_file import PoolsFile, PoolsFileError
from .request_handler import RequestHandler, Unavailable

T = TypeVar("T")
# The fields of the request of each query.
FIELDS: Final = {"pools": ("path", "after"), "explain": ("id",), "story": ("id", "after"), "preview": ("text",)}
Place = tuple[int, int]  # the position of the commit in the log, and the index of the fact in it


class OperatorQueries:
    def __init__(self, bus: Bus, cluster: str, handler: RequestHandler, core: Core) -> None:
        self._bus = bus
        self._cluster = cluster
        self._handler = handler
        self._core = core
        self._story_turn, self._preview_turn = asyncio.Lock(), asyncio.Lock()

    async def serve(self) -> None:
        answers: Final[dict[str, Callable[[dict[str, Any]], Awaitable[bytes]]]] = {
            "pools": self._pools, "explain": self._explain, "story": self._story, "preview": self._preview,
        }  # fmt: skip
        for kind in PELOTON_QUERIES:
            handle = self._bus_handler(answers[kind], FIELDS[kind])
            await self._bus.serve(
                subjects.peloton_query(self._cluster, kind), handle, kind, lambda: self._handler.leader is not None
            )

    @staticmethod
    def _bus_handler(
        answer: Callable[[dict[str, Any]], Awaitable[bytes]], fields: Sequence[str]
    ) -> Callable[[Message], Awaitable[bytes]]:
        async def handle(message: Message) -> bytes:
            try:
                request = json_object(message.payload or b"{}", "the request")
                expect_fields(request, fields)
                return await answer(request)
            except Malformed as error:
                raise Refused(str(error)) from error
            except Unavailable as error:
                raise Refused(str(error), UNAVAILABLE) from error

        return handle

    async def _pools(self, request: dict[str, Any]) -> bytes:
        """`path`: this pool and those below it. `after`: `next` of the page before."""
        path, after = _given(request, "path", str, "/"), _given(request, "after", str, "")

        def rows(state: State) -> bytes:
            if not path.startswith("/") or find_by_path(path, state.configs()) is None:
                raise Refused(f"path is {shown(path)}, expected that of a pool, such as /a/b", NOT_FOUND)
            found = pool_rows(state, after, limits.POOL_ROWS, path)
            more = {"next": found[-1].path} if len(found) == limits.POOL_ROWS else {}
            return msgspec.json.encode({"pools": found, **more})

        return await self._handler.ask(rows)

    async def _explain(self, request: dict[str, Any]) -> bytes:
        """`id`: of a task, a run, or gang/NUMBER."""
        sought = _given(request, "id", str, "")

        def explained(state: State) -> bytes:
            found = explanation(state, self._core.settings, sought)
            if found is None:
                raise Refused(f"there is no task, run or gang {shown(sought)} now", NOT_FOUND)
            for row in found.tasks:
                if elsewhere := where_to_look(state, self._cluster, row):
                    row.reason = f"{row.reason}; {elsewhere}"
            return msgspec.json.encode(found)

        return await self._handler.ask(explained)

    async def _preview(self, request: dict[str, Any]) -> bytes:
        """`text`: all pools, as a file describes them. Refused as its application would be."""
        text = _given(request, "text", str, "")
        if self._preview_turn.locked():
            raise Refused("another preview is being computed, try again", BUSY)
        async with self._preview_turn:
            try:
                described = await asyncio.to_thread(PoolsFile, text)
            except PoolsFileError as error:
                raise Refused(str(error)) from None
            command = pool_rpcs.with_ids(pool_rpcs.command_of(described.request), str(uuid.uuid4()))

            def previewed(state: State) -> bytes:
                try:
                    return msgspec.json.encode(preview(state, self._core.settings, command.pools))
                except InvalidPool as problem:
                    raise Refused(str(described.problem(pool_rpcs.problem_of(problem)))) from None

            return await self._handler.ask(previewed)

    async def _story(self, request: dict[str, Any]) -> bytes:
        """`id`: of a task, a run or a pool, the path of a pool that exists, or gang/NUMBER. `after`: `next` of the page
        before."""
        sought, after = _given(request, "id", str, ""), _given(request, "after", tuple[int, int], (0, -1))
        if self._story_turn.locked():
            raise Refused("another story is being read, try again", BUSY)
        try:
            async with self._story_turn, asyncio.timeout(limits.STORY_WITHIN_S):
                return msgspec.json.encode(await self._lines(sought, after))
        except TimeoutError:
            raise Refused(f"the story was not read within {limits.STORY_WITHIN_S:g} s, try again", BUSY) from None
        except (HistoryChanged, LogTrimmed) as error:
            raise Refused(f"the log has changed, try again: {error}", UNAVAILABLE) from error

    async def _lines(self, sought: str, after: Place) -> dict[str, Any]:
        """From the beginning of the log also for a later page: the gangs of a task are known from there."""
        configs = self._handler.state.configs()
        if sought.startswith("/"):
            sought = find_by_path(sought, configs) or sought
        story = Story(sought, lambda pool_id: path_of(pool_id, configs) if pool_id in configs else pool_id)
        lines, last = list[dict[str, Any]](), after
        log_id = subjects.peloton_log(self._cluster)
        reader = await LogReader.open(self._bus, log_id, None, commit_class=log_pb2.Commit)  # type: ignore[arg-type]
        try:
            async with aclosing(reader.read_to_end()) as batches:  # type: ignore[type-var]
                async for entries in batches:
                    for entry in entries:
                        for place, (decision, text) in _told(story, entry):
                            if place <= after:
                                continue
                            if len(lines) == limits.STORY_LINES:
                                return {"lines": lines, "next": last}
                            cause = {"command": decision.command, "inbox_seq": decision.inbox_seq}
                            lines.append({"at_ms": entry.commit.now_ms, "log_seq": entry.seq, "text": text, **cause})
                            last = place
                    await asyncio.sleep(0)
        finally:
            await reader.close()
        return {"lines": lines}


def _told(story: Story, entry: Any) -> list[tuple[Place, tuple[Any, str]]]:
    index = itertools.count()
    return [
        ((entry.seq, number), (decision, text))
        for decision in entry.commit.decisions
        for fact in decision.facts
        for number in (next(index),)
        if (text := story.line_of(read_fact(fact))) is not None
    ]


def _given(request: dict[str, Any], name: str, kind: type[T], default: T) -> T:
    try:
        return msgspec.convert(request.get(name, default), kind)
    except msgspec.ValidationError as error:
        raise Refused(f"{name} is {shown(request.get(name))}: {error}") from None


def where_to_look(state: State, cluster: str, row: TaskRow) -> str:
    """The command that says why the core of another resource manager has not placed the task yet; empty: no engine of
    shared hosts can have it."""
    run = state.runs.get(row.task)
    if run is None or run.task.mesos_id != row.run or run.state not in (PLACING, RESERVED):
        return ""
    names = f"{application_of(cluster, run.pool_id)} {key_of(cluster, row.run)}"
    rms = dict.fromkeys(name.partition("/")[0] for name in state.shared)
    return "; ".join(f"if it is to be placed on nodes of {rm}: remuda explain {rm} {names}" for rm in rms)
