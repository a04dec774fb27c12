"""A scenario played on the core alone, with a clock of its own: what rmproxy, the configuration service and the event
publisher do around it is done by their own pure parts, so what is compared is what an RM would receive.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from google.protobuf.json_format import MessageToDict, ParseDict, ParseError

import remuda_config
from remuda_bus.bus import Message
from remuda_config.extra_config import check_extra_config, read_timing
from remuda_core import commands
from remuda_core.check import check, digest
from remuda_core.core import Core
from remuda_core.shell import replay
from remuda_core.wire import schema
from remuda_core.wire.codec import CommitCodec
from remuda_events.event_records import event_records_of
from remuda_proto.remuda.v1 import config_pb2, inbox_pb2, log_pb2
from remuda_proto.si.v1 import si_pb2 as si
from remuda_rmproxy.inbound import translate
from remuda_rmproxy.outbound import callbacks
from remuda_rmproxy.outbound.callback_mapping import RESPONSES
from remuda_rmproxy.records.rm_record import RmRecord
from remuda_rmproxy.sessions.registration_request import register_command

from .answer import Answer, Answers
from .dump import Watch, dump
from .recording import Json, Scenario, Step

START_MS: Final = 1_700_000_000_000
# The duration of a cycle: the harness waits that long for confirmations.
CYCLE_MS: Final = 12
# How often a scheduler that runs by itself looks again.
PASS_MS: Final = 100
EVERYTHING: Final = 1_000_000
MOST_CYCLES: Final = 10_000
PAYLOAD_LIMIT: Final = 100_000_000

REQUESTS: Final = {"node": si.NodeRequest, "application": si.ApplicationRequest, "allocation": si.AllocationRequest}
CALLBACKS: Final = {"allocation": "allocation", "application": "application", "node": "node",
                    "container": "schedulingState"}  # fmt: skip
CONFIRMED: Final = ("TIMEOUT", "PREEMPTED_BY_SCHEDULER", "PLACEHOLDER_REPLACED")
UUID_OF: Final = re.compile(r"\$uuid:([A-Za-z0-9_.-]+)(?:#(\d+))?")

COMPATIBILITY: Final = "yunikorn-1.4"


def play(scenario: Scenario, compatibility: str = COMPATIBILITY) -> Answers:
    return InProcess(scenario, compatibility).play()


def extra_config(scenario: Scenario, compatibility: str) -> dict[str, str]:
    """The content of the RM's registration."""
    options = scenario.options
    extra = {
        **scenario.extra_config,
        "compatibility": compatibility,
        "timing.starting": f"{options.starting_timeout_ms}ms",
        "timing.completing": f"{options.completing_timeout_ms}ms",
        "timing.reservation_delay": f"{options.reservation_delay_ms}ms",
        "timing.preemption_attempt": f"{options.preempt_attempt_ms}ms",
    }
    if options.predicate_fail:
        extra["predicates"] = "true"
    if options.preempt_pred_fail:
        extra["preemption_predicates"] = "true"
    return extra


class Refusal(Exception):
    """The reply to the call itself."""


