"""The models of queues.yaml: its keys, and the kind of value of each.

Names, sums, and rules between several values are verified in `verify`.
"""

from __future__ import annotations

import math
import re
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from remuda_config.problems import Path
from remuda_config.schema.yaml_document import Plain, Scalar
from remuda_proto import quantities

UINT64_MAX = 2**64 - 1

_WHOLE = re.compile(r"0|[1-9][0-9_]*|0x[0-9a-fA-F]+|0o[0-7]+|0b[01]+")
_HOURS = {"h": 1, "d": 24}
_YES = {"true", "yes", "on"}
_NO = {"false", "no", "off"}


def found(value: object) -> str:
    """Returns the value as messages quote it."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return "nothing" if value is None else str(value)


def _wrong(expected: str, value: object) -> PydanticCustomError:
    shown = {"expected": expected, "found": found(value)}
    return PydanticCustomError("wrong", "expected {expected}, found {found}", shown)


def _text(value: Plain) -> str:
    if not isinstance(value, Scalar):
        raise _wrong("a text", value)
    return value.text


def _property(value: Plain) -> str:
    return "" if value is None else _text(value)


def _flag(value: Plain) -> bool:
    if isinstance(value, Scalar) and value.plain and value.text.lower() in _YES | _NO:
        return value.text.lower() in _YES
    raise _wrong("true or false (without quotes)", value)


def _count(value: Plain) -> int:
    if isinstance(value, Scalar) and value.plain and _WHOLE.fullmatch(value.text):
        count = int(value.text.replace("_", ""), 0)
        if count <= UINT64_MAX:
            return count
    raise _wrong(f"a whole number from 0 to {UINT64_MAX} (without quotes)", value)


def _weight(value: Plain) -> float:
    if isinstance(value, Scalar) and value.plain and value.kind in ("int", "float"):
        try:
            weight = float(value.text)
        except ValueError:
            weight = math.nan
        if math.isfinite(weight) and weight >= 0:
            return weight + 0.0  # -0.0 is 0.0
    raise _wrong("a number of at least 0 (without quotes)", value)


class _Amount(NamedTuple):
    resource: str
    value: Plain


def _name_amounts(value: Plain) -> object:
    return {key: _Amount(key, item) for key, item in value.items()} if isinstance(value, dict) else value


def _amount(amount: _Amount) -> int:
    if not amount.resource:
        raise PydanticCustomError("wrong", "a resource needs a name, found an empty one")
    if not isinstance(amount.value, Scalar):
        raise _wrong("a quantity", amount.value)
    try:
        return quantities.parse_amount(amount.resource, amount.value.text)
    except ValueError as error:
        raise PydanticCustomError("wrong", "{reason}", {"reason": str(error)}) from error


def _cost(amount: _Amount) -> int:
    """An amount for a time, such as `1000h`, `500Gi h` or `20d`, in base units * hours."""
    if not isinstance(amount.value, Scalar):
        raise _wrong("a quantity for a time, such as 1000h", amount.value)
    text = amount.value.text.strip()
    if text[-1:] not in _HOURS:
        raise _wrong("a quantity for a time in hours (h) or days (d), such as 1000h", text)
    cost = _amount(amount._replace(value=Scalar(text[:-1], "str", plain=True))) * _HOURS[text[-1]]
    if cost > quantities.INT64_MAX:
        raise _wrong(f"at most {quantities.INT64_MAX} base units * hours", text)
    return cost


Text = Annotated[str, BeforeValidator(_text)]
Flag = Annotated[bool, BeforeValidator(_flag)]
Count = Annotated[int, BeforeValidator(_count)]
Properties = dict[str, Annotated[str, BeforeValidator(_property)]]
# base units by resource name
Resource = Annotated[dict[str, Annotated[int, BeforeValidator(_amount)]], BeforeValidator(_name_amounts)]

# base units * hours by resource name
Costs = Annotated[dict[str, Annotated[int, BeforeValidator(_cost)]], BeforeValidator(_name_amounts)]


class Keys(BaseModel):
    """A mapping with known keys; a key without a value counts as absent."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        return {key: value for key, value in data.items() if value is not None or key not in cls.model_fields}


class Resources(Keys):
    guaranteed: Resource | None = None
    max: Resource | None = None


class Budget(Keys):
    """`amounts`: in base units * hours."""

    amounts: Costs = Field(default_factory=dict)
    period: Text = ""
    timezone: Text = ""


