"""The configuration of a pool, and the rules that it must obey."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from ..limits import AMOUNT, SLACK_LIMIT_PERCENT
from .resources import KINDS, Vector, percentage, vector

ROOT: Final = "root"
UNKNOWN_TYPE, ELASTIC, STATIC = "UNKNOWN_TYPE", "ELASTIC", "STATIC"
UNKNOWN_POLICY, PRIORITY_FIFO = "UNKNOWN", "PriorityFIFO"


class KindConfig(msgspec.Struct, frozen=True):
    """A pool's resources of one kind. `kind`: one of KINDS. `type`: a STATIC reservation is not lent to other pools."""

    kind: str
    reservation: float = 0.0
    limit: float = 0.0
    share: float = 1.0
    type: str = ELASTIC


class ChangeLog(msgspec.Struct, frozen=True):
    version: int = 0
    created_at: int = 0
    updated_at: int = 0
    updated_by: str = ""


class PoolConfig(msgspec.Struct, frozen=True):
    """The configuration of a pool. `controller_limit_percent`: percent of the reservation; None: no limit.
    `slack_limit_percent`: percent of the reservation; None: SLACK_LIMIT_PERCENT."""

    id: str
    name: str
    parent: str = ROOT
    resources: tuple[KindConfig, ...] = ()
    policy: str = PRIORITY_FIFO
    controller_limit_percent: float | None = None
    slack_limit_percent: float | None = None
    owning_team: str = ""
    ldap_groups: tuple[str, ...] = ()
    description: str = ""
    change_log: ChangeLog | None = None

    def kind(self, kind: str) -> KindConfig:
        return next((one for one in self.resources if one.kind == kind), KindConfig(kind))

    def amounts(self, field: str) -> Vector:
        return vector({kind: getattr(self.kind(kind), field) for kind in KINDS})

    def controller_limit(self) -> Vector | None:
        percent = self.controller_limit_percent
        return None if percent is None else percentage(self.amounts("reservation"), percent)

    def slack_limit(self) -> Vector:
        """The share of the reservation for revocable tasks; of cpu nothing, because they use slack."""
        percent = SLACK_LIMIT_PERCENT if self.slack_limit_percent is None else self.slack_limit_percent
        return (0.0, *percentage(self.amounts("reservation"), percent)[1:])


