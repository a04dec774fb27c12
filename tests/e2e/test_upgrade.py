"""Every container is replaced, one after the other, under load: no request of the RM fails, and no pause is long."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.e2e.stack import SERVERS, SERVICES, Stack
from tests.patience import PATIENCE

RM = "e2e-upgrade"
RATE = 1_000
# The load goes on at least as long as the upgrade takes: a NATS server hands its clients over for half a minute.
APPLICATIONS, SECONDS = 20, 240 if PATIENCE == 1 else 420
P99_WITHIN_S = 3.0
NEXT = "next"

pytestmark = pytest.mark.timeout(900)


async def test_rolling_upgrade_of_everything(stack: Stack, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    stack.tag(NEXT)
    load = await stack.load(
        RM, "--json", str(report), "--nodes", "400", "--apps", str(APPLICATIONS),
        "--asks", str(RATE * SECONDS // APPLICATIONS), "--rate", str(RATE), "--duration", "2s",
    )  # fmt: skip
    await asyncio.sleep(5)
    for name in (*SERVICES, *SERVERS):
        await asyncio.to_thread(stack.replace, name, TAG=NEXT)
        assert stack.container(name).attrs["Config"]["Image"].endswith(f":{NEXT}")
    assert load.returncode is None, "the load ended before the upgrade did"
    output, _ = await load.communicate()
    assert load.returncode == 0, output.decode()
    found = json.loads(report.read_text())
    print(found["latency_ms"], found["placed_per_s"])
    assert found["faults"] == [] and found["rejected"] == 0
    assert found["placed"] == found["asks"] == RATE * SECONDS
    assert found["latency_ms"]["p99"] < P99_WITHIN_S * PATIENCE * 1000
