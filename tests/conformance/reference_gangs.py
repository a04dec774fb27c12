"""The reference's rules of gangs in the place of ours, as those in `reference_rules`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from unittest.mock import patch

from remuda_core import facts
from remuda_core.decide import gang
from remuda_core.decide.ask import withdraw
from remuda_core.evolve import allocations, booking
from remuda_core.facts import Fact
from remuda_core.rules.lifecycle import ACCEPTED, RESUMING, STARTING
from remuda_core.state import Allocation, Application, Partition, State


def withdraw_all_asks_of_a_gang_that_resumes() -> AbstractContextManager[object]:
    """Its real asks too."""
    give_up = gang.give_up_placeholders

    def all_asks(partition: Partition, application: Application, message: str) -> Iterator[Fact]:
        if application.state == RESUMING:
            for pending in list(application.asks.values()):
                yield from withdraw(partition, pending, facts.TIMEOUT, message)
        yield from give_up(partition, application, message)

    return patch.object(gang, "give_up_placeholders", all_asks)


@contextmanager
def start_the_clock_of_placeholders_while_accepted() -> Iterator[None]:
    """The clock starts with a placeholder of an application that is Accepted; the one that makes a gang complete comes
    when it is Starting here, and has allocated nothing else."""
    comes = booking.placeholder_comes

    def counted(state: State, partition: Partition, placeholder: Allocation) -> None:
        application = placeholder.application
        accepted = application.state == ACCEPTED
        last_place = application.state == STARTING and not any(application.allocated.values())
        with ExitStack() as stack:
            if not accepted and not last_place:
                stack.enter_context(patch.object(type(state.timers), "has", lambda *_: True))
            comes(state, partition, placeholder)

    with patch.object(allocations, "placeholder_comes", counted):
        yield
