"""Snapshots of one resource manager: the newest ones are kept in an object bucket, to start from."""

from __future__ import annotations

import asyncio
import time

import msgspec
import structlog

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, ChangedPast, Message, Refused, Serving, Unanswered
from remuda_bus.log import Position, beginning

from .. import check, limits
from ..core import Core
from ..snapshot import restore_one, save
from ..state import State
from . import snapshot_format
from .child import Child, ChildFailed, Here, Work
from .settings import CoreSettings
from .trimming import trim

log = structlog.get_logger()

BUCKET = subjects.SNAPSHOTS.name
BUSY = 503
Source = Child | Here


async def restore(bus: Bus, core: Core) -> Position:
    """The core stands where the newest readable snapshot was taken; without any at the beginning, Position(). Raises
    ChangedPast when the log does not reach back far enough to do without."""
    rm_id = core.state.rm_id
    seqs = await kept(bus, rm_id)
    while True:
        for seq in reversed(seqs):
            if (position := await _restore(bus, core, name_of(rm_id, seq))) is not None:
                return position
        parent = await beginning(bus, rm_id)
        before, seqs = seqs, await kept(bus, rm_id)
        if seqs == before:  # else the leader has written others meanwhile, and trimmed the log behind them
            break
    if parent:
        raise ChangedPast(f"{subjects.log(rm_id)} begins behind {parent}, and no snapshot is there to go on from")
    core.state = State(rm_id)
    return Position()


async def _restore(bus: Bus, core: Core, name: str) -> Position | None:
    """None: it is not there any more, or cannot be read."""
    rm_id, started = core.state.rm_id, time.perf_counter()
    try:
        payload = await bus.get_object(BUCKET, name)
        if payload is None:
            return None
        position, core.state = await _read(rm_id, payload)
    except Unanswered:
        raise
    except Exception as error:  # noqa: BLE001 - whatever is wrong with it, the one before may be good
        log.error("a snapshot cannot be read, trying the one before", rm=rm_id, snapshot=name, error=repr(error))
        return None
    seconds = round(time.perf_counter() - started, 3)
    log.info("restored", rm=rm_id, snapshot=name, bytes=len(payload), seconds=seconds)
    return position


async def _read(rm_id: str, payload: bytes) -> tuple[Position, State]:
    position, records = snapshot_format.read(rm_id, payload)
    state = State(rm_id)
    for number, record in enumerate(records):
        restore_one(state, record)
        if number % limits.RECORDS_RESTORED_AT_ONCE == 0:
            await asyncio.sleep(0)  # leases are renewed and other RMs led meanwhile
    return position, state


async def kept(bus: Bus, rm_id: str) -> list[int]:
    """The positions of all snapshots of this RM, in order."""
    begin = name_of(rm_id, "")
    names = [name.removeprefix(begin) for name in await bus.objects(BUCKET) if name.startswith(begin)]
    return sorted(int(seq) for seq in names if seq.isdecimal())


def name_of(rm_id: str, seq: int | str) -> str:
    return f"{subjects.key_of(rm_id)}.{seq}"


