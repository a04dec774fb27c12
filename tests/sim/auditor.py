"""Reads everything that becomes durable, and knows what has to be true of it. Independent of the services: it judges
the chain by itself, and keeps a core of its own that only follows the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import msgspec

from remuda_bus import subjects
from remuda_bus.bus import Message, Reader
from remuda_bus.memory import MemoryBus
from remuda_core.check import check, digest
from remuda_core.commands import Register, Schedule, Tick
from remuda_core.core import Core
from remuda_core.facts import Fact
from remuda_core.settings import Configuration
from remuda_core.shell import replay
from remuda_core.wire import schema
from remuda_core.wire.configuration import read_configuration
from remuda_events.event_records import event_records_of
from remuda_events.ledger.projection import plain
from remuda_operations.ledger import hours
from remuda_operations.ledger.bookmark import Bookmark
from remuda_proto.guests import is_guest
from remuda_proto.remuda.v1 import config_pb2, inbox_pb2, log_pb2

from .chain_judge import ChainJudge
from .story import Story, Violation

CHECK_EVERY = 3  # commits
SOON_MS = 9_000  # longer than any time-out of the work
Used = dict[tuple[str, str, str], int]  # by partition, leaf queue and resource


class Auditor:
    """Of one RM."""

    RECURRING: tuple[type[Fact], ...] = ()  # what a core at rest says again

    def __init__(self, server: MemoryBus, rm_id: str, story: Story, clock: Callable[[], float]) -> None:
        self.rm_id = rm_id
        self.core = Core(rm_id)
        self.commits = 0
        self.allocated: list[str] = []  # since the registration, in order; not those of guests
        self.changed_at = 0.0
        self._server = server
        self._clock = clock
        self._story = story
        self._chain = ChainJudge(log_pb2.Commit, story)
        self._handled: list[tuple[int, int]] = []
        self._requests: dict[int, str] = {}  # sequence -> subject
        self._records: list[tuple[int, int]] = []
        self._actions: dict[str, str] = {}  # of operators: accepted or refused, by ID
        self.log_seq = 0  # of the last commit
        self.totals = {0: _totals(self.core)}  # of the state at each commit
        self.configuration = b""  # as the RM has registered with it
        self._configurations: dict[str, Configuration] = {}  # by checksum, those in the inbox
        # The time of each commit, and what is used then.
        self._used: list[tuple[int, Used]] = []

    async def follow_log(self) -> None:
        log = await self._server.read(subjects.LOG.name, subjects.log(self.rm_id))
        while True:
            for message in await log.batch():
                self.changed_at = self._clock()
                if (commit := self._chain.judge(message)) is not None:
                    self._accept(message.seq, commit)

    async def follow_inbox(self) -> None:
        inbox = await self._server.read(subjects.INBOX.name, subjects.inbox(self.rm_id))
        while True:
            for message in await inbox.batch():
                command = inbox_pb2.Command.FromString(message.payload)
                if command.HasField("register"):
                    self.configuration = command.register.configuration.SerializeToString()
                    self._configured(command.register.configuration)
                elif command.HasField("configure"):
                    self._configured(command.configure.configuration)
                position = f"#{command.request_seq}.{command.request_part}" if command.request_seq else ""
                self._story.tell(f"{self.rm_id} inbox {message.seq}: {command.WhichOneof('command')} {position}")

    def _configured(self, message: config_pb2.Configuration) -> None:
        configuration = read_configuration(message)
        self._configurations[configuration.checksum] = configuration

    async def follow_requests(self) -> None:
        requests = await self._server.read(subjects.REQUESTS.name, f"si.v1.rm.{self.rm_id}.*")
        while True:
            for message in await requests.batch():
                self._story.tell(f"request {message.seq} on {message.subject}: {len(message.payload)} bytes")
                self._requests[message.seq] = message.subject

    def _accept(self, seq: int, commit: log_pb2.Commit) -> None:
        self.commits += 1
        self._story.tell(f"{self.rm_id} commit {seq} of {commit.epoch}: {brief(commit)}")
        for decision in commit.decisions:
            self._handles(seq, decision)
        replay.apply(self.core, schema.Commit.FromString(commit.SerializeToString()))
        self.log_seq, self.totals[seq] = seq, _totals(self.core)
        self._used.append((self.core.state.now_ms, _used(self.core)))
        self._records.extend((seq, index) for index, _ in enumerate(event_records_of(commit)))
        if self.commits % CHECK_EVERY == 0:
            self.check()

    def _handles(self, seq: int, decision: log_pb2.Decision) -> None:
        position = (decision.request_seq, decision.request_part)
        if decision.request_seq:
            if self._handled and position <= self._handled[-1]:
                raise Violation(f"{self.rm_id}: request {position} is handled again in commit {seq}")
            self._handled.append(position)
        for fact in decision.facts:
            name = fact.WhichOneof("fact")
            self._note_action(fact)
            if (name == "rm_registered" and fact.rm_registered.resync != "replay") or (
                name == "rm_stopped" and fact.rm_stopped.deregistered
            ):
                self.allocated = []
            elif name == "allocated" and not is_guest(fact.allocated.allocation.applicationID):
                self.allocated.append(fact.allocated.allocation.UUID)
            elif name == "placeholder_replaced":
                self.allocated.append(fact.placeholder_replaced.allocation.allocation.UUID)

    def _note_action(self, fact: log_pb2.Fact) -> None:
        """An action is decided once; a repeated one as before."""
        if not fact.HasField("action_taken") and not fact.HasField("action_refused"):
            return
        outcome = "accepted" if fact.HasField("action_taken") else "refused"
        decided = fact.action_taken if fact.HasField("action_taken") else fact.action_refused
        action_id, repeated = decided.action.action_id, decided.repeated
        known = self._actions.get(action_id)
        if (known is not None) != repeated or known not in (None, outcome):
            raise Violation(f"{self.rm_id}: action {action_id} is {outcome}, repeated: {repeated}, was {known}")
        self._actions[action_id] = outcome

    def compare_actions(self, answers: dict[str, str]) -> None:
        """The answer to the operator."""
        wrong = {one: outcome for one, outcome in answers.items() if self._actions.get(one) != outcome}
        if wrong:
            raise Violation(f"{self.rm_id}: the operator was told {wrong}, the log has {self._actions}")

    def check(self) -> None:
        try:
            check(self.core.state, self.core.index)
        except AssertionError as error:
            raise Violation(f"{self.rm_id}: {error}") from error

    # At the end

    def now_ms(self) -> int:
        """By the log: its last commit, and what has passed since."""
        return self.core.state.now_ms + int((self._clock() - self.changed_at) * 1_000)

    async def unsettled(self) -> str:
        """The work that is still under way, as text; "": none."""
        state = self.core.state
        timer = min(state.timers, default=None)
        if timer is not None and timer.at_ms < self.now_ms() + SOON_MS:
            return f"{self.rm_id}: {timer} is due, it is {self.now_ms()}"
        if (left := await count(self._server, subjects.REQUESTS.name, f"si.v1.rm.{self.rm_id}.*")) > 0:
            return f"{left} requests of {self.rm_id} are not taken over"
        last = await self._server.last_message(subjects.INBOX.name, subjects.inbox(self.rm_id))
        if last is not None and last.seq > state.inbox_seq:
            return f"the inbox of {self.rm_id} ends at {last.seq}, handled is {state.inbox_seq}"
        last = await self._server.last_message(subjects.CALLBACKS.name, subjects.callback(self.rm_id, "*"))
        heard = await self._server.acknowledged_sequence(
            subjects.CALLBACKS.name, subjects.callback_consumer(self.rm_id)
        )
        if last is not None and last.seq > heard:
            return f"{self.rm_id} has callbacks up to {last.seq} and has taken those up to {heard}"
        if (told := await self._told_events())[-1:] != self._records[-1:]:
            return f"{len(told)} events of {self.rm_id} are told of {len(self._records)}"
        return ""

    async def audit(self, cores: list[tuple[str, Core]]) -> None:
        self.check()
        await self._each_request_once()
        await self._events_in_order()
        for name, core in cores:
            self._same(name, core)
        await self._ledger_is_the_integral()
        self._budgets_are_the_integral()
        self._settings_are_those_never_lent()
        await self._nothing_left_to_do()

    async def _ledger_is_the_integral(self) -> None:
        """Of what was used, over the commits between the begin of the ledger and its last closed hour."""
        entry = await self._server.get(subjects.EVENT_BOOKMARKS.name, subjects.ledger_key(self.rm_id))
        if entry is None or entry.value is None:
            raise Violation(f"{self.rm_id} has no ledger")
        bookmark = msgspec.json.decode(entry.value, type=Bookmark)
        found: Used = {}
        for message in await everything(self._server, subjects.LEDGER.name, subjects.ledger(self.rm_id, "*")):
            part = hours.decode(message.payload)
            rows = hours.rows_of(part) if part.hour_ms < bookmark.closed_ms else ()
            for key, amounts in (row for row in rows if row.key.kind in hours.USE):
                for name, amount in amounts.items():
                    place = key.partition, key.queue, name
                    found[place] = found.get(place, 0) + amount
        due = self._integral(bookmark.begun_ms, bookmark.closed_ms)
        if found != due:
            raise Violation(f"{self.rm_id}: the ledger has {found}, the log {due}, {bookmark}")

    def _integral(self, from_ms: int, until_ms: int) -> Used:
        """Use, times milliseconds."""
        sums: Used = {}
        for (since_ms, used), (next_ms, _) in pairwise([*self._used, (until_ms, {})]):
            lasted_ms = min(next_ms, until_ms) - max(since_ms, from_ms)
            for place, amount in used.items() if lasted_ms > 0 else ():
                sums[place] = sums.get(place, 0) + amount * lasted_ms
        return {place: amount for place, amount in sums.items() if amount}

    def _budgets_are_the_integral(self) -> None:
        """Of what the queue and those below have used: the ledger is the same one."""
        for key, budget in self.core.state.budgets.items():
            due: dict[str, int] = {}
            partition = plain(key.partition)
            until_ms = min(self.core.state.now_ms, budget.until_ms)
            for (where, path, name), amount in self._integral(budget.from_ms, until_ms).items():
                if where == partition and f"{path}.".startswith(f"{key.queue}."):
                    due[name] = due.get(name, 0) + amount
            found = {name: amount for name in {*due, *budget.past} if (amount := budget.used_of(name))}
            if found != due:
                raise Violation(f"{self.rm_id}: {budget} has {found}, the log {due}")

    def _settings_are_those_never_lent(self) -> None:
        """And those of a core that begins with the configuration in force, at the time of the log."""
        state = self.core.state
        left = [timer for timer in state.timers if timer.kind == "loan"]
        if state.loans or left:
            raise Violation(f"{self.rm_id}: loans that are over stay: {state.loans}, {left}")
        if state.configuration is None:
            return
        fresh = Core(self.rm_id)
        fresh.handle(Register(self.rm_id, self._configurations[state.configuration.checksum]), state.now_ms)
        fresh.handle(Tick(), state.now_ms)
        for name, partition in fresh.state.partitions.items():
            for path, queue in partition.queues.items():
                settings = state.partitions[name].queues[path].settings
                if settings != queue.settings:
                    raise Violation(f"{self.rm_id}: {path} has {settings}, configured is {queue.settings}")

    async def _each_request_once(self) -> None:
        """Where its requests are handled, or are dead letters: one of the two."""
        decided = {seq for seq, _ in self._handled}
        letters = await everything(self._server, subjects.DEAD_LETTERS.name, subjects.dead_letter(self.rm_id))
        buried = {int(letter.headers[subjects.ORIGIN_SEQ]) for letter in letters}
        for seq, subject in self._requests.items():
            if seq not in decided | buried:
                raise Violation(f"{self.rm_id}: request {seq} is lost")
            if seq in decided & buried and not subject.endswith(".configuration"):  # that, the core may refuse
                raise Violation(f"{self.rm_id}: request {seq} is handled, and a dead letter")

    async def _events_in_order(self) -> None:
        """Without a gap. The history may begin late: the log may be trimmed before its first record is written."""
        told = await self._told_events()
        due = self._records[-len(told) :] if told else []
        if told != due:
            wrong = next(pair for pair in zip(told, due, strict=False) if pair[0] != pair[1])
            raise Violation(f"{self.rm_id}: events are told out of order or left out: {wrong}")

    async def _told_events(self) -> list[tuple[int, int]]:
        events = await everything(self._server, subjects.EVENTS.name, subjects.event(self.rm_id))
        return [(int(event.headers[subjects.LOG_SEQ]), int(event.headers[subjects.EVENT_INDEX])) for event in events]

    def _same(self, name: str, core: Core) -> None:
        mine, its = self.core.state, core.state
        check(its)
        if digest(its) != digest(mine):
            raise Violation(f"{name}: its state of {self.rm_id} is not that of the log")
        positions = [(state.inbox_seq, state.request_seq, state.request_part) for state in (mine, its)]
        if positions[0] != positions[1]:
            raise Violation(f"{name}: positions in {self.rm_id} are {positions[1]}, in the log {positions[0]}")
        timers = [state.timers.next_ms() for state in (mine, its)]
        if timers[0] != timers[1]:
            raise Violation(f"{name}: the next timer of {self.rm_id} is {timers[1]}, in the log {timers[0]}")

    async def _nothing_left_to_do(self) -> None:
        found = self.core.handle(Schedule(1_000), self.now_ms())
        facts = [fact for fact in found if not isinstance(fact, self.RECURRING)]
        if facts:
            raise Violation(f"{self.rm_id}: left undone: {facts[:3]}")


def _used(core: Core) -> Used:
    return {
        (plain(partition.name), path, name): amount
        for partition in core.state.partitions.values()
        for path, queue in partition.queues.items()
        if queue.leaf
        for name, amount in queue.allocated.items()
        if amount
    }


def _totals(core: Core) -> dict[str, int]:
    """As the query `stats` has them, and the number of asks."""
    state, partitions = core.state, core.state.partitions.values()
    return {
        "registration": state.registration,
        "inbox_seq": state.inbox_seq,
        "request_seq": state.request_seq,
        "nodes": sum(len(one.nodes) for one in partitions),
        "allocations": sum(len(one.allocations) for one in partitions),
        "allocations_ever": state.next_allocation,
        "asks": sum(len(its.asks) for one in partitions for its in one.applications.values()),
    }


async def everything(server: MemoryBus, stream: str, subject: str) -> list[Message]:
    reader: Reader = await server.read(stream, subject)
    messages: list[Message] = []
    while some := await reader.batch(timeout_s=0.0):
        messages += some
    return messages


async def count(server: MemoryBus, stream: str, subject: str) -> int:
    return len(await everything(server, stream, subject))


def brief(commit: log_pb2.Commit) -> str:
    """Commands and facts of a commit in one line."""
    return "; ".join(
        f"{decision.command}{f' #{decision.request_seq}' if decision.request_seq else ''} -> "
        + (
            " ".join(
                f"{name}*{n}" if n > 1 else name
                for name, n in Counter(fact.WhichOneof("fact") or "?" for fact in decision.facts).items()
            )
            or "nothing"
        )
        for decision in commit.decisions
    )
