"""The asks of a leaf queue in scheduling order (semantics section 9), as facts change them.

    LeafOrder        the ask classes of a leaf queue by rank; finds the first one whose demand is schedulable
    StateawareTurn   which application of a `stateaware` leaf queue may start

An ask class stays where it ranks while no node fits its demand: the search passes over it. An ask class whose limit has
no room or slot is parked at that limit until it has.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from heapq import heapify, heappop, heappush
from typing import Any, Protocol

from remuda_proto.fair import WEIGHT_ONE

from ..limits import LEFTOVERS, RANKED_LAZILY
from ..rules import lifecycle
from ..rules.properties import FAIR, FAIR_USERS, STATE_AWARE, sort_policy, sorts_by_priority, user_weights
from ..rules.share import dominant_share, raw_shares, share_list, weight
from ..state import Application, PendingAsk, Queue
from .asks import Admission, ApplicationAsks, AskClass
from .demands import FreedNodes
from .limits import BlockedBy, Limit, held_queue
from .node_groups import Demand
from .ordered import LazyRanking, Member, Rank, Vector, covers
from .patience import LateAsks
from .preemption import Preemptors
from .queues import ParentOrder, QueueIndex, QueueOrder
from .reservations import ReservingDemands
from .trees import BitTree
from .users import UserRanking


class LeafQueueIndex(QueueIndex, Protocol):
    """The index of the partition, as the orders of leaf queues see it."""

    @property
    def lines(self) -> MutableMapping[PendingAsk, Any]: ...
    @property
    def gangs(self) -> Mapping[Application, Member]: ...
    @property
    def blocked_gangs(self) -> MutableMapping[Any, None]: ...
    @property
    def unexplained(self) -> dict[ApplicationAsks, None]: ...
    @property
    def parked(self) -> BlockedBy[AskClass]: ...
    @property
    def late_asks(self) -> LateAsks: ...
    @property
    def preemptors(self) -> Preemptors | None: ...
    @property
    def freed_nodes(self) -> FreedNodes: ...
    def park(self, ask_class: AskClass, limit: Limit) -> None: ...
    @property
    def reserving(self) -> ReservingDemands: ...
    def ask_class_opened(self, ask_class: AskClass) -> None: ...
    def ask_class_gone(self, ask_class: AskClass) -> None: ...


class LeafOrder(QueueOrder):
    """A leaf queue: which of its asks is next."""

    __slots__ = (
        "ask_classes",
        "by_priority",
        "by_user",
        "dirty_ask_classes",
        "fair",
        "found",
        "found_at",
        "found_under",
        "gangs",
        "held",
        "lines",
        "numbers",
        "of_user",
        "only",
        "order",
        "stateaware_turn",
        "user_weights",
    )

    index: LeafQueueIndex

    def __init__(self, queue: Queue, above: ParentOrder | None, index: LeafQueueIndex) -> None:
        super().__init__(queue, above, index)
        policy = sort_policy(queue.settings.properties)
        # Whether ranks follow from what applications or users use, and whether users come first.
        self.by_user = policy == FAIR_USERS
        self.fair = policy == FAIR or self.by_user
        # None: all users count alike.
        self.user_weights = (
            user_weights(one.settings.properties for one in queue.path_to_root) if self.by_user else None
        )
        # By user: its members of rankings, and these rankings.
        self.of_user: dict[str, dict[Any, Any]] = {}
        self.stateaware_turn = StateawareTurn() if policy == STATE_AWARE else None
        self.by_priority = sorts_by_priority(queue.settings.properties)
        # Whether an operator holds the queue, or a queue above.
        self.held = held_queue(queue) is not None
        # The asks with free repeats: by demand and limits, and the asks of each application by demand. An application
        # is here exactly while it has such asks.
        self.ask_classes: dict[tuple[Demand, Admission], AskClass] = {}
        self.lines: dict[Application, dict[Demand, ApplicationAsks]] = {}
        self.numbers = 0  # the number of the ask class that was made last
        # The ask class, if there is exactly one: it needs no rank.
        self.only: AskClass | None = None
        # The ask classes that are not hidden, by rank; and those whose rank has to be computed again.
        self.order: BitTree[AskClass] = BitTree(index.budget)
        self.dirty_ask_classes: list[AskClass] = []
        # Gangs with placeholders that can be replaced now.
        self.gangs: LazyRanking[Any] | UserRanking[Any] = self.new_ranking()
        # The ask class found last, the headroom it was found under, and at which count of `Demands.risen`: as long as
        # there is no more headroom and no other demand is schedulable, no ask class before it is next. None: another
        # one may be.
        self.found: AskClass | None = None
        self.found_under: Vector | None = None
        self.found_at = 0

    def new_ranking(self) -> LazyRanking[Any] | UserRanking[Any]:
        """An empty ranking of what belongs to applications."""
        budget = self.index.budget if self.moment is not None else None
        return UserRanking(self, budget) if self.by_user else LazyRanking(budget)

    def total_changed(self) -> None:
        super().total_changed()
        if self.fair:
            self.rank_applications()

    def rank_applications(self) -> None:
        """Mark the ranks of all applications as changed: their shares are measured by something else."""
        for application in self.lines:
            self.application_changed(application)
        for gang in self.gangs.members:
            self.gangs.touch(gang)

    def _weight(self) -> int:
        return weight(self.queue.asked, self.index.scales)

    def first(self, negated_headroom: Vector | None) -> AskClass | None:
        """The first ask class, by rank, that fits the headroom and may fit a node, or may reserve one. O(log n) for
        each ask class that is parked on the way, or to which the bits of its demand do not do justice."""
        if self.dirty_ask_classes:
            self._settle()
        only = self.only
        if only is not None:
            if only.hidden or (negated_headroom is not None and not covers(only.demand.negated, negated_headroom)):
                return None
            if only.demand.open and not only.limited:
                return only
            return only if self._may_be_next(only) else None
        demands, budget = self.index.demands, self.index.budget
        ask_class = self.found
        if (
            ask_class is not None
            and ask_class.demand.open
            and self.found_at == demands.risen
            and self._is_no_more(negated_headroom)
            and (negated_headroom is None or covers(ask_class.demand.negated, negated_headroom))
            and (not ask_class.limited or self._passes(ask_class))
        ):
            self.found_under = negated_headroom
            return ask_class
        mask = demands.schedulable if negated_headroom is None else demands.schedulable_in(negated_headroom)
        start: Rank = ()
        while (ask_class := self.order.first(mask, start)) is not None:
            rank = ask_class.rank
            fits = negated_headroom is None or covers(ask_class.demand.negated, negated_headroom)
            if fits and self._may_be_next(ask_class):
                self.found, self.found_under, self.found_at = ask_class, negated_headroom, demands.risen
                return ask_class
            if budget.left <= 0:
                return None
            if ask_class.bits & mask and rank is not None:
                start = (*rank, 0)  # right behind it
        return None

    def _is_no_more(self, negated_headroom: Vector | None) -> bool:
        """Whether the headroom is no more than the headroom under which the last ask class was found."""
        under = self.found_under
        return under is None or (negated_headroom is not None and covers(negated_headroom, under))

    def _may_be_next(self, ask_class: AskClass) -> bool:
        """Whether a node may fit the ask class, or it may reserve one, and its limits have room and slots; if not, the
        class is parked at the first limit that has none."""
        if ask_class.demand.open or ask_class.admits() or self.index.freed_nodes.any_fits(ask_class.demand):
            return not ask_class.limited or self._passes(ask_class)
        ask_class.pass_over()
        return False

    def wanted(self) -> int:
        """The demands of its ask classes that are not hidden, as bits."""
        return self.only.bits if self.only is not None else self.order.bits()

    def _passes(self, ask_class: AskClass) -> bool:
        """Whether the limits of the ask class have room and slots; if not, it is parked at the first that has none."""
        limit = ask_class.in_the_way()
        if limit is not None:
            self.index.park(ask_class, limit)
        return limit is None

    def _settle(self) -> None:
        self.index.budget.left -= len(self.dirty_ask_classes)
        order = self.order
        for ask_class in self.dirty_ask_classes:
            ask_class.dirty = False
            if not ask_class.hidden and ask_class is not self.only and ask_class.ranking.members:
                rank, old = ask_class.rank_now(), ask_class.rank
                if old is None:
                    order.put(ask_class, rank, ask_class.bits)
                    self.found = None
                elif old != rank and not order.move(old, rank):
                    self.found = None
                ask_class.rank = rank
        self.dirty_ask_classes.clear()

    # Asks

    def add_ask(self, ask: PendingAsk, demand: Demand, more: int) -> None:
        """Add an ask with free repeats. `more`: the weight by which the pending asks of the queue grow."""
        application = ask.application
        lines = self.lines.setdefault(application, {})
        line = lines.get(demand)
        if line is None:
            ask_class = self._ask_class_of(application, demand, self._admission(application))
            line = lines[demand] = ApplicationAsks(application, ask_class)
            self.index.unexplained[line] = None
            ask_class.ranking.enter(line)
            if len(lines) == 1:
                self.application_asks(application)
        line.add_ask(ask)
        self.index.lines[ask] = line
        if self.moment is not None and (patience_ms := self.queue.memory.patience_ms):
            self.index.late_asks.add_ask(ask, patience_ms)
        self._waits_since(line.ask_class, ask)
        if self.only is None:
            line.ask_class.touch()
        self.enter(more, line.ask_class.bits)

    def _waits_since(self, ask_class: AskClass, ask: PendingAsk | None) -> None:
        """Note that an ask was added to the ask class, and may be the oldest one."""
        if ask is not None and ask.at_ms < ask_class.since_ms:
            self.index.reserving.age(ask_class, ask)
        if ask_class.aside:
            self.index.reserving.look_again(ask_class)

    def taken(self, line: ApplicationAsks) -> None:
        """Follow an ask of the application that was allocated or withdrawn: another ask may be first."""
        ask_class = line.ask_class
        if not line.best:
            self._drop(line)
        if ask_class.aside:
            self.index.reserving.look_again(ask_class)
        if self.fair:
            self.share_changed(line.application)
        if self.only is None:
            ask_class.touch()

    def member_rank(self, application: Application) -> Rank:
        """The rank of what belongs to the application, in a ranking of the leaf: by users within its user."""
        if not self.by_user:
            return self.application_rank(application)
        return -application.priority, application.seq

    def application_rank(self, application: Application) -> Rank:
        """The rank of the application under the sort policy of the queue: the lowest is next."""
        if self.by_user:
            share = self._share_of(application, application.user)
            if self.by_priority:
                return (-application.priority, *share, application.seq)
            return (*share, -application.priority, application.seq)
        if self.fair and self.moment is not None:
            share = self._share_of(application, application)
            if self.by_priority:
                return (-application.priority, *share, application.id)
            return (*share, -application.priority, application.id)
        if self.fair:
            if self.index.raw_shares:
                shares = raw_shares(application.allocated, self.queue.settings.guaranteed)
            else:
                shares = share_list(application.allocated, self.index.partition.total)
            if self.by_priority:
                return (-application.priority, shares, application.id)
            return (shares, -application.priority, application.id)
        if self.by_priority:
            return (-application.priority, application.seq)
        return (application.seq, -application.priority)

    def _share_of(self, application: Application, member: Any) -> tuple[float, ...]:
        """The share of the application, or of its user. `member`: which of the two it is."""
        account, due, one = application.account, self.index.partition.total, 1
        assert account is not None, "it has an account by the settings of the queue"
        if self.user_weights is not None:
            weight, one = self.user_weights.of(application.user, application.groups), WEIGHT_ONE
            due = {name: amount * weight for name, amount in due.items() if amount}
        if self.moment is None:
            return (dominant_share(account.used, due, one),)
        if member not in self.growing:
            self.grows(member, self.moment, account.used)
        return self.moment.share(account, due, one)

    def outdate(self, *, is_new_epoch: bool) -> list[Any]:
        """Shares of growing members have grown, and no other order follows from them than those of rankings. So few
        are ranked again: those that come first. Where there are many, one pass could not rank them all."""
        if is_new_epoch or len(self.growing) > RANKED_LAZILY:
            return super().outdate(is_new_epoch=is_new_epoch)
        if not self.ask_classes and not self.gangs.members:  # the leaf may be no more
            self.growing.clear()
        for ask_class in self.ask_classes.values():
            ask_class.ranking.outdate()
            if self.only is None:
                ask_class.touch()
            if ask_class.aside:
                self.index.reserving.look_again(ask_class)
        self.gangs.outdate()
        if self.by_user and len(self.growing) > 2 * len(self.of_user) + LEFTOVERS:
            self.growing = {user: None for user in self.growing if user in self.of_user}
        return []

    def rank_again(self, member: Any) -> None:
        if self.by_user:
            self.user_changed(member)
        elif member in self.lines or member in self.index.gangs:
            self.application_changed(member)

    def settle_ranks(self) -> None:
        if self.only is not None:
            self.only.first()
        self._settle()
        self.gangs.first()

    def share_changed(self, application: Application) -> None:
        """Rank the application again, or its user: it uses more or less than before."""
        if self.by_user:
            self.user_changed(application.user)
        else:
            self.application_changed(application)

    def user_changed(self, user: str) -> None:
        """Rank the user again in each ask class in which it has asks, and its gangs."""
        for member, users in self.of_user.get(user, {}).items():
            users.ranking.touch(member)
            if users is not self.gangs:
                ask_class = member.first().ask_class
                ask_class.touch()
                if ask_class.aside:
                    self.index.reserving.look_again(ask_class)

    def application_changed(self, application: Application) -> None:
        """Rank the application again: its share or priority changed, so another ask may be first in its ask classes."""
        gangs = self.index.gangs
        if gangs and application in gangs:
            self.gangs.touch(gangs[application])
        for line in self.lines.get(application, {}).values():
            line.ask_class.ranking.touch(line)
            line.ask_class.touch()
            if line.ask_class.aside:
                self.index.reserving.look_again(line.ask_class)

    # Limits and turns of applications

    def regroup(self, application: Application) -> None:
        """Move the asks of the application to the ask classes they belong to: its limits or its turn changed."""
        if self.index.preemptors is not None:
            self.index.preemptors.wake_application(application)
        lines = self.lines.get(application)
        if not lines:
            return
        admission = self._admission(application)
        for demand, line in lines.items():
            old, new = line.ask_class, self._ask_class_of(application, demand, admission)
            if old is new:
                continue
            self._leave(old, line)
            line.ask_class = new
            new.ranking.enter(line)
            self._waits_since(new, line.oldest_ask())
            if self.only is None:
                new.touch()
                old.touch()
            self.enter(0, new.bits)

    def application_asks(self, application: Application) -> None:
        """Note that the application has asks, which it may not have had before."""
        if self.stateaware_turn is not None:
            self.stateaware_turn.asks(application)
            self.take_stateaware_turn(self.stateaware_turn)

    def take_stateaware_turn(self, stateaware_turn: StateawareTurn) -> None:
        """Move asks to other ask classes where the turn to start has changed."""
        for application in stateaware_turn.settle():
            self.regroup(application)

    def holds_back(self, application: Application) -> bool:
        """Whether the queue is held, or it is another application's turn to start."""
        return self.held or (self.stateaware_turn is not None and self.stateaware_turn.hold_back(application))

    def _admission(self, application: Application) -> Admission:
        held_back = self.holds_back(application)
        if not application.trackers and not application.application_limits:
            return (held_back, (), (), self.queue.budgets, None)
        trackers = tuple(tracker for tracker in application.trackers if tracker.limit.max_resources)
        application_limits = () if application.counts_as_running else application.application_limits
        return (held_back, application_limits, trackers, self.queue.budgets, None)

    def _ask_class_of(self, application: Application, demand: Demand, admission: Admission) -> AskClass:
        if demand.of_placeholders:
            admission = (*admission[:4], application)
        return self.ask_classes.get((demand, admission)) or self._open_ask_class(demand, admission)

    def _open_ask_class(self, demand: Demand, admission: Admission) -> AskClass:
        ask_class = AskClass(self, demand, admission)
        self.ask_classes[demand, admission] = ask_class
        if self.only is not None:  # alone it was not ranked
            self.only.touch()
        self.only = ask_class if len(self.ask_classes) == 1 else None
        self.index.ask_class_opened(ask_class)
        return ask_class

    def _drop(self, line: ApplicationAsks) -> None:
        ask_class = line.ask_class
        lines = self.lines[line.application]
        del lines[ask_class.demand]
        self.index.unexplained.pop(line, None)  # not while it is looked at
        if not lines:
            del self.lines[line.application]
            self.growing.pop(line.application, None)
        self._leave(ask_class, line)

    def _leave(self, ask_class: AskClass, line: ApplicationAsks) -> None:
        """Remove the application's asks from the ask class, which goes when it is empty."""
        ask_class.ranking.leave(line)
        if not ask_class.ranking.members:
            if ask_class.rank is not None:
                self.order.remove(ask_class.rank)
                ask_class.rank = None
            self.found = None
            del self.ask_classes[ask_class.demand, ask_class.admission]
            self.only = next(iter(self.ask_classes.values())) if len(self.ask_classes) == 1 else None
            if len(self.dirty_ask_classes) > 2 * len(self.ask_classes) + LEFTOVERS:
                self.dirty_ask_classes = [each for each in self.dirty_ask_classes if each.ranking.members]
            self.index.ask_class_gone(ask_class)


