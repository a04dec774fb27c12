"""The screens fit where they have to fit, and the bars say what they should."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table
from rich.text import Text

from remuda.local.process_table import table
from remuda.local.supervisor import Process, State
from remuda.show.queue_tree import bar, is_owed, scarcest, tree
from remuda.show.queues import _notes
from remuda.show.status import configuration_lines
from remuda.show.top import Moment
from remuda.show.top import screen as top_screen
from remuda.simulated_rm.demo.screen import screen
from remuda.simulated_rm.demo.watch import View
from remuda.terminal.output import Unbroken, unbroken
from remuda.terminal.units import amount, amounts, duration, number, size
from remuda_operations.queries.rows import Hold, Node, NodePartition, Nodes, PartitionTree, Queues, QueueTree


def partition(leaf_count: int = 4) -> PartitionTree:
    children = [
        QueueTree(
            path=f"root.tenants.tenant-{n}",
            leaf=True,
            status="Active",
            allocated={"vcore": 40_000 * n},
            pending={"vcore": 5_000},
            guaranteed={"vcore": 50_000},
            max={"vcore": 200_000},
            max_in_force={"vcore": 200_000, "memory": 2**40},
            applications=n,
        )
        for n in range(leaf_count)
    ]
    total = {"vcore": 640_000, "memory": 2**40}
    tenants = QueueTree(path="root.tenants", allocated={"vcore": 240_000}, max_in_force=total, children=children)
    root = QueueTree(path="root", allocated={"vcore": 240_000}, max_in_force=total, children=[tenants])
    return PartitionTree(name="default", queues=root, total=total, allocated=root.allocated, nodes=40)


def view(rms: int = 2) -> View:
    nodes = [
        Node(id=f"n{n:02}", capacity={"vcore": 32_000}, allocated={"vcore": 1_000 * n % 33_000}) for n in range(40)
    ]
    found = View("nats://127.0.0.1:4222", 20.0, elapsed=12.3, phase="running", placed=123_456, released=120_000)
    for number_ in range(rms):
        rm = f"rm-{number_}"
        found.queues[rm] = Queues(rm, [partition()])
        found.nodes[rm] = Nodes([NodePartition("default", nodes)])
        found.decisions += [(rm, "green", f"placed   app-{n}/{n} on node-{n}") for n in range(20)]
        found.decisions += [(rm, "yellow", "waiting  app-1/1: " + "a long reason " * 20)]
    found.rates.extend([100.0 * n for n in range(40)])
    found.processes = [(name, "ready", 0) for name in ("nats-server", "config", "core", "events", "rmproxy")]
    return found


@pytest.mark.parametrize(("width", "height"), [(60, 16), (80, 24), (100, 30), (120, 40), (160, 50), (240, 60)])
@pytest.mark.parametrize("rms", [0, 1, 2])
def test_the_demo_fits(width: int, height: int, rms: int) -> None:
    console = Console(width=width, height=height, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(screen(view(rms), width, height))
    lines = console.export_text().splitlines()
    assert len(lines) < height
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize("width", [60, 80, 120, 160])
def test_a_tree_is_never_wrapped(width: int) -> None:
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(tree(partition(), width))
    assert len(console.export_text().splitlines()) == 1 + 6


def printed(content: Any, width: int) -> list[str]:
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(content)
    return [line.rstrip() for line in console.export_text().splitlines()]


@pytest.mark.parametrize("width", [60, 70, 80, 100, 140])
def test_the_head_of_top_shows_whole_amounts_the_fullest_first(width: int) -> None:
    of_gpus = PartitionTree(name="default", total={"vcore": 384_000, "memory": 3 << 40, "gpu": 48},
                            allocated={"vcore": 156_000, "memory": 1 << 40, "gpu": 48}, nodes=6)  # fmt: skip
    moment = Moment("lab", Queues("lab", [of_gpus], "Running"), rate=30.5)
    head = printed(top_screen([moment], width, None), width)[0]
    whole = "lab  Running  30.5 allocations/s  0 applications  gpu 48 of 48, vcore 156 of 384, memory 1Ti of 3Ti"
    shown = head.removesuffix(", …")
    assert shown in (whole, whole.split("  gpu")[0]) or whole.startswith(shown + ", ")
    assert ("gpu 48 of 48" in shown) == (width > 60)


def test_a_list_of_amounts_is_broken_at_its_commas_only() -> None:
    table_of_one = Table.grid()
    table_of_one.add_row(Text(unbroken("vcore 108, memory 864Gi, gpu 27")))
    assert printed(Unbroken(table_of_one), 20) == ["vcore 108,", "memory 864Gi, gpu 27"]


def test_a_queue_shows_how_many_asks_wait() -> None:
    queue = QueueTree(path="root", pending={"vcore": 308_000}, max_in_force={"vcore": 900_000}, waiting=44)
    assert printed(tree(PartitionTree(name="default", queues=queue), 80), 80)[1].split()[-2:] == ["44", "0"]


def test_a_queue_that_is_held_or_drains_says_so_however_long_its_name_is() -> None:
    held = QueueTree(
        path="root.a-queue-with-a-long-name-that-is-cut", held=Hold("ann", "maintenance", 0), status="Draining"
    )
    root = QueueTree(path="root", children=[QueueTree(path="root.b", held=Hold("ann"), status="Active"), held])
    console = Console(width=60, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(tree(PartitionTree(name="default", queues=root), 60))
    lines = console.export_text().splitlines()
    assert lines[2].startswith("  b (held) ") and lines[3].startswith("  a-queu… (held, draining) ")
    assert list(_notes(root))[1].endswith(": maintenance") and " is held by ann since " in next(_notes(root))


def test_a_tree_with_little_room_leaves_out_the_deepest() -> None:
    assert tree(partition(30), 80, rows=5).row_count <= 5


def test_a_bar_is_blue_however_full_it_is_and_red_for_a_queue_that_is_owed_something() -> None:
    def style(*arguments: Any) -> str:
        found = bar(*arguments)
        return str(found.style) + "".join(str(span.style) for span in found.spans)

    for used in (10, 60, 100):
        assert "blue" in style(used, 100, 50, 20) and "red" not in style(used, 100, 50, 20)
        assert "red" in style(used, 100, 50, 20, True)
    assert bar(1, 1_000_000, None, 20).plain.strip() == "▏"
    assert all(len(bar(used, 100, 30, 20).plain) == 20 for used in range(101))


def test_a_queue_is_owed_what_it_waits_for_if_it_has_none_of_that_to_the_full() -> None:
    due = {"vcore": 10, "gpu": 2}
    assert is_owed(QueueTree(path="root.a", guaranteed=due, allocated={"vcore": 5}, pending={"vcore": 8}))
    assert not is_owed(QueueTree(path="root.a", guaranteed=due, allocated={"vcore": 5})), "nobody waits"
    assert not is_owed(
        QueueTree(path="root.a", guaranteed=due, allocated={"vcore": 10}, pending={"vcore": 8, "gpu": 1})
    )
    assert not is_owed(QueueTree(path="root.a", guaranteed=due, pending={"memory": 8})), "nothing of that is guaranteed"


def test_what_a_queue_may_use_is_its_maximum_in_force() -> None:
    """As the page and the metrics show it: 600 of its own, but 400 with the queues above."""
    above = QueueTree(path="root.a", max={"vcore": 400_000}, max_in_force={"vcore": 400_000, "gpu": 8})
    own = {"vcore": 600_000}
    above.children = [
        QueueTree(path="root.a.b", allocated={"vcore": 200_000, "gpu": 7}, max=own, max_in_force=above.max_in_force)
    ]
    root = QueueTree(path="root", max_in_force={"vcore": 640_000, "gpu": 8}, children=[above])
    console = Console(width=100, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(tree(PartitionTree(name="default", queues=root), 100))
    _, _, second, third = console.export_text().splitlines()
    assert second.split()[-3:] == ["400", "0", "0"]
    assert scarcest(above.children[0]) == "gpu" and third.split()[-6:] == ["gpu", "7", "-", "8", "0", "0"]


def test_processes_as_a_table() -> None:
    from pathlib import Path

    ready = Process("core", Path("x"), pid=42, state=State.READY, restarts=1, since=time.monotonic() - 65)
    console = Console(width=80, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(table([ready, Process("events", Path("x"), state=State.WAITING)], {}))
    text = console.export_text()
    assert "1m05s" in text
    assert "restarting" in text


def test_halves_are_rounded_up_as_on_the_page() -> None:
    assert [size(1.125 * 2**40), number(0.0625), number(12.25), number(-1.125)] == ["1.13Ti", "0.0625", "12.3", "-1.13"]


def test_figures_are_short() -> None:
    assert [number(value) for value in (0.25, 4, 12.5, 1500, 25_000, 1_200_000)] == [
        "0.25",
        "4",
        "12.5",
        "1,500",
        "25k",
        "1.2M",
    ]
    assert [size(value) for value in (512, 16 * 2**30, 1.5 * 2**40)] == ["512", "16Gi", "1.5Ti"]
    assert [duration(value) for value in (0.84, 12.3, 1500)] == ["0.84 ms", "12 ms", "1.5 s"]
    assert amount("vcore", 500) == "0.5"
    assert amounts({"gpu": 40, "memory": 2**30, "vcore": 1500}) == "vcore 1.5, memory 1Gi, gpu 40"


def test_a_staged_change_is_part_of_the_status() -> None:
    until_ms = time.time_ns() // 1_000_000 + 90_000
    version = {"number": 7, "by": "alice", "until_ms": until_ms, "falls_back_to": 6}
    found = {"path": "queues.yaml", "revision": 7, "problems": [], "version": version}
    said = [line.plain for line in configuration_lines(found)]
    assert re.fullmatch(
        r"configuration version 7 by alice is staged: rolled back to version 6 in (90|89|8\d) s unless confirmed",
        said[0],
    ), said
    assert list(configuration_lines({**found, "version": {**version, "confirmed_at_ms": 1}})) == []