class InvalidPool(ValueError):
    """A configuration breaks a rule. `code`: which; `details`: the values that break it."""

    def __init__(self, code: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.code = code
        self.details = details


AMOUNTS: Final = ("reservation", "limit", "share")  # fields of a KindConfig
Pools = Mapping[str, PoolConfig]
Rule = Callable[[PoolConfig, Pools], None]


def check_pool(config: PoolConfig, pools: Pools) -> None:
    if not config.id:
        raise InvalidPool("id_missing", "id is empty, expected the ID of a pool")
    if config.id == ROOT:
        raise InvalidPool("root_override", "the pool root cannot be changed")
    check_policy(config, pools)
    seen: set[str] = set()
    for one in config.resources:
        if one.kind not in KINDS:
            expected = f"expected one of {', '.join(KINDS)}"
            raise InvalidPool("unknown_kind", f"resources has the kind {one.kind[:64]!r}, {expected}", kind=one.kind)
        if one.kind in seen:
            raise InvalidPool("duplicate_kind", f"resources names {one.kind} twice, expected it once", kind=one.kind)
        seen.add(one.kind)
        _check_amounts(one)


def _check_amounts(one: KindConfig) -> None:
    for field in AMOUNTS:
        value = getattr(one, field)
        if (not value >= 0 and (field != "limit" or value != value)) or value in (float("inf"), float("-inf")):
            message = f"{field} of {one.kind} is {value}, expected a number that is not negative"
            raise InvalidPool("negative", message, kind=one.kind, field=field, value=value)
    if one.reservation > one.limit:
        raise InvalidPool(
            "reservation_exceeds_limit",
            f"reservation of {one.kind} is {one.reservation}, expected at most the limit {one.limit}",
            kind=one.kind, reservation=one.reservation, limit=one.limit,
        )  # fmt: skip


def check_policy(config: PoolConfig, pools: Pools) -> None:
    """Check the policy, also in a forced change: there is no number for another policy in an answer."""
    if config.policy not in (UNKNOWN_POLICY, PRIORITY_FIFO):
        raise InvalidPool(
            "unknown_policy", f"policy is {config.policy!r}, expected {PRIORITY_FIFO}", policy=config.policy
        )


def check_numbers(config: PoolConfig, pools: Pools) -> None:
    """Check the amounts, also in a forced change: a NaN would spread to the entitlements of other pools."""
    given = [(f"{field} of {one.kind[:64]!r}", getattr(one, field)) for one in config.resources for field in AMOUNTS]
    given += [("controllerLimit.maxPercent", config.controller_limit_percent or 0.0)]
    given += [("slackLimit.maxPercent", config.slack_limit_percent or 0.0)]
    for what, value in given:
        if not abs(value) <= AMOUNT:
            raise InvalidPool("no_amount", f"{what} is {value}, expected a number up to {AMOUNT:g}", value=value)


def check_cycle(config: PoolConfig, pools: Pools) -> None:
    if config.parent == config.id:
        raise InvalidPool(
            "parent_is_self", f"parent of {config.id} is the pool itself, expected another", parent=config.id
        )


def check_parent(config: PoolConfig, pools: Pools) -> None:
    parent = pools.get(config.parent)
    if parent is None:
        message = f"parent is {config.parent[:64]!r}, which does not exist"
        raise InvalidPool("parent_not_found", message, parent=config.parent)
    former = pools.get(config.id)
    if former is not None and former.parent != config.parent:
        message = f"parent of {config.id} is {former.parent}, and cannot become {config.parent}"
        raise InvalidPool("parent_changed", message, parent=config.parent, former=former.parent)
    for one in config.resources:
        above = _of_parent(one, parent)
        if one.limit > above.limit:
            raise InvalidPool(
                "limit_exceeds_parent",
                f"limit of {one.kind} is {one.limit}, expected at most {above.limit}, the limit of {parent.id}",
                kind=one.kind, limit=one.limit, parent_limit=above.limit,
            )  # fmt: skip


def check_siblings(config: PoolConfig, pools: Pools) -> None:
    for one in pools.values():
        if one.parent == config.parent and one.id not in (config.id, ROOT) and one.name == config.name:
            raise InvalidPool(
                "name_taken", f"name is {config.name!r}, which its sibling {one.id} has", name=config.name
            )


def check_children_reservations(config: PoolConfig, pools: Pools) -> None:
    parent = pools.get(config.parent)
    if parent is None:
        raise InvalidPool(
            "parent_not_found", f"parent is {config.parent!r}, which does not exist", parent=config.parent
        )
    others = [one for one in pools.values() if one.parent == config.parent and one.id not in (config.id, ROOT)]
    for one in config.resources:
        above = _of_parent(one, parent)
        reserved = sum(other.kind(one.kind).reservation for other in others) + one.reservation
        if reserved > above.reservation:
            raise InvalidPool(
                "reservations_exceed_parent",
                f"reservations of {one.kind} in {parent.id} would be {reserved}, expected at most {above.reservation}",
                kind=one.kind, sum=reserved, parent=parent.id, parent_reservation=above.reservation,
            )  # fmt: skip


def check_controller_limit(config: PoolConfig, pools: Pools) -> None:
    percent = config.controller_limit_percent
    if percent is not None and not percent <= 100:
        message = f"controllerLimit.maxPercent is {percent}, expected at most 100"
        raise InvalidPool("controller_limit_exceeds_100", message, percent=percent)


def check_own_children(config: PoolConfig, pools: Pools) -> None:
    """A pool must not shrink below its children: Peloton does not look, and its tree is then invalid."""
    children = [one for one in pools.values() if one.parent == config.id and one.id != ROOT]
    for kind in KINDS if children else ():
        own = config.kind(kind)
        reserved = sum(child.kind(kind).reservation for child in children)
        if reserved > own.reservation:
            raise InvalidPool(
                "reservation_below_children",
                f"reservation of {kind} is {own.reservation}, expected at least {reserved}, those of its children",
                kind=kind, reservation=own.reservation, sum=reserved,
            )  # fmt: skip
        highest = max(children, key=lambda child: child.kind(kind).limit)
        if highest.kind(kind).limit > own.limit:
            raise InvalidPool(
                "limit_below_children",
                f"limit of {kind} is {own.limit}, expected at least {highest.kind(kind).limit}, that of {highest.id}",
                kind=kind, limit=own.limit, child=highest.id,
            )  # fmt: skip


# In the order in which they are checked; the first error is the answer.
RULES: Final[dict[str, Rule]] = {
    "pool": check_pool,
    "cycle": check_cycle,
    "parent": check_parent,
    "siblings": check_siblings,
    "children_reservations": check_children_reservations,
    "controller_limit": check_controller_limit,
    "numbers": check_numbers,
    "own_children": check_own_children,
}


def complete(config: PoolConfig) -> PoolConfig:
    """The configuration with defaults for everything that it does not name."""
    known = {one.kind for one in config.resources}
    resources = tuple(
        one if one.type != UNKNOWN_TYPE else msgspec.structs.replace(one, type=ELASTIC) for one in config.resources
    )
    missing = tuple(KindConfig(kind) for kind in KINDS if kind not in known)
    policy = PRIORITY_FIFO if config.policy == UNKNOWN_POLICY else config.policy
    return msgspec.structs.replace(config, resources=resources + missing, policy=policy)


def validate(config: PoolConfig, pools: Pools, rules: Sequence[str] = tuple(RULES)) -> PoolConfig:
    """The completed configuration. Raises InvalidPool for the first rule that it breaks."""
    for name in rules:
        RULES[name](config, pools)
        if name == "pool":
            config = complete(config)
    return config


def check_path(path: str) -> None:
    """Check that the path is absolute. Raises InvalidPool."""
    if not path:
        raise InvalidPool("path_empty", "path is empty, expected an absolute path such as /a/b")
    if not path.startswith("/"):
        raise InvalidPool("path_not_absolute", f"path is {path[:64]!r}, expected it to begin with /")


def find_by_path(path: str, pools: Pools) -> str | None:
    """The ID of the pool at an absolute path; a trailing slash is allowed. None: there is none."""
    here = ROOT
    children: dict[tuple[str, str], str] = {(one.parent, one.name): one.id for one in pools.values() if one.id != ROOT}
    for name in path.strip("/").split("/") if path.strip("/") else ():
        found = children.get((here, name))
        if found is None:
            return None
        here = found
    return here


def path_of(pool_id: str, pools: Pools) -> str:
    names: list[str] = []
    while pool_id != ROOT:
        names.append(pools[pool_id].name)
        pool_id = pools[pool_id].parent
    return "/" + "/".join(reversed(names))


def _of_parent(one: KindConfig, parent: PoolConfig) -> KindConfig:
    if all(above.kind != one.kind for above in parent.resources):
        message = f"resources names {one.kind}, which the parent {parent.id} does not have"
        raise InvalidPool("parent_lacks_kind", message, kind=one.kind, parent=parent.id)
    return parent.kind(one.kind)
