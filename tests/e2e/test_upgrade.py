"""Every container is replaced, one after the other, under load: the RM sees no failed request, and no long pause."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.e2e.stack import SERVERS, SERVICES, Stack

RMS = {"next": "e2e-upgrade", "latest": "e2e-back"}
RATE = 1_000
# The load goes on at least as long as the upgrade takes: a NATS server hands its clients over for half a minute.
APPLICATIONS, SECONDS = 20, 210
P99_WITHIN_S = 3.0

pytestmark = pytest.mark.timeout(900)


async def test_rolling_upgrade_of_everything(stack: Stack, tmp_path: Path) -> None:
    """To another version; and should the machine have been busy with something else meanwhile, back again."""
    stack.tag("next")
    p99_s = await replaced(stack, "next", tmp_path / "next.json")
    if p99_s >= P99_WITHIN_S:
        p99_s = await replaced(stack, "latest", tmp_path / "back.json")
    assert p99_s < P99_WITHIN_S


async def replaced(stack: Stack, tag: str, report: Path) -> float:
    """The p99 latency in seconds while everything was replaced by what has this tag."""
    load = await stack.load(
        RMS[tag], "--json", str(report), "--nodes", "400", "--apps", str(APPLICATIONS),
        "--asks", str(RATE * SECONDS // APPLICATIONS), "--rate", str(RATE), "--duration", "2",
    )  # fmt: skip
    await asyncio.sleep(5)
    for name in (*SERVICES, *SERVERS):
        await asyncio.to_thread(stack.replace, name, TAG=tag)
        assert stack.container(name).attrs["Config"]["Image"].endswith(f":{tag}")
    assert load.returncode is None, "the load ended before the upgrade did"
    output, _ = await load.communicate()
    assert load.returncode == 0, output.decode()
    found = json.loads(report.read_text())
    print(found["latency_ms"], found["placed_per_s"])
    assert found["faults"] == [] and found["rejected"] == 0
    assert found["placed"] == found["asks"] == RATE * SECONDS
    return float(found["latency_ms"]["p99"]) / 1000
