"""The data of the demo's screen: from queries to the core, and from each `RmState`."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from remuda_bus.bus import Bus, BusError
from remuda_operations.queries import core as queries
from remuda_operations.queries.rows import Nodes, Queues

from ...errors import UserError
from ..rm_state import percentile
from .simulation import Simulation

ASK_EVERY_S = 0.4
RATE_EVERY_S = 0.5
RECENT = 2_000  # round trips the screen looks back on


@dataclass(slots=True)
class View:
    """One moment. `rates`: placed per second, one value each half second, oldest first; `p50_ms` and `p99_ms`: of the
    latest releases, from publish to acknowledgement. `page`: the address of the web page; with it, there is no end.
    `look`: a command for another terminal."""

    url: str
    seconds: float
    page: str = ""
    look: str = ""
    elapsed: float = 0.0
    phase: str = "starting"
    placed: int = 0
    released: int = 0
    waiting: int = 0
    rejected: int = 0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    rates: deque[float] = field(default_factory=lambda: deque(maxlen=120))
    queues: dict[str, Queues] = field(default_factory=dict)
    nodes: dict[str, Nodes] = field(default_factory=dict)
    decisions: list[tuple[str, str, str]] = field(default_factory=list)  # rm, style, text
    processes: list[tuple[str, str, int]] = field(default_factory=list)  # name, state, restarts


async def ask_core(bus: Bus, simulations: Sequence[Simulation], view: View) -> None:
    """Keeps queues and nodes of the view fresh, for ever. A core that does not answer keeps the last answer."""
    while True:
        for simulation in simulations:
            rm = simulation.site.rm_id
            with contextlib.suppress(UserError, BusError):
                view.queues[rm] = await queries.queues(bus, rm)
                view.nodes[rm] = await queries.nodes(bus, rm)
        await asyncio.sleep(ASK_EVERY_S)


class ViewUpdater:
    """Brings the counters of a view up to date."""

    def __init__(self, view: View, simulations: Sequence[Simulation]) -> None:
        self._view = view
        self._simulations = simulations
        self._rate_at = time.monotonic()
        self._rate_from = 0

    def update(self, elapsed: float) -> None:
        view = self._view
        rm_states = [s.driver.rm_state for s in self._simulations if s.driver is not None]
        view.elapsed = elapsed
        view.placed = sum(rm_state.placed for rm_state in rm_states)
        view.released = sum(rm_state.released for rm_state in rm_states)
        view.waiting = sum(len(rm_state.waiting) for rm_state in rm_states)
        view.rejected = sum(rm_state.rejected.total() for rm_state in rm_states)
        recent = [ms for rm_state in rm_states for ms in rm_state.round_trips_ms[-RECENT:]]
        view.p50_ms, view.p99_ms = percentile(recent, 50), percentile(recent, 99)
        view.decisions = self._latest()
        self._count_rate()

    def _count_rate(self) -> None:
        now = time.monotonic()
        if now - self._rate_at >= RATE_EVERY_S and (self._view.placed or self._view.rates):
            self._view.rates.append((self._view.placed - self._rate_from) / (now - self._rate_at))
            self._rate_at, self._rate_from = now, self._view.placed

    def _latest(self) -> list[tuple[str, str, str]]:
        """Some of the latest decisions of every RM: frequent ones do not push out rare ones (waiting, rejected)."""
        latest = []
        for simulation in self._simulations:
            rm = simulation.site.rm_id
            latest += [(rm, style, text) for style, text in simulation.rare]
            latest += [(rm, style, text) for style, text in list(simulation.decisions)[-12:]]
        return latest
