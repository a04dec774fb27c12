"""Replays that people ask for on the page: what if this configuration had been in force. Each is played by a process of
its own, one after the other, and its report is kept in the store of the archive, beside what the archive has.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import msgspec

from remuda_archive.holdings import prefix_of, replay_name
from remuda_archive.store import Store, StoreFailed
from remuda_bus.bus import Refused
from remuda_bus.status_codes import BUSY, NOT_FOUND, UNAVAILABLE
from remuda_config import Invalid, load
from remuda_proto.bounds import shown

from .past import NoPast, Past
from .versions import NoVersion, Version, this_version
from .when import at_of

# Reports that are kept of each RM; the oldest goes when there is another one.
KEPT: Final = 50
# Replays that wait or are played in this process.
WAITING: Final = 4
# A replay that takes longer is given up, and one that is older and has no report was interrupted.
WITHIN_S: Final = 3_600.0
TITLE_CHARACTERS: Final = 200
SINCE: Final = "7d"


class Kept(msgspec.Struct, omit_defaults=True):
    """`state`: running, done or failed. `report`: of a replay (docs/history.md), without series over time."""

    id: str
    title: str
    since: str
    at_ms: int
    state: str = "running"
    problem: str = ""
    report: dict[str, Any] | None = None

    def row(self) -> dict[str, Any]:
        return {"id": self.id, "title": self.title, "since": self.since, "at_ms": self.at_ms, "state": self.state,
                "problem": self.problem}  # fmt: skip


class Replays:
    def __init__(
        self, store: Store, options: Mapping[str, str] | None = None, version: Version | None = None,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:  # fmt: skip
        self._store = store
        self._options = [f"--archive-option={name}={value}" for name, value in (options or {}).items()]
        self._version = version or this_version()
        self._clock_ms = clock_ms
        self._turn = asyncio.Semaphore(1)
        self._running: set[asyncio.Task[None]] = set()
        self._rows: dict[str, dict[str, Any]] = {}  # of replays that are over, by the names of their objects

    async def begin(self, rm: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Play a period with `text`, a queues.yaml, instead of the configurations in force. Returns the row of the
        replay, which goes on. Raises Refused."""
        text, since = request.get("text"), request.get("since", SINCE)
        title = request.get("title", "")
        for name, value in (("text", text), ("since", since), ("title", title)):
            if not isinstance(value, str):
                raise Refused(f"{name} is {shown(value)}, expected a text")
        if len(title) > TITLE_CHARACTERS:
            raise Refused(f"title has {len(title)} characters, expected at most {TITLE_CHARACTERS}")
        assert isinstance(text, str)
        try:
            load(text)
            begin_ms = at_of(since, datetime.fromtimestamp(self._clock_ms() / 1_000, UTC))
        except Invalid as invalid:
            raise Refused(f"text: {'; '.join(map(str, invalid.problems[:10]))}") from None
        except ValueError as error:
            raise Refused(f"since: {error}") from None
        if len(self._running) >= WAITING:
            raise Refused(f"{WAITING} replays are waiting already, try again", BUSY)
        now_ms = self._clock_ms()
        kept = Kept(f"{now_ms:013}-{uuid4().hex[:8]}", title or "another queues.yaml", since, now_ms)
        try:
            past = await Past.open(self._store, rm)
            words = [f"--since={begin_ms.text}"] if (begin_ms.ms or 0) > (await past.span())[0] else []
            await self._put(rm, kept)
        except (NoPast, StoreFailed) as error:
            raise _refused(error) from None
        task = asyncio.create_task(self._play(rm, kept, text, words), name=f"replay {kept.id}")
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return kept.row()

    async def _play(self, rm: str, kept: Kept, text: str, words: list[str]) -> None:
        async with self._turn:
            with tempfile.TemporaryDirectory(prefix="remuda-replay-") as directory:
                queues = Path(directory) / "queues.yaml"
                queues.write_text(text, encoding="utf-8")
                of_store = [f"--archive={self._store.where}", *self._options]
                try:
                    async with asyncio.timeout(WITHIN_S):
                        report = await self._version.json(
                            "replay", rm, *of_store, *words, f"--queues={queues}", "--json"
                        )  # fmt: skip
                except NoVersion as error:
                    kept.state, kept.problem = "failed", str(error)
                except TimeoutError:
                    kept.state, kept.problem = "failed", f"it has taken longer than {WITHIN_S:g} s"
                else:
                    kept.state, kept.report = "done", _bounded(report, kept.title)
        try:
            await self._put(rm, kept)
        except StoreFailed:
            pass  # it is shown as interrupted

    async def close(self) -> None:
        """End what is played. Its replays are shown as interrupted later."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def rows(self, rm: str) -> dict[str, Any]:
        """All that are kept, the newest first. Raises Refused."""
        names = [replay_name(rm, key) for key in sorted(await self._keys(rm), reverse=True)]
        rows = {name: self._rows.get(name) or await self._row(rm, name) for name in names}
        over = {name: row for name, row in rows.items() if row and row["state"] != "running"}
        self._rows = {name: row for name, row in self._rows.items() if not name.startswith(prefix_of(rm))} | over
        return {"replays": [row for row in rows.values() if row]}

    async def _row(self, rm: str, name: str) -> dict[str, Any] | None:
        found = await self._get(rm, name.rpartition("/")[2].removesuffix(".json"))
        return found.row() if found is not None else None

    async def report(self, rm: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Raises Refused."""
        key = request.get("id")
        found = await self._get(rm, key) if isinstance(key, str) and key in await self._keys(rm) else None
        if found is None:
            raise Refused(f"there is no replay {shown(key)} of {rm!r}", NOT_FOUND)
        return {**found.row(), "report": found.report}

    async def _keys(self, rm: str) -> list[str]:
        prefix = f"{prefix_of(rm)}replays/"
        try:
            return [name.removeprefix(prefix).removesuffix(".json") for name in await self._store.names(prefix)]
        except StoreFailed as error:
            raise _refused(error) from None

    async def _get(self, rm: str, key: str) -> Kept | None:
        try:
            content = await self._store.get(replay_name(rm, key))
        except StoreFailed as error:
            raise _refused(error) from None
        try:
            found = msgspec.json.decode(content, type=Kept) if content is not None else None
        except msgspec.MsgspecError:
            return None
        if found is not None and found.state == "running" and self._clock_ms() - found.at_ms > 2_000 * WITHIN_S:
            found.state, found.problem = "failed", "it was interrupted"
        return found

    async def _put(self, rm: str, kept: Kept) -> None:
        await self._store.put(replay_name(rm, kept.id), msgspec.json.encode(kept))
        for key in sorted(await self._keys(rm))[:-KEPT]:
            await self._store.delete(replay_name(rm, key))


def _bounded(report: dict[str, Any], title: str) -> dict[str, Any]:
    """Without the amounts of each part of the period, which an answer has no room for."""
    runs = {name: _without_series(report[name]) for name in ("actual", "unchanged")}
    variants = [{**_without_series(one), "change": title} for one in report["variants"]]
    return {**report, **runs, "variants": variants}


def _without_series(run: dict[str, Any]) -> dict[str, Any]:
    return {
        **{name: one for name, one in run.items() if name != "series"},
        "fairness": {"mean": run["fairness"]["mean"]},
    }


def _refused(error: Exception) -> Refused:
    return Refused(str(error), NOT_FOUND if isinstance(error, NoPast) else UNAVAILABLE)
