"""The methods of `remuda.v1.Admin` and `remuda.v1.Metrics`: the handler of each method, and which callers may use it.

rmproxy and the core execute the actions of operators; one handler makes a request for any action.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import msgspec
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from remuda_bus import subjects
from remuda_bus.bus import Bus, Refused
from remuda_bus.status_codes import FORBIDDEN
from remuda_operations.operator_api import configuration, metrics, state
from remuda_operations.operator_api.changes import Changes
from remuda_operations.operator_api.ledgers import Ledgers
from remuda_operations.operator_api.messages import Caller, filled, rm_of
from remuda_operations.queries import actions
from remuda_proto.remuda.v1 import admin_pb2 as admin
from remuda_proto.remuda.v1 import metrics_pb2

Unary = Callable[[Bus, Caller, Any], Awaitable[Message]]
Stream = Callable[[Bus, Caller, Any], AsyncGenerator[Message]]


Act = Callable[[Bus, Caller, Any], Awaitable[admin.ActionOutcome]]
# By method: the action on the bus.
ACTIONS = {
    "KillApplication": "kill_application",
    "MoveApplication": "move_application",
    "HoldQueue": "hold_queue",
    "ResumeQueue": "resume_queue",
    "LendQuota": "lend_quota",
    "EndLoan": "end_loan",
    "DrainNode": "drain_node",
    "UndrainNode": "undrain_node",
    "ChangeAskPriority": "change_ask_priority",
    "ReleaseAllocation": "release_one_allocation",
    "ForgetResourceManager": "forget_rm",
}


def plain(value: Any) -> Any:
    """The value of a field as JSON has it: a map as a dictionary."""
    return dict(value) if isinstance(value, Mapping) else value


def act(action: str) -> Act:
    """The handler of an action of operators. The fields of its request, beside `rm` and `options`, are the fields of
    the action."""

    async def handle(bus: Bus, caller: Caller, request: Any) -> admin.ActionOutcome:
        options: admin.ActionOptions = request.options
        names = [one.name for one in request.DESCRIPTOR.fields if one.name not in ("rm", "options")]
        fields = {
            **{name: plain(getattr(request, name)) for name in names},
            "reason": options.reason,
            "partition": options.partition,
            "force": options.force,
        }
        action_id = options.action_id or secrets.token_hex(8)
        outcome = await actions.request(bus, caller.operator, rm_of(request), action, action_id, fields)
        return filled(admin.ActionOutcome(), msgspec.to_builtins(outcome))

    return handle


class Access(Enum):
    """The callers that may use a method."""

    RM = "operators; an RM for its own rmID"
    OPERATOR = "operators"
    ACT = "operators by name, as access lists decide"


@dataclass(frozen=True, slots=True)
class Method:
    """A method without a transport. `service`: the full name of its service, such as remuda.v1.Admin. `access`: the
    callers that may use it. Either `handler` or `stream` is set: `handler` for a method with one response."""

    service: str
    name: str
    request: type[Message]
    access: Access
    handler: Unary | None = None
    stream: Stream | None = None

    @property
    def room(self) -> str:
        """The service as a token of a subject."""
        return self.service.rpartition(".")[2].lower()

    def check(self, caller: Caller, request: Any) -> None:
        """Check that the caller may use the method with this request. Raises Refused with FORBIDDEN."""
        if self.access is Access.ACT:
            if caller.operator is None:
                raise Refused(
                    f"{self.name}: this client has no name of an operator, which access lists need", FORBIDDEN
                )
        elif not caller.reads_all and not (self.access is Access.RM and caller.reads_rm(request.rm)):
            of = f" of rm {request.rm!r}" if self.access is Access.RM else ""
            raise Refused(f"{self.name}{of}: this client is no operator", FORBIDDEN)

    async def call(self, bus: Bus, caller: Caller, request: Any) -> Message:
        """Check the caller, and return the response. Raises BusError."""
        assert self.handler is not None
        self.check(caller, request)
        try:
            return await self.handler(bus, caller, request)
        except ValueError as error:  # larger than a message of the bus
            raise Refused(str(error)) from error

    def follow(self, bus: Bus, caller: Caller, request: Any) -> AsyncGenerator[Message]:
        """Check the caller, and yield the responses. Raises BusError, here and from the iteration."""
        assert self.stream is not None
        self.check(caller, request)
        return self.stream(bus, caller, request)


ADMIN: Final = admin.DESCRIPTOR.services_by_name["Admin"]
METRICS: Final = metrics_pb2.DESCRIPTOR.services_by_name["Metrics"]
SERVICES: Final = (ADMIN, METRICS)

_OF_RM: Final[Mapping[str, Unary]] = {
    "ListQueues": state.list_queues,
    "ListNodes": state.list_nodes,
    "ListTopology": state.list_topology,
    "ListApplications": state.list_applications,
    "ListRejections": state.list_rejections,
    "ListAllocations": state.list_allocations,
    "ListUsage": state.list_usage,
    "ListWindows": state.list_windows,
    "ListReservations": state.list_reservations,
    "Explain": state.explain,
    "ListForecasts": state.list_forecasts,
    "GetDigest": state.get_digest,
    "GetResourceManager": metrics.get_resource_manager,
    "GetQueues": metrics.get_queues,
    "GetNodes": metrics.get_nodes,
}
_OF_OPERATORS: Final[Mapping[str, Unary]] = {
    "ListResourceManagers": state.list_resource_managers,
    "ListCores": state.list_cores,
    "ListFrontEnds": state.list_front_ends,
    "ListFaults": state.list_faults,
    "GetStory": state.get_story,
    "WhatIf": state.what_if,
    "Preview": configuration.preview_configuration,
    "GetConfiguration": configuration.get_configuration,
    "CheckConfiguration": configuration.check_configuration,
    "ListConfigurationVersions": configuration.list_configuration_versions,
    "GetConfigurationVersion": configuration.get_configuration_version,
    "DiffConfiguration": configuration.diff_configuration,
    "GetSystem": metrics.get_system,
}
_ACTS: Final[Mapping[str, Unary]] = {
    "ApplyConfiguration": configuration.apply_configuration,
    "RollbackConfiguration": configuration.rollback_configuration,
    "ConfirmConfiguration": configuration.confirm_configuration,
    **{method: act(action) for method, action in ACTIONS.items()},
}
ACTING: Final = tuple(sorted(_ACTS))
READING: Final = tuple(
    (service.name.lower(), method.name)
    for service in SERVICES
    for method in service.methods
    if method.name not in _ACTS and not method.server_streaming
)


def methods() -> list[Method]:
    """All methods in the order of the protos, with followers of changes and readers of ledgers of their own."""
    changes = Changes()
    of_rm: Mapping[str, Unary] = {**_OF_RM, "GetLedger": Ledgers().get_ledger, "ReadChanges": changes.read}
    unary = {
        **{name: (Access.RM, handler) for name, handler in of_rm.items()},
        **{name: (Access.OPERATOR, handler) for name, handler in _OF_OPERATORS.items()},
        **{name: (Access.ACT, handler) for name, handler in _ACTS.items()},
    }
    streams: dict[str, Stream] = {
        "FollowChanges": changes.follow, "FollowResourceManager": metrics.follow_resource_manager,
    }  # fmt: skip

    def method(descriptor: MethodDescriptor) -> Method:
        named = (descriptor.containing_service.full_name, descriptor.name, GetMessageClass(descriptor.input_type))
        if descriptor.name in streams:
            return Method(*named, Access.RM, stream=streams[descriptor.name])
        access, handler = unary[descriptor.name]
        return Method(*named, access, handler)

    return [method(descriptor) for service in SERVICES for descriptor in service.methods]


assert set(ACTIONS.values()) == set(subjects.ACTIONS)
