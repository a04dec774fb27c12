"""A recorded production cluster through the whole system: every pod placed, or pending with a reason, and no node ever
over its capacity. The expected numbers are counted here from the CSV files alone, not with the reader under test.

REMUDA_DATA is the directory that holds `openb/`; default: ../shared/data beside the repository.
"""

from __future__ import annotations

import asyncio
import csv
import json
import os
import sys
from asyncio.subprocess import PIPE, STDOUT
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("REMUDA_DATA", ROOT / ".." / "shared" / "data")) / "openb"
NODES = DATA / "openb_node_list_all_node.csv"
PODS = DATA / "openb_pod_list_default.csv"
MIB = 1024 * 1024

pytestmark = [
    pytest.mark.skipif(
        not NODES.exists(), reason=f"no openb trace in {DATA}: set REMUDA_DATA to the directory above it"
    ),
    pytest.mark.timeout(400),
]


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def amounts(cpu_milli: str, memory_mib: str, gpu: int) -> Counter[str]:
    found = Counter(vcore=int(cpu_milli), memory=int(memory_mib) * MIB, gpu_milli=gpu)
    return Counter({name: amount for name, amount in found.items() if amount})


def node_capacities() -> dict[str, Counter[str]]:
    return {row["sn"]: amounts(row["cpu_milli"], row["memory_mib"], int(row["gpu"]) * 1000) for row in rows(NODES)}


def pod_sizes() -> dict[str, Counter[str]]:
    sizes = {}
    for row in rows(PODS):
        gpus = int(row["num_gpu"])
        sizes[row["name"]] = amounts(
            row["cpu_milli"], row["memory_mib"], int(row["gpu_milli"]) if gpus == 1 else gpus * 1000
        )
    return sizes


async def replay(directory: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The report and the record of the RM."""
    report, record = directory / "report.json", directory / "record.jsonl"
    command = ["load", "--plain", "--trace", "openb", NODES, PODS, "--json", report, "--record", record]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "remuda", *map(str, command), stdout=PIPE, stderr=STDOUT
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    return json.loads(report.read_text()), [json.loads(line) for line in record.read_text().splitlines()]


async def test_the_whole_trace(tmp_path: Path) -> None:
    report, record = await replay(tmp_path)
    capacities, sizes = node_capacities(), pod_sizes()

    assert report["faults"] == []
    assert report["rejected"] == 0
    assert report["nodes"] == len(capacities)
    assert report["asks"] == len(sizes)
    assert report["placed"] + report["departed_waiting"] + report["pending"] == len(sizes)
    assert sum(report["departed_waiting_reasons"].values()) == report["departed_waiting"]
    assert sum(report["pending_reasons"].values()) == report["pending"]
    assert all(report["departed_waiting_reasons"]) and all(report["pending_reasons"])

    assert {e["node"]: Counter(e["capacity"]) for e in record if e["kind"] == "node"} == capacities
    check_record(record, capacities, sizes)


def check_record(
    record: list[dict[str, Any]], capacities: dict[str, Counter[str]], sizes: dict[str, Counter[str]]
) -> None:
    """Replays the callbacks of the RM in order, and books them again."""
    used: dict[str, Counter[str]] = {node: Counter() for node in capacities}
    running: dict[str, tuple[str, str]] = {}  # UUID -> pod, node
    placed: Counter[str] = Counter()
    left_waiting: set[str] = set()
    for entry in record:
        if entry["kind"] == "allocated":
            pod, node = entry["key"], entry["node"]
            assert Counter(entry["resource"]) == sizes[pod]
            assert entry["uuid"] not in running
            running[entry["uuid"]] = (pod, node)
            placed[pod] += 1
            used[node].update(sizes[pod])
            for name, amount in used[node].items():
                assert amount <= capacities[node][name], f"{node} over its {name} with {pod}"
        elif entry["kind"] == "released":
            pod, node = running.pop(entry["uuid"])
            assert (entry["key"], entry["node"]) == (pod, node)
            used[node].subtract(sizes[pod])
        elif entry["kind"] == "withdrawn":
            assert entry["reason"]
            left_waiting.add(entry["key"])
        else:
            assert entry["kind"] == "node", entry
    assert max(placed.values()) == 1, "a pod was placed twice"
    assert placed.keys() | left_waiting == sizes.keys()
    stays = {row["name"] for row in rows(PODS) if not row["deletion_time"]}
    assert {pod for pod, _ in running.values()} <= stays
    still_used = sum(used.values(), Counter())
    assert +still_used == sum((sizes[pod] for pod, _ in running.values()), Counter())
