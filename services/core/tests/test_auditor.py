"""The auditor finds a state that is wrong, and says so everywhere."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from remuda_bus import subjects
from remuda_bus.bus import Refused
from remuda_bus.health import Health
from remuda_bus.memory import MemoryBus
from remuda_core import commands
from remuda_core.core import Core
from remuda_core.facts import Ask
from remuda_core.settings import built_in
from remuda_core.shell import metrics
from remuda_core.shell.auditor import Auditor
from remuda_core.shell.replica import Replica
from remuda_core.shell.rm_standby import RmStandby
from remuda_replication.leader import Leader
from remuda_replication.log import Position
from remuda_replication.process.health_pages import _status
from remuda_replication.rms.faults import AUDIT, Fault

PARTITION = "[rm-1]default"


def never(_: str) -> bool:
    return False


def core() -> Core:
    made = Core("rm-1")
    for command in (
        commands.Register("rm-1", built_in()),
        commands.UpdateNode(PARTITION, "n1", "CREATE", capacity={"vcore": 4}),
        commands.SubmitApplication(PARTITION, "app-1", "root.a", "ann", tags={"namespace": "a"}),
        commands.SubmitAsk(Ask(PARTITION, "app-1", "k", {"vcore": 1}, 9)),
        commands.Schedule(10),
    ):
        made.handle(command, 1_000)
    return made


def standby(of: Core, rm_id: str = "rm-1", **other: Any) -> RmStandby:
    replica = Replica(of, lambda: Position(7), lambda: 5_000)
    fields = {"rm_id": rm_id, "core": of, "replica": replica, "hot": True, "leads": False}
    return cast(RmStandby, SimpleNamespace(**{**fields, **other}))


def value(rm_id: str = "rm-1") -> float:
    return metrics.VIOLATIONS.labels(rm_id)._value.get()


@pytest.mark.parametrize("in_child", [True, False])
async def test_a_violation_is_on_record_until_it_is_mended(in_child: bool) -> None:
    bus, health, audited = MemoryBus(), Health(), core()
    await bus.declare()
    health.set_status("following")
    auditor = Auditor(bus, "core-1", {}, 60.0, lambda: 5_000, never, in_child, health)
    before = value()
    await auditor.audit(standby(audited))
    assert not health.violations and value() == before
    node = audited.state.partitions[PARTITION].nodes["n1"]
    node.allocated["vcore"] += 1
    await auditor.audit(standby(audited))
    assert value() == before + 1 and metrics.VIOLATED_LOG_SEQ.labels("rm-1")._value.get() == 7
    entry = await bus.get(subjects.FAULTS.name, subjects.fault_key("rm-1", AUDIT))
    assert entry is not None and entry.value is not None
    fault = Fault.decode(entry.value)
    assert (fault.seq, fault.by, fault.at_ms) == (7, "core-1", 5_000) and "n1" in fault.error
    code, page = await _status(b"/readyz", None, health)
    assert code == 200 and page["violations"] == {"rm-1": f"commit 7: {fault.error}"}
    node.allocated["vcore"] -= 1
    await auditor.audit(standby(audited))
    assert not health.violations and value() == before + 1


async def test_followed_rms_take_turns() -> None:
    one = core()
    standbys = {
        "c": standby(one, "c"), "a": standby(one, "a"), "b": standby(one, "b", leads=True),
        "d": standby(one, "d", hot=False),
    }  # fmt: skip
    for answers, turns in ((never, "acac"), (lambda rm_id: rm_id == "b", "abcabc")):
        auditor = Auditor(MemoryBus(), "core-1", standbys, 60.0, lambda: 0, answers, health=Health())
        assert "".join(cast(RmStandby, auditor._next()).rm_id for _ in turns) == turns
    assert Auditor(MemoryBus(), "core-1", {}, 60.0, lambda: 0, never, health=Health())._next() is None


class Leading:
    """A leader whose next durable commit is 9, or which does not lead any more."""

    def __init__(self, core: Core, ended: bool = False) -> None:
        self.core = core
        self.ended = ended

    async def ask(self, question: Callable[[], Any]) -> tuple[Position, Any]:
        if self.ended:
            raise Refused("this core does not lead any more, try again")
        return Position(9), question()


async def test_a_leader_without_a_standby_is_audited_at_a_durable_commit() -> None:
    bus, health, audited = MemoryBus(), Health(), core()
    await bus.declare()
    audited.state.partitions[PARTITION].nodes["n1"].allocated["vcore"] += 1
    leader = standby(audited, leads=True, hot=False)
    leader.replica.leader = cast(Leader, Leading(audited))
    auditor = Auditor(bus, "core-1", {"rm-1": leader}, 60.0, lambda: 5_000, lambda _: True, health=health)
    await auditor.audit(cast(RmStandby, auditor._next()))
    assert health.violations["rm-1"].startswith("commit 9: ")
    leader.replica.leader = cast(Leader, Leading(audited, ended=True))
    given_up = metrics.AUDITS_GIVEN_UP.labels("rm-1")._value.get()
    await auditor.audit(leader)
    assert metrics.AUDITS_GIVEN_UP.labels("rm-1")._value.get() == given_up + 1
