"""The next state of an application, as facts: by the table in `rules.lifecycle`, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..facts import ApplicationStateChanged, Fact
from ..rules import lifecycle
from ..state import Application, Partition

STATE_AWARE_DISABLE_TAG = "application.stateaware.disable"


def occasion(partition: Partition, application: Application, what: str, now_ms: int) -> list[Fact]:
    """The application's next state, where the occasion leads to one."""
    state = lifecycle.after(application.state, what)
    if state is None:
        return []
    allocated = {name: amount for name, amount in application.allocated.items() if amount}
    return [
        ApplicationStateChanged(partition.name, application.id, state, what, now_ms, application.queue.path, allocated)
    ]


def start(partition: Partition, application: Application, now_ms: int) -> Iterable[Fact]:
    """The first allocation makes an application Starting, the second Running; both at once where its tag says so."""
    if application.tags and application.tags.get(STATE_AWARE_DISABLE_TAG, "").lower() == "true":
        return _at_once(partition, application, now_ms)
    return occasion(partition, application, lifecycle.RUN, now_ms)


def _at_once(partition: Partition, application: Application, now_ms: int) -> Iterator[Fact]:
    for _ in range(2):
        yield from occasion(partition, application, lifecycle.RUN, now_ms)
