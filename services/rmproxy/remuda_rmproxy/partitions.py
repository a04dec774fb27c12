"""Names of partitions: an RM says `default`, the scheduler `[rm-1]default`, so that RMs never share one. Pure."""

from __future__ import annotations

DEFAULT = "default"


class ForeignPartition(ValueError):
    """A prefixed name that is not this RM's; says which and what was expected."""


class SchedulerNames(dict[str, str]):
    """What an RM wrote -> the scheduler's name. A dict because a request repeats a few names thousands of times: only
    the first of each is computed. Make one per request, so that nothing piles up. Raises ForeignPartition."""

    def __init__(self, rm_id: str) -> None:
        super().__init__()
        self._rm_id = rm_id

    def __missing__(self, written: str) -> str:
        name = self[written] = scheduler_name(self._rm_id, written)
        return name


class PlainNames(dict[str, str]):
    """The scheduler's name -> what the RM calls it. Make one per commit."""

    def __init__(self, rm_id: str) -> None:
        super().__init__()
        self._prefix = f"[{rm_id}]"

    def __missing__(self, name: str) -> str:
        plain = self[name] = name.removeprefix(self._prefix)
        return plain


def scheduler_name(rm_id: str, written: str) -> str:
    """Case and surrounding blanks do not matter, empty means default. A name that carries this RM's prefix already is
    taken as it is written."""
    name = written.strip()
    prefix = f"[{rm_id}]"
    if not name.startswith("["):
        return prefix + (name.lower() or DEFAULT)
    if not name.startswith(prefix) or name == prefix:
        raise ForeignPartition(f"{written!r}: expected a plain name, or one that starts with {prefix}")
    return name
