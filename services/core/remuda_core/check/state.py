"""All invariants of a state.

Tests check them after every command; an operator may check them at any time. Sums, counts and the scheduling index are
computed from the facts' own fields and compared with what is kept. The checks do not depend on commands: they hold
whatever led to the state.
"""

from __future__ import annotations

from ..index.index import Index
from ..state import State
from .gangs import check_gangs
from .guests import check_left_guests, check_unreported
from .index import check_index
from .limits import check_limits
from .preemption import check_held, check_preemption
from .questions import check_predicate_classes, check_questions
from .records import check_allocations, check_applications, check_holds, check_queues
from .sizes import check_sizes
from .sums import check_priorities, check_sums
from .timers import check_timers


def check(state: State, index: Index | None = None, *, grown: bool = True) -> None:
    """Raises AssertionError with the violated invariant. `grown`: check sizes, too, which takes as long as all other
    checks and need not be done every time, because what has grown stays."""
    if grown:
        check_sizes(state, index)
    check_left_guests(state)
    for name, partition in state.partitions.items():
        assert partition.name == name, f"partition {name}: it calls itself {partition.name}"
        assert partition.yunikorn_1_4 == state.yunikorn_1_4, f"partition {name}: other rules than asked"
        check_holds(state, partition)
        check_queues(partition)
        check_applications(partition)
        check_allocations(partition)
        check_unreported(partition)
        check_questions(state, partition)
        check_predicate_classes(state, partition)
        check_gangs(partition)
        check_sums(partition)
        check_priorities(partition)
        check_limits(partition)
        check_timers(state, partition)
        check_preemption(state, partition)
        check_held(partition)
        if index is not None and (found := index.find(partition)) is not None:
            check_index(partition, found)
