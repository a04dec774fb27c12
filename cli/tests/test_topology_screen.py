"""`remuda topology`: readable at 80 columns, and every figure where it belongs."""

from __future__ import annotations

import msgspec
import pytest
from rich.console import Console

from remuda.errors import UserError
from remuda.show import topology as shown
from remuda.terminal.devices import drawn, drawn_all
from remuda_operations.queries.rows import Domain, Node, TopologyPartition

LEVELS = [{"level": "block", "attribute": "remuda/block"}, {"level": "rack", "attribute": "si/rackname"}]


def domain(path: list[str], nodes: int, used: int, fragments: int = 0) -> Domain:
    devices = {
        "resource": "gpu", "devices": 4 * nodes, "used": used, "whole": 4 * nodes - used, "unfit": 1 if used else 0,
        "capacity": 4_000 * nodes, "free": 4_000 * nodes - 810 * used, "fragments": fragments,
    }  # fmt: skip
    level = LEVELS[len(path) - 1]["level"] if path else ""
    row = {
        "partition": "default", "level": level, "path": path, "nodes": nodes, "ready": nodes, "empty": nodes // 2,
        "capacity": {"vcore": 64_000 * nodes, "gpu": 4_000 * nodes}, "allocated": {"gpu": 810 * used},
        "devices": [devices],
    }  # fmt: skip
    return msgspec.convert(row, Domain)


DOMAINS = [
    domain([], 36, 20, 3_800), domain(["b1"], 36, 20, 3_800), domain(["b1", "r1-with-a-very-long-name"], 18, 20, 3_800),
    domain(["b1", "r2"], 18, 0),
]  # fmt: skip
WAITING = {
    "application": "train-7", "queue": "root.a", "group": "workers", "required": "rack", "preferred": "", "spread": "",
    "slice": "rack/16", "waiting": 16, "placed": 2, "since_ms": 1_000, "waits_for": ["domain", "b1/r2", ""],
    "domain": ["b1", "r2"], "avoided": ["b1", "r1"], "avoided_since_ms": 700_000,
}  # fmt: skip
PARTITION = msgspec.convert(
    {"name": "default", "levels": LEVELS, "devices": {"gpu": 1_000}, "waiting": [WAITING], "waiting_count": 4},
    TopologyPartition,
)


def node(name: str, path: list[str], free: list[int], unfit: tuple[str, ...] = ()) -> Node:
    names = [str(number) for number in range(len(free))]
    row = {
        "partition": "default", "id": name, "domain": path, "status": "Schedulable", "allocations": 1,
        "capacity": {"gpu": 4_000}, "allocated": {"gpu": 2_000},
        "devices": [{"resource": "gpu", "unit": 1_000, "names": names, "free": free, "unfit": list(unfit)}],
    }  # fmt: skip
    return msgspec.convert(row, Node)


def printed(monkeypatch: pytest.MonkeyPatch, width: int, nodes: list[Node]) -> str:
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    monkeypatch.setattr(shown, "console", console)
    shown.print_partition(PARTITION, shown.Topology([PARTITION], DOMAINS, nodes))
    return console.export_text()


@pytest.mark.parametrize("width", [60, 80, 120])
def test_one_line_for_each_domain_and_node(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    text = printed(monkeypatch, width, [node("n1", ["b1", "r2"], [0, 190, 1_000, 1_000], ("3",))])
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    assert sum("n1" in line for line in lines) == sum(" r2" in line.partition("█")[0] for line in lines[:-3]) == 1


def test_what_is_told_at_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    text = printed(monkeypatch, 80, [node("n1", ["b1", "r2"], [0, 190, 1_000, 1_000], ("3",))])
    lines = [line.split() for line in text.splitlines()]
    assert "partition default   block › rack   1 block, 2 racks, 36 nodes" in text
    assert "gpu: 144 devices, 20 in use; free 128, of which 124 whole, and 3.8 that no" in text
    r2 = next(line for line in lines if line and line[0] == "r2")
    assert r2[-5:] == ["18", "9", "0/72", "72", "-"]
    assert next(line for line in lines if line and line[0] == "n1") == ["n1", "█▆░×"]
    joined = " ".join(text.split())
    told = "train-7/workers: 16 wait, 2 placed in b1/r2 (required rack; slice rack/16), waits for domain"
    assert told in joined and "; others avoid b1/r1" in joined and "and 3 more; `remuda explain` shows all" in joined


def test_a_domain_by_its_path_or_its_end() -> None:
    assert [list(row.path) for row in shown.within(DOMAINS, "b1/r2")] == [["b1", "r2"]]
    assert [list(row.path) for row in shown.within(DOMAINS, "r2")] == [["b1", "r2"]]
    assert [list(row.path)[:1] for row in shown.within(DOMAINS, "/b1/")] == [["b1"]] * 3
    with pytest.raises(UserError, match=r"no domain 'r9': expected a path such as b1/r2 \(block, rack\)"):
        shown.within(DOMAINS, "r9")
    with pytest.raises(UserError, match="the partition has no topology"):
        shown.within(DOMAINS[:1], "r9")


@pytest.mark.parametrize(
    ("free", "unfit", "signs"),
    [([1_000], (), "░"), ([0, -5], (), "██"), ([999, 500, 1], (), "▁▄▇"), ([1_000, 0], ("0",), "×█"), ([], (), "")],
)
def test_signs_of_devices(free: list[int], unfit: tuple[str, ...], signs: str) -> None:
    assert drawn(node("n", [], free, unfit).devices[0]) == signs


def test_several_resources_on_devices_are_named() -> None:
    (gpu,) = node("n", [], [0, 1_000]).devices
    assert drawn_all([msgspec.structs.replace(gpu, resource="fpga"), gpu]) == "fpga █░, gpu █░"
    assert drawn_all([]) == ""


def test_the_heading_of_one_rack() -> None:
    assert shown.heading(PARTITION, shown.within(DOMAINS, "b1/r2")).plain.replace("\ue000", " ").split() == [
        "partition", "default,", "b1/r2", "block", "›", "rack", "18", "nodes",
    ]  # fmt: skip
