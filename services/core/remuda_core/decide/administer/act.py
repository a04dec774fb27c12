"""Administer: the actions of operators (001, Access Control Lists; semantics section 19).

Each kind of action has two functions: one yields the problems that speak against it, the other its effects. Problems
are hard or soft, and `force` acts in spite of soft ones. Outcomes are remembered by `action_id`, so that a repeated
command gets the same outcome and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from msgspec.structs import asdict, replace

from remuda_proto import bounds
from remuda_proto.bounds import joined, shown

from ... import actions, facts
from ...commands import Administer
from ...facts import Action, Fact
from ...state import Partition, State
from .. import names
from .applications import kill_application, move_application, problems_of_kill, problems_of_move
from .asks import change_ask_priority, problems_of_priority, problems_of_release, release_one_allocation
from .nodes import drain_node, problems_of_drain, problems_of_undrain, undrain_node
from .problem import Problem
from .queues import hold_queue, problems_of_hold, problems_of_resume, resume_queue

Problems = Callable[[State, Partition, Administer, Any], Iterable[Problem]]
Effects = Callable[[State, Partition, Administer, Any, int], Iterable[Fact]]

BY_ACTION: Final[dict[type[actions.Action], tuple[Problems, Effects]]] = {
    actions.KillApplication: (problems_of_kill, kill_application),
    actions.MoveApplication: (problems_of_move, move_application),
    actions.HoldQueue: (problems_of_hold, hold_queue),
    actions.ResumeQueue: (problems_of_resume, resume_queue),
    actions.DrainNode: (problems_of_drain, drain_node),
    actions.UndrainNode: (problems_of_undrain, undrain_node),
    actions.ChangeAskPriority: (problems_of_priority, change_ask_priority),
    actions.ReleaseOneAllocation: (problems_of_release, release_one_allocation),
}


def administer(state: State, command: Administer, now_ms: int) -> Iterator[Fact]:
    """The outcome, then the effects."""
    action = described(command)
    known = state.actions.get(command.action_id)
    if known is not None:
        yield repeated(known, action)
        return
    problem = problem_of_command(command)
    partition = state.partitions.get(command.partition)
    if problem is None and partition is None:
        problem = f"partition {shown(names.plain(command.partition))} does not exist"
    if problem is not None or partition is None or command.action is None:
        yield facts.ActionRefused(action, problem or "")
        return
    problems, effects = BY_ACTION[type(command.action)]
    found = list(problems(state, partition, command, command.action))
    texts = tuple(each.text for each in found)
    soft = all(each.soft for each in found)
    if found and not (soft and command.force):
        yield facts.ActionRefused(action, joined(list(texts)), soft=soft)
        return
    yield facts.ActionTaken(action, texts)
    yield from effects(state, partition, command, command.action, now_ms)


def described(command: Administer) -> Action:
    """The command for the log. Names that are too long are shortened: such a command is refused."""
    action = command.action
    values = asdict(action) if action is not None else {}
    texts = {name: names.identity(value) for name, value in values.items() if isinstance(value, str)}
    return Action(
        "" if action is None else type(action).__name__,
        names.identity(command.operator),
        bounds.shortened(command.reason, bounds.MESSAGE_BYTES),
        names.identity(command.action_id),
        names.identity(command.partition),
        force=command.force,
        **{**values, **texts},
    )


def problem_of_command(command: Administer) -> str | None:
    """Why the command cannot be read; None if it can."""
    if command.action is None:
        return f"action is empty, expected one of {', '.join(kind.__name__ for kind in BY_ACTION)}"
    named = {"operator": command.operator, "actionID": command.action_id}
    named |= {name: value for name, value in asdict(command.action).items() if isinstance(value, str)}
    problems = (names.problem_of_name(field, value) for field, value in named.items())
    return next(filter(None, problems), None) or bounds.problem_of_texts("groups", command.groups, bounds.GROUPS)


def repeated(known: facts.ActionTaken | facts.ActionRefused, action: Action) -> Fact:
    """The outcome that the action had before. Another action with the same ID is refused."""
    if known.action == action:
        return replace(known, repeated=True)
    other = f"actionID {shown(action.action_id)} was used for {known.action.kind} of {known.action.operator}"
    return facts.ActionRefused(action, f"{other}, expected a new one", repeated=True)
