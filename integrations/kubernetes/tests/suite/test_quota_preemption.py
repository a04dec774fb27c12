"""Quota preemption, in both modes: a queue above a lowered maximum gives back what is above it, after its delay."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from integrations.kubernetes.tests.cluster import Cluster
from integrations.kubernetes.tests.suite.modes import Mode
from remuda.embedded import NatsServer
from remuda_operations.queries.rows import PageToken

# Maximum and delay of each queue.
Queues = dict[str, tuple[int, str]]
BEFORE: Queues = {
    "lowered": (2, "1s"), "raised": (2, "1s"), "never": (2, "0s"), "roomy": (4, "1s"), "delayed": (2, "3s"),
    "twice": (3, "3s"), "heir": (2, ""),
}  # fmt: skip
LOWERED: Queues = {
    "lowered": (1, "1s"), "raised": (3, "1s"), "never": (1, "0s"), "roomy": (3, "1s"), "delayed": (1, "3s"),
    "twice": (2, "3s"), "heir": (1, ""),
}  # fmt: skip
# Another delay, and another maximum.
AGAIN: Queues = LOWERED | {"delayed": (1, "4s"), "twice": (1, "3s")}
ABOVE = {"root.p.lowered", "root.p.delayed", "root.p.twice", "root.p.heir"}
DEADLINE_S = 10.0


class Page(msgspec.Struct):
    queues: list[dict[str, Any]] = []
    next: PageToken | None = None


def text(queues: Queues, *, enabled: bool) -> str:
    """The queues below a parent with a delay of 2 s, which those without one inherit."""
    leaves = "".join(
        f"        - name: {name}\n          resources: {{max: {{vcore: {most}}}}}\n"
        + (f"          properties: {{quota.preemption.delay: {delay}}}\n" if delay else "")
        for name, (most, delay) in queues.items()
    )
    return (
        f"partitions:\n- name: default\n  preemption: {{quotapreemptionenabled: {str(enabled).lower()}}}\n"
        "  queues:\n  - name: root\n    submitacl: '*'\n    queues:\n    - name: p\n"
        f"      properties: {{quota.preemption.delay: 2s}}\n      queues:\n{leaves}"
    )


async def until_queues(it: Cluster, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """What each queue has to give back, once that is as wanted."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        rows = {row["path"]: row for row in await it.rows("queues", Page)}
        if holds(rows):
            return {path: row["excess"] for path, row in rows.items() if row["excess"]}
        assert time.monotonic() < deadline, rows
        await asyncio.sleep(0.05)


def has_maximum(name: str, vcore: int) -> Callable[[dict[str, Any]], bool]:
    return lambda rows: rows[f"root.p.{name}"]["max"] == {"vcore": vcore * 1_000}


async def test_what_is_above_a_lowered_maximum_goes_after_the_delay(
    mode: Mode, server: NatsServer, tmp_path: Path
) -> None:
    """quota-preemption 1 to 9."""
    file = tmp_path / "queues.yaml"
    file.write_text(text(BEFORE, enabled=False))
    pods = {name: [f"{name}-{n}" for n in range(3 if name == "twice" else 2)] for name in BEFORE}
    async with mode.cluster(server.url, file) as it:
        await it.add_nodes("n1", cpu="32")
        for queue, names in pods.items():
            for name in names:
                await it.create(mode.pod(name, app=f"app-{queue}", queue=f"root.p.{queue}", cpu="1"))
        await it.bound(*(name for names in pods.values() for name in names))
        file.write_text(text(LOWERED, enabled=False))  # 5: switched off
        assert not await until_queues(it, has_maximum("lowered", 1))
        file.write_text(text(LOWERED, enabled=True))  # 2, 4 and 7 have nothing to give back
        clocks = await until_queues(it, lambda rows: bool(rows["root.p.delayed"]["excess"]))
        assert set(clocks) == ABOVE
        assert {path.rpartition(".")[2]: one["preempt_at_ms"] - one["since_ms"] for path, one in clocks.items()} == {
            "lowered": 1_000, "delayed": 3_000, "twice": 3_000, "heir": 2_000,
        }  # fmt: skip
        file.write_text(text(AGAIN, enabled=True))
        again = await until_queues(it, has_maximum("twice", 1))
        for path in ("root.p.delayed", "root.p.twice"):  # 8 and 9: the clock starts again
            assert again[path]["since_ms"] == clocks[path]["since_ms"]
            assert again[path]["preempt_at_ms"] > clocks[path]["preempt_at_ms"]
        left = {name: 1 if f"root.p.{name}" in ABOVE else 2 for name in BEFORE}
        await it.until(lambda found: counts(found) == left, within_s=DEADLINE_S)  # 1, 3 and 6
        assert time.time() * 1_000 >= again["root.p.delayed"]["preempt_at_ms"]


def counts(found: dict[str, Any]) -> dict[str, int]:
    return {name: sum(pod.startswith(f"{name}-") for pod in found) for name in BEFORE}
