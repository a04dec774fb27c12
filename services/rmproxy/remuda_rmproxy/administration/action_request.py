"""Reads and checks an operator's request for an action. Pure.

The request is a JSON object: `action_id`, the fields of the action as in its message of `inbox.proto`, and as options
`reason`, `partition` and `force`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor

from remuda_bus.bus import Message, Refused
from remuda_bus.untrusted import Malformed, json_object
from remuda_operations.operators import Operator, request_of
from remuda_proto.bounds import (
    ID_BYTES,
    INT32,
    INT64,
    MESSAGE_BYTES,
    QUEUE_PATH_BYTES,
    exceeds,
    problem_of_resource_names,
    shown,
)
from remuda_proto.names import ACTION_ID
from remuda_proto.remuda.v1 import inbox_pb2
from remuda_rmproxy import limits
from remuda_rmproxy.records.partitions import ForeignPartition, scheduler_name
from remuda_rmproxy.records.status_codes import INVALID

Value = str | int | Mapping[str, int]

CORRELATION: Final = "administer"  # begins the correlation ID of a command; no `Correlation` has this kind
FORGET_RM: Final = "forget_rm"  # the only action that is no command of the core
_COMMANDS = inbox_pb2.Administer.DESCRIPTOR.oneofs_by_name["action"].fields
# Action -> the fields of its message.
FIELDS: Final[Mapping[str, tuple[FieldDescriptor, ...]]] = {
    **{action.name: tuple(action.message_type.fields) for action in _COMMANDS if action.message_type},
    FORGET_RM: (),
}
# Of a time in ms since 1970: some 30,000 years.
MOST_MS: Final = 10**15
_OPTIONS = frozenset({"action_id", "reason", "partition", "force"})


@dataclass(frozen=True, slots=True)
class ActionRequest:
    """An operator's request for an action, checked. `action`: a key of FIELDS. `partition`: the scheduler's name."""

    operator: Operator
    rm_id: str
    action: str
    action_id: str
    fields: Mapping[str, Value]
    reason: str = ""
    partition: str = ""
    force: bool = False

    @property
    def unique_id(self) -> str:
        """The action ID in the log. It contains the operator, so operators cannot take each other's IDs."""
        return f"{self.operator.name}/{self.action_id}"

    def command(self, scheduler_administrator: bool) -> inbox_pb2.Command:
        administer = inbox_pb2.Administer(
            operator=self.operator.name,
            groups=self.operator.groups,
            scheduler_administrator=scheduler_administrator,
            reason=self.reason,
            action_id=self.unique_id,
            force=self.force,
            partition=self.partition,
        )
        action = getattr(administer, self.action)
        action.CopyFrom(type(action)(**self.fields))
        return inbox_pb2.Command(administer=administer, correlation_id=f"{CORRELATION}:{self.unique_id}")


def read_request(message: Message) -> ActionRequest:
    """Reads the request of an operator. Raises Refused 400 with a reason that names the field, the value and what was
    expected.
    """
    try:
        operator, rm_id, action = request_of(message.subject)
        found = json_object(_bounded(message.payload), f"a request to {action}")
    except (Malformed, ValueError) as error:
        raise Refused(str(error), INVALID) from None
    if action not in FIELDS:
        raise Refused(f"action {shown(action)}: expected one of {', '.join(FIELDS)}", INVALID)
    expected = {field.name: field for field in FIELDS[action]}
    if unknown := sorted(found.keys() - expected.keys() - _OPTIONS):
        names = ", ".join(sorted({*expected, *_OPTIONS}))
        raise Refused(f"{action}: unknown field {shown(unknown[0])}, expected {names}", INVALID)
    return ActionRequest(
        operator,
        rm_id,
        action,
        _action_id(found),
        {name: _value(found, field) for name, field in expected.items()},
        _text(found, "reason", MESSAGE_BYTES, ""),
        _partition(found, rm_id),
        _flag(found, "force"),
    )


def _bounded(payload: bytes) -> bytes:
    if len(payload) > limits.ACTION_BYTES:
        raise Malformed(f"a request of {len(payload)} bytes: expected at most {limits.ACTION_BYTES}")
    return payload


def _action_id(found: Mapping[str, Any]) -> str:
    action_id = found.get("action_id")
    if not isinstance(action_id, str) or not ACTION_ID.matches(action_id):
        raise Refused(f"action_id {shown(action_id)}: expected {ACTION_ID.expected}", INVALID)
    return action_id


def _value(found: Mapping[str, Any], field: FieldDescriptor) -> Value:
    if field.type == FieldDescriptor.TYPE_STRING:
        return _text(found, field.name, QUEUE_PATH_BYTES if field.name in ("queue", "borrower") else ID_BYTES)
    if field.type == FieldDescriptor.TYPE_BOOL:
        return _flag(found, field.name)
    if field.message_type is not None:  # a map
        return _amounts(found, field.name)
    least, most = INT32
    value = found.get(field.name)
    if field.type == FieldDescriptor.TYPE_INT64:  # a time, which may be missing
        least, most, value = 0, MOST_MS, found.get(field.name, 0)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise Refused(f"{field.name} {shown(value)}: expected a number from {least} to {most}", INVALID)
    return value


def _amounts(found: Mapping[str, Any], name: str) -> Mapping[str, int]:
    """Amounts of resources, in base units."""
    value = found.get(name)
    if not isinstance(value, dict) or not value:
        raise Refused(f"{name} {shown(value)}: expected an object of resources and amounts", INVALID)
    if problem := problem_of_resource_names(name, value):
        raise Refused(problem, INVALID)
    for resource, amount in value.items():
        if not isinstance(amount, int) or isinstance(amount, bool) or not 1 <= amount <= INT64[1]:
            text = f"{name} {shown(resource)}: {shown(amount)}, expected a number from 1 to {INT64[1]}"
            raise Refused(text, INVALID)
    return value


def _text(found: Mapping[str, Any], name: str, most: int, default: str | None = None) -> str:
    """`default`: the value where the field is missing (None: it is required, and not empty)."""
    value = found.get(name, default)
    if not isinstance(value, str) or (default is None and not value) or exceeds(value, most):
        least = 0 if default is not None else 1
        raise Refused(f"{name} {shown(value)}: expected a text of {least} to {most:,} bytes", INVALID)
    if not value.isprintable():
        raise Refused(f"{name} {shown(value)}: expected no control characters", INVALID)
    return value


def _partition(found: Mapping[str, Any], rm_id: str) -> str:
    try:
        return scheduler_name(rm_id, _text(found, "partition", ID_BYTES, ""))
    except ForeignPartition as error:
        raise Refused(f"partition {error}", INVALID) from None


def _flag(found: Mapping[str, Any], name: str) -> bool:
    value = found.get(name, False)
    if not isinstance(value, bool):
        raise Refused(f"{name} {shown(value)}: expected true or false", INVALID)
    return value
