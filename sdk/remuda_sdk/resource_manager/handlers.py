"""The handlers of an RM: for callbacks, and for the scheduler's questions (000, Predicates)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from typing import Any, TypeVar

from remuda_bus import subjects
from remuda_bus.bus import Bus, Message, Refused
from remuda_proto.remuda.v1 import predicates_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk.resource_manager.callbacks import Callback, DeadLetter
from remuda_sdk.resource_manager.registration import REFUSED

Handler = TypeVar("Handler", bound=Callable[[Any], Any])
Report = TypeVar("Report", bound=Callable[[], Any])
BatchPredicates = TypeVar("BatchPredicates", bound=Callable[[predicates_pb2.BatchPredicatesRequest], Any])
Predicates = TypeVar("Predicates", bound=Callable[[Any], Awaitable[str | None] | str | None])
PreemptionPredicates = TypeVar("PreemptionPredicates", bound=Callable[[Any], Any])


class HandlersOfRm:
    """The part of a ResourceManager that registers handlers. Each `on_…` can be used as a decorator."""

    def __init__(self) -> None:
        self._handlers = Handlers()
        self._report_handler: Callable[[], Any] | None = None
        self._batch_predicates: Callable[[Any], Any] | None = None
        self._state_dump: Callable[[], Any] | None = None
        self._predicates: Callable[[Any], Any] | None = None
        self._preemption_predicates: Callable[[Any], Any] | None = None

    def on_allocation(self, handler: Handler) -> Handler:
        """Set `handler(si.AllocationResponse)`. Read its fields in this order: new, released, releasedAsks, rejected,
        rejectedAllocations."""
        return self._handle(si.AllocationResponse, handler)

    def on_application(self, handler: Handler) -> Handler:
        """Set `handler(si.ApplicationResponse)`. Read its fields in this order: rejected, accepted, updated."""
        return self._handle(si.ApplicationResponse, handler)

    def on_node(self, handler: Handler) -> Handler:
        """Set `handler(si.NodeResponse)`. Read its fields in this order: rejected, accepted."""
        return self._handle(si.NodeResponse, handler)

    def on_container(self, handler: Handler) -> Handler:
        """Set `handler(si.UpdateContainerSchedulingStateRequest)`: the reason why an ask waits."""
        return self._handle(si.UpdateContainerSchedulingStateRequest, handler)

    def on_dead_letter(self, handler: Handler) -> Handler:
        """Set `handler(DeadLetter)`: a request that the scheduler could not handle."""
        return self._handle(DeadLetter, handler)

    def on_event(self, handler: Handler) -> Handler:
        """Set `handler(si.EventRecord)`: an event of the event history. Set it before the RM connects, because its
        consumer of events is created at the registration."""
        return self._handle(si.EventRecord, handler)

    def on_report_requested(self, handler: Report) -> Report:
        """Set `handler()`: the scheduler has lost the state of this RM. The SDK has registered it again; the handler
        reports its nodes with their allocations, its applications and its asks. Without a handler, the loop over
        callbacks raises ReportRequested."""
        if self._report_handler is not None:
            raise ValueError(f"reports have a handler already: {self._report_handler!r}")
        self._report_handler = handler
        return handler

    def on_state_dump(self, handler: Report) -> Report:
        """Set `handler()`: the state of this RM for people, as text, best as JSON (000, GetStateDump). Set it before
        the RM connects."""
        if self._state_dump is not None:
            raise ValueError(f"state dumps have a handler already: {self._state_dump!r}")
        self._check_undeclared()
        self._state_dump = handler
        return handler

    def on_predicates(self, handler: Predicates) -> Predicates:
        """Set `handler(si.PredicatesArgs)`: whether the ask may start on the node. It returns None or "" if so,
        otherwise the reason. Set it before the RM connects, because predicates are declared at the registration (000,
        Predicates)."""
        if self._predicates is not None:
            raise ValueError(f"predicates have a handler already: {self._predicates!r}")
        self._check_undeclared()
        self._predicates = handler
        return handler

    def on_batch_predicates(self, handler: BatchPredicates) -> BatchPredicates:
        """Set `handler(predicates_pb2.BatchPredicatesRequest)`: on which of the nodes asks of the class may start. It
        returns an iterable of `predicates_pb2.NodeVerdict`; nodes without one are refused for a while. It takes the
        place of `on_predicates`. Otherwise as `on_predicates`."""
        if self._batch_predicates is not None:
            raise ValueError(f"batch predicates have a handler already: {self._batch_predicates!r}")
        self._check_undeclared()
        self._batch_predicates = handler
        return handler

    def on_preemption_predicates(self, handler: PreemptionPredicates) -> PreemptionPredicates:
        """Set `handler(si.PreemptionPredicatesArgs)`: whether the ask could start on the node without the allocations
        `preemptAllocationKeys`. It may also return a `si.PreemptionPredicatesResponse`. Otherwise as
        `on_predicates`."""
        if self._preemption_predicates is not None:
            raise ValueError(f"preemption predicates have a handler already: {self._preemption_predicates!r}")
        self._check_undeclared()
        self._preemption_predicates = handler
        return handler

    def _check_undeclared(self) -> None:
        raise NotImplementedError

    def _handle(self, kind: type[Any], handler: Handler) -> Handler:
        self._handlers.register(kind, handler)
        self._start_handling()
        return handler

    def _start_handling(self) -> None:
        raise NotImplementedError


class Handlers:
    """One handler per kind of callback: a function or a coroutine function."""

    def __init__(self) -> None:
        self._by_type: dict[type[Any], Callable[[Any], Any]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_type)

    def has(self, kind: type[Any]) -> bool:
        """Whether the kind has a handler."""
        return kind in self._by_type

    def register(self, kind: type[Any], handler: Handler) -> Handler:
        """Register the handler of a kind. Raises ValueError when the kind has one."""
        if kind in self._by_type:
            raise ValueError(f"{kind.__name__} has a handler already: {self._by_type[kind]!r}")
        self._by_type[kind] = handler
        return handler

    async def handle(self, callback: Callback) -> None:
        """Call the handler of the callback; a kind without a handler is ignored. Raises what the handler raises."""
        handler = self._by_type.get(type(callback))
        if handler is not None:
            await call_handler(handler, callback)


async def call_handler(handler: Callable[..., Any], *arguments: Any) -> None:
    """Call a function or a coroutine function. Raises what it raises."""
    returned = handler(*arguments)
    if inspect.isawaitable(returned):
        await returned


Answer = Callable[[Any], Any]  # a function or coroutine function of the RM that answers a question


# Keys of extraConfig at the registration (000, extraConfig).
PREDICATES = "predicates"  # the scheduler asks the RM before it places an ask: "true", or "batch"
PREEMPTION_PREDICATES = "preemption_predicates"  # the scheduler asks the RM before it preempts
BATCH = "batch"


async def serve_predicates(
    bus: Bus, rm_id: str, declared: MutableMapping[str, str], may: Answer | None, may_many: Answer | None,
    may_preempting: Answer | None,
) -> None:  # fmt: skip
    """Declare the predicates that have handlers, and answer questions about those that are declared. A declared
    predicate without a handler is always true."""
    if may_many is not None:
        declared[PREDICATES] = BATCH
    elif may is not None:
        declared[PREDICATES] = "true"
    if may_preempting is not None:
        declared[PREEMPTION_PREDICATES] = "true"
    kind = declared.get(PREDICATES, "").lower()
    answers: dict[str, Callable[[Message], Awaitable[bytes]]] = {}
    if kind == "true":
        answers["predicates"] = partial(answer_predicates, may)
    elif kind == BATCH:
        answers["batch_predicates"] = partial(answer_batch, may_many)
    if declared.get(PREEMPTION_PREDICATES, "").lower() == "true":
        answers["preemption_predicates"] = partial(answer_preemption_predicates, may_preempting)
    for name, answer in answers.items():
        await bus.serve(subjects.question(rm_id, name), answer, name)


async def answer_state_dump(handler: Callable[[], Any], message: Message) -> bytes:
    """Answer with the text that the handler returns."""
    text = handler()
    if inspect.isawaitable(text):
        text = await text
    return str(text).encode()


async def answer_batch(handler: Answer | None, message: Message) -> bytes:
    """Answer a BatchPredicatesRequest with the verdicts that the handler returns. Without a handler, every node is
    accepted."""
    request = predicates_pb2.BatchPredicatesRequest.FromString(message.payload)
    if handler is None:
        verdicts: Any = [predicates_pb2.NodeVerdict(node_id=node_id, accepted=True) for node_id in request.node_ids]
    else:
        verdicts = handler(request)
        if inspect.isawaitable(verdicts):
            verdicts = await verdicts
    return predicates_pb2.BatchPredicatesResponse(verdicts=verdicts).SerializeToString()


async def answer_predicates(handler: Answer | None, message: Message) -> bytes:
    """Answer a PredicatesArgs with an empty reply. Raises Refused with the reason that the handler returns. Without a
    handler, every node is accepted."""
    if handler is not None:
        _refuse_if(await _answer_of(handler, si.PredicatesArgs.FromString(message.payload)))
    return b""


async def answer_preemption_predicates(handler: Answer | None, message: Message) -> bytes:
    """Answer a PreemptionPredicatesArgs. A handler returns the response, or the reason of a refusal: then this raises
    Refused."""
    args = si.PreemptionPredicatesArgs.FromString(message.payload)
    answer = None if handler is None else await _answer_of(handler, args)
    if isinstance(answer, si.PreemptionPredicatesResponse):
        return answer.SerializeToString()
    _refuse_if(answer)
    return si.PreemptionPredicatesResponse(success=True, index=args.startIndex).SerializeToString()


async def _answer_of(handler: Answer, args: Any) -> Any:
    answer = handler(args)
    return await answer if inspect.isawaitable(answer) else answer


def _refuse_if(reason: Any) -> None:
    if reason:
        raise Refused(str(reason), REFUSED)
