"""Reads the log of a Peloton resource manager as it becomes durable, and knows what has to be true of it."""

from __future__ import annotations

import asyncio
from typing import Any

from remuda_bus import subjects
from remuda_bus.memory import MemoryBus
from remuda_peloton.check import check
from remuda_peloton.evolve import evolve
from remuda_peloton.facts import Fact, GangAdmitted, PlacementQueued
from remuda_peloton.rules.hosts import ROOM_KINDS, room_left
from remuda_peloton.rules.lifecycle import PENDING, READY, RUNNING, may_follow
from remuda_peloton.rules.resources import fits
from remuda_peloton.state import State
from remuda_peloton.wire.messages import read_fact
from remuda_proto.remuda.resmgr.v1 import log_pb2

from .auditor import CHECK_EVERY, brief
from .chain_judge import ChainJudge
from .peloton_world import ENDED, World
from .story import Story, Violation

LOG_ID = subjects.peloton_log("default")


class PelotonAuditor:
    """`state`: what the facts of the log say."""

    def __init__(self, server: MemoryBus, story: Story) -> None:
        self.state = State()
        self.commits = 0
        self.changed_at = 0.0
        self._inbox_seq = 0
        self._server, self._story = server, story
        self._clock = asyncio.get_running_loop().time
        self._chain = ChainJudge(log_pb2.Commit, story)

    async def follow_log(self) -> None:
        log = await self._server.read(subjects.PELOTON_LOG.name, subjects.log(LOG_ID))
        while True:
            for message in await log.batch():
                if (commit := self._chain.judge(message)) is not None:
                    self._accept(message.seq, commit)

    def _accept(self, seq: int, commit: Any) -> None:
        self.commits += 1
        self._story.tell(f"commit {seq} of {commit.epoch}: {brief(commit)}")
        if commit.decisions:
            self.changed_at = self._clock()
        if commit.now_ms < self.state.now_ms:
            raise Violation(f"commit {seq} is of {commit.now_ms} ms, the one before of {self.state.now_ms}")
        self.state.now_ms = commit.now_ms
        for decision in commit.decisions:
            if decision.inbox_seq:
                if decision.inbox_seq <= self._inbox_seq:
                    raise Violation(f"inbox message {decision.inbox_seq} is decided again in commit {seq}")
                self._inbox_seq = decision.inbox_seq
            for fact in decision.facts:
                self._apply(read_fact(fact))
        self._hosts_hold()
        if self.commits % CHECK_EVERY == 0:
            self.check()

    def _apply(self, fact: Fact) -> None:
        state = self.state
        before = {run_id: run.state for run_id, run in self._runs()}
        gang = state.gangs[fact.number] if isinstance(fact, GangAdmitted) else None
        if isinstance(fact, PlacementQueued):
            self._reserved_for_it(fact)
        evolve(state, fact)
        for run_id, run in self._runs():
            if run_id in before and not may_follow(before[run_id], run.state):
                raise Violation(f"{run_id} was {before[run_id]} and is {run.state} by {fact}")
        if gang is not None:
            self._admitted(gang)

    def _reserved_for_it(self, fact: PlacementQueued) -> None:
        reserved = self.state.reserved.get(fact.placement.hostname)
        if reserved is not None and fact.placement.tasks != ((reserved.task.id, reserved.task.mesos_id),):
            raise Violation(f"{fact.placement.hostname} is reserved for {reserved.task.mesos_id}, and takes {fact}")

    def _admitted(self, gang: Any) -> None:
        """The whole gang, and within the bounds of its pool."""
        states = {run.state for task in gang.tasks if (run := self.state.run_of(task.id, task.mesos_id)) is not None}
        if states != {READY}:
            raise Violation(f"gang {gang.number} is admitted, and its tasks are {states}")
        pool, held = self.state.pools[gang.pool_id], self.state.pools[gang.pool_id].allocation
        bounds = [(held.slack, pool.slack)] if gang.traits.revocable else [
            (held.non_slack, pool.config.amounts("limit")), (held.non_slack, pool.non_slack),
        ]  # fmt: skip
        if not gang.traits.preemptible:
            bounds.append((held.non_preemptible, pool.reservation))
        for amounts, bound in bounds:
            if not fits(amounts, bound):
                raise Violation(f"pool {pool.config.name} holds {amounts} of at most {bound}")

    def _hosts_hold(self) -> None:
        for name, runs in self.state.hosts.items():
            self._has_room(name, runs)
            ports = [port for run in runs.values() for port in run.ports]
            if len(ports) != len(set(ports)):
                raise Violation(f"{name}: a port is given twice: {ports}")

    def _has_room(self, name: str, runs: Any) -> None:
        host = self.state.known_hosts.get(name)
        room = room_left(host, (run.task for run in runs.values())) if host is not None else ()
        if any(amount < -0.01 for amount in room):
            raise Violation(f"{name} has {dict(zip(ROOM_KINDS, room, strict=False))} left")

    def _runs(self) -> list[tuple[str, Any]]:
        return [(run.task.mesos_id, run) for run in (*self.state.runs.values(), *self.state.orphans.values())]

    def check(self) -> None:
        try:
            check(self.state)
        except AssertionError as error:
            raise Violation(f"the state contradicts itself: {error}") from error

    # At the end

    async def unsettled(self, world: World) -> str:
        """The work that is still under way, as text; "": none."""
        state = self.state
        last = await self._server.last_message(subjects.PELOTON_INBOX.name, subjects.inbox(LOG_ID))
        if last is not None and last.seq > self._inbox_seq:
            return f"the inbox ends at {last.seq}, handled is {self._inbox_seq}"
        if world.events or world.new_gangs():
            return f"{len(world.events)} events and {len(world.new_gangs())} gangs are not taken"
        if state.candidates or state.placements or state.ready_count:
            return f"{len(state.candidates)} candidates, {len(state.placements)} placements, {state.ready_count} ready"
        going = {run_id: run.state for run_id, run in self._runs() if run.state not in (PENDING, RUNNING)}
        return f"tasks go on: {going}" if going else self._difference(world)

    def _difference(self, world: World) -> str:
        """Between the books of the job manager, the containers, and the state."""
        mine = {run_id: run.hostname for run_id, run in self._runs() if run.state == RUNNING}
        real = {run_id: one.host for run_id, one in world.containers.items()}
        if mine != real:
            alone, known = sorted(real.items() - mine.items()), sorted(mine.items() - real.items())
            return f"{alone} run alone, {known} are known alone"
        tracked = {run.task.mesos_id for run in self.state.runs.values()}
        wanted = {task.run_id for task in world.tasks.values() if task.state != ENDED}
        if tracked != wanted:
            return f"tasks {sorted(wanted - tracked)} are lost, {sorted(tracked - wanted)} are not wanted"
        if self.state.reserved:
            return f"hosts are reserved: {sorted(self.state.reserved)}"
        if self.state.orphans:
            return f"orphans are left: {sorted(self.state.orphans)}"
        if self.state.known_hosts.keys() != world.host_names():
            return f"hosts are {sorted(world.host_names())}, known are {sorted(self.state.known_hosts)}"
        return ""
