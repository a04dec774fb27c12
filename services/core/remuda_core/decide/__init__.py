"""Decides commands: `decide(state, index, command, now_ms)` yields the facts that a command leads to. Never writes.

When the generator resumes after a `yield`, the fact has been applied to the state, and later decisions see it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from .. import commands
from ..cycle.schedule import schedule
from ..facts import Fact
from ..index.index import Index
from ..state import State
from .administer import administer
from .ask import recover_allocation, release_ask, submit_ask
from .configure import clean_queues, configure, register
from .connection import rm_connection
from .expire import tick
from .node import update_node
from .predicate import answer_predicate, answer_predicates
from .release import release_allocation
from .submit import remove_application, submit_application

BY_COMMAND: Final[dict[type[commands.Command], Callable[[State, Any, int], Iterator[Fact]]]] = {
    commands.Register: register,
    commands.Configure: configure,
    commands.RmConnection: rm_connection,
    commands.UpdateNode: update_node,
    commands.SubmitApplication: submit_application,
    commands.RemoveApplication: remove_application,
    commands.SubmitAsk: submit_ask,
    commands.ReleaseAsk: release_ask,
    commands.RecoverAllocation: recover_allocation,
    commands.ReleaseAllocation: release_allocation,
    commands.AnswerPredicates: answer_predicates,
    commands.CleanQueues: clean_queues,
    commands.Administer: administer,
}
# Commands whose functions need the scheduling index.
BY_INDEX: Final[dict[type[commands.Command], Callable[[State, Index, Any, int], Iterator[Fact]]]] = {
    commands.Schedule: schedule,
    commands.Tick: tick,
    commands.AnswerPredicate: answer_predicate,
}


def decide(state: State, index: Index, command: commands.Command, now_ms: int) -> Iterator[Fact]:
    by_index = BY_INDEX.get(type(command))
    if by_index is not None:
        return by_index(state, index, command, now_ms)
    return BY_COMMAND[type(command)](state, command, now_ms)
