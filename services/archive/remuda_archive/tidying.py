"""Keeps the archive tidy: one segment an hour, and nothing that is too old."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from itertools import groupby

import structlog

from remuda_archive import limits
from remuda_archive.holdings import Holdings, Segment, holdings_of_all, hour_of, segment_name
from remuda_archive.segments import Damaged, Header, Record, decode, encode, joined
from remuda_archive.store import Store

log = structlog.get_logger()


class Tidying:
    def __init__(self, store: Store, keep_s: float, max_bytes: int, clock_ms: Callable[[], int]) -> None:
        """`max_bytes`: of the whole archive; 0: no limit."""
        self._store = store
        self._keep_s = keep_s
        self._max_bytes = max_bytes
        self._clock_ms = clock_ms

    async def run(self) -> None:
        """Tidy once. Raises StoreFailed; the next call goes on where this one ended."""
        held = holdings_of_all(await self._store.names())
        await self._delete(held)
        now = hour_of(self._clock_ms())
        for one in held:
            for segment in one.covered:
                await self._store.delete(segment.name)
            for hour, segments in groupby(one.segments, key=lambda segment: segment.hour):
                if hour < now:
                    await self._join(one.rm, list(segments))

    async def _delete(self, held: list[Holdings]) -> None:
        """Delete the oldest hours: those beyond the time to keep, and as many as the archive has too many bytes."""
        oldest = hour_of(self._clock_ms() - round(self._keep_s * 1_000))
        everything = [(one.hour, one) for of in held for one in of.objects]
        too_many = sum(one.size for _, one in everything) - self._max_bytes if self._max_bytes else 0
        for hour, group in groupby(sorted(everything, key=lambda pair: pair[0]), key=lambda pair: pair[0]):
            if hour >= oldest and too_many <= 0:
                return
            for _, one in group:
                await self._store.delete(one.name)
                too_many -= one.size

    async def _join(self, rm: str, segments: list[Segment]) -> None:
        """Make one of the segments of an hour that has ended. The parts go when the whole is there."""
        for run in _of_bytes(segments):
            if len(run) < 2:
                continue
            try:
                parts = [await self._read(one) for one in run]
                header, records = await asyncio.to_thread(joined, parts)
            except (Damaged, ValueError) as error:  # a gap, or something for `remuda archive verify`
                log.warning("the segments of an hour are kept as they are", rm=rm, hour=run[0].hour, reason=str(error))
                continue
            name = segment_name(rm, header.since_ms, header.first, header.end.seq)
            await self._store.put(name, await asyncio.to_thread(encode, header, records))
            for one in run:
                if one.name != name:
                    await self._store.delete(one.name)

    async def _read(self, segment: Segment) -> tuple[Header, list[Record]]:
        return await asyncio.to_thread(decode, await self._store.content(segment.name))


def _of_bytes(segments: Iterable[Segment]) -> list[list[Segment]]:
    """Runs of segments that have at most HOUR_BYTES together, packed."""
    runs: list[list[Segment]] = []
    size = 0
    for one in segments:
        if not runs or size + one.size > limits.HOUR_BYTES:
            runs.append([])
            size = 0
        runs[-1].append(one)
        size += one.size
    return runs
