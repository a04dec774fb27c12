"""The methods of `remuda.v1.Admin` and `remuda.v1.Metrics`: the handler of each, and which callers may use it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from remuda_bus.bus import Bus, Refused
from remuda_bus.status_codes import FORBIDDEN
from remuda_operations.operator_api import actions, configuration, metrics, processes, state, story
from remuda_operations.operator_api.callers import Caller
from remuda_operations.operator_api.changes import Changes
from remuda_proto.remuda.v1 import admin_pb2, metrics_pb2

Unary = Callable[[Bus, Caller, Any], Awaitable[Message]]
Stream = Callable[[Bus, Caller, Any], AsyncGenerator[Message]]


class Access(Enum):
    """The callers that may use a method."""

    RM = "operators; an RM for its own rmID"
    OPERATOR = "operators"
    ACT = "operators by name, as access lists decide"


@dataclass(frozen=True, slots=True)
class Method:
    """`service`: the full name, such as remuda.v1.Admin. Either `handler` or `stream` is set."""

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
        """Raises Refused with FORBIDDEN when the caller may not use the method with this request."""
        if self.access is Access.ACT:
            if caller.operator is None:
                raise Refused(
                    f"{self.name}: this client is no operator with a name, which access lists need", FORBIDDEN
                )
        elif not caller.reads_all and not (self.access is Access.RM and caller.reads_rm(request.rm)):
            of = f" of rm {request.rm!r}" if self.access is Access.RM else ""
            raise Refused(f"{self.name}{of}: this client is no operator", FORBIDDEN)

    async def call(self, bus: Bus, caller: Caller, request: Any) -> Message:
        """The response. Raises BusError."""
        assert self.handler is not None
        self.check(caller, request)
        try:
            return await self.handler(bus, caller, request)
        except ValueError as error:  # larger than a message of the bus
            raise Refused(str(error)) from error

    def follow(self, bus: Bus, caller: Caller, request: Any) -> AsyncGenerator[Message]:
        """The responses. Raises BusError, now or later."""
        assert self.stream is not None
        self.check(caller, request)
        return self.stream(bus, caller, request)


ADMIN: Final = admin_pb2.DESCRIPTOR.services_by_name["Admin"]
METRICS: Final = metrics_pb2.DESCRIPTOR.services_by_name["Metrics"]
SERVICES: Final = (ADMIN, METRICS)

_OF_RM: Final[Mapping[str, Unary]] = {
    "ListQueues": state.list_queues,
    "ListNodes": state.list_nodes,
    "ListApplications": state.list_applications,
    "ListRejections": state.list_rejections,
    "ListAllocations": state.list_allocations,
    "ListUsage": state.list_usage,
    "ListReservations": state.list_reservations,
    "Explain": state.explain,
    "GetDigest": state.get_digest,
    "GetResourceManager": metrics.get_resource_manager,
    "GetQueues": metrics.get_queues,
    "GetNodes": metrics.get_nodes,
}
_OF_OPERATORS: Final[Mapping[str, Unary]] = {
    "ListResourceManagers": processes.list_resource_managers,
    "ListCores": processes.list_cores,
    "ListFrontEnds": processes.list_front_ends,
    "ListFaults": processes.list_faults,
    "GetStory": story.get_story,
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
    **{method: actions.act(action) for method, action in actions.ACTIONS.items()},
}
ACTING: Final = tuple(sorted(_ACTS))
READING: Final = tuple(
    (service.name.lower(), method.name)
    for service in SERVICES
    for method in service.methods
    if method.name not in _ACTS and not method.server_streaming
)


def methods() -> list[Method]:
    """All methods in the order of the protos, with followers of changes of their own."""
    changes = Changes()
    unary = {
        **{name: (Access.RM, handler) for name, handler in {**_OF_RM, "ReadChanges": changes.read}.items()},
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
