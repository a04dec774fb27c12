"""Topology: domains of nodes at the levels of a partition, and what groups of asks want of them (semantics section 21)

A level is an attribute of nodes. A node's *domain* at a level is the path of its attributes from the coarsest level
down to this one, so two racks of one name in two blocks are two domains. The level `host` is below all others: each
node is a domain of its own. This file reads attributes and tags. It knows no node and no allocation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from remuda_proto.bounds import ID_BYTES, shown, too_long
from remuda_proto.constants import TOPOLOGY_GROUP as GROUP
from remuda_proto.constants import TOPOLOGY_HOST as HOST
from remuda_proto.constants import TOPOLOGY_PREFERRED as PREFERRED
from remuda_proto.constants import TOPOLOGY_REQUIRED as REQUIRED
from remuda_proto.constants import TOPOLOGY_SIZE as SIZE
from remuda_proto.constants import TOPOLOGY_SLICE as SLICE
from remuda_proto.constants import TOPOLOGY_SPREAD as SPREAD

from ..limits import GROUP_SIZE
from ..settings import TopologyLevel

# A domain: the values of the attributes from the coarsest level on. (): all nodes. (None, ID): a host.
Path = tuple[str | None, ...]
ALL_NODES: Final[Path] = ()
# Tags of an ask that make it a member of a group; the tags of the application that do so for all its asks.
OF_ASK: Final = (REQUIRED, PREFERRED, SPREAD, SLICE)
OF_APPLICATION: Final = (REQUIRED, PREFERRED)


class Wish(NamedTuple):
    """The wish of an ask for the topology. Levels are names; empty: none. `outer`: the level whose one domain all asks
    of the application share; `near`: the level that the application prefers for all its asks, if it requires none.
    `slice_size` 0: no slices. `group`: the name of the group within the application. `size`:
    how many members have to fit before the first starts; 0: all that are pending."""

    required: str
    preferred: str
    spread: str
    slice_level: str
    slice_size: int
    outer: str
    group: str
    size: int
    near: str = ""

    @property
    def gang(self) -> bool:
        """Whether the members start together or not at all."""
        return bool(self.required or self.slice_size)


# What all asks of an application share: a group beside those of the tags.
APPLICATION: Final = "a:"


def wish_of(tags: Mapping[str, str], application_tags: Mapping[str, str], task_group: str, key: str) -> Wish | None:
    """The wish that the tags make; None if they want nothing of the topology."""
    own = any(name in tags for name in OF_ASK)
    if not own and not any(name in application_tags for name in OF_APPLICATION):
        return None
    outer = application_tags.get(REQUIRED, "")
    if not own:
        return Wish(outer, application_tags.get(PREFERRED, ""), "", "", 0, "", APPLICATION, number(tags.get(SIZE, "")))
    level, _, size = tags.get(SLICE, "").rpartition("/")
    preferred = tags.get(PREFERRED, application_tags.get(PREFERRED, ""))
    if GROUP in tags:
        group = "g:" + tags[GROUP]
    else:
        group = "t:" + task_group if task_group else "k:" + key
    required = tags.get(REQUIRED, "")
    near = application_tags.get(PREFERRED, "") if not outer else ""
    return Wish(
        required, preferred, tags.get(SPREAD, ""), level, number(size), outer if outer != required else "", group,
        number(tags.get(SIZE, "")), near,
    )  # fmt: skip


def number(text: str) -> int:
    """The number of members that a tag names; 0: it names none."""
    return int(text) if text.isdecimal() and len(text) < 10 else 0


def path_of(levels: Sequence[TopologyLevel], attributes: Mapping[str, str]) -> Path:
    """The domain of a node at the finest level at which it is in one."""
    path = []
    for one in levels:
        value = attributes.get(one.attribute, "")
        if not value:
            break
        path.append(value)
    return tuple(path)


def host_of(node_id: str) -> Path:
    return (None, node_id)


def shown_path(path: Path) -> str:
    """`z1/b2/r7`; the ID of a host."""
    return "/".join(value for value in path if value is not None) if path else "all nodes"


def place_of(levels: Sequence[TopologyLevel], level: str) -> int:
    """The place of the level, named by itself or by its attribute, from the coarsest, which is 0. That of `host` is
    behind all others. -1: there is none."""
    if level == HOST:
        return len(levels) if levels else -1
    names = [one.level for one in levels]
    if level not in names:  # Kubernetes knows levels by the labels of nodes
        names = [one.attribute for one in levels]
    return names.index(level) if level in names else -1


def problem_of_ask(
    levels: Sequence[TopologyLevel], tags: Mapping[str, str], application_tags: Mapping[str, str], task_group: str,
    count: int,
) -> str | None:  # fmt: skip
    """Why the topology cannot serve an ask of so many allocations. None if it can."""
    for name in (REQUIRED, PREFERRED, SPREAD):
        for whose, given in (("tag", tags), ("tag of the application", application_tags)):
            if name in given and (name in OF_APPLICATION or given is tags) and place_of(levels, given[name]) < 0:
                return f"{whose} {name}: {shown(given[name])}, expected {_expected(levels)}"
    if problem := _problem_of_slice(levels, tags):
        return problem
    if SIZE in tags and not 1 <= number(tags[SIZE]) <= GROUP_SIZE:
        return f"tag {SIZE}: {shown(tags[SIZE])}, expected a number of members, 1 to {GROUP_SIZE}"
    if problem := too_long(f"tag {GROUP}", tags.get(GROUP, ""), ID_BYTES):
        return problem
    wish = wish_of(tags, application_tags, task_group, "")
    return _problem_of_wish(levels, wish, count, own=tags) if wish is not None else None


def _expected(levels: Sequence[TopologyLevel]) -> str:
    names = [one.level for one in levels]
    return f"{', '.join(names)} or {HOST}" if names else "no such tag: the partition has no topology"


def _problem_of_slice(levels: Sequence[TopologyLevel], tags: Mapping[str, str]) -> str | None:
    if SLICE not in tags:
        return None
    level, _, size = tags[SLICE].rpartition("/")
    if not 1 <= number(size) <= GROUP_SIZE:
        return f"tag {SLICE}: {shown(tags[SLICE])}, expected LEVEL/MEMBERS, such as rack/16"
    if place_of(levels, level) < 0:
        return f"tag {SLICE}: level {shown(level)}, expected {_expected(levels)}"
    return None


def _problem_of_wish(levels: Sequence[TopologyLevel], wish: Wish, count: int, own: Mapping[str, str]) -> str | None:
    """The contradiction between two parts of a wish, as the reason of a refusal; None: there is none. `own`: the tags
    of the ask. A level that its application prefers may be coarser than the one that it requires: then it is for all
    groups of the application together."""
    if wish.required and wish.spread and place_of(levels, wish.required) == place_of(levels, wish.spread):
        return f"tag {SPREAD}: {shown(wish.spread)}, expected another level than that of {REQUIRED}"
    for bound, whose in ((wish.required, REQUIRED), (wish.outer, "its application")):
        for name, level in (
            (REQUIRED, wish.required),
            (PREFERRED, wish.preferred),
            (SLICE, wish.slice_level),
            (SPREAD, wish.spread),
        ):
            if name == PREFERRED and PREFERRED not in own and whose == REQUIRED and wish.near:
                continue
            if level and place_of(levels, level) < place_of(levels, bound):
                return f"tag {name}: {shown(level)} is coarser than {shown(bound)}, the level of {whose}"
    members = wish.size or (count if wish.group.startswith("k:") else 0)
    if wish.slice_size and members % wish.slice_size:
        return f"tag {SLICE}: slices of {wish.slice_size}, expected a size that divides the {members} of the group"
    if wish.size and count > 1 and wish.group.startswith("k:") and wish.size > count:
        return f"tag {SIZE}: {wish.size}, expected at most {count}, the allocations of the ask"
    return None
