"""Answers the requests of operators (001, Access Control Lists).

A request becomes a command in the inbox of the RM. rmproxy answers it when the log contains the core's decision. The
NATS server states the operator's name and groups in the subject; the core decides whether the operator may act.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, Full, Message, Refused
from remuda_bus.limits import HEADER_ROOM_BYTES
from remuda_operations.operators import Operator
from remuda_proto.access_list import AccessList
from remuda_proto.bounds import shown
from remuda_replication.rms.forget import ANY, FORGETTING, Busy, forget
from remuda_replication.rms.halts import Halts
from remuda_rmproxy import limits, metrics
from remuda_rmproxy.administration.action_request import FORGET_RM, ActionRequest, read_request
from remuda_rmproxy.administration.outcome import Outcome, outcome_of
from remuda_rmproxy.records.record_store import read_record
from remuda_rmproxy.records.request_limiter import RequestLimiter
from remuda_rmproxy.records.status_codes import NOT_REGISTERED, OUTAGE, TOO_MANY
from remuda_rmproxy.sessions.pending_answers import PendingAnswers

log = structlog.get_logger()


class OperatorActions:
    """Answers operators' requests for actions: a command for the core, and the core's decision. `administrators`: of
    nodes and RMs. `clock_ms`: milliseconds since 1970. `core_timeout_s`: how long a request waits for the core's
    decision.
    """

    def __init__(
        self,
        bus: Bus,
        halts: Halts,
        pending_answers: PendingAnswers,
        administrators: AccessList,
        instance: str,
        clock_ms: Callable[[], int],
        core_timeout_s: float,
    ) -> None:
        self._bus = bus
        self._halts = halts
        self._pending_answers = pending_answers
        self._administrators = administrators
        self._instance = instance
        self._clock_ms = clock_ms
        self._core_timeout_s = core_timeout_s
        self._limiter = RequestLimiter(
            asyncio.get_running_loop().time, "actions", limits.ACTIONS_AT_ONCE, limits.ACTIONS_PER_S,
            limits.ACTIONS_BURST,
        )  # fmt: skip
        self._in_progress = 0

    async def act(self, message: Message) -> bytes:
        """Answers a request with its outcome as JSON.

        Raises Refused when no command is in the inbox: 400 the request is invalid, 404 there is no such RM, 429 too
        many requests, 503 the RM is halted. With 503 for an outage it is not known whether the command is in the inbox.
        """
        with self._limiter.admit(message.subject.split(".")[2]):
            if self._in_progress >= limits.ALL_ACTIONS_AT_ONCE:
                raise Refused(f"{self._in_progress} actions of operators are being answered: wait", TOO_MANY)
            self._in_progress += 1
            try:
                return (await self._act(read_request(message))).encode()
            finally:
                self._in_progress -= 1

    async def _act(self, request: ActionRequest) -> Outcome:
        about = {
            "operator": request.operator.name, "action": request.action, "rm": request.rm_id, "id": request.action_id,
        }  # fmt: skip
        try:
            outcome = await (self._forget(request) if request.action == FORGET_RM else self._decide(request))
        except Refused as refusal:
            log.info("action of an operator not possible", **about, reason=refusal.reason)
            raise
        except BusError as error:
            log.warning("action of an operator interrupted", **about, error=str(error))
            reason = f"{request.action} for {shown(request.rm_id)}: {error}; asking again with the same ID is safe"
            raise Refused(reason, OUTAGE) from error
        metrics.ACTIONS.labels(request.action, outcome.outcome).inc()
        log.info("action of an operator", **about, why=request.reason, outcome=outcome.outcome, reason=outcome.reason)
        return outcome

    async def _decide(self, request: ActionRequest) -> Outcome:
        """Append the command and wait for the decision. A repeated request is a further command: the core knows the
        action ID and decides as before."""
        rm_id = request.rm_id
        record, _ = await read_record(self._bus, rm_id)
        if record is None or record.state not in ("registered", "deregistered"):
            raise Refused(f"rmID {shown(rm_id)} is not registered", NOT_REGISTERED)
        if halt := self._halts.get(rm_id):
            raise Refused(halt.explanation(), OUTAGE)
        command = request.command(self._is_administrator(request.operator))
        assert command.ByteSize() <= self._bus.max_payload - HEADER_ROOM_BYTES, "every field has a bound"
        with self._pending_answers.expect(rm_id) as answer:
            try:
                async with asyncio.timeout(self._core_timeout_s):
                    await self._bus.append(subjects.inbox(rm_id), command.SerializeToString())
                    decision = await answer.decision(command.correlation_id)
            except Full as error:
                raise Refused(f"the inbox of {shown(rm_id)} is full: {error}", OUTAGE) from None
            except TimeoutError:
                reason = f"no decision within {self._core_timeout_s:g} s; the core decides when it has read the command"
                return Outcome("undecided", request.action_id, reason)
        return outcome_of(decision, request.action_id)

    def _is_administrator(self, operator: Operator) -> bool:
        return self._administrators.allows(operator.name, operator.groups)

    async def _forget(self, request: ActionRequest) -> Outcome:
        """Forget an RM. The log of the RM, which would have the fact, goes as well. A repeated request finds no record:
        then there is nothing left to do."""
        rm_id = request.rm_id
        if not self._is_administrator(request.operator):
            name = shown(request.operator.name)
            return Outcome("refused", request.action_id, f"{name} is not in the scheduler's access list")
        record, _ = await read_record(self._bus, rm_id)
        if record is None:
            return Outcome("accepted", request.action_id, "there is no record of the resource manager")
        states = ANY if request.force else ("deregistered", FORGETTING)
        if record.state not in states:
            reason = f"the resource manager is {record.state}: expected deregistered; force overrides this"
            return Outcome("refused", request.action_id, reason, soft=True)
        try:
            is_forgotten = await forget(self._bus, rm_id, self._instance, self._clock_ms, states)
        except Busy as error:
            return Outcome("undecided", request.action_id, str(error))
        if not is_forgotten:
            return Outcome("refused", request.action_id, "the resource manager has registered meanwhile", soft=True)
        return Outcome("accepted", request.action_id)
