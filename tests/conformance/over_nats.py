"""A scenario played over the whole system in real time: an RM on plain NATS, rmproxy, configuration, core and events as
processes on an embedded nats-server. The state at the end is rebuilt from the log, as a standby does.

The system schedules by itself and as much as it can at once, so only what is there in the end is compared.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from google.protobuf.json_format import MessageToDict, ParseDict, ParseError

from remuda.local.system import Layout, System
from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, Message, Refused
from remuda_bus.nats import connect
from remuda_core.check import check
from remuda_core.core import Core
from remuda_core.shell import replay
from remuda_core.wire import schema
from remuda_proto.si.v1 import si_pb2 as si
from remuda_replication.log import LogReader
from tests.patience import READY_S

from .answer import Answer, Answers
from .dump import Watch, dump
from .in_process import CONFIRMED, REQUESTS, UUID_OF, extra_config, fails
from .recording import Json, Scenario, Step

CLEANING_S: Final = 11.0  # the cleaner comes every 10 s
LOOK_EVERY_S: Final = 0.05


def play(scenario: Scenario, compatibility: str) -> Answers:
    return asyncio.run(_play(scenario, compatibility))


async def _play(scenario: Scenario, compatibility: str) -> Answers:
    async with whole_system() as bus:
        return await OverNats(scenario, compatibility, bus).play()


@asynccontextmanager
async def whole_system(grpc_port: int | None = None) -> AsyncIterator[Bus]:
    """A system on this machine, and a connection to it. `grpc_port`: that of its gRPC front end, 0 for any; None: it
    has none."""
    with tempfile.TemporaryDirectory(prefix="remuda-conformance-") as folder:
        async with System(Layout(Path(folder), grpc_port=grpc_port, log_level="error")) as system:
            await system.ready(READY_S)
            bus = await connect(system.url, "conformance", timeout_s=10)
            try:
                yield bus
            finally:
                await bus.close()


class OverNats:
    def __init__(self, scenario: Scenario, compatibility: str, bus: Bus) -> None:
        self.scenario = scenario
        self._bus = bus
        self._core = Core(scenario.rm_id)
        self._watch = Watch()
        self._uuids: dict[str, list[str]] = {}
        self._extra = extra_config(scenario, compatibility)
        self._changed_at = 0.0  # when the last callback came, by the loop's clock
        self.answer = Answer(-1, "register")

    async def play(self) -> Answers:
        answers = Answers()
        if self._extra.get("predicates"):
            await self._bus.serve(subjects.question(self.scenario.rm_id, "predicates"), self._predicate, "predicates")
        try:
            await self._register()
        except Refused as refused:
            answers.refused = str(refused)
        following = [] if answers.refused else [asyncio.create_task(self._follow()), asyncio.create_task(self._hear())]
        for step in self.scenario.steps:
            self.answer = Answer(step.number, step.action, step.label)
            if answers.refused and step.action in (*REQUESTS, "config"):
                self.answer.error = answers.refused
            elif not answers.refused:
                await self._take(step)
            answers.steps.append(self.answer)
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)
        check(self._core.state, self._core.index)
        if not answers.refused:
            answers.final = dump(self._core.state, self._watch)
        return answers

    async def _register(self) -> None:
        request = self._registration()
        await self._bus.request(subjects.register(self.scenario.rm_id), request.SerializeToString(), timeout_s=20)

    def _registration(self) -> si.RegisterResourceManagerRequest:
        scenario = self.scenario
        return si.RegisterResourceManagerRequest(
            rmID=scenario.rm_id, policyGroup=scenario.policy_group, version=scenario.version, config=scenario.config,
            buildInfo=scenario.build_info, extraConfig=self._extra,
        )  # fmt: skip

    async def _take(self, step: Step) -> None:
        self._changed_at = asyncio.get_running_loop().time()
        if step.action in REQUESTS:
            await self._request(step.action, json.dumps(step.argument))
        elif step.action == "config":
            update = si.UpdateConfigurationRequest(
                config=str(step.argument), extraConfig={**self._extra, **step.extra_config}
            )
            await self._send("configuration", update)
        elif step.action == "wait_ms":
            await asyncio.sleep(step.argument / 1_000)
        elif step.action == "clean_queues":
            await asyncio.sleep(CLEANING_S)
        elif step.action == "dump":
            self.answer.dump = dump(self._core.state, self._watch)
            return
        await self._quiet()

    async def _quiet(self) -> None:
        """Until no callback has come for `quiet_ms`."""
        clock = asyncio.get_running_loop().time
        latest = clock() + self.scenario.options.max_step_ms / 1_000
        while clock() < min(self._changed_at + self.scenario.options.quiet_ms / 1_000, latest):  # noqa: ASYNC110 - it is time itself
            await asyncio.sleep(LOOK_EVERY_S)

    async def _request(self, kind: str, text: str) -> None:
        written = json.loads(UUID_OF.sub(lambda match: self._uuid_of(*match.groups()), text))
        message = REQUESTS[kind]()
        try:
            ParseDict(written, message)
        except ParseError as error:
            self.answer.error = str(error)
            return
        if message.rmID not in ("", self.scenario.rm_id):
            self.answer.error = f"{message.rmID} is not registered"
            return
        await self._send(kind, message)

    def _uuid_of(self, key: str, index: str | None) -> str:
        known = self._uuids.get(key)
        if not known:
            return f"unknown-{key}"
        return known[-1] if index is None else known[min(int(index), len(known) - 1)]

    async def _send(self, kind: str, message: Any) -> None:
        message.rmID = self.scenario.rm_id
        await self._bus.append(subjects.request(self.scenario.rm_id, kind), message.SerializeToString())

    # Callbacks, and the reactions of the RM

    async def _hear(self) -> None:
        reader = await self._bus.read(subjects.CALLBACKS.name, subjects.callback(self.scenario.rm_id, "allocation"))
        while True:
            for message in await reader.batch():
                await self._take_response(si.AllocationResponse.FromString(message.payload))

    async def _take_response(self, message: si.AllocationResponse) -> None:
        self._changed_at = asyncio.get_running_loop().time()
        response = MessageToDict(message, preserving_proto_field_name=True)
        self.answer.callbacks.append({"cb": "allocation", "msg": response})
        await self._react(response)

    async def _react(self, response: Json) -> None:
        for new in response.get("new", ()):
            self._uuids.setdefault(new.get("allocationKey", ""), []).append(new["UUID"])
        if self.scenario.options.no_confirm:
            return
        request = si.AllocationRequest()
        for release in response.get("released", ()):
            if release.get("terminationType") in CONFIRMED:
                request.releases.allocationsToRelease.append(ParseDict(release, si.AllocationRelease()))
        if request.releases.allocationsToRelease:
            await asyncio.sleep(self.scenario.options.confirm_delay_ms / 1_000)
            await self._send("allocation", request)

    async def _predicate(self, message: Message) -> bytes:
        args = si.PredicatesArgs.FromString(message.payload)
        if fails(self.scenario.options.predicate_fail, args.allocationKey, args.nodeID):
            raise Refused("the scenario says so")
        return b""

    # The standby

    async def _follow(self) -> None:
        reader = await LogReader.open(self._bus, self.scenario.rm_id, commit_class=schema.Commit)
        while True:
            try:
                entries = await reader.batch()
            except BusError:
                await asyncio.sleep(LOOK_EVERY_S)
                continue
            for entry in entries:
                replay.apply(self._core, entry.commit)
                self._watch.look(self._core.state)
                if entry.commit.decisions:
                    self._changed_at = asyncio.get_running_loop().time()
