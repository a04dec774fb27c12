"""The query `preview`: what a proposed configuration would do. Changes nothing."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec

from remuda_bus import subjects
from remuda_bus.bus import Bus
from remuda_bus.status_codes import TOO_LARGE
from remuda_operations.queries import core
from remuda_operations.queries.errors import RequestRefused
from remuda_proto.remuda.v1 import config_pb2


class Rows(msgspec.Struct):
    """The first rows of a list of `total`. `counts`: by the change. `without`: the total without the proposal."""

    total: int = 0
    rows: list[dict[str, Any]] = []
    counts: dict[str, int] = {}
    without: int = 0
    looked_at: int = 0
    of: int = 0


class Report(msgspec.Struct):
    """`refused`: why the core would refuse the proposal; then the lists are empty. `state`: of the RM."""

    rm: str
    log_seq: int
    state: str = ""
    at_ms: int = 0
    checksum: str = ""
    refused: str = ""
    passes: int = 0
    partitions: Rows = msgspec.field(default_factory=Rows)
    queues: Rows = msgspec.field(default_factory=Rows)
    over_quota: Rows = msgspec.field(default_factory=Rows)
    placements: Rows = msgspec.field(default_factory=Rows)
    allocations: Rows = msgspec.field(default_factory=Rows)
    preemptions: Rows = msgspec.field(default_factory=Rows)
    groups: Rows = msgspec.field(default_factory=Rows)
    by_queue: Rows = msgspec.field(default_factory=Rows)
    by_application: Rows = msgspec.field(default_factory=Rows)


async def preview(
    bus: Bus, rm: str, configuration: config_pb2.Configuration, passes: int, rows: int
) -> tuple[Report, bytes]:
    """The report, and the answer that it was read from. Raises as `answer`."""
    found = await answer(bus, rm, configuration, passes, rows)
    return msgspec.json.decode(found, type=Report), found


async def answer(bus: Bus, rm: str, configuration: config_pb2.Configuration, passes: int, rows: int) -> bytes:
    """The answer of the core as JSON. Waits PREVIEW_RETRIES_S for a core that plays another preview.
    Raises RequestRefused, NoAnswer."""
    encoded = base64.b64encode(configuration.SerializeToString()).decode()
    payload = json.dumps({"configuration": encoded, "passes": passes, "limit": rows}).encode()
    if len(payload) > bus.max_payload:
        reason = f"the proposal takes {len(payload):,} bytes, the server's max_payload is {bus.max_payload:,}"
        raise RequestRefused(reason, TOO_LARGE)
    return await core.answer_of_player(bus, subjects.PREVIEW, rm, payload)
