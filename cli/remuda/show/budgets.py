"""`remuda budget`: the use of the budgets of queues, and when they will be used up."""

from __future__ import annotations

import time

import msgspec
from rich.table import Table
from rich.text import Text

from remuda_operations.queries import core as queries
from remuda_operations.queries.forecasts import span
from remuda_operations.queries.rows import BudgetUse, Queue, Queues, QueueTree

from ..client.connections import answered
from ..terminal.output import console, queue_in, table_of
from ..terminal.units import amount, time_of


def budgets(url: str, rm: str, as_json: bool) -> None:
    found = answered(url, lambda bus: queries.queues(bus, rm))
    queues = with_budgets(found)
    if as_json:
        print(msgspec.json.encode([row(queue) for queue in queues]).decode())
    elif not queues:
        console.print(f"{rm}: no queue has a budget", markup=False)
    else:
        console.print(table(queues, time.time() * 1_000))


def with_budgets(found: Queues) -> list[QueueTree]:
    every = (queue for partition in found.partitions for queue in partition.queues.with_all_below())
    return [queue for queue in every if queue.budget is not None]


def row(queue: Queue) -> dict[str, object]:
    return {"partition": queue.partition, "queue": queue.path, **msgspec.to_builtins(queue.budget)}


def table(queues: list[QueueTree], now_ms: float) -> Table:
    """A line for each resource of each budget, in hours."""
    shown = table_of("queue", "resource", "budget", "used", "may be used", "left", "until", "used up")
    for queue in queues:
        use = queue.budget
        assert use is not None, "only queues with budgets are shown"
        path = queue_in(queue.partition, queue.path)
        for name in sorted(use.amounts):
            cells = [amount(name, of.get(name, 0)) + " h" for of in (use.amounts, use.used, use.committed, use.left)]
            shown.add_row(*map(Text, (path, name, *cells, time_of(use.until_ms), used_up(use, name, now_ms))))
    return shown


def used_up(use: BudgetUse, name: str, now_ms: float) -> str:
    """Says when the budget is used up at the rate of the period so far. `name`: told only of the resource that is used
    up first."""
    if use.reached != name:
        return "-"
    left_ms = use.reached_ms - now_ms
    return f"in {span(left_ms)} at this rate" if left_ms > 0 else "now"
