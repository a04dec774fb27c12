"""The interface between an RM and the scheduler, as classes (000, API Interface)."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Final, Protocol, Self, runtime_checkable

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
        """Answer whether the ask may start on the node: None or "" if so, otherwise the reason. The scheduler asks
        before each placement, if the RM defines this method."""
        return None

    def preemption_predicates(
        self, args: si.PreemptionPredicatesArgs
    ) -> Awaitable[si.PreemptionPredicatesResponse] | si.PreemptionPredicatesResponse:
        """Answer whether the ask could start on the node without the allocations `preemptAllocationKeys`. The scheduler
        asks before each preemption, if the RM defines this method."""
        return si.PreemptionPredicatesResponse(success=True, index=args.startIndex)

    def send_event(self, events: Sequence[si.EventRecord]) -> Awaitable[None] | None:
        """Receive events of the event history. The scheduler sends events to RMs that define this method."""
        return None

    def update_container_scheduling_state(
        self, request: si.UpdateContainerSchedulingStateRequest
    ) -> Awaitable[None] | None:
        """Receive the reason why an ask waits."""
        return None

    def batch_predicates(
        self, request: predicates_pb2.BatchPredicatesRequest
    ) -> Awaitable[Iterable[predicates_pb2.NodeVerdict]] | Iterable[predicates_pb2.NodeVerdict]:
        """Answer on which of the nodes asks of a class may start; nodes without a verdict are refused for a while. The
        scheduler asks this instead of `predicates`, if the RM defines this method."""
        return ()

    # Beyond the specification, whose function calls report refusals as errors, and a lost state by a registration.

    def update_refused(self, letter: DeadLetter) -> Awaitable[None] | None:
        """Receive a request as a whole that the scheduler could not handle, such as a configuration with problems."""
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


# The method that answers each kind of question.
QUESTIONS: Final = {
    "predicates": "predicates",
    "batch_predicates": "batch_predicates",
    "preemption_predicates": "preemption_predicates",
    "state_dump": "get_state_dump",
}
Run = Callable[[Callable[[], Any], bool], Awaitable[Any]]


async def run_here(call: Callable[[], Any], is_question: bool) -> Any:
    """Call a function or coroutine function in this event loop."""
    returned = call()
    return await returned if inspect.isawaitable(returned) else returned


class Callee:
    """The methods of a callback as coroutine functions. `run` calls a method where methods run: in this event loop, or
    in a thread."""

    def __init__(self, callback: ResourceManagerCallback, run: Run = run_here) -> None:
        if not isinstance(callback, ResourceManagerCallback):
            raise TypeError(f"callback {callback!r}: expected a ResourceManagerCallback")
        self.callback = callback
        self._run = run

    def defines(self, name: str) -> bool:
        """Whether the RM has defined this method itself."""
        own = getattr(type(self.callback), name, None)
        return own is not None and own is not getattr(ResourceManagerCallback, name, None)

    def method(self, name: str, *, is_question: bool = False) -> Callable[..., Coroutine[Any, Any, Any]]:
        """A coroutine function that calls this method. `is_question`: it may be called during another call."""
        bound = getattr(self.callback, name)

        async def call(*arguments: Any) -> Any:
            return await self._run(partial(bound, *arguments), is_question)

        return call

    def questions(self) -> dict[str, Callable[..., Awaitable[Any]]]:
        """Coroutine functions that ask the RM, by the kind of question. Questions that the RM has not defined are
        absent."""
        return {kind: self.method(name, is_question=True) for kind, name in QUESTIONS.items() if self.defines(name)}