class ChildTemplate(Keys):
    maxapplications: Count = 0
    properties: Properties = Field(default_factory=dict)
    resources: Resources = Resources()
    budget: Budget | None = None


class LimitEntry(Keys):
    limit: Text = ""
    users: list[Text] = Field(default_factory=list)
    groups: list[Text] = Field(default_factory=list)
    maxresources: Resource | None = None
    maxapplications: Count = 0


class Queue(Keys):
    name: Text = ""
    parent: Flag = False
    resources: Resources = Resources()
    maxapplications: Count = 0
    properties: Properties = Field(default_factory=dict)
    adminacl: Text = ""
    submitacl: Text = ""
    childtemplate: ChildTemplate | None = None
    queues: list[Queue] = Field(default_factory=list)
    limits: list[LimitEntry] = Field(default_factory=list)
    budget: Budget | None = None

    @property
    def is_parent(self) -> bool:
        return self.parent or bool(self.queues)


class Filter(Keys):
    type: Text = ""
    users: list[Text] = Field(default_factory=list)
    groups: list[Text] = Field(default_factory=list)


class PlacementRule(Keys):
    name: Text = ""
    create: Flag = False
    filter: Filter = Filter()
    parent: PlacementRule | None = None
    value: Text = ""


class NodeSortPolicy(Keys):
    type: Text = ""
    pack: Text = ""
    resourceweights: dict[str, Annotated[float, BeforeValidator(_weight)]] = Field(default_factory=dict)


class Preemption(Keys):
    enabled: Flag = True
    threshold: Count | None = None
    interval: Text = ""
    quotapreemptionenabled: Flag = False


class Reservations(Keys):
    share: Count | None = None
    queueshare: Count | None = None


class UserGroupResolver(Keys):
    type: Text = ""


class Backfill(Keys):
    policy: Text = ""
    order: Text = ""


class TopologyLevel(Keys):
    level: Text = ""
    attribute: Text = ""


class WindowSettings(Keys):
    """The settings of a queue in a window; None, and properties that are not named: as outside of it."""

    resources: Resources = Resources()
    maxapplications: Count | None = None
    properties: Properties = Field(default_factory=dict)
    limits: list[LimitEntry] | None = None


class Window(Keys):
    name: Text = ""
    start: Text = ""
    days: list[Text] = Field(default_factory=list)
    time: Text = ""
    zone: Text = ""
    duration: Text = ""
    since: Text = ""
    until: Text = ""
    skip: list[Text] = Field(default_factory=list)
    nodes: Properties = Field(default_factory=dict)
    ids: list[Text] = Field(default_factory=list)
    unbounded: Text = ""
    release: Flag = False
    queue: Text = ""
    lead: Text = ""
    settings: dict[str, WindowSettings] = Field(default_factory=dict)


class Partition(Keys):
    """`queues`: None if the text has no such list. The root queue is added to a list without one."""

    name: Text = ""
    queues: list[Queue] | None = None
    placementrules: list[PlacementRule] = Field(default_factory=list)
    limits: list[LimitEntry] = Field(default_factory=list)
    preemption: Preemption = Preemption()
    reservations: Reservations = Reservations()
    nodesortpolicy: NodeSortPolicy = NodeSortPolicy()
    devices: Resource = Field(default_factory=dict)
    topology: list[TopologyLevel] = Field(default_factory=list)
    usergroupresolver: UserGroupResolver = UserGroupResolver()
    statedumpfilepath: Text = ""
    backfill: Backfill = Backfill()
    calendar: list[Window] = Field(default_factory=list)

    @property
    def plain_name(self) -> str:
        """Returns the name that RMs use: lower case, `default` if it is empty (000)."""
        return self.name.lower() or "default"

    def root(self, path: Path) -> tuple[Queue, Path]:
        """Returns the root queue and its path. Unless `root` is the only top queue, one is added above the top
        queues.
        """
        queues = self.queues or []
        if len(queues) == 1 and queues[0].name.lower() == "root":
            return queues[0], (*path, "queues", 0)
        return Queue.model_construct(name="root", parent=True, queues=queues), path


class Queues(Keys):
    """The whole text. `checksum` is accepted and ignored: the service computes the checksum of a text."""

    partitions: list[Partition] = Field(default_factory=list)
    partitionhierarchy: Text = ""
    checksum: Text = ""