class Snapshots:
    """What a leader does about them. It asks `wanted` whenever it stands at a commit, and if so, `take`s."""

    def __init__(self, bus: Bus, core: Core, settings: CoreSettings, facts: int = 0) -> None:
        """`facts`: so many have been replayed since the last snapshot."""
        self._bus = bus
        self._core = core
        self._settings = settings
        self._facts = facts
        self._taken_at = asyncio.get_running_loop().time()
        self._writing: asyncio.Task[None] | None = None
        self.stopped_s = 0.0  # for the last fork
        self._asked = 0  # digests
        self._digests: list[asyncio.Future[tuple[int, Source]]] = []

    def count(self, facts: int) -> None:
        """So many more have happened."""
        self._facts += facts

    def wanted(self) -> bool:
        return bool(self._digests) or self._due()

    def take(self, position: Position) -> None:
        """The core stands at that commit. It is stopped for as long as a fork takes."""
        digests, self._digests = self._digests, []
        try:
            for wanted in digests:
                self._take_digest(position, wanted)
            if self._due():
                self._taken_at = asyncio.get_running_loop().time()
                self._take_snapshot(position)
        except OSError as error:  # no memory or no process is left for a child
            log.error("no child process could be made", rm=self._core.state.rm_id, error=repr(error))
            _refuse(digests, f"no child process could be made: {error}")

    def _take_digest(self, position: Position, wanted: asyncio.Future[tuple[int, Source]]) -> None:
        if not wanted.done():
            state = self._core.state
            wanted.set_result((position.seq, self._beside(lambda: [check.digest(state).encode()])))

    def _take_snapshot(self, position: Position) -> None:
        state = self._core.state
        source = self._beside(lambda: snapshot_format.write(state.rm_id, position, save(state)))
        facts, self._facts = self._facts, 0
        self._writing = asyncio.create_task(self._write(position, facts, source))

    async def digest(self) -> tuple[int, str]:
        """Of the state as it is in the log: at which commit, and SHA-256 in hexadecimal. Raises Refused."""
        if self._asked >= limits.DIGESTS_AT_ONCE:
            raise Refused(f"{self._asked} digests are being made, try again", BUSY)
        self._asked += 1
        try:
            wanted: asyncio.Future[tuple[int, Source]] = asyncio.get_running_loop().create_future()
            self._digests.append(wanted)
            seq, source = await wanted
            try:
                return seq, b"".join([part async for part in source.output()]).decode()
            finally:
                await source.close()
        finally:
            self._asked -= 1

    async def serve(self) -> Serving:
        """The query `digest`: it is answered when the leader has come to its next commit."""
        rm_id = self._core.state.rm_id
        return await self._bus.serve(
            subjects.core_query(rm_id, "digest"), self._answer_digest, f"digest-{subjects.token(rm_id)}"
        )

    async def _answer_digest(self, message: Message) -> bytes:
        seq, digest = await self.digest()
        return msgspec.json.encode({"rm": self._core.state.rm_id, "log_seq": seq, "digest": digest})

    async def close(self) -> None:
        """What is being written is given up."""
        _refuse(self._digests, "this core does not lead any more")
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)

    def _due(self) -> bool:
        if self._writing is not None:
            if not self._writing.done():
                return False
            self._writing.result()  # a bug is not passed over
        if not self._facts:
            return False
        age_s, settings = asyncio.get_running_loop().time() - self._taken_at, self._settings
        if self._facts < settings.snapshot_facts and age_s < settings.snapshot_s:
            return False
        return age_s >= settings.snapshot_apart_s

    def _beside(self, work: Work) -> Source:
        started = time.perf_counter()
        source = Child(work) if self._settings.snapshot_in_child else Here(work)
        self.stopped_s = time.perf_counter() - started
        return source

    async def _write(self, position: Position, facts: int, source: Source) -> None:
        """What fails is tried again when the next is due; until then there is the one before."""
        rm_id = self._core.state.rm_id
        stopped_ms, started = round(self.stopped_s * 1_000, 1), asyncio.get_running_loop().time()
        try:
            await self._bus.put_object(BUCKET, name_of(rm_id, position.seq), source.output())
            seconds = round(asyncio.get_running_loop().time() - started, 3)
            log.info("snapshot", rm=rm_id, log_seq=position.seq, facts=facts, stopped_ms=stopped_ms, seconds=seconds)
        except (BusError, ChildFailed, OSError) as error:
            self._facts += facts
            log.error("no snapshot could be written", rm=rm_id, log_seq=position.seq, error=repr(error))
        else:
            await self._tidy(rm_id)
        finally:
            await source.close()

    async def _tidy(self, rm_id: str) -> None:
        """What is left lying goes after the next one."""
        try:
            seqs = await kept(self._bus, rm_id)
            for seq in seqs[: -limits.SNAPSHOTS_KEPT]:
                await self._bus.delete_object(BUCKET, name_of(rm_id, seq))
            if len(seqs) >= limits.SNAPSHOTS_KEPT:
                await trim(self._bus, rm_id, seqs[-limits.SNAPSHOTS_KEPT], self._settings.replay_horizon_s)
        except BusError as error:
            log.error("nothing could be trimmed behind the snapshots", rm=rm_id, error=repr(error))


def _refuse(digests: list[asyncio.Future[tuple[int, Source]]], reason: str) -> None:
    for wanted in digests:
        if not wanted.done():
            wanted.set_exception(Refused(reason, 503))
