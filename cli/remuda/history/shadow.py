"""The shadow: a second configuration, or another version, decides what the leader decides, from the same inputs, and
reports where it decides otherwise.

It follows logs and inboxes as an archive does, into a directory of its own, and writes nothing on the bus: its rights
there are to read. After each interval a process at the lowest priority decides the new commits again, each on the state
that it really met (`remuda replay --exact`). At longer intervals another one plays the whole period, which shows the
effect (`remuda replay`). A shadow that does not keep up decides one commit of several, and says so.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path

import structlog

from remuda_archive import limits
from remuda_archive.copying import Copying
from remuda_archive.holdings import holdings_of, prefix_of, snapshot_name
from remuda_archive.segments import Damaged, SnapshotHeader, encode_snapshot
from remuda_archive.shell import copy, tidy
from remuda_archive.store import Store, StoreFailed
from remuda_archive.tidying import Tidying
from remuda_bus import health, subjects
from remuda_bus.bus import Bus
from remuda_bus.metrics import counter, gauge, rm_label
from remuda_config import Invalid, Problem, load_file, read_file
from remuda_core.core import Core
from remuda_core.shell.machine import CoreMachine
from remuda_replication.log import Position
from remuda_replication.snapshots import SnapshotListing, name_of

from ..limits import MAX_PAYLOAD_BYTES
from .past import NoPast, Past
from .shadow_report import ShadowReport, path_of, read, write
from .shadow_settings import ShadowSettings
from .versions import NoVersion, Version, this_version, unpacked

log = structlog.get_logger()
# At most one commit of so many is decided again.
EVERY_MOST = 1_024
BEHIND = gauge("remuda_shadow_behind_seconds", "Age of the oldest commit not decided again by the shadow.", ("rm",))
COMMITS = counter("remuda_shadow_commits", "Commits that the shadow has followed.", ("rm",))
DIFFERENT = counter("remuda_shadow_different", "Decisions that differ from the leader's.", ("rm",))


async def main(bus: Bus, settings: ShadowSettings) -> None:
    """Returns when `shadow.for` is over. Raises ValueError for a configuration or wheels that cannot be read."""
    os.nice(limits.NICENESS)
    if settings.queues is not None:
        _check(settings.queues)
    with ExitStack() as stack:
        version = stack.enter_context(unpacked(settings.version)) if settings.version is not None else this_version()
        following = Following(bus, settings, version)
        try:
            async with asyncio.timeout(settings.for_s or None):
                await following.run()
        except TimeoutError:
            await following.end()
        except ExceptionGroup as failures:  # the shadow of one RM has failed and has ended the others
            raise failures.exceptions[0] from None


def _check(queues: Path) -> None:
    found = read_file(queues)
    if isinstance(found, Problem):
        raise ValueError(found.message)  # noqa: TRY004 - a configuration, not a type
    try:
        load_file(found, queues, MAX_PAYLOAD_BYTES)
    except Invalid as invalid:
        problems = "; ".join(str(one) for one in invalid.problems[:10])
        raise ValueError(f"shadow.queues {queues}: {problems}") from None


class Following:
    """The shadows of the RMs of a system, by RM. They take turns: one process beside this one decides or plays."""

    def __init__(self, bus: Bus, settings: ShadowSettings, version: Version) -> None:
        self._bus = bus
        self._settings = settings
        self._version = version
        self._store = Store.open(str(settings.directory / "archive"))
        self._listing = SnapshotListing(bus)
        self._turns = asyncio.Semaphore(1)
        self.shadows: dict[str, Shadow] = {}

    async def run(self) -> None:
        """Follows every RM until it is cancelled, or until the RM is forgotten."""
        tidying = Tidying(self._store, self._settings.keep_s, 0, clock_ms)
        running: dict[str, asyncio.Task[None]] = {}
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(tidy(tidying))
                async for entry in self._bus.watch(subjects.RMS.name):
                    rm = subjects.rm_of_key(entry.key)
                    if entry.value is not None and rm not in running and self._is_meant(rm):
                        running[rm] = tasks.create_task(self._follow(rm), name=f"shadow of {rm}")
                    elif entry.value is None and rm in running:
                        running.pop(rm).cancel()
        finally:
            for one in self.shadows.values():
                one.save()

    def _is_meant(self, rm: str) -> bool:
        return not self._settings.rms or rm in self._settings.rms

    async def _follow(self, rm: str) -> None:
        first = await self._first(rm)
        copying = Copying(self._bus, rm, self._store, self._settings.interval_s, self._listing, first)
        shadow = self.shadows[rm] = Shadow(rm, self._settings, self._version, self._store)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(copy(copying, rm))
            tasks.create_task(self._each(self._settings.interval_s, shadow.decide))
            if self._settings.effect_s:
                tasks.create_task(self._each(self._settings.effect_s, shadow.play))

    async def _each(self, interval_s: float, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(interval_s)
            async with self._turns:
                await work()
            health.PROCESS_HEALTH.set_status("; ".join(one.status for one in self.shadows.values()))

    async def _first(self, rm: str) -> tuple[Position, int] | None:
        """Begin an empty copy with a copy of the newest snapshot. Return its position and the inbox sequence there;
        None: the copy is not empty, or begins with the log."""
        if holdings_of(rm, await self._store.names(prefix_of(rm))).objects:
            return None
        for seq in reversed(await self._listing.kept(rm)):
            payload = await self._bus.get_object(subjects.snapshots_of(rm), name_of(rm, seq))
            if payload is not None:
                core = Core(rm)
                position = await CoreMachine(core).restore(payload)
                content = encode_snapshot(SnapshotHeader(rm=rm, seq=seq), payload)
                await self._store.put(snapshot_name(rm, core.state.now_ms, seq), content)
                return position, core.state.inbox_seq
        return None

    async def end(self) -> None:
        """Decide what was followed to the end, and play all of it."""
        for one in self.shadows.values():
            await one.decide()
            await one.play()
            one.report.is_over = True
            one.save()


class Shadow:
    """The shadow of one RM. A shadow that was stopped goes on from its report, if its version and configuration are the
    same."""

    def __init__(self, rm: str, settings: ShadowSettings, version: Version, store: Store) -> None:
        self._rm = rm
        self._settings = settings
        self._version = version
        self._store = store
        self._path = path_of(settings.directory, rm)
        against = self._against()
        found = read(self._path)
        self.report = found if found is not None and found.against == against else ShadowReport(rm=rm, against=against)
        self.report.is_over = False
        self._failures = 0

    def _against(self) -> str:
        """The configuration and the version of the shadow, for people; another text is another configuration."""
        queues = self._settings.queues
        text = f"{queues} ({hashlib.sha256(queues.read_bytes()).hexdigest()[:12]})" if queues is not None else ""
        version = f"version {self._version.name}" if self._settings.version is not None else ""
        return " with ".join(one for one in (version, text) if one) or "the same"

    @property
    def status(self) -> str:
        return f"{self._rm}: {self.report.summary()}"

    def save(self) -> None:
        write(self._path, self.report)

    async def decide(self) -> None:
        """Decide again what was followed since the last time."""
        report, began = self.report, time.monotonic()
        try:
            past = await Past.open(self._store, self._rm)
            if past.last_seq > report.log_seq:
                found = await self._version.json("replay", *self._words(past.last_seq), "--exact")
                before = report.commits, report.different
                report.take(found)
                COMMITS.labels(rm_label(self._rm)).inc(report.commits - before[0])
                DIFFERENT.labels(rm_label(self._rm)).inc(report.different - before[1])
                report.problem = ""
            is_behind = (await Past.open(self._store, self._rm)).last_seq > report.log_seq
            self.pace(time.monotonic() - began, clock_ms() - report.at_ms if is_behind else 0)
            self._failures = 0
        except NoPast:
            return  # nothing has happened yet
        except (NoVersion, StoreFailed, Damaged) as error:
            self._failed(str(error))
        self.save()

    def _failed(self, why: str) -> None:
        """The second time in a row, begin anew with the newest part of the log without a gap."""
        self._failures += 1
        log.error("the shadow has not decided, trying again", rm=self._rm, error=why)
        if self._failures > 1 and self.report.log_seq:
            self.report = ShadowReport(rm=self._rm, against=self.report.against, effect=self.report.effect)
        self.report.problem = why

    def _words(self, until: int) -> list[str]:
        report = self.report
        queues = [f"--queues={self._settings.queues.absolute()}"] if self._settings.queues is not None else []
        since = [f"--since={report.log_seq}"] if report.log_seq else []
        every = [f"--every={report.every}"] if report.every > 1 else []
        return [self._rm, f"--archive={self._store.where}", *since, f"--until={until}", *queues, *every, "--json"]

    def pace(self, took_s: float, behind_ms: int) -> None:
        """Decide fewer commits while deciding takes longer than the interval, and more when there is time again."""
        report, interval_s = self.report, self._settings.interval_s
        if took_s > interval_s and report.every < EVERY_MOST:
            report.every *= 2
        elif took_s < interval_s / 4 and report.every > 1:
            report.every //= 2
        if behind_ms > 3_000 * interval_s > report.behind_ms:
            log.warning("the shadow falls behind", rm=self._rm, behind_s=behind_ms // 1_000, every=report.every)
        report.behind_ms = behind_ms
        BEHIND.labels(rm_label(self._rm)).set(behind_ms / 1_000)

    async def play(self) -> None:
        """Play what is kept of the period, as it was and with what the shadow decides with."""
        report = self.report
        if not report.log_seq or report.effect_seq == report.log_seq:
            return
        html = self._path.with_suffix(".html").absolute()
        until = f"--until={report.log_seq}"
        words = [self._rm, f"--archive={self._store.where}", until, f"--html={html}", "--json"]
        if self._settings.queues is not None:
            words.append(f"--queues={self._settings.queues.absolute()}")
        if self._settings.version is not None:
            words.append(f"--version={self._settings.version.absolute()}")
        try:
            report.effect = await this_version().json("replay", *words)
            report.effect_seq = report.log_seq
        except NoVersion as error:
            report.problem = str(error)
            log.error("the effect was not played, trying again", rm=self._rm, error=str(error))
        self.save()
        log.info("shadow", rm=self._rm, against=report.against, found=report.summary())


def clock_ms() -> int:
    return time.time_ns() // 1_000_000
