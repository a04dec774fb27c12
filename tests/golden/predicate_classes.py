"""The RM's answers about predicate classes, in the language of the scenarios."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from remuda_core import commands
from remuda_core.state import PredicateClass

if TYPE_CHECKING:
    from tests.golden.language import Line, Notes


def verdicts(notes: Notes, line: Line) -> Iterator[commands.Command]:
    """`verdicts app-1/k1 yes=n1,n2 no=n3 holds=5s reason=...`: the answer to the open question about the class of the
    ask."""
    reason = line.take("reason", "no")
    holds_ms = line.duration_ms(line.take("holds")) if "holds" in line.values else 0
    accepted, refused = line.take("yes").split(","), line.take("no").split(",")
    application, _, key = line.one("app/key").partition("/")
    given = [commands.Verdict(node_id, "", holds_ms) for node_id in accepted if node_id]
    given += [commands.Verdict(node_id, reason, holds_ms) for node_id in refused if node_id]
    for partition in notes.world.state.partitions.values():
        found = partition.applications[application].asks[key].refused
        if isinstance(found, PredicateClass):
            yield commands.AnswerPredicates(partition.name, found.question, tuple(given))
