"""Accounts: what a queue, a user of a leaf queue, or an application uses now, and has used in the past (semantics
section 23).

An account keeps one integer for each resource: use in the past, weighted by the clock of its half-life. It is brought
up to date when use changes, and at no other time. Between two changes use is constant, so `values` at any time follow
from the account without an update.

An account of a queue or a user belongs to the path of the queue. It outlives the queue, the applications and the
registrations of the RM. Accounts that nothing uses are idle; the number of idle accounts is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from ..limits import IDLE_ACCOUNTS_KEPT, NAMES_KEPT
from ..rules import decay
from ..rules.decay import EPOCH, Decay
from ..rules.resource import Resource, Sums, forget_zeros, sums

QUEUE: Final = "queue"
USER: Final = "user"
APPLICATION: Final = "application"
# How long an idle account is kept: 1,024 half-lives.
KEPT_EPOCHS: Final = 16


class AccountKey(NamedTuple):
    """The owner of an account: a queue, a user of a queue, or an application. `name`: the user, or the application's
    ID; empty for a queue."""

    partition: str
    queue: str
    kind: str
    name: str


class Account:
    """The present use of an account's owner (`used`), and the weighted sum of all use up to `at_ms` (`past`)."""

    __slots__ = ("at_ms", "clock", "decay", "epoch", "key", "members", "past", "used")

    def __init__(self, half_life_ms: int, now_ms: int, key: AccountKey | None = None, used: Sums | None = None) -> None:
        """`half_life_ms`: 0: the account has no memory. `key`: None: of an application. `used`: a sum that others keep.
        None: the account keeps its own."""
        self.key = key
        self.used: Sums = sums() if used is None else used
        self.past: dict[str, int] = {}
        # How many applications or queues book here.
        self.members = 0
        self.decay: Decay | None = None
        self.at_ms = now_ms
        # The epoch in which `past` is measured, and the clock of that epoch at `at_ms`.
        self.epoch = self.clock = 0
        self._measure_by(half_life_ms)

    def _measure_by(self, half_life_ms: int) -> None:
        self.decay = decay.of(half_life_ms) if half_life_ms else None
        if self.decay is not None:
            self.epoch = self.decay.epoch(self.at_ms)
            self.clock = self.decay.at(self.at_ms, self.epoch)

    @property
    def half_life_ms(self) -> int:
        return self.decay.half_life_ms if self.decay is not None else 0

    def settle(self, now_ms: int) -> None:
        """Bring `past` up to date. It must be called before `used` changes."""
        measured = self.decay
        if measured is not None and now_ms != self.at_ms:
            if measured.now_ms != now_ms:
                measured.move_to(now_ms)
            if self.epoch == measured.now_epoch:
                past, gained = self.past, measured.now_at - self.clock
                for name, amount in self.used.items():
                    if name in past:
                        past[name] += amount * gained
                    elif amount:
                        past[name] = amount * gained
            else:
                self.past = self.values(now_ms)
                self.epoch = measured.now_epoch
            self.clock = measured.now_at
        self.at_ms = now_ms

    def values(self, at_ms: int) -> dict[str, int]:
        """The weighted sum of all use up to `at_ms`, if use does not change until then, for each resource. It is
        measured in the epoch of `at_ms`, and has no zeros."""
        measured = self.decay
        assert measured is not None, "an account without a half-life has no past"
        epoch = measured.epoch(at_ms)
        clock, before, values, used = measured.at(at_ms, epoch), self.clock, self.past, self.used
        if at_ms == self.at_ms:
            return dict(values)
        if epoch == self.epoch:
            gained, values = clock - before, dict(values)
            for name, amount in used.items():
                if amount:
                    values[name] = values.get(name, 0) + amount * gained
            return values
        bits = EPOCH * (epoch - self.epoch)
        found = {}
        for name in (*values, *(name for name in used if name not in values)):
            amount = used.get(name, 0)
            if value := (values.get(name, 0) - amount * before >> bits) + amount * clock:
                found[name] = value
        return found

    def means(self, at_ms: int) -> dict[str, float]:
        """The weighted mean use up to `at_ms` of each resource, in base units."""
        measured = self.decay
        if measured is None:
            return {}
        whole = measured.at(at_ms, measured.epoch(at_ms))
        return {name: value / whole for name, value in sorted(self.values(at_ms).items())}

    def change_half_life(self, half_life_ms: int, now_ms: int) -> None:
        """Measure by another half-life, which keeps the mean of this moment. 0: forget the past."""
        self.settle(now_ms)
        if half_life_ms == self.half_life_ms:
            return
        before = self.clock
        was, self.past = self.past, {}
        known = self.decay is not None
        self._measure_by(half_life_ms)
        if known and self.decay is not None:
            found = {name: value * self.clock // before for name, value in was.items()}
            self.past = {name: value for name, value in found.items() if value}

    def restore(self, half_life_ms: int, at_ms: int, past: dict[str, int]) -> None:
        """Continue from what a snapshot holds."""
        self.at_ms, self.past = at_ms, past
        self._measure_by(half_life_ms)

    def book(self, resource: Resource, times: int) -> None:
        """Change what is used, in a sum that the account keeps itself. The account is settled."""
        used = self.used
        for name, amount in resource.items():
            used[name] += amount * times
        if len(used) > NAMES_KEPT:
            forget_zeros(used, resource)

    def is_over(self, now_ms: int) -> bool:
        """Whether the last use of an account is so long ago that nothing of it is left. Until then even the order of
        what is nearly nothing is kept: users who seldom come have had more or less than each other."""
        return self.decay is None or not self.past or now_ms - self.at_ms >= KEPT_EPOCHS * self.decay.epoch_ms


class Accounts:
    """The accounts of queues and users of one RM. Those of applications stand in the applications."""

    def __init__(self) -> None:
        self._of: dict[AccountKey, Account] = {}
        # The accounts without members: those whose use ended first come first.
        self._idle: dict[AccountKey, None] = {}

    def __len__(self) -> int:
        return len(self._of)

    def find(self, key: AccountKey) -> Account | None:
        return self._of.get(key)

    def items(self) -> Iterator[tuple[AccountKey, Account]]:
        """All accounts: those in use by key, then the idle ones in the order in which they are forgotten."""
        yield from ((key, self._of[key]) for key in sorted(self._of.keys() - self._idle.keys()))
        yield from ((key, self._of[key]) for key in self._idle)

    def join(self, key: AccountKey, half_life_ms: int, now_ms: int, used: Sums | None = None) -> Account:
        """The account, for one more member. Made if there is none; an idle one continues from its past."""
        account = self._of.get(key)
        if account is None:
            account = self._of[key] = Account(half_life_ms, now_ms, key, used)
        else:
            account.change_half_life(half_life_ms, now_ms)
            if used is not None:
                account.used = used
        account.members += 1
        self._idle.pop(key, None)
        return account

    def add_idle(self, key: AccountKey) -> Account:
        """Add an account without members, whose past a snapshot holds."""
        account = self._of[key] = Account(0, 0, key)
        self._idle[key] = None
        return account

    def leave(self, account: Account, now_ms: int) -> None:
        """Follow the end of a member, which uses nothing any more. Without members the account is idle."""
        account.settle(now_ms)
        account.members -= 1
        if not account.members:
            account.used = sums()
            self.rest(account, now_ms)

    def leave_all(self, now_ms: int) -> None:
        """Follow the end of all members: the RM reports everything again."""
        for account in list(self._of.values()):
            if account.members:
                account.members = 1
                self.leave(account, now_ms)

    def rest(self, account: Account, now_ms: int) -> None:
        """Keep an account without members, unless nothing of its past is left. Those whose use ended first make
        room."""
        key = account.key
        assert key is not None, "accounts of applications are kept there"
        self._of[key] = account
        self._idle[key] = None
        for _ in range(2):
            oldest = next(iter(self._idle), None)
            if oldest is None:
                return
            if len(self._idle) <= IDLE_ACCOUNTS_KEPT and not self._of[oldest].is_over(now_ms):
                break
            self.forget(oldest)
        if self._of.get(key) is account and account.is_over(now_ms):
            self.forget(key)

    def change_half_life(self, partition: str, queue: str, kind: str, half_life_ms: int, now_ms: int) -> None:
        """Measure all accounts of a kind of the queue by another half-life; 0: forget the idle ones. O(accounts)."""
        for key in [key for key in self._of if key.queue == queue and key[::2] == (partition, kind)]:
            account = self._of[key]
            account.change_half_life(half_life_ms, now_ms)
            if not account.members and account.is_over(now_ms):
                self.forget(key)

    def forget(self, key: AccountKey) -> None:
        self._of.pop(key, None)
        self._idle.pop(key, None)


def shown(values: Mapping[str, int]) -> dict[str, str]:
    """Integers of any size as text, for records and dumps."""
    return {name: f"{value:x}" for name, value in sorted(values.items())}
