"""Reads what the scheduler has kept of this RM, by the queries that an RM may send."""

from __future__ import annotations

import asyncio
from functools import partial

import msgspec
import structlog

from remuda_bus.bus import Bus
from remuda_kubernetes import limits
from remuda_kubernetes.shim.resume import AllocationRow, ApplicationRow, AskRow, KeptState, NodeRow
from remuda_operations.queries.core import ask_core, pages_of
from remuda_operations.queries.errors import NoAnswer, RequestRefused
from remuda_operations.queries.rows import PageToken

log = structlog.get_logger()


class _Position(msgspec.Struct):
    log_seq: int


class _Page(msgspec.Struct):
    nodes: list[NodeRow] = []
    applications: list[ApplicationRow] = []
    asks: list[AskRow] = []
    allocations: list[AllocationRow] = []
    next: PageToken | None = None


async def read_kept_state(bus: Bus, rm_id: str) -> tuple[KeptState, int] | None:
    """The state, and the sequence of a commit that it contains. None: there was no answer in time.

    Asks are read before allocations: an ask that is allocated meanwhile is in both."""
    try:
        async with asyncio.timeout(limits.KEPT_STATE_WITHIN_S):
            while True:
                try:
                    return await _read(bus, rm_id)
                except (NoAnswer, RequestRefused) as error:  # a core may just take over
                    log.info("waits for what the scheduler knows", rm=rm_id, error=str(error))
                    await asyncio.sleep(limits.KEPT_STATE_RETRY_S)
    except TimeoutError:
        return None


async def _read(bus: Bus, rm_id: str) -> tuple[KeptState, int]:
    at = (await ask_core(bus, "digest", _Position, rm=rm_id)).log_seq
    state = KeptState()
    pages = partial(pages_of, bus, shape=_Page, rm=rm_id, min_log_seq=at)
    for kind in ("nodes", "applications", "asks", "allocations"):
        async for page in pages(kind):
            state.nodes += page.nodes
            state.applications += page.applications
            state.asks += page.asks
            state.allocations += page.allocations
    return state, at
