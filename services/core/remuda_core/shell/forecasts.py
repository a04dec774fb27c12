"""Forecasts of one RM: when its waiting asks will start, and how often the intervals have held.

A copy of the state is played (`trials.forecast`) in a child, for all asks at once and at most once a minute. The
process that answers widens the intervals by the errors of earlier forecasts (`trials.intervals`). It learns these
before it plays again, and forgets them when it ends: then intervals are wider for a while.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import msgspec

from remuda_bus.metrics import rm_label
from remuda_operations.queries.rows import Forecast
from remuda_operations.queries.rows import Forecasts as Answer

from ..core import Core
from ..decide.names import plain
from ..limits import FORECASTS_EVERY_MS, FORECASTS_OPEN, FORECASTS_SHOWN_MS
from ..state import State
from ..trials.forecast import SAMPLES, starts, unknown, world_of
from ..trials.intervals import Intervals, Open, raw_interval
from . import metrics


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


def sampled_of(core: Core, now_ms: int) -> list[Sampled]:
    """The waiting asks of each partition in the order of queues."""
    found: list[Sampled] = []
    for partition in core.state.partitions.values():
        world = world_of(core.state, partition, core.index, now_ms)
        wanted: dict[int, Sampled] = {}
        known: set[tuple[str, str]] = set()
        for number, one in enumerate(world.waiting):
            name = one.pending.ask.application_id, one.pending.ask.allocation_key
            if name not in known:
                known.add(name)
                queue = one.pending.application.queue.path
                wanted[number] = Sampled(plain(partition.name), *name, queue, number + 1, unknown=unknown(world, one))
        if any(not each.unknown for each in wanted.values()):
            played = starts(world, SAMPLES)
            for number, each in wanted.items():
                each.waits_ms = [] if each.unknown else [at_ms - now_ms for at_ms in played[number]]
        found += list(wanted.values())
    return found


# The plain name of a partition, an application, and the key of an ask.
Name = tuple[str, str, str]


class Forecasts:
    """The last forecasts of all asks of one RM, and how earlier ones held. They are asked for often and made seldom."""

    def __init__(self, clock_ms: Callable[[], int]) -> None:
        self.clock_ms = clock_ms
        self.intervals = Intervals()
        # The forecasts whose truth is waited for, and when each was made.
        self._open: dict[Name, tuple[Open, int]] = {}
        self._made: Answer = Answer()
        self._rows: dict[Name, Forecast] = {}

    def is_new(self, state: State, application: str = "", key: str = "") -> bool:
        """Whether the last forecasts are new enough to be shown again, and have the asks that are asked for."""
        if not self._made.samples or self.clock_ms() - self._made.at_ms >= FORECASTS_EVERY_MS:
            return False
        return not application or all(
            (plain(partition.name), application, one) in self._rows
            for partition in state.partitions.values()
            if application in partition.applications
            for one in partition.applications[application].asks
            if key in ("", one)
        )

    def find(self, name: Name) -> Forecast | None:
        """None: the ask was not forecast within FORECASTS_SHOWN_MS."""
        return self._rows.get(name) if self.clock_ms() - self._made.at_ms < FORECASTS_SHOWN_MS else None

    def pending(self, state: State, application: str | None = None, key: str | None = None) -> list[Forecast]:
        """The forecasts of asks that are still pending, in the order of queues: all, those of an application, or
        one."""
        applications = {plain(one.name): one.applications for one in state.partitions.values()}

        def is_wanted(one: Forecast) -> bool:
            if application not in (None, one.application) or key not in (None, one.key):
                return False
            found = applications.get(one.partition, {}).get(one.application)
            return found is not None and one.key in found.asks and self.find(_name(one)) is not None

        return sorted(filter(is_wanted, self._rows.values()), key=lambda one: (one.partition, one.position))

    def resolve(self, state: State) -> None:
        """Learn from what has started since it was forecast. Forecasts of asks that are gone are dropped."""
        for name, (one, since_ms) in list(self._open.items()):
            partition = state.partitions.get(state.partition_name(name[0]))
            application = partition.applications.get(name[1]) if partition is not None else None
            if application is None:
                del self._open[name]
                continue
            made = [a.at_ms for a in application.allocations_of(name[2]) if a.at_ms > since_ms]
            if made:
                self.intervals.resolve(one, min(made) - since_ms)
            if made or name[2] not in application.asks:
                del self._open[name]

    def keep(self, from_child: bytes) -> None:
        """Take new forecasts in, with intervals that hold as often as they should."""
        found = msgspec.json.decode(from_child, type=FromChild)
        held = self.intervals.held
        self._made = Answer(
            rm=found.rm, state=found.state, at_ms=found.at_ms, samples=SAMPLES, held=sum(held), of=len(held),
            log_seq=found.log_seq,
        )  # fmt: skip
        self._rows = {_name(one): self._row(one) for one in found.sampled}
        if held:
            rm = rm_label(found.rm)
            metrics.ETA_COVERAGE.labels(rm).set(sum(held) / len(held))
            metrics.ETA_ERROR.labels(rm).set(median(self.intervals.errors_ms) / 1_000)

    def answer(self, state: State, application: str, key: str, most: int) -> bytes:
        """The answer to `eta`, from the last forecasts."""
        shown = self.pending(state, application or None, key or None)[:most]
        return msgspec.json.encode(msgspec.structs.replace(self._made, forecasts=shown))

    def _row(self, one: Sampled) -> Forecast:
        made = self._made
        row = Forecast(
            partition=one.partition, application=one.application, key=one.key, queue=one.queue, position=one.position,
            unknown=one.unknown, at_ms=made.at_ms, held=made.held, of=made.of,
        )  # fmt: skip
        raw = raw_interval(one.waits_ms, SAMPLES) if not one.unknown else None
        if raw is None:
            return row
        shown = self.intervals.widened(raw)
        if _name(one) not in self._open and len(self._open) < FORECASTS_OPEN:
            self._open[_name(one)] = Open(raw, shown), made.at_ms
        row.median_ms, row.from_ms = made.at_ms + round(shown.median_ms), made.at_ms + round(shown.below_ms)
        row.until_ms = made.at_ms + round(shown.above_ms) if shown.above_ms < float("inf") else 0
        return row


def _name(one: Forecast | Sampled) -> Name:
    return one.partition, one.application, one.key
