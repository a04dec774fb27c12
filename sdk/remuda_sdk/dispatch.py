"""Handlers: which of them gets what. Pure but for calling them."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk.session import Callback, DeadLetter

Handler = TypeVar("Handler", bound=Callable[[Any], Any])
Report = TypeVar("Report", bound=Callable[[], Any])
Predicates = TypeVar("Predicates", bound=Callable[[Any], Awaitable[str | None] | str | None])


class Handlers:
    """One handler per kind of callback, a function or a coroutine function; each `on_` can be used as a decorator."""

    def __init__(self) -> None:
        self._by_type: dict[type[Any], Callable[[Any], Any]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_type)

    def wants(self, kind: type[Any]) -> bool:
        return kind in self._by_type

    def add(self, kind: type[Any], handler: Handler) -> Handler:
        if kind in self._by_type:
            raise ValueError(f"{kind.__name__} has a handler already: {self._by_type[kind]!r}")
        self._by_type[kind] = handler
        return handler

    async def handle(self, callback: Callback) -> None:
        """What has no handler is left alone. Raises what the handler raises."""
        handler = self._by_type.get(type(callback))
        if handler is not None:
            await called(handler, callback)


async def called(handler: Callable[..., Any], *arguments: Any) -> None:
    """A function or a coroutine function. Raises what it raises."""
    returned = handler(*arguments)
    if inspect.isawaitable(returned):
        await returned


class HandlersOfRm:
    """The part of a ResourceManager that takes handlers."""

    def __init__(self) -> None:
        self._handlers = Handlers()
        self._wanted_report: Callable[[], Any] | None = None
        self._predicates: Callable[[Any], Any] | None = None
        self._preemption_predicates: Callable[[Any], Any] | None = None

    def on_allocation(self, handler: Handler) -> Handler:
        """`handler(si.AllocationResponse)`: new, released, releasedAsks, rejected, rejectedAllocations, in this
        order."""
        return self._handle(si.AllocationResponse, handler)

    def on_application(self, handler: Handler) -> Handler:
        """`handler(si.ApplicationResponse)`: rejected, accepted, updated, in this order."""
        return self._handle(si.ApplicationResponse, handler)

    def on_node(self, handler: Handler) -> Handler:
        """`handler(si.NodeResponse)`: rejected, accepted, in this order."""
        return self._handle(si.NodeResponse, handler)

    def on_container(self, handler: Handler) -> Handler:
        """`handler(si.UpdateContainerSchedulingStateRequest)`: why an ask waits."""
        return self._handle(si.UpdateContainerSchedulingStateRequest, handler)

    def on_dead_letter(self, handler: Handler) -> Handler:
        """`handler(DeadLetter)`: a request that could not be handled."""
        return self._handle(DeadLetter, handler)

    def on_event(self, handler: Handler) -> Handler:
        """`handler(si.EventRecord)`: what happened, for people. To be set before the RM connects: its
        consumer of events is made for it when it registers."""
        return self._handle(si.EventRecord, handler)

    def on_report_wanted(self, handler: Report) -> Report:
        """`handler()`: the scheduler has lost what it knew of this RM, which was registered anew just now; report its
        nodes with what runs there, its applications and its asks. Without a handler, ReportWanted is raised where
        callbacks are taken."""
        if self._wanted_report is not None:
            raise ValueError(f"reports have a handler already: {self._wanted_report!r}")
        self._wanted_report = handler
        return handler

    def on_predicates(self, handler: Predicates) -> Predicates:
        """`handler(si.PredicatesArgs)`: may the ask start on the node? It returns nothing if it may, or why not. To be
        set before the RM connects: the scheduler asks only where that is declared at the registration."""
        if self._predicates is not None:
            raise ValueError(f"predicates have a handler already: {self._predicates!r}")
        self._check_undeclared()
        self._predicates = handler
        return handler

    def on_preemption_predicates(self, handler: Predicates) -> Predicates:
        """`handler(si.PreemptionPredicatesArgs)`: would the ask start on the node if all of `preemptAllocationKeys`
        went away? Otherwise as `on_predicates`."""
        if self._preemption_predicates is not None:
            raise ValueError(f"preemption predicates have a handler already: {self._preemption_predicates!r}")
        self._check_undeclared()
        self._preemption_predicates = handler
        return handler

    def _check_undeclared(self) -> None:
        raise NotImplementedError

    def _handle(self, kind: type[Any], handler: Handler) -> Handler:
        self._handlers.add(kind, handler)
        self._start_handling()
        return handler

    def _start_handling(self) -> None:
        raise NotImplementedError
