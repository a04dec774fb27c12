"""An RM whose log was given up: what it registers for now is not mixed up with what was before."""

from remuda_core import commands
from remuda_core.core import Core
from remuda_core.facts import RmRegistered
from remuda_core.settings import Configuration, PartitionSettings, QueueSettings

CONFIGURATION = Configuration("1", (PartitionSettings("default", QueueSettings("root", parent=True)),))


def registered(core: Core, life: int = 0, registration: int = 0) -> RmRegistered:
    command = commands.Register("rm-1", CONFIGURATION, life=life, registration=registration)
    [fact] = [fact for fact in core.handle(command, 1) if isinstance(fact, RmRegistered)]
    return fact


def test_uuids_of_a_log_that_is_gone_do_not_come_again() -> None:
    before, after = Core("rm-1"), Core("rm-1")
    registered(before)
    registered(after, life=1_795_000_000_000)
    assert before.state.next_uuid() != after.state.next_uuid()
    assert len(before.state.next_uuid()) == len(after.state.next_uuid()) == 36


def test_a_life_lasts_though_the_record_of_the_rm_is_lost() -> None:
    core = Core("rm-1")
    registered(core, life=7)
    uuid = core.state.next_uuid()
    assert registered(core).life == 7
    assert core.state.next_uuid() == uuid


def test_registrations_go_on_counting() -> None:
    assert registered(Core("rm-1"), registration=3).registration == 4
    core = Core("rm-1")
    registered(core)
    assert registered(core, registration=1).registration == 2
