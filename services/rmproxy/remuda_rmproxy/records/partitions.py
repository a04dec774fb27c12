"""Names of partitions: `default` in messages of RM rm-1 is `[rm-1]default` in the scheduler, so RMs never share a
partition. Pure."""

from __future__ import annotations

from remuda_proto.bounds import shown

DEFAULT = "default"


class ForeignPartition(ValueError):
    """The name has the prefix of another RM. The reason names it and what was expected."""


class SchedulerNames(dict[str, str]):
    """Maps the name of a partition in a request to the scheduler's name.

    A request may repeat a name thousands of times: it is computed once. Make one mapping for each request, so that it
    stays small. Raises ForeignPartition.
    """

    def __init__(self, rm_id: str) -> None:
        super().__init__()
        self._rm_id = rm_id

    def __missing__(self, written: str) -> str:
        name = self[written] = scheduler_name(self._rm_id, written)
        return name


class PlainNames(dict[str, str]):
    """Maps the scheduler's name of a partition to the RM's name. Make one mapping for each commit."""

    def __init__(self, rm_id: str) -> None:
        super().__init__()
        self._prefix = f"[{rm_id}]"

    def __missing__(self, name: str) -> str:
        plain = self[name] = name.removeprefix(self._prefix)
        return plain


def scheduler_name(rm_id: str, written: str) -> str:
    """Returns the scheduler's name of a partition. Case and surrounding blanks are ignored; an empty name means
    `default`. A name with this RM's prefix is the scheduler's name already.
    """
    name = written.strip()
    prefix = f"[{rm_id}]"
    if not name.startswith("["):
        return prefix + (name.lower() or DEFAULT)
    if not name.startswith(prefix) or name == prefix:
        raise ForeignPartition(f"{shown(written)}: expected a plain name, or one that starts with {prefix}")
    return name