class InProcess:
    """Raises AssertionError when an invariant of the core does not hold, or when a replay of the log gives another
    state."""

    def __init__(self, scenario: Scenario, compatibility: str) -> None:
        self.scenario = scenario
        self.core = Core(scenario.rm_id)
        self.standby = Core(scenario.rm_id)
        self.now_ms = START_MS
        self.registered = False
        self.answer = Answer(-1, "register")
        self._watch = Watch()
        self._uuids: dict[str, list[str]] = {}
        self._requests = 0
        self._due: list[tuple[int, Json]] = []  # confirmations the RM will send
        self._received = 0  # callbacks so far, those about waiting asks not counted
        self._extra = extra_config(scenario, compatibility)

    def play(self) -> Answers:
        answers = Answers()
        try:
            self.register()
        except Refusal as refusal:
            answers.refused = str(refusal)
        before = self.answer
        for step in self.scenario.steps:
            self.answer = Answer(step.number, step.action, step.label)
            if before.number < 0:  # what came of the registration comes with the first step
                self.answer.callbacks, self.answer.events = before.callbacks, before.events
            self.take(step)
            answers.steps.append(self.answer)
            before = self.answer
        check(self.core.state, self.core.index)
        assert digest(self.core.state) == digest(self.standby.state), "a replay of the log gives another state"
        if self.registered:
            answers.final = dump(self.core.state, self._watch)
        return answers

    # Actions of the RM

    def register(self) -> None:
        scenario = self.scenario
        configuration = self._configuration(scenario.config, self._extra)
        request = si.RegisterResourceManagerRequest(
            rmID=scenario.rm_id, policyGroup=scenario.policy_group, version=scenario.version,
            buildInfo=scenario.build_info, extraConfig=self._extra,
        )  # fmt: skip
        facts = self._command(register_command(request, configuration, "", RmRecord(scenario.rm_id)))
        refused = [fact.registration_refused.reason for fact in facts if fact.HasField("registration_refused")]
        if refused:
            raise Refusal(refused[0])
        self.registered = True

    def take(self, step: Step) -> None:
        if step.action in REQUESTS or step.action == "config":
            try:
                if not self.registered:
                    raise Refusal(f"{self.scenario.rm_id} is not registered")
                if step.action == "config":
                    self._configure(step)
                else:
                    self._request(step.action, json.dumps(step.argument))
            except Refusal as refusal:
                self.answer.error = str(refusal)
            self._until_quiet()
        elif step.action == "wait_ms":
            self._pass(int(step.argument))
            self._until_quiet()
        elif step.action == "schedule":
            if self.scenario.manual:
                self._schedule(int(step.argument))
            self._until_quiet()
        elif step.action == "clean_queues":
            self._handle("CleanQueues", commands.CleanQueues())
            self._until_quiet()
        elif step.action == "dump" and self.registered:
            self.answer.dump = dump(self.core.state, self._watch)

    def _request(self, kind: str, text: str) -> None:
        written = json.loads(UUID_OF.sub(self._uuid_of, text))
        message = REQUESTS[kind]()
        try:
            ParseDict(written, message)
        except ParseError as error:
            raise Refusal(str(error)) from None
        if written.get("rmID", self.scenario.rm_id) != self.scenario.rm_id:
            raise Refusal(f"{written['rmID']} is not registered")
        message.rmID = self.scenario.rm_id
        self._send(kind, message)

    def _send(self, kind: str, message: Any) -> None:
        self._requests += 1
        sent = Message(f"si.v1.rm.x.{kind}", message.SerializeToString(), seq=self._requests)
        try:
            payloads = translate.commands_of(sent, self.scenario.rm_id, PAYLOAD_LIMIT)
        except translate.InvalidRequest as reason:
            raise Refusal(str(reason)) from None
        for payload in payloads:
            self._command(inbox_pb2.Command.FromString(payload))
        self._follow()

    def _uuid_of(self, match: re.Match[str]) -> str:
        key, index = match.groups()
        known = self._uuids.get(key)
        if not known:
            return f"unknown-{key}"
        return known[-1] if index is None else known[min(int(index), len(known) - 1)]

    def _configure(self, step: Step) -> None:
        extra = {**self._extra, **step.extra_config}
        configuration = self._configuration(str(step.argument), extra)
        self._requests += 1
        [payload] = translate.configure(self.scenario.rm_id, self._requests, "", configuration, PAYLOAD_LIMIT)
        facts = self._command(inbox_pb2.Command.FromString(payload))
        self._follow()
        for fact in facts:
            if fact.HasField("configuration_refused"):
                raise Refusal(fact.configuration_refused.reason)

    def _configuration(self, text: str, extra: dict[str, str]) -> config_pb2.Configuration:
        try:
            configuration = remuda_config.load(text, "registration", extra["compatibility"])
        except remuda_config.Invalid as error:
            raise Refusal("; ".join(map(str, error.problems))) from None
        if problems := check_extra_config(extra):
            raise Refusal("; ".join(map(str, problems)))
        configuration.timing.CopyFrom(read_timing(extra)[0])
        return configuration

    # Actions of the core

    def _command(self, message: inbox_pb2.Command) -> list[log_pb2.Fact]:
        codec = CommitCodec()
        name, asked = codec.read(message)
        return self._decide(codec, name, asked)

    def _handle(self, name: str, command: commands.Command) -> list[log_pb2.Fact]:
        return self._decide(CommitCodec(), name, [command])

    def _decide(self, codec: CommitCodec, name: str, asked: Iterable[commands.Command]) -> list[log_pb2.Fact]:
        facts = self.core.handle_all(asked, self.now_ms)
        self._watch.look(self.core.state)
        commit = log_pb2.Commit(now_ms=self.core.state.now_ms)
        decision = commit.decisions.add(command=name)
        codec.write(facts, decision)
        replay.apply(self.standby, schema.Commit.FromString(commit.SerializeToString()))
        self._receive(commit)
        return list(decision.facts)

    def _receive(self, commit: log_pb2.Commit) -> None:
        """The RM's callbacks, and what it does by itself on some of them; the events."""
        for callback in callbacks.callbacks_of(commit, self.scenario.rm_id, PAYLOAD_LIMIT):
            if callback.kind not in CALLBACKS:
                continue
            kind = RESPONSES.get(callback.kind, si.UpdateContainerSchedulingStateRequest)
            response = MessageToDict(kind.FromString(callback.payload), preserving_proto_field_name=True)
            self.answer.callbacks.append({"cb": CALLBACKS[callback.kind], "msg": response})
            self._received += callback.kind != "container"
            if callback.kind == "allocation":
                self._react(response)
        for record in event_records_of(commit):
            event = MessageToDict(si.EventRecord.FromString(record), preserving_proto_field_name=True)
            event.pop("timestampNano", None)
            self.answer.events.append(event)

    def _react(self, response: Json) -> None:
        for new in response.get("new", ()):
            self._uuids.setdefault(new.get("allocationKey", ""), []).append(new["UUID"])
        if self.scenario.options.no_confirm:
            return
        for release in response.get("released", ()):
            if release.get("terminationType") in CONFIRMED:
                fields = ("partitionName", "applicationID", "UUID", "terminationType", "message")
                confirmation = {key: release[key] for key in fields if key in release}
                self._due.append((self.now_ms + self.scenario.options.confirm_delay_ms, confirmation))

    def _follow(self) -> None:
        """The reactions to the last facts, at the same time."""
        while self._due and self._due[0][0] <= self.now_ms:
            _, confirmation = self._due.pop(0)
            request = si.AllocationRequest(rmID=self.scenario.rm_id)
            request.releases.allocationsToRelease.append(ParseDict(confirmation, si.AllocationRelease()))
            self._send("allocation", request)
        if not self.scenario.manual and self.registered:
            while self._answered(self._handle("Schedule", commands.Schedule(EVERYTHING))):
                pass
            if self._due and self._due[0][0] <= self.now_ms:
                self._follow()

    def _answered(self, facts: list[log_pb2.Fact]) -> bool:
        """Whether the RM was asked something; it has answered then."""
        options = self.scenario.options
        questions = [
            (getattr(fact, kind), failures)
            for fact in facts
            for kind, failures in (
                ("predicate_asked", options.predicate_fail),
                ("replacement_asked", options.predicate_fail),
                ("preemption_asked", options.preempt_pred_fail),
            )
            if fact.WhichOneof("fact") == kind
        ]
        answers = inbox_pb2.PredicateAnswers()
        for question, failures in questions:
            refused = fails(failures, question.allocation_key, question.node_id)
            answers.answers.add(partition=question.partition, question=question.question, success=not refused)
        if questions:
            self._command(inbox_pb2.Command(predicate_answers=answers))
        return bool(questions)

    def _schedule(self, cycles: int) -> None:
        for _ in range(cycles if cycles >= 0 else MOST_CYCLES):
            before = len(self.answer.callbacks)
            while self._answered(self._handle("Schedule", commands.Schedule(1))):
                if any(map(is_productive, self.answer.callbacks[before:])):
                    break
            productive = any(map(is_productive, self.answer.callbacks[before:]))
            self.answer.cycles += 1
            self.answer.productive += productive
            self._follow()
            self._pass(CYCLE_MS)
            if cycles < 0 and not productive:
                break

    # Time

    def _pass(self, ms: int) -> None:
        """So much time, and everything that is due in it."""
        end_ms = self.now_ms + ms
        while (at_ms := self._next_ms(end_ms)) is not None:
            self._advance(at_ms)
        self.now_ms = end_ms

    def _until_quiet(self) -> None:
        """Until no callback has come for `quiet_ms`."""
        end_ms = self.now_ms + self.scenario.options.quiet_ms
        latest_ms = self.now_ms + self.scenario.options.max_step_ms
        while (at_ms := self._next_ms(min(end_ms, latest_ms))) is not None:
            received = self._received
            self._advance(at_ms)
            if self._received > received:
                end_ms = self.now_ms + self.scenario.options.quiet_ms
        self.now_ms = min(end_ms, latest_ms)

    def _next_ms(self, end_ms: int) -> int | None:
        """When something is due next, up to then."""
        times = [at_ms for at_ms, _ in self._due[:1]]
        if (timer_ms := self.core.state.timers.next_ms()) is not None:
            times.append(timer_ms)
        if not self.scenario.manual:
            times.append(self.now_ms + PASS_MS)
        at_ms = max(min(times), self.now_ms) if times else None
        return at_ms if at_ms is not None and at_ms <= end_ms else None

    def _advance(self, at_ms: int) -> None:
        self.now_ms = at_ms
        if self.registered:
            self._handle("Tick", commands.Tick())
        self._follow()


def fails(failures: Mapping[str, Sequence[str]], key: str, node_id: str) -> bool:
    """The answer of the RM's predicates, by the options of the scenario."""
    return any(node_id in nodes or "*" in nodes for nodes in (failures.get(key, ()), failures.get("*", ())))


def is_productive(callback: Json) -> bool:
    """It tells of an allocation or of the beginning of a replacement."""
    response = callback["msg"] if callback["cb"] == "allocation" else {}
    return bool(response.get("new")) or any(
        release.get("terminationType") == "PLACEHOLDER_REPLACED" for release in response.get("released", ())
    )
