"""What the operator's books find wrong with a log and a history."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from pathlib import Path

from remuda.local.system import Layout
from remuda_bus.nats import connect
from tests.accounting import AccountingRm, Books, Plan
from tests.accounting.books import OPERATOR
from tests.accounting.operator import AccountingOperator, Asked, KeyedSystem, queues_yaml
from tests.patience import READY_S
from tests.system.running import until

PLAN = Plan(asks=100, nodes=2, applications=2)
RM = "rm-1"


async def test_actions_and_changes_add_up_and_false_ones_do_not(tmp_path: Path) -> None:
    (file := tmp_path / "queues.yaml").write_text(queues_yaml())
    layout = Layout(tmp_path / "system", config=file, assignments=(f"scheduler.acl={OPERATOR}",), log_level="warning")
    system = KeyedSystem(layout)
    async with system:
        await system.ready(READY_S)
        books = Books.open(PLAN, tmp_path / "journal")
        rm = AccountingRm(system.url, RM, books, queues="")
        working = asyncio.create_task(rm.run())
        await asyncio.wait_for(rm.settled.wait(), 60)
        operator = AccountingOperator(system.url, system.server.seed, [RM], PLAN, random.Random(3))
        acting = asyncio.create_task(operator.work(pace_s=0.01))

        async def has_acted() -> bool:
            return len(operator.asked) >= 20 and any(operator.changes.values())

        await until(has_acted, 60)
        acting.cancel()
        await operator.rest()
        bus = await connect(system.url, "accountant")

        async def agrees() -> bool:
            return not await operator.account(bus, RM, books)

        await until(agrees, 30)  # the last version is still on its way to the RM
        assert await operator.account_of_changes(bus) == []
        (first, one), (second, _), *_ = operator.asked.items()
        operator.asked[first] = replace(one, outcome={"accepted": "refused", "refused": "accepted"}[one.outcome])
        del operator.asked[second]
        operator.asked["more"] = Asked(RM, "drain_node", {"node_id": "n-000"}, "refused")
        found = await operator.account(bus, RM, books)
        assert [problem.partition(" and ")[2] for problem in found] == [
            f"is ['{one.outcome}'] in the log", "nobody asked for it", "is not in the log",
        ]  # fmt: skip
        operator.changes |= {"change 0": 1}
        assert await operator.account_of_changes(bus) == ["change 0 was made as version 1, the history has it as []"]
        await bus.close()
        working.cancel()
        await asyncio.wait([working])
