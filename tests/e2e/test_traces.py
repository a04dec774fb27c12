"""Traces as an operator's collector receives them: one ask is one trace, also through containers."""

from __future__ import annotations

import asyncio
import os
import sys

import pytest

from tests.e2e.stack import Stack
from tests.system import rm_of_one_ask
from tests.system.otlp import Receiver
from tests.system.test_trace import CHAIN, RM, WITHIN_S, complete, of_the_ask

TRACED = ("core-1", "core-2", "rmproxy-1", "rmproxy-2", "events-1")

pytestmark = pytest.mark.timeout(300)


async def test_an_ask_is_one_trace_through_all_containers(stack: Stack) -> None:
    with Receiver(stack.host) as receiver:
        exporting = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, "OTEL_BSP_SCHEDULE_DELAY": "50"}
        for name in TRACED:
            await asyncio.to_thread(stack.replace, name, **exporting)
        rm = await asyncio.create_subprocess_exec(
            sys.executable, str(RM), stack.url, env={**os.environ, **exporting, **stack.environment(rm_of_one_ask.RM)}
        )
        assert await rm.wait() == 0
        spans = await asyncio.to_thread(receiver.wait_until, complete, WITHIN_S)
    # Once or more: a message whose acknowledgement comes late is forwarded again.
    assert {(span.name, span.service) for span in of_the_ask(spans)} == {(name, service) for name, service, _ in CHAIN}
