"""The page, REST in both forms and the command line show the same numbers."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from remuda.embedded import NatsServer
from remuda_sdk import ResourceManager, application, ask, node
from tests.system.browser import Tab, needs_chromium, tab
from tests.system.running import until
from tests.system.test_web import Web, web_of
from tests.system.test_web_page import page_of

pytestmark = [needs_chromium, pytest.mark.timeout(180)]
QUEUES = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: '*'
        queues:
          - {name: full, resources: {max: {vcore: 4}}}
          - {name: gpus, resources: {guaranteed: {vcore: 6, gpu: 2}}}
          - {name: batch, limits: [{limit: '', users: ['*'], maxapplications: 2, maxresources: {vcore: 9}}]}
"""
GIB = 2**30
# Of each queue, the resource that binds first: what is used, and of how much. `gpus` waits for more than there are.
SHOWN = {"root": "vcore 13 of 16", "full": "vcore 4 of 4", "gpus": "gpu 0 of 4", "batch": "vcore 9 of 16"}


@pytest.fixture
async def web(server: NatsServer, tmp_path: Path) -> AsyncIterator[Web]:
    (tmp_path / "queues.yaml").write_text(QUEUES)
    async with web_of(server.url, tmp_path / "queues.yaml") as found:
        yield found


async def busy_rm(web: Web) -> ResourceManager:
    """Two nodes with 8 cores, one of them with 4 GPUs. `full` is at its maximum, `batch` has what is left, and `gpus`
    waits with none of what is guaranteed to it."""
    rm = ResourceManager.connect(web.url, "rm-1")
    await rm.__aenter__()
    await rm.report_nodes([node("n1", vcore=8_000, memory=64 * GIB, gpu=4), node("n2", vcore=8_000, memory=64 * GIB)])
    for name in ("full", "gpus", "batch"):
        await rm.submit(application(name, queue=f"root.{name}", user=f"user-{name}"))
    await rm.ask([ask("full", f"f{n}", vcore=1_000, memory=GIB) for n in range(7)])
    await rm.ask([ask("batch", f"b{n}", vcore=3_000, memory=8 * GIB) for n in range(9)])
    await until(lambda: _waits(web, "root.batch", 6))
    await rm.ask([ask("gpus", f"g{n}", vcore=3_000, memory=8 * GIB, gpu=1) for n in range(5)])
    await until(lambda: _waits(web, "root.gpus", 5))
    return rm


async def _waits(web: Web, path: str, count: int) -> bool:
    found = {row["path"]: row for row in await _rows(web, "queues")}
    return path in found and found[path]["waiting"] == count


async def _api(web: Web, path: str) -> Any:
    answer = await web.client.get(str(web.client.base_url.copy_with(path=f"/api/v1/{path}")))
    assert answer.status_code == 200, answer.text
    return answer.json()


async def _rows(web: Web, kind: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await _api(web, f"rms/rm-1/{kind}"))["rows"]
    return found


async def remuda(web: Web, *arguments: str, width: int = 140) -> str:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "remuda", *arguments, "--nats", web.url, stdout=asyncio.subprocess.PIPE,
        env={"COLUMNS": str(width)},
    )  # fmt: skip
    output, _ = await process.communicate()
    assert process.returncode == 0, output
    return output.decode()


async def test_every_screen_shows_the_same_numbers(web: Web) -> None:
    rm = await busy_rm(web)
    await _sums_agree(web)
    queues = {row["path"]: row for row in await _rows(web, "queues")}
    assert queues["root"]["waiting"] == sum(row["pending"] for row in await _rows(web, "asks")) == 14
    await _queues_agree(web, queues)
    async with tab(page_of(web), width=1400) as found:
        await _page_agrees(found, queues)
    await rm.__aexit__(None, None, None)


async def _sums_agree(web: Web) -> None:
    """Of the RM: in the overview, in the rows of nodes and applications, in the family's REST, in `remuda status`."""
    (shown,) = (await _api(web, "overview"))["rms"]
    (status,) = json.loads(await remuda(web, "status", "--json"))["rms"]
    (partition,) = await web.get("/partitions")
    stats = await _api(web, "rms/rm-1/stats")
    assert shown["nodes"] == status["nodes"] == partition["totalNodes"] == stats["nodes"] == 2
    assert shown["allocations"] == stats["allocations"] == partition["totalContainers"] == 7
    assert len(await _rows(web, "allocations")) == 7
    assert shown["applications"] == status["applications"] == stats["applications"] == 3
    for name, in_status, in_family in (
        ("total", "total", "capacity"), ("allocated", "allocated", "usedCapacity"),
    ):  # fmt: skip
        amounts = shown[name]
        assert amounts == status[in_status], name
        assert amounts == {key: value for key, value in partition["capacity"][in_family].items() if value}, name
    assert shown["pending"] == status["pending"] == {"vcore": 36_000, "memory": 91 * GIB, "gpu": 5}


async def _queues_agree(web: Web, queues: dict[str, dict[str, Any]]) -> None:
    """Of each queue: in the rows, in the family's REST, in `remuda queues`."""
    (partition,) = json.loads(await remuda(web, "queues", "rm-1", "--json"))["partitions"]
    of_family = await web.get("/partition/default/queues")
    for shown in (partition["queues"], *partition["queues"]["children"]):
        row = queues[shown["path"]]
        for name in ("allocated", "pending", "guaranteed", "max_in_force", "waiting", "applications"):
            assert shown[name] == row[name], f"{name} of {shown['path']}"
    text = await remuda(web, "queues", "rm-1")
    for name, used in SHOWN.items():
        found = re.search(rf"^ *{name} .*?(vcore|memory|gpu) +(\S+) +\S+ +(\S+) ", text, re.MULTILINE)
        assert found is not None and f"{found[1]} {found[2]} of {found[3]}" == used, text
    for shown in (of_family, *of_family["children"]):
        row = queues[shown["queuename"]]
        assert shown.get("allocatedResource", {}) == row["allocated"], row["path"]
        assert shown.get("pendingResource", {}) == row["pending"], row["path"]


async def _page_agrees(found: Tab, queues: dict[str, dict[str, Any]]) -> None:
    await found.open("queues/rm-1")
    table = found.page.get_by_role("region", name="Queues")
    await table.get_by_role("link", name="gpus").wait_for()
    for name, used in SHOWN.items():
        row = table.get_by_role("row").filter(has=found.page.get_by_role("link", name=name, exact=True))
        cells = [await cell.inner_text() for cell in await row.get_by_role("cell").all()]
        waiting = queues["root" if name == "root" else f"root.{name}"]["waiting"]
        assert cells[1].strip() == used and cells[2] == (str(waiting) if waiting else "-"), cells
    await found.shows("owed")  # once it has waited for so long that it is no matter of a moment
    await found.open("overview")
    await found.shows("has less than is guaranteed to it", "vcore 0 of 6", "gpu 0 of 2", "gpu 4", "14 asks waiting")
    await found.open("nodes/rm-1?colour=use%20gpu")
    await found.shows("4 of 4 gpu free", "gpu 0 of 4", "3 of 16 vcore free")
    await found.open("users/rm-1?kinds=limits")
    await found.shows("user-batch", "vcore 9 of 9", "1 of 2")
