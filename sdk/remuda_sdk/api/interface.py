"""The interface between an RM and the scheduler, as classes (000, API Interface)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Iterable, Sequence
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

from remuda_proto.remuda.v1 import predicates_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk.resource_manager.callbacks import DeadLetter


class RequestRefused(Exception):
    """The scheduler could not handle a request of the RM, and the RM's callback has no `update_refused`."""


class ResourceManagerCallback:
    """The side of the RM: derive from this class, and define the methods that the RM needs, as functions or coroutine
    functions.

    They are called one after the other, except for the questions `predicates` and `preemption_predicates`, which may be
    asked meanwhile. A callback counts as processed when its method has returned. An exception ends the session:
    `SchedulerAPI.wait` and every later update raise it. A callback may be repeated after a restart or a reconnect: the
    `UUID` of an allocation is never used again."""

    def update_allocation(self, response: si.AllocationResponse) -> Awaitable[None] | None:
        """Read the fields in this order: new, released, releasedAsks, rejected, rejectedAllocations. The RM stops the
        allocations in `released`. Where the scheduler has requested it (any type but STOPPED_BY_RM), the RM then sends
        the release back: until then it counts as used."""
        return None

    def update_application(self, response: si.ApplicationResponse) -> Awaitable[None] | None:
        """Read the fields in this order: rejected, accepted, updated."""
        return None

    def update_node(self, response: si.NodeResponse) -> Awaitable[None] | None:
        """Read the fields in this order: rejected, accepted."""
        return None

    def predicates(self, args: si.PredicatesArgs) -> Awaitable[str | None] | str | None:
        """Whether the ask may start on the node: None or "", otherwise the reason why not. Asked before each placement,
        of RMs that define this method."""
        return None

    def preemption_predicates(
        self, args: si.PreemptionPredicatesArgs
    ) -> Awaitable[si.PreemptionPredicatesResponse] | si.PreemptionPredicatesResponse:
        """Whether the ask could start on the node without the allocations `preemptAllocationKeys`. Asked before each
        preemption, of RMs that define this method."""
        return si.PreemptionPredicatesResponse(success=True, index=args.startIndex)

    def send_event(self, events: Sequence[si.EventRecord]) -> Awaitable[None] | None:
        """Events of the event history. Sent to RMs that define this method."""
        return None

    def update_container_scheduling_state(
        self, request: si.UpdateContainerSchedulingStateRequest
    ) -> Awaitable[None] | None:
        """Why an ask waits."""
        return None

    def batch_predicates(
        self, request: predicates_pb2.BatchPredicatesRequest
    ) -> Awaitable[Iterable[predicates_pb2.NodeVerdict]] | Iterable[predicates_pb2.NodeVerdict]:
        """On which of the nodes asks of a class may start; nodes without a verdict are refused for a while. Asked
        instead of `predicates`, of RMs that define this method."""
        return ()

    # Beyond the specification: what its function calls report as errors, or by a registration that is asked for.

    def update_refused(self, letter: DeadLetter) -> Awaitable[None] | None:
        """A request as a whole that the scheduler could not handle, such as a configuration with problems."""
        raise RequestRefused(letter.reason)

    def report_requested(self) -> Awaitable[None] | None:
        """The scheduler has lost the state of this RM, and has registered it again: the RM reports its applications,
        nodes with their allocations, and asks. An RM without this method ends with ReportRequested."""
        return None


@runtime_checkable
class StateDumpPlugin(Protocol):
    """A callback that has this method adds its own state to dumps of the scheduler's (000, API Interface)."""

    def get_state_dump(self) -> Awaitable[str] | str:
        """The state of the RM, as JSON."""
        ...


class SchedulerAPI(ABC):
    """The scheduler: `async with connect(url) as scheduler`.

    One connection serves any number of RMs. Requests name theirs (`rmID`), or leave it empty if there is only one.

    Updates return when the scheduler has stored them, and are handled in the order of the calls. They raise ValueError
    for an RM that is not registered here and for an element that is too large; Superseded when another process has
    registered the RM; Full and Unanswered when the scheduler takes no requests for `retry_for_s`; and the error that
    has ended the session."""

    @abstractmethod
    async def register_resource_manager(
        self, request: si.RegisterResourceManagerRequest, callback: ResourceManagerCallback
    ) -> si.RegisterResourceManagerResponse:
        """Register an RM, also again (`extraConfig["resync"]`: report or replay). Returns once the core has accepted
        it. Raises RegistrationFailed."""

    @abstractmethod
    async def update_allocation(self, request: si.AllocationRequest) -> None:
        """Send asks, releases and running allocations."""

    @abstractmethod
    async def update_application(self, request: si.ApplicationRequest) -> None:
        """Send new and removed applications."""

    @abstractmethod
    async def update_node(self, request: si.NodeRequest) -> None:
        """Send new, changed and removed nodes."""

    @abstractmethod
    async def update_configuration(self, request: si.UpdateConfigurationRequest) -> None:
        """Change the RM's configuration. A refusal comes as `ResourceManagerCallback.update_refused`."""

    @abstractmethod
    async def wait(self) -> None:
        """Wait until a session ends. Raises the error that has ended it."""

    @abstractmethod
    async def __aenter__(self) -> Self: ...

    @abstractmethod
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
