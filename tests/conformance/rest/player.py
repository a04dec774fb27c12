"""A scenario played on the core alone, with the pages of the web service over the core's answers to queries."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping
from types import MappingProxyType
from typing import Any, Final

import httpx
import msgspec

import remuda_config
from remuda_bus.bus import Refused
from remuda_core.core import Core
from remuda_core.shell.queries import Queries
from remuda_events.event_records import event_records_of
from remuda_proto.remuda.v1 import log_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_web.app import Application
from remuda_web.source import Event, Events, Group, Row, Unreadable

from ..in_process import COMPATIBILITY, InProcess
from ..recording import Scenario, Step
from .recordings import Answer

NS_PER_MS = 1_000_000
NONE: Final[Mapping[Any, Any]] = MappingProxyType({})


class CoreSource:
    """The source of the web service, from a core in this process."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.text = ""
        self.recorded: list[Event] = []

    def rms(self) -> list[str]:
        return [self._core.state.rm_id] if self._core.state.registered is not None else []

    def records(self) -> Row:
        return {}

    def _ask(self, kind: str, **arguments: Any) -> Row:
        found: Row = msgspec.json.decode(msgspec.json.encode(Queries(self._core).kinds[kind](arguments)))
        return found

    async def page(self, rm: str, kind: str, **arguments: Any) -> Row:
        return self._ask(kind, **arguments)

    async def past(self, rm: str, kind: str, **request: Any) -> Row:
        raise Unreadable("there is no archive")

    async def configurations(self, kind: str, request: Row) -> Row:
        return {"valid": not await self.problem(request["text"])} if kind == "check" else {"versions": []}

    async def partitions(self, rm: str) -> list[Row]:
        found: list[Row] = self._ask("queues", limit=1)["partitions"]
        return found

    async def rows(self, rm: str, kind: str, **filters: str) -> list[Row]:
        found: list[Row] = []
        page: Row = {}
        with contextlib.suppress(Refused):
            while not page or page.get("next") is not None:
                page = self._ask(kind, **filters, **({"after": page["next"]} if page else {}))
                found += page[kind]
        return found

    async def stats(self, rm: str) -> Row:
        return self._ask("stats")

    async def configuration(self, rm: str | None) -> str:
        return self.text

    async def problem(self, text: str) -> str:
        try:
            remuda_config.load(text, "check", COMPATIBILITY)
        except remuda_config.Invalid as invalid:
            return "; ".join(map(str, invalid.problems))
        return ""

    async def events(self, start: int, count: int) -> Events:
        return Events(0, max(0, len(self.recorded) - 1), self.recorded[start : start + count])

    async def new_events(self, count: int) -> AsyncGenerator[Group]:
        yield Group(self.recorded[-count:])


async def exchange(
    app: Application, method: str, path: str, body: str = "", accept: str = "", headers: dict[str, str] | None = None
) -> Answer:
    sent = {**(headers or {}), **({"Accept": accept} if accept else {})}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app)) as client:
        given = await client.request(method, f"http://web{path}", content=body, headers=sent)
    try:
        decoded = given.json()
    except ValueError:
        decoded = None
    return Answer(given.status_code, dict(given.headers), given.text, decoded)


class WithPages(InProcess):
    """`answers`: by the number of the step. `headers`: by the number of the step, those of its request beside the ones
    that the scenario has."""

    def __init__(
        self, scenario: Scenario, compatibility: str = COMPATIBILITY, headers: Mapping[int, Mapping[str, str]] = NONE
    ) -> None:
        super().__init__(scenario, compatibility)
        self._headers = headers
        self.answers: dict[int, Answer] = {}
        self.source = CoreSource(self.core)
        self.source.text = scenario.config
        self._app = Application(self.source, "conformance", self.now_ms, "info")
        self._loop = asyncio.Runner()

    def register(self) -> None:
        super().register()
        self._loop.run(self._app.answers.check_health())

    def take(self, step: Step) -> None:
        if step.action == "http":
            headers = {**(step.argument.get("headers") or {}), **self._headers.get(step.number, NONE)}
            self.answers[step.number] = self._loop.run(exchange(self._app, **{**step.argument, "headers": headers}))
        elif step.action == "health":
            self._loop.run(self._app.answers.check_health())
        elif step.action == "history":
            for _ in range(int(step.argument)):
                self._loop.run(self._app.answers.sample(self.now_ms * NS_PER_MS))
        else:
            super().take(step)
            if step.action == "config" and not self.answer.error:
                self.source.text = str(step.argument)

    def _receive(self, commit: log_pb2.Commit) -> None:
        super()._receive(commit)
        rm = self.core.state.rm_id
        self.source.recorded += [Event(rm, si.EventRecord.FromString(one)) for one in event_records_of(commit)]
