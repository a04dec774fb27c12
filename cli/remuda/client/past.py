"""`remuda --at WHEN COMMAND`: the command shows what there was then.

Commands ask cores over a connection. With --at the connection passes their queries to the service that reads an
archive, or, with --archive, answers them itself, without a system that runs.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

import msgspec

from remuda_bus import subjects
from remuda_bus.bus import Bus, Entry, Message, Refused, Unanswered
from remuda_bus.status_codes import NOT_FOUND
from remuda_operations.queries.core import PAST_TIMEOUT_S

from .. import extras
from ..errors import UserError

_CORE_QUERY = subjects.core_query("", "").removesuffix("..")  # the names before the RM

# The commands that may be asked about the past.
COMMANDS = ("queues", "applications", "nodes", "usage", "explain")
_LIST_RMS = subjects.operator_method("admin", "ListResourceManagers")


@dataclass(frozen=True, slots=True)
class Moment:
    """`at`: a commit, or a time as text. `archive`: where it is read; None: by the service. `options`: of its store."""

    at: int | str
    archive: str | None = None
    options: tuple[str, ...] = ()


_selected: Moment | None = None
_answered_ms = 0


class _Timed(msgspec.Struct):
    """An answer, of which only the time of the state that it shows is read."""

    at_ms: int = 0


def select(at: str | None, archive: str | None, options: tuple[str, ...]) -> None:
    """Selects the moment that all connections of this process ask about. Raises UserError for a time that is none."""
    global _selected  # noqa: PLW0603 - an option of the command line, as the environment is
    _selected = None
    if at is None:
        return
    from ..history.when import at_of

    try:
        found = at_of(at, datetime.now().astimezone())
    except ValueError as error:
        raise UserError(f"--at: {error}") from None
    moment = found.seq if found.seq is not None else _text(found.ms or 0)
    _selected = Moment(moment, archive, options)


def _text(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1_000).astimezone().isoformat(timespec="milliseconds")


def is_selected() -> bool:
    return _selected is not None


def now_ms() -> float:
    """The time for which a command shows the state, in ms since 1970: now, or that of the last answer about the
    past."""
    return _answered_ms if _selected is not None and _answered_ms else time.time() * 1_000


def _note_time(answer: Message) -> None:
    global _answered_ms  # noqa: PLW0603 - as the selected moment
    _answered_ms = msgspec.json.decode(answer.payload, type=_Timed).at_ms


def selected() -> Moment | None:
    return _selected


class PastBus:
    """A connection on which queries to cores are about the past. It sends nothing else that shows the present."""

    def __init__(self, moment: Moment, bus: Bus) -> None:
        self._moment = moment
        self._bus = bus

    async def request(
        self, subject: str, payload: bytes = b"", headers: dict[str, str] | None = None, timeout_s: float = 5.0
    ) -> Message:
        if subject == _LIST_RMS:
            return await self._list_rms(payload)
        if not subject.startswith(f"{_CORE_QUERY}."):
            raise _not_then()
        rm, kind = subject.split(".")[-2:]
        if kind not in subjects.PAST_QUERIES:
            raise _not_then()
        asked = json.dumps({**json.loads(payload or b"{}"), "at": self._moment.at}).encode()
        try:
            answer = await self._ask(rm, kind, asked, headers)
            _note_time(answer)
            return answer
        except Refused as refused:
            if refused.code == NOT_FOUND:
                raise UserError(f"at {self._moment.at}: {refused.reason}") from None
            raise

    async def _ask(self, rm: str, kind: str, payload: bytes, headers: dict[str, str] | None) -> Message:
        try:
            return await self._bus.request(subjects.past_query(rm, kind), payload, headers, timeout_s=PAST_TIMEOUT_S)
        except Unanswered:
            raise UserError(
                "no service answers about the past: `remuda run history` starts it, as `remuda up --archive` does; "
                "--archive reads an archive without it"
            ) from None

    async def _list_rms(self, payload: bytes) -> Message:
        return await self._bus.request(_LIST_RMS, payload)

    async def entries(self, bucket: str) -> list[Entry]:
        return await self._bus.entries(bucket)

    async def get(self, bucket: str, key: str) -> Entry | None:
        return await self._bus.get(bucket, key)

    async def close(self) -> None:
        await self._bus.close()

    def __getattr__(self, name: str) -> Any:
        raise _not_then()


class ArchiveBus(PastBus):
    """The same from an archive, without a server."""

    def __init__(self, moment: Moment) -> None:
        from remuda_archive.settings import ArchiveSettings
        from remuda_archive.store import Store

        from ..history.answers import Answers

        assert moment.archive is not None
        try:
            options = ArchiveSettings(options=moment.options).option_values
            self._store = Store.open(moment.archive, options)
        except ValueError as error:
            raise UserError(str(error)) from None
        self._moment = moment
        self._answers = Answers(self._store)

    async def _ask(self, rm: str, kind: str, payload: bytes, headers: dict[str, str] | None) -> Message:
        return Message("", await self._answers.answer(rm, kind, json.loads(payload)), {}, 0, 0)

    async def _list_rms(self, payload: bytes) -> Message:
        raise Refused("an archive is no front end")

    async def entries(self, bucket: str) -> list[Entry]:
        """The RMs of the archive."""
        from remuda_archive.holdings import holdings_of_all
        from remuda_archive.store import StoreFailed

        if bucket != subjects.RMS.name:
            return []
        try:
            held = holdings_of_all(await self._store.names())
        except StoreFailed as error:
            raise UserError(str(error)) from None
        record = {"state": "registered"}
        return [Entry(subjects.key_of(one.rm), json.dumps({**record, "rm_id": one.rm}).encode(), 1) for one in held]

    async def get(self, bucket: str, key: str) -> Entry | None:
        return next((one for one in await self.entries(bucket) if one.key == key), None)

    async def close(self) -> None:
        pass


@contextlib.asynccontextmanager
async def archive_bus(moment: Moment) -> AsyncIterator[Bus]:
    extras.need("archive", "remuda --archive")
    yield cast(Bus, ArchiveBus(moment))


def of_past(moment: Moment, bus: Bus) -> Bus:
    return cast(Bus, PastBus(moment, bus))


def _not_then() -> UserError:
    return UserError(f"--at: this command shows the present only; commands with --at are {', '.join(COMMANDS)}")
