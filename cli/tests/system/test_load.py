"""`remuda load` and `remuda demo` on systems of their own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.tests.running import finished

pytestmark = pytest.mark.timeout(120)

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn1,4000,4096,1,T4\n"
HEAD = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"


async def test_what_fits_is_placed_and_the_rest_waits_with_a_reason(tmp_path: Path) -> None:
    plot, report = tmp_path / "plot.png", tmp_path / "report.json"
    code, text = await finished(
        "load", "--nodes", "4", "--apps", "2", "--asks", "100", "--plot", str(plot), "--json", str(report)
    )
    assert code == 0, text
    found = json.loads(report.read_text())
    assert (found["asks"], found["placed"], found["pending"]) == (200, 128, 72)
    assert found["pending_reasons"] == {"no node has room: needs vcore 1, closest has 0": 72}
    assert found["faults"] == []
    assert 0 < found["latency_ms"]["p50"] <= found["latency_ms"]["p99"]
    assert found["peak_percent"]["vcore"] == 100.0
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert "128 of 200 asks" in text


async def test_at_a_rate_and_with_an_end_everything_is_released_again() -> None:
    work = ["--nodes", "4", "--asks", "20", "--rate", "200", "--duration", "200ms"]
    code, text = await finished("load", *work, "--json", "-", "--plain")
    assert code == 0, text
    found = json.loads(text[text.index("{") :])
    assert (found["placed"], found["released"], found["pending"]) == (200, 200, 0)
    assert found["placed_per_s"] < 260


PODS = (
    HEAD + "filler,4000,1024,1,1000,,LS,Running,0,1000,0\n"  # fills the node
    "impatient,1000,1024,0,0,,LS,Failed,10,500,\n"  # leaves before there is room
    "patient,1000,1024,1,500,,BE,Running,20,2000,1000\n"  # placed when the filler has left
    "giant,8000,1024,0,0,T4|G2,BE,Pending,30,,\n"  # never
    "stays,500,0,0,0,,LS,Running,1500,,1500\n"
    "moment,500,64,0,0,,LS,Pending,1600,1600,\n"  # comes and goes in the same second
)


@pytest.mark.parametrize("more", [[], ["--speed", "1000"]])
async def test_a_trace_keeps_its_order(tmp_path: Path, more: list[str]) -> None:
    nodes, pods, record = tmp_path / "nodes.csv", tmp_path / "pods.csv", tmp_path / "record.jsonl"
    nodes.write_text(NODES)
    pods.write_text(PODS)
    code, text = await finished(
        "load", "--trace", "openb", str(nodes), str(pods), "--record", str(record), "--json", "-", "--plain", *more
    )
    assert code == 0, text
    found = json.loads(text[text.index("{") :])
    assert (found["asks"], found["placed"], found["departed_waiting"], found["pending"]) == (6, 4, 1, 1)
    assert list(found["departed_waiting_reasons"]) == ["no node has room: needs vcore 1, closest has 0"]
    giant = "too large for every node it may be on: needs vcore 8, n1 can have 4"
    assert found["pending_reasons"] == {giant: 1}
    assert found["notes"] == ["1 pods ask for certain GPU models; the replay ignores that"]
    told = [(e["kind"], e["key"]) for e in map(json.loads, record.read_text().splitlines()) if "key" in e]
    assert sorted(told) == sorted([
        ("allocated", "filler"), ("released", "filler"), ("withdrawn", "impatient"), ("allocated", "patient"),
        ("released", "patient"), ("allocated", "stays"), ("allocated", "moment"), ("released", "moment"),
    ])  # fmt: skip
    assert told.index(("withdrawn", "impatient")) < told.index(("released", "filler"))
    assert told.index(("released", "filler")) < told.index(("allocated", "patient"))


async def test_the_demo_ends_by_itself_with_a_summary() -> None:
    code, text = await finished("demo", "--plain", "--seconds", "14")
    assert code == 0, text
    assert "Summary" in text
    for word in ("placed", "released", "pending", "rejected", "throughput", "analytics", "research"):
        assert word in text
    assert "queue root.services is full" in text
