"""`remuda budget` and its rows."""

from __future__ import annotations

from remuda.show.budgets import row, table, used_up, with_budgets
from remuda_operations.queries.rows import BudgetUse, PartitionTree, Queues, QueueTree

DAY_MS = 86_400_000
USE = BudgetUse(
    period="month", zone="UTC", from_ms=0, until_ms=31 * DAY_MS, amounts={"vcore": 1_000_000, "gpu": 200},
    used={"vcore": 900_000, "gpu": 10}, committed={"vcore": 50_000, "gpu": 0}, left={"vcore": 50_000, "gpu": 190},
    reached_ms=23 * DAY_MS, reached="vcore",
)  # fmt: skip


def test_a_line_for_each_resource_of_a_budget() -> None:
    below = QueueTree(path="root.a", partition="gpu", budget=USE)
    root = QueueTree(path="root", children=[below, QueueTree(path="root.b")])
    found = with_budgets(Queues("rm-1", [PartitionTree(name="gpu", queues=root)]))
    assert found == [below]
    shown = table(found, 20 * DAY_MS)
    lines = [[str(cell) for cell in column.cells] for column in shown.columns]
    assert lines[:6] == [
        ["gpu: root.a", "gpu: root.a"], ["gpu", "vcore"], ["200 h", "1,000 h"], ["10 h", "900 h"], ["0 h", "50 h"],
        ["190 h", "50 h"],
    ]  # fmt: skip
    assert lines[7] == ["-", "in 3 d at this rate"]
    assert row(below)["reached"] == "vcore"


def test_a_budget_that_is_used_up_says_so() -> None:
    assert used_up(USE, "vcore", 23 * DAY_MS) == "now"
