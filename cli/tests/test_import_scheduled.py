"""What was imported schedules as its source does: played on the core, without a system around it."""

from __future__ import annotations

import re
import textwrap

import pytest

from cli.tests.test_import import CASES, queues, translated
from remuda_config import load
from tests.golden.test_golden import TITLE, play, scenarios


def happened(name: str, commands: str) -> list[str]:
    """What the core does with the imported queues, a line each."""
    text = translated(name).text
    script = f"{TITLE}{name}\nqueues.yaml\n{textwrap.indent(text, '  ')}{textwrap.dedent(commands)}"
    (scenario,) = scenarios(f"{name}.txt", script)
    lines = play(scenario)
    return lines[lines.index("----") + 1 :] if "----" in lines else []


def allocated(lines: list[str], application: str) -> int:
    return sum(line.startswith(f"Allocated {application}/") for line in lines)


@pytest.mark.parametrize("name", CASES)
def test_the_core_has_every_imported_queue(name: str) -> None:
    """An application may be refused by an access list, never because its queue is unknown."""
    found = queues(load(translated(name).text))
    leaves = [path for path, queue in found.items() if not queue.queues and not queue.parent and path != "root"]
    submitted = [f"submit app-{n} queue={path}" for n, path in enumerate(leaves)]
    told = happened(name, "\n".join(["node n1 vcore=4", *submitted, "cycle", ""]))
    assert not [line for line in told if re.search(r"does not exist|not a leaf", line)]


def test_what_kueue_does_not_lend_is_not_borrowed() -> None:
    lines = happened("kueue-03-lending", """\
        node n1 nvidia.com/gpu=48
        submit idle queue=root.lab.best-effort
        submit online queue=root.lab.production
        ask idle/k nvidia.com/gpu=1 x20
        ask online/k nvidia.com/gpu=1 x40
        cycle 100
        """)  # fmt: skip
    # The research queue lends 8 of 32, the production queue nothing of its 16.
    assert allocated(lines, "idle") == 8
    assert allocated(lines, "online") == 24


def test_what_is_lent_comes_back_by_preemption() -> None:
    lines = happened("kueue-03-lending", """\
        node n1 nvidia.com/gpu=48
        submit idle queue=root.lab.best-effort
        submit home queue=root.lab.research
        ask idle/k nvidia.com/gpu=1 x8 preemptable=true
        cycle 100
        ask home/k nvidia.com/gpu=1 x32
        cycle 100
        submit online queue=root.lab.production
        ask online/k nvidia.com/gpu=1 x16 preempts=true
        cycle 100
        tick 31s
        cycle 100
        """)  # fmt: skip
    assert allocated(lines, "home") == 32
    assert allocated(lines, "online") == 8
    assert any("idle/" in line and "PREEMPTED_BY_SCHEDULER" in line for line in lines), lines[-5:]


def test_a_user_of_slurm_has_at_most_what_the_association_grants() -> None:
    lines = happened("slurm-03-dump", """\
        node n1 vcore=1000000 memory=1000000000000
        submit one user=student2
        submit other user=student1
        ask one/k vcore=16000 memory=1 x10
        ask other/k vcore=16000 memory=1 x10
        cycle 100
        """)  # fmt: skip
    # By the default account of both; GrpTRES=cpu=64 of the one.
    assert allocated(lines, "one") == 4
    assert allocated(lines, "other") == 10


def test_a_stranger_has_no_association() -> None:
    lines = happened("slurm-03-dump", """\
        submit app user=stranger queue=root.biology
        """)  # fmt: skip
    assert lines[0].startswith("Rejected app")


def test_a_partition_of_a_higher_tier_preempts() -> None:
    lines = happened("slurm-02-gpu-partitions", """\
        node n1 vcore=64000 memory=1000
        submit low queue=root.scavenger
        submit high queue=root.cpu
        ask low/k vcore=32000 memory=1 x2 preemptable=true
        cycle 100
        ask high/k vcore=32000 memory=1 preempts=true
        cycle 100
        tick 31s
        cycle 100
        """)  # fmt: skip
    assert allocated(lines, "low") == 2
    assert any("low/" in line and "PREEMPTED_BY_SCHEDULER" in line for line in lines), lines[-5:]


def test_a_queue_of_volcano_that_is_not_reclaimable_keeps_what_it_has() -> None:
    commands = """\
        node n1 vcore=40000 memory=2200G
        submit greedy queue=root.{queue}
        submit owner queue=root.training
        ask greedy/k vcore=10000 memory=500G x4 preemptable=true
        cycle 100
        ask owner/k vcore=10000 memory=500G preempts=true
        cycle 100
        tick 31s
        cycle 100
        """
    preempted = {
        queue: any(
            "PREEMPTED_BY_SCHEDULER" in line for line in happened("volcano-01-weights", commands.format(queue=queue))
        )
        for queue in ("default", "production")
    }
    assert preempted == {"default": True, "production": False}


def test_who_used_less_goes_first_where_slurm_remembers_use() -> None:
    """And a job that names no time ends at the default of its partition."""
    lines = happened("slurm-27-trailing-commas", """\
        node n1 vcore=2 memory=4G
        submit heavy queue=root.bigmem user=ann
        submit light queue=root.bigmem user=ben
        ask heavy/past vcore=2 memory=2G
        cycle
        ask heavy/more vcore=2 memory=2G
        ask light/first vcore=2 memory=2G
        tick 61m
        confirm heavy/past
        cycle
        """)  # fmt: skip
    assert "Asked to release heavy/past TIMEOUT" in lines
    assert [line.split()[1] for line in lines if line.startswith("Allocated")] == ["heavy/past", "light/first"]
