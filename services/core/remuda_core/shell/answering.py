"""Answers queries about RMs: `remuda.api.core.<rm>.<kind>`.

Every core receives each query, and one answers: the first standby of the RM, so that queries take no time of the
leader, or the leader if there is no standby. All cores determine the same one from the member list. A core that hangs
loses its lease, and another answers. A core that does not follow the RM yet passes the query on to the leader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Mapping
from typing import Any

import msgspec

from remuda_bus import subjects
from remuda_bus.bus import Bus, Message, Refused, Unanswered
from remuda_bus.status_codes import NOT_FOUND, UNAVAILABLE
from remuda_operations.queries.fields import OF_CORE, expect_fields
from remuda_replication.members import Members
from remuda_replication.rms.halts import Halts

from .. import limits
from . import metrics
from .answer_pace import AnswerPace, Questions
from .copies import Copies
from .replica import DIGEST, Replica
from .rm_standby import RmStandby

# Queries whose answers have forecasts. They do not wait for new ones.
SHOW_FORECASTS = ("explain", "forecasts")


class Answering:
    def __init__(
        self, bus: Bus, members: Members, halts: Halts, known: Container[str], standbys: Mapping[str, RmStandby]
    ) -> None:
        self._bus = bus
        self._members = members
        self._halts = halts
        self._known = known
        self._standbys = standbys
        self._pace = AnswerPace()
        self._copies = Copies(asyncio.get_running_loop().time)

    async def serve(self) -> None:
        for kind in (*subjects.CORE_QUERIES, *subjects.PLAYED_QUERIES, subjects.GUESTS):
            await self._bus.serve(subjects.core_query("*", kind), self._answer, kind, self._may_answer, mine=self._mine)
        leaders = subjects.leader_query("*", "*")
        await self._bus.serve(
            leaders, self._answer_as_leader, "leader", self._may_answer, mine=lambda one: self._leads(_asked(one)[0])
        )

    def _may_answer(self) -> bool:
        return self._members.lease.valid

    def _mine(self, subject: str) -> bool:
        rm_id, kind = _asked(subject)
        return self._members.answerer(rm_id, of_leader=kind == DIGEST) == self._members.name

    def _leads(self, rm_id: str) -> bool:
        return self._members.leader_of(rm_id) == self._members.name

    async def _answer(self, message: Message) -> bytes:
        rm_id, kind = _asked(message.subject)
        request = _request(kind, message.payload)
        with self._pace.asked(rm_id) as questions:
            replica = self._there(rm_id)
            if replica is None and not self._leads(rm_id):
                return await self._pass_on(rm_id, kind, message)
            return await self._answered(_ready(rm_id, replica), kind, request, questions)

    async def _answered(self, replica: Replica, kind: str, request: dict[str, Any], questions: Questions) -> bytes:
        """The encoded answer of the replica. Raises Refused."""
        metrics.QUERIES.labels(kind).inc()
        if kind == DIGEST:
            return await replica.digest(request)
        if kind == subjects.PREVIEW:
            return await replica.preview(request, self._copies)
        if kind == subjects.WHAT_IF:
            return await replica.what_if(request, self._copies)
        if kind == subjects.ETA:
            return await replica.eta(request, self._copies)
        if kind in SHOW_FORECASTS:
            replica.sample_forecasts(self._copies)
        return await replica.answer(kind, request, questions)

    async def _answer_as_leader(self, message: Message) -> bytes:
        """A query that another core has passed on to the leader."""
        rm_id, kind = _asked(message.subject)
        request = _request(kind, message.payload)
        with self._pace.asked(rm_id) as questions:
            return await self._answered(_ready(rm_id, self._there(rm_id)), kind, request, questions)

    async def _pass_on(self, rm_id: str, kind: str, message: Message) -> bytes:
        """Pass the query on to the leader, and return its answer. Raises Refused when the leader does not answer."""
        subject = subjects.leader_query(rm_id, kind)
        within_s = 2 * limits.PREVIEW_WITHIN_S if kind in subjects.PLAYED_QUERIES else limits.PASSED_ON_WITHIN_S
        try:
            answer = await self._bus.request(subject, message.payload, message.headers, timeout_s=within_s)
        except Unanswered as error:
            raise Refused(f"the leader of {rm_id!r} does not answer, try again ({error})", UNAVAILABLE) from error
        return answer.payload

    def _there(self, rm_id: str) -> Replica | None:
        """The replica of the RM. None: this core has not caught up with the log. Raises Refused if the RM is halted,
        unknown, or without a leader."""
        if (halt := self._halts.get(rm_id)) is not None:
            raise Refused(halt.explanation(), UNAVAILABLE)
        if rm_id not in self._known:
            raise Refused(f"no resource manager {rm_id[:64]!r} is registered", NOT_FOUND)
        if self._members.leader_of(rm_id) is None:
            raise Refused(f"no core leads {rm_id!r} yet, try again", UNAVAILABLE)
        standby = self._standbys.get(rm_id)
        return standby.replica if standby is not None and standby.hot else None


def _ready(rm_id: str, replica: Replica | None) -> Replica:
    if replica is None:
        raise Refused(f"this core is catching up with the log of {rm_id!r}, try again", UNAVAILABLE)
    return replica


def _asked(subject: str) -> tuple[str, str]:
    """The RM and the kind of a query."""
    rm_id, kind = subject.split(".")[-2:]
    return rm_id, kind


def _request(kind: str, payload: bytes) -> dict[str, Any]:
    """Raises Refused unless the payload is a JSON object with fields of the query."""
    try:
        request = msgspec.json.decode(payload or b"{}")
    except (msgspec.DecodeError, RecursionError) as error:
        raise Refused(f"the request is not JSON: {error}") from error
    if not isinstance(request, dict):
        raise Refused("the request is not a JSON object")
    expect_fields(request, OF_CORE[kind])
    return request
