"""The scheduler of one resource manager, without a clock, a network or a thread.

The host's whole loop:

    core = Core(rm_id)
    for commit in log:                               # the same on restart, standby, query and audit
        core.replay(commit.facts, commit.now_ms, ...)
    while leading:
        commands = read the inbox after core.state.inbox_seq
        facts = [core.handle(command, now_ms) for command in commands] + core.handle(Schedule(limit), now_ms)
        append Commit(parent, inbox_seq, now_ms, epoch, facts) to the log; if that fails, exit and start from the log
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .commands import Command, ReleaseAsk, Schedule
from .decide import decide
from .evolve import BY_FACT
from .evolve.booking import prepare_release
from .facts import Fact, QueueChanged
from .index.index import Index
from .limits import FACTS_PER_STEP, TICK_MS, TIMERS_MS
from .rules.connection import RUNNING
from .state import State


class Core:
    def __init__(self, rm_id: str) -> None:
        self.state = State(rm_id)
        self.index = Index()

    def go_on_from(self, state: State) -> None:
        """Continue from a state that was restored from a snapshot."""
        self.state, self.index = state, Index()

    def handle(self, command: Command, now_ms: int) -> list[Fact]:
        """Decide the command and apply its facts. The state has changed when this returns. The host must make the facts
        durable before it publishes anything derived from them."""
        return self.handle_all((command,), now_ms)

    def handle_all(self, commands: Iterable[Command], now_ms: int) -> list[Fact]:
        """Decide several commands, in order, at the time `now_ms`."""
        facts: list[Fact] = []
        for _ in self.handle_in_steps(commands, now_ms, facts):
            pass
        return facts

    def handle_in_steps(self, commands: Iterable[Command], now_ms: int, facts: list[Fact]) -> Iterator[None]:
        """Does what `handle_all` does, with a yield after every command, every FACTS_PER_STEP facts, every QueueChanged
        and every INDEXED_PER_STEP items of an index that is built. Between steps the host may do other work, but must
        not use this state. Facts are appended to `facts`, which the host may clear."""
        state, index = self.state, self.index
        write, apply = BY_FACT, index.apply
        state.now_ms = now_ms = max(now_ms, state.now_ms)
        decided = 0
        for command in commands:
            if type(command) is Schedule:
                yield from index.build_in_steps(state)
            elif type(command) is ReleaseAsk:
                prepare_release(state, command)
            for fact in decide(state, index, command, now_ms):
                kind = type(fact)
                touched = write[kind](state, fact)  # evolve: when decide resumes, it has happened
                apply(state, fact, touched)
                facts.append(fact)
                decided += 1
                if decided >= FACTS_PER_STEP or kind is QueueChanged:  # which may reorder thousands of asks
                    decided = 0
                    yield
            yield

    def replay(self, facts: Iterable[Fact], now_ms: int) -> None:
        """Apply the facts of a commit that a leader has decided at `now_ms`."""
        state, index = self.state, self.index
        state.now_ms = now_ms
        for fact in facts:
            touched = BY_FACT[type(fact)](state, fact)  # evolve
            if index.partitions:
                index.apply(state, fact, touched)


def next_tick_ms(state: State, last_ms: int) -> int | None:
    """When the Tick after the one at `last_ms` is due, in ms; None: no Tick until a command changes the state."""
    times: list[int] = []
    for partition in state.partitions.values():
        if partition.root.priorities and state.rm_state == RUNNING:
            # Asks are pending: after some time they are explained, reserve nodes, and preempt.
            times.append(last_ms + TICK_MS)
        if partition.rejected:
            oldest = next(iter(partition.rejected.values()))
            times.append(max(oldest.at_ms + state.timing.ended_ms, last_ms + TICK_MS))
    timer_ms = state.timers.next_ms()
    if timer_ms is not None:
        times.append(max(timer_ms, last_ms + TIMERS_MS))
    return min(times, default=None)
