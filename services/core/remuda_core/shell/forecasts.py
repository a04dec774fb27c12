"""Forecasts of one RM: the answer to the query `eta`, and how often its intervals have held.

A copy of the state is played (`trials.forecast`), in a child; the process that answers widens the intervals by the
errors of earlier forecasts (`trials.intervals`). It learns these when it is asked again, and forgets them when it ends:
then intervals are wider for a while.
"""

from __future__ import annotations

import msgspec

from remuda_operations.queries.rows import Forecast
from remuda_operations.queries.rows import Forecasts as Answer

from ..core import Core
from ..decide.names import plain
from ..limits import FORECASTS_OPEN
from ..state import State
from ..trials.forecast import SAMPLES, starts, unknown, world_of
from ..trials.intervals import Intervals, Open, raw_interval


class Sampled(msgspec.Struct):
    """A waiting ask with the sampled waits of its next repeat in ms, sorted. A sample without a start is missing."""

    partition: str
    application: str
    key: str
    queue: str
    position: int
    waits_ms: list[int] = []
    unknown: str = ""


class FromChild(msgspec.Struct):
    rm: str
    state: str
    at_ms: int
    sampled: list[Sampled]
    log_seq: int


def sampled_of(core: Core, application: str, key: str, most: int, now_ms: int) -> list[Sampled]:
    """The waiting asks that are asked for, `most` of them at most, in the order of queues of each partition.
    `application` and `key` empty: all."""
    found: list[Sampled] = []
    for partition in core.state.partitions.values():
        world = world_of(core.state, partition, core.index, now_ms)
        wanted: dict[int, Sampled] = {}
        known: set[tuple[str, str]] = set()
        for number, one in enumerate(world.waiting):
            ask = one.pending.ask
            name = ask.application_id, ask.allocation_key
            if name in known or application not in ("", name[0]) or key not in ("", name[1]):
                continue
            known.add(name)
            queue = one.pending.application.queue.path
            wanted[number] = Sampled(plain(partition.name), *name, queue, number + 1, unknown=unknown(world, one))
        last = max(wanted, default=None) if len(wanted) == 1 else None
        if any(not each.unknown for each in wanted.values()):
            played = starts(world, SAMPLES, last)
            for number, each in wanted.items():
                each.waits_ms = [] if each.unknown else [at_ms - now_ms for at_ms in played[number]]
        found += list(wanted.values())
    return found[:most]


class Forecasts:
    """What was forecast, and how it held."""

    def __init__(self) -> None:
        self.intervals = Intervals()
        # By partition, application and key: the forecast that is waited for, and when it was made.
        self._open: dict[tuple[str, str, str], tuple[Open, int]] = {}

    def resolve(self, state: State) -> None:
        """Learn from what has started since it was forecast. Forecasts of asks that are gone are dropped."""
        for name, (one, since_ms) in list(self._open.items()):
            partition = state.partitions.get(f"[{state.rm_id}]{name[0]}")
            application = partition.applications.get(name[1]) if partition is not None else None
            if application is None:
                del self._open[name]
                continue
            made = [a.at_ms for a in application.allocations_of(name[2]) if a.at_ms > since_ms]
            if made:
                self.intervals.resolve(one, min(made) - since_ms)
            if made or name[2] not in application.asks:
                del self._open[name]

    def answer(self, from_child: bytes) -> bytes:
        """The answer, with intervals that hold as often as they should."""
        found = msgspec.json.decode(from_child, type=FromChild)
        rows = [self._row(one, found.at_ms) for one in found.sampled]
        held = self.intervals.held
        answer = Answer(
            rm=found.rm, state=found.state, at_ms=found.at_ms, forecasts=rows, samples=SAMPLES, held=sum(held),
            of=len(held), log_seq=found.log_seq,
        )  # fmt: skip
        return msgspec.json.encode(answer)

    def _row(self, one: Sampled, at_ms: int) -> Forecast:
        row = Forecast(
            partition=one.partition, application=one.application, key=one.key, queue=one.queue, position=one.position,
            unknown=one.unknown,
        )  # fmt: skip
        raw = raw_interval(one.waits_ms, SAMPLES) if not one.unknown else None
        if raw is None:
            return row
        shown = self.intervals.widened(raw)
        name = one.partition, one.application, one.key
        if name not in self._open and len(self._open) < FORECASTS_OPEN:
            self._open[name] = Open(raw, shown), at_ms
        row.median_ms, row.from_ms = at_ms + round(shown.median_ms), at_ms + round(shown.below_ms)
        row.until_ms = at_ms + round(shown.above_ms) if shown.above_ms < float("inf") else 0
        return row
