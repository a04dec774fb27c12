"""Ranks what belongs to users, user by user (sort policy `fair-users`).

The share of a user changes with each allocation of any of its applications. So the applications of a user are ranked
among themselves, and users among themselves: a change of share ranks one user again, however many applications it has.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, Protocol, TypeVar

from ..rules.keyed import unlist
from ..state import Application
from .ordered import Budget, Entry, LazyRanking, Member, Rank


class Owned(Member, Protocol):
    """A member that belongs to an application."""

    @property
    def application(self) -> Application: ...


class Users(Protocol):
    """The leaf queue. `LeafOrder` is the implementation."""

    # By user: in which rankings it takes part.
    of_user: dict[str, dict[Any, Any]]

    def application_rank(self, application: Application) -> Rank: ...


O = TypeVar("O", bound=Owned)  # noqa: E741 - as `M` in `ordered`


class OfUser(Generic[O]):
    """The members of one user in a ranking, by the order within the user."""

    __slots__ = ("dirty", "entry", "ranking", "users")

    def __init__(self, users: Users) -> None:
        self.users = users
        self.ranking: LazyRanking[O] = LazyRanking()
        self.entry: Entry | None = None
        self.dirty = False

    def first(self) -> O:
        found = self.ranking.leader or self.ranking.first()
        assert found is not None, "a user without members is gone"
        return found

    def rank(self) -> Rank:
        """The rank of its first application."""
        return self.users.application_rank(self.first().application)


class UserRanking(Generic[O]):
    """Finds the first of members whose ranks and whose users' ranks keep changing. It has the methods of a
    `LazyRanking`."""

    __slots__ = ("_by_user", "_users", "members", "ranking")

    # As in a `LazyRanking`, where it is the first member if that is known.
    leader: None = None

    def __init__(self, users: Users, budget: Budget | None) -> None:
        self._users = users
        self.members: dict[O, None] = {}
        self._by_user: dict[str, OfUser[O]] = {}
        self.ranking: LazyRanking[OfUser[O]] = LazyRanking(budget)

    def enter(self, member: O) -> None:
        user = member.application.user
        found = self._by_user.get(user)
        if found is None:
            found = self._by_user[user] = OfUser(self._users)
            self._users.of_user.setdefault(user, {})[found] = self
        self.members[member] = None
        found.ranking.enter(member)
        self.ranking.enter(found)

    def touch(self, member: O) -> None:
        if member in self.members:
            found = self._by_user[member.application.user]
            found.ranking.touch(member)
            self.ranking.touch(found)

    def outdate(self) -> None:
        """Note that the ranks of all users may have grown. Within a user the order stays."""
        self.ranking.outdate()

    def leave(self, member: O) -> None:
        if member not in self.members:
            return
        del self.members[member]
        user = member.application.user
        found = self._by_user[user]
        found.ranking.leave(member)
        if found.ranking.members:
            self.ranking.touch(found)
            return
        self.ranking.leave(found)
        del self._by_user[user]
        unlist(self._users.of_user, user, found)

    def first(self) -> O | None:
        found = self.ranking.leader or self.ranking.first()
        return None if found is None else found.first()

    def parts(self) -> Iterator[LazyRanking[Any]]:
        """The rankings that it consists of, for `check`."""
        yield self.ranking
        for found in self._by_user.values():
            yield found.ranking
