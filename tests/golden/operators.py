"""The word `operator`: someone acts on the scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from remuda_core import actions, commands

if TYPE_CHECKING:
    from .language import Line, Notes


def operator(notes: Notes, line: Line) -> Iterator[commands.Command]:
    """`operator alice move app-1 root.b [groups=a,b] [scheduler=true] [force=true] [reason=...] [id=...]`"""
    if len(line.names) < 3 or line.names[1] not in ACTIONS:
        raise line.wrong(f"expected a name, one of {', '.join(ACTIONS)}, and its objects")
    partition, (operator, verb, *objects) = notes.partition(line), line.names
    try:
        action = ACTIONS[verb](notes, line, *objects)
    except TypeError:
        raise line.wrong(f"{' '.join(line.names[1:])}: too few objects or too many") from None
    yield commands.Administer(
        operator, tuple(filter(None, line.take("groups").split(","))), line.flag("scheduler"), line.take("reason"),
        line.take("id", f"action-{len(notes.causes)}"), line.flag("force"), partition, action,
    )  # fmt: skip


def change_priority(notes: Notes, line: Line, name: str) -> actions.Action:
    application, key = notes.key(line, name)
    return actions.ChangeAskPriority(application, key, line.number("priority", 0))


def drain_node(notes: Notes, line: Line, node: str) -> actions.Action:
    """`from=2h`: in two hours."""
    after = line.take("from")
    return actions.DrainNode(node, notes.world.now_ms + line.duration_ms(after) if after else 0)


def lend(notes: Notes, line: Line, lender: str, borrower: str) -> actions.Action:
    """`lend.vcore=4 until=2h guaranteed=true`: so much of its maximum, or guarantee, for two hours."""
    until_ms = notes.world.now_ms + line.duration_ms(line.take("until", "1h"))
    guaranteed = line.flag("guaranteed")
    return actions.LendQuota(lender, borrower, line.resource("lend."), guaranteed, until_ms)


def release_one(notes: Notes, line: Line, name: str) -> actions.Action:
    """The newest allocation of a key, or the one with this UUID."""
    return actions.ReleaseOneAllocation(notes.uuids.get(name, [name])[-1])


ACTIONS: Final[Mapping[str, Callable[..., actions.Action]]] = {
    "kill": lambda notes, line, application: actions.KillApplication(application),
    "move": lambda notes, line, application, queue: actions.MoveApplication(application, queue),
    "hold": lambda notes, line, queue: actions.HoldQueue(queue),
    "resume": lambda notes, line, queue: actions.ResumeQueue(queue),
    "lend": lend,
    "endloan": lambda notes, line, lender, borrower: actions.EndLoan(lender, borrower),
    "drain": drain_node,
    "undrain": lambda notes, line, node: actions.UndrainNode(node),
    "prioritise": change_priority,
    "release": release_one,
}