class StateawareTurn:
    """Which application of a `stateaware` leaf queue may start (semantics section 9). O(log n) for each change.

    Of the applications that are not yet Running, at most one is scheduled. While one is Starting, it is that one.
    Otherwise it is the oldest Accepted application with asks, whether its asks fit or not."""

    __slots__ = ("_accepted", "_starting", "_waiting", "whose")

    def __init__(self) -> None:
        # The Accepted application that may start. None: an application is Starting, or no Accepted one has asks.
        self.whose: Application | None = None
        self._starting: dict[Application, None] = {}
        # Accepted applications with asks; and a heap of the same by age, in which those that left stay for a while.
        self._waiting: dict[Application, None] = {}
        self._accepted: list[tuple[int, Application]] = []

    def first(self) -> Application | None:
        """The application that has to be Running before another may start."""
        return next(iter(self._starting), self.whose)

    def hold_back(self, application: Application) -> bool:
        """Whether the asks of the application have to wait for the turn of another."""
        return application.state == lifecycle.ACCEPTED and application is not self.whose

    def state_changed(self, application: Application) -> None:
        if application.state == lifecycle.STARTING:
            self._starting[application] = None
        else:
            self._starting.pop(application, None)
        if application.asks:
            self.asks(application)
        else:
            self.stops(application)

    def asks(self, application: Application) -> None:
        """Note that the application has asks now."""
        if application.state != lifecycle.ACCEPTED:
            self.stops(application)
        elif application not in self._waiting:
            self._waiting[application] = None
            heappush(self._accepted, (application.seq, application))

    def stops(self, application: Application) -> None:
        """Note that the application has no asks, or is not Accepted."""
        self._waiting.pop(application, None)
        if len(self._accepted) > 2 * len(self._waiting) + LEFTOVERS:
            self._accepted = [(each.seq, each) for each in self._waiting]
            heapify(self._accepted)

    def leave(self, application: Application) -> None:
        """Forget an application that is in another queue now."""
        self._starting.pop(application, None)
        self.stops(application)

    def settle(self) -> tuple[Application, ...]:
        """Find whose turn it is. Returns the applications that lost and got the turn; empty if nothing changed. Asks
        that the RM is asked about still count as asks."""
        accepted = self._accepted
        while accepted and accepted[0][1] not in self._waiting:
            heappop(accepted)
        was, self.whose = self.whose, None if self._starting or not accepted else accepted[0][1]
        if was is self.whose:
            return ()
        return tuple(application for application in (was, self.whose) if application is not None)
