"""Askers: processes that ask cores about RMs, and compare each answer with the log at the commit that it names.

Half of the questions go to the leader, as those that a core passes on while it catches up. When an RM has another
leader, its cores are asked many at once: the last leader answers as a standby before it follows the log again.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Sequence
from random import Random
from typing import Any

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, Refused
from remuda_bus.memory import MemoryBus
from remuda_bus.status_codes import BUSY, NOT_FOUND, UNAVAILABLE

from .auditor import Auditor
from .story import Story, Violation

PACE_S = (0.2, 0.5, 2.0)
PAUSE_S = 10.0
KINDS = ("stats", "stats", "stats", "explain", "asks", "nodes", "allocations", "queues", "applications", "usage")
COUNTED = {"explain": "asks", "asks": "asks", "nodes": "nodes", "allocations": "allocations"}
PLAYED = 0.03  # how often a preview, or what would let an ask run, is asked for
BURSTS = 0.03  # how often many questions are asked at once
BURST = 12
HAND_OVER = 30  # so many are asked at a hand-over
LATER = 0.1  # how often a commit is named that is not there yet
DURABLE = 0.3  # how often the last one is
NEVER = 10**9
WITHIN_S = 5.0
EXPECTED = (BUSY, NOT_FOUND, UNAVAILABLE)  # refusals


class Asker:
    """`resting`: it asks nothing more. `rm_ids`: about which it asks; answers about those of `auditors` are checked."""

    def __init__(
        self, server: MemoryBus, random: Random, story: Story, rm_ids: Sequence[str], auditors: dict[str, Auditor]
    ) -> None:
        self.resting = False
        self.bus: Bus
        self._server = server
        self._random = random
        self._story = story
        self._rm_ids = rm_ids
        self._auditors = auditors
        self._pace_s = random.choice(PACE_S)

    async def main(self, bus: Bus) -> None:
        self.bus = bus
        async with asyncio.TaskGroup() as asking:
            asking.create_task(self._ask_at_hand_overs(bus, asking))
            while True:
                await asyncio.sleep(min(self._random.expovariate(1 / self._pace_s), PAUSE_S))
                if not self.resting:
                    rm_id = self._random.choice(self._rm_ids)
                    for _ in range(BURST if self._random.random() < BURSTS else 1):
                        asking.create_task(self._ask_something(bus, rm_id))

    async def _ask_at_hand_overs(self, bus: Bus, asking: asyncio.TaskGroup) -> None:
        """Whenever the server has another leader of an RM, before the cores know, also while it rests. Does not
        return."""
        async for entry in self._server.watch(subjects.LEADERS.name):
            rm_id = subjects.rm_of_key(entry.key)
            for _ in range(HAND_OVER if entry.value and rm_id in self._auditors else 0):
                asking.create_task(self._ask(bus, subjects.core_query(rm_id, "stats"), rm_id, "stats", {}))

    async def _ask_something(self, bus: Bus, rm_id: str) -> None:
        kind, request = self._question(rm_id)
        subject = self._random.choice((subjects.core_query, subjects.leader_query))(rm_id, kind)
        await self._ask(bus, subject, rm_id, kind, request)

    async def _ask(self, bus: Bus, subject: str, rm_id: str, kind: str, request: dict[str, Any]) -> None:
        try:
            answer = await ask(bus, subject, request)
        except BusError as error:
            self._story.tell(f"{subject} {_brief(request)}: {error}")
            if isinstance(error, Refused) and error.code not in EXPECTED:
                raise Violation(f"{subject} {_brief(request)}: {error.code} {error}") from None
            return
        self._story.tell(f"{subject} {_brief(request)}: commit {answer['log_seq']}")
        self._check(rm_id, kind, request, answer)

    def _question(self, rm_id: str) -> tuple[str, dict[str, Any]]:
        random, auditor = self._random, self._auditors.get(rm_id)
        if auditor is None:
            return random.choice(KINDS), {}
        if random.random() < PLAYED and (played := self._to_play(auditor)) is not None:
            return played
        drawn, request = random.random(), {}
        if drawn < LATER:
            request = {"min_log_seq": random.choice((auditor.log_seq + 1, auditor.log_seq + 1, NEVER))}
        elif drawn < LATER + DURABLE:
            request = {"min_log_seq": auditor.log_seq}
        return random.choice(KINDS), request

    def _to_play(self, auditor: Auditor) -> tuple[str, dict[str, Any]] | None:
        partitions = auditor.core.state.partitions.values()
        waiting = [
            (one.id, key) for partition in partitions for one in partition.applications.values() for key in one.asks
        ]
        if waiting and self._random.random() < 0.3:
            application, key = self._random.choice(waiting)
            return subjects.WHAT_IF, {"application": application, "key": key}
        if auditor.configuration:
            encoded = base64.b64encode(auditor.configuration).decode()
            return subjects.PREVIEW, {"configuration": encoded, "passes": 1}
        return None

    def _check(self, rm_id: str, kind: str, request: dict[str, Any], answer: dict[str, Any]) -> None:
        """The answer shows the state of the log at its commit, which is not before the one that was named."""
        auditor, log_seq = self._auditors.get(rm_id), answer["log_seq"]
        if auditor is None:
            return
        if log_seq < request.get("min_log_seq", 0):
            raise Violation(f"{kind} {_brief(request)} about {rm_id}: the answer is of commit {log_seq}")
        there = auditor.totals.get(log_seq)
        if there is None:
            raise Violation(f"{kind} about {rm_id}: the answer is of commit {log_seq}, which is not in force")
        found = {name: answer[name] for name in there if kind == "stats" and name in answer}
        if kind in COUNTED and answer.get("next") is None:
            found = {COUNTED[kind]: len(answer[COUNTED[kind]])}
        wrong = {name: (value, there[name]) for name, value in found.items() if value != there[name]}
        if wrong:
            raise Violation(f"{kind} about {rm_id}: at commit {log_seq} the answer and the log have {wrong}")


async def ask(bus: Bus, subject: str, request: dict[str, Any], within_s: float = WITHIN_S) -> dict[str, Any]:
    reply = await bus.request(subject, json.dumps(request).encode(), timeout_s=within_s)
    answer: dict[str, Any] = json.loads(reply.payload)
    return answer


def _brief(request: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in request.items() if name != "configuration"}
