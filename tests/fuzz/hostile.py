"""A hostile RM of the fuzzer: what it does next, out of its seed."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random

import nats.errors
from google.protobuf.message import Message
from nats.aio.client import Client
from nats.aio.msg import Msg

from remuda_bus import subjects
from remuda_operations.queries.fields import OF_CORE
from remuda_proto.remuda.v1 import config_pb2
from remuda_proto.si.v1 import si_pb2 as si
from tests.tenants.hostile import Hostile, Refusal, Reply

from .messages import Maker

REQUESTS: dict[str, type[Message]] = {
    "node": si.NodeRequest,
    "application": si.ApplicationRequest,
    "allocation": si.AllocationRequest,
    "configuration": si.UpdateConfigurationRequest,
}
CONFIGURATIONS = (
    "partitions: [{name: default, queues: [{name: a}, {name: b}]}]",
    "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: a}, {name: b}]}]}, {name: p2}]",
    "partitions: [{name: default, placementrules: [{name: user, create: true, filter: {users: ['(a|a)+b']}}]}]",
    "partitions: [{name: default, nodesortpolicy: {type: binpacking}, preemption: {enabled: true}, queues: [{name: a,"
    " resources: {max: {vcore: 5}}, limits: [{limit: x, users: ['*'], maxapplications: 1}]}]}]",
)
BROKEN = (
    "",
    "{",
    "- - -",
    "partitions: 7",
    "a: &a [*a]",
    "\x00",
    "partitions: [" + "{name: p}, " * 500 + "]",
    "? " * 999,
)
HEADERS = (
    subjects.REGISTRATION, subjects.LOG_SEQ, subjects.LOG_FACT, subjects.LOG_HASH, subjects.AFTER, subjects.TRACEPARENT,
    subjects.SERVICE_ERROR, subjects.SERVICE_ERROR_CODE, "X-Odd",
)  # fmt: skip
ODD_HEADERS = ("", "0", "1", "-1", "x", "9" * 400, "1.5", "٣", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "é" * 50)
ACKS = (b"+ACK", b"-NAK", b"+TERM", b"+WPI", b"+NXT", b"", b"\xff\xfe", b"-NAK {x", b'+NXT {"batch":99999999}')
QUERIES = (
    "queues",
    "nodes",
    "applications",
    "rejections",
    "allocations",
    "usage",
    "explain",
    "stats",
    "digest",
    "asks",
    "actions",
    "guests",
    "preview",
    "whatif",
    "overview",
    "none",
)
FLOOD = (20, 100, 300)  # questions at once
FLOOD_BYTES = 1_000  # of each: with more, the server drops a connection that does not keep up (64 MB)
SILENT_S = (1.0, 12.0)  # longer than questions are open
ANSWER_WITHIN_S = 15.0
UUIDS_KNOWN = 200
PREDICATE_PAYLOADS = (b"", b"\xff" * 10, b"\x08\x01", b"\x00" * 1_000_000)


class FuzzingRm(Hostile):
    """`sent`: how often it did what. `accepted`: sequences in REQUESTS. `unanswered`: requests without a reply."""

    def __init__(self, client: Client, rm_id: str, seed: str, pace_s: float) -> None:
        super().__init__(client, rm_id)
        self.random = Random(seed)
        self.maker = Maker(self.random, rm_id)
        self.sent: Counter[str] = Counter()
        self.told: Counter[str] = Counter()
        self.accepted: list[int] = []
        self.unanswered: list[str] = []
        self._pace_s = pace_s

        self._answers_from = 0.0  # until then it is silent

    async def run(self) -> None:
        await self.client.subscribe(subjects.question(self.rm_id, "predicates"), cb=self._answer_oddly)
        await self.client.subscribe(subjects.question(self.rm_id, "preemption_predicates"), cb=self._answer_oddly)
        await self._register()
        acts, weights = zip(*ACTS, strict=True)
        while True:
            act: Callable[[FuzzingRm], Awaitable[None]] = self.random.choices(acts, weights)[0]
            self.sent[act.__name__.strip("_").replace("_", " ")] += 1
            try:
                await act(self)
            except nats.errors.MaxPayloadError:  # its client does not send what no server takes
                self.told["too large"] += 1
            await asyncio.sleep(self.random.expovariate(1 / self._pace_s))

    async def _answer_oddly(self, question: Msg) -> None:
        if time.monotonic() < self._answers_from:
            return
        for _ in range(self.random.choice((0, 1, 1, 1, 3))):
            payload = self.random.choice(PREDICATE_PAYLOADS)
            await self.client.publish(question.reply, payload, headers=self._odd_headers())
        self.sent["answer a question"] += 1

    def _odd_headers(self) -> dict[str, str] | None:
        if self.random.random() < 0.6:
            return None
        names = self.random.sample(HEADERS, self.random.randint(1, 3))
        return {name: self.random.choice(ODD_HEADERS) for name in names}

    async def _asks(
        self, subject: str, payload: bytes, headers: dict[str, str] | None = None
    ) -> Reply | Refusal | None:
        answer = await self.ask(subject, payload, headers, ANSWER_WITHIN_S)
        if answer is None:
            self.unanswered.append(f"{subject[:100]} with {len(payload)} bytes, headers {str(headers)[:100]}")
            self.told["no answer"] += 1
        elif isinstance(answer, Refusal):
            self.told[f"refused {answer.code}"] += 1
        else:
            self.told["answered"] += 1
        return answer

    async def _request(self, kind: str, payload: bytes, headers: dict[str, str] | None = None) -> None:
        seq = await self.send(kind, payload, headers)
        if seq is None:
            self.told["not taken by the server"] += 1
        else:
            self.accepted.append(seq)

    # Actions

    async def _register(self) -> None:
        declared = {"resync": self.random.choice(("report", "report", "replay"))}
        for name in ("predicates", "preemption_predicates", "events"):
            if self.random.random() < 0.3:
                declared[name] = "true"
        for config in (self.random.choice(CONFIGURATIONS), CONFIGURATIONS[0]):
            request = si.RegisterResourceManagerRequest(rmID=self.rm_id, config=config, extraConfig=declared)
            if isinstance(await self._asks(subjects.register(self.rm_id), request.SerializeToString()), Reply):
                return

    async def _register_wrongly(self) -> None:
        request = self.maker.sensible(si.RegisterResourceManagerRequest(config=self.random.choice(CONFIGURATIONS)))
        self.maker.wrong(request, self.random.randint(1, 3))
        payload = request.SerializeToString()
        if self.random.random() < 0.3:
            payload = self.maker.scrambled(payload)
        await self._asks(subjects.register(self.rm_id), payload, self._odd_headers())

    async def _deregister(self) -> None:
        await self._asks(subjects.deregister(self.rm_id), self.random.randbytes(3), self._odd_headers())
        await self._register()

    async def _work(self) -> None:
        """Sensible requests, which bring the scheduler into many states."""
        for kind in ("node", "application", "allocation"):
            await self._request(kind, self.maker.sensible(REQUESTS[kind](), items=8).SerializeToString())

    async def _say_something_wrong(self) -> None:
        kind = self.random.choice(list(REQUESTS))
        message = self.maker.sensible(REQUESTS[kind]())
        payload = self.maker.wrong(message, self.random.randint(1, 4)).SerializeToString()
        await self._request(kind, payload, self._odd_headers())

    async def _scramble(self) -> None:
        kind = self.random.choice(list(REQUESTS))
        payload = self.maker.sensible(REQUESTS[kind]()).SerializeToString()
        await self._request(kind, self.maker.scrambled(payload), self._odd_headers())

    async def _babble(self) -> None:
        kind = self.random.choice(list(REQUESTS))
        await self._request(kind, self.random.randbytes(self.random.choice((0, 1, 10, 1_000, 1_000_000))))

    async def _configure(self) -> None:
        text = self.random.choice((*CONFIGURATIONS, *BROKEN))
        await self._request(
            "configuration", si.UpdateConfigurationRequest(rmID=self.rm_id, config=text).SerializeToString()
        )

    async def _beat(self) -> None:
        for _ in range(self.random.choice((1, 1, 100))):
            await self.heartbeat(self.random.randbytes(self.random.choice((0, 5))), self._odd_headers())

    async def _query(self) -> None:
        kind = self.random.choice(QUERIES[:-1])
        await self._asks_if_led(subjects.core_query(self.rm_id, kind), self._arguments(kind))

    def _arguments(self, kind: str = "") -> bytes:
        """For a kind, mostly fields that it knows: others are refused at once."""
        odd: tuple[object, ...] = (
            None,
            0,
            -1,
            2**70,
            1.5,
            [],
            {},
            "x",
            "x" * 300_000,
            ["default", "a"],
            [[[]]],
            True,
            self.maker.text(),
        )
        any_kind = "limit", "after", "application", "queue", "key", "node", "user", "rm"
        known = OF_CORE[kind] if kind and self.random.random() < 0.9 else any_kind
        names = self.random.sample(known, min(3, len(known)))
        payload = json.dumps({name: self.random.choice(odd) for name in names}).encode()
        return self.random.choice((payload, payload, b"", b"[" * 100_000, self.random.randbytes(30)))

    async def _asks_if_led(self, subject: str, payload: bytes) -> None:
        """While no core leads the RM, there are no responders."""
        answer = await self.ask(subject, payload, self._odd_headers(), ANSWER_WITHIN_S)
        self.told["answered" if answer is not None else "nobody listens"] += 1

    async def _query_others(self) -> None:
        subject = self.random.choice((
            subjects.CURRENT_CONFIGURATIONS, subjects.core_process("core-1"), subjects.lease_holder("core.nobody"),
            "remuda.api.core.nobody.stats", subjects.lease_holder(subjects.RMPROXY_LEASE),
        ))  # fmt: skip
        await self._asks_if_led(subject, self._arguments())

    async def _flood_with_questions(self) -> None:
        """To cores and to its leader. It reads no answer."""
        inbox, count = self.client.new_inbox(), self.random.choice(FLOOD)
        subject_of = self.random.choice((subjects.core_query, subjects.leader_query))
        kind = self.random.choice(QUERIES[:-1])
        arguments = self._arguments(kind)
        if len(arguments) > FLOOD_BYTES or self.random.random() < 0.4:
            arguments = json.dumps({"min_log_seq": self.random.choice((2**40, 2**62))}).encode()
        for _ in range(count):
            await self.client.publish(subject_of(self.rm_id, kind), arguments, reply=inbox)

    async def _be_silent(self) -> None:
        """It answers no questions of the scheduler for a while."""
        self._answers_from = time.monotonic() + self.random.uniform(*SILENT_S)

    async def _resolve(self) -> None:
        question = config_pb2.ResolveConfiguration(rm_id=self.rm_id, config=self.random.choice(CONFIGURATIONS + BROKEN))
        if self.random.random() < 0.5:
            self.maker.wrong(question)
        payload = question.SerializeToString()
        if self.random.random() < 0.3:
            payload = self.maker.scrambled(payload)
        await self._asks(subjects.RESOLVE_CONFIGURATION, payload, self._odd_headers())

    async def _acknowledge_oddly(self) -> None:
        """Takes callbacks, and says something about them; or about callbacks that never were."""
        durable = subjects.callback_consumer(self.rm_id)
        inbox = self.client.new_inbox()
        subscription = await self.client.subscribe(inbox, max_msgs=20)
        ask = f"$JS.API.CONSUMER.MSG.NEXT.{subjects.CALLBACKS.name}.{durable}"
        asked = json.dumps({"batch": 10, "no_wait": True}).encode()
        await self.client.publish(ask, asked, reply=inbox)
        try:
            for _ in range(10):
                message = await subscription.next_msg(timeout=0.1)
                self._learn(message)
                if message.reply:
                    await self.client.publish(message.reply, self.random.choice(ACKS))
        except Exception:  # noqa: BLE001 - it is over, or the server did not like it
            pass
        await self.client.publish(f"$JS.ACK.{subjects.CALLBACKS.name}.{durable}.1.1.1.1.1", self.random.choice(ACKS))
        await subscription.unsubscribe()

    def _learn(self, message: Msg) -> None:
        if message.subject.endswith(".allocation"):
            response = si.AllocationResponse.FromString(message.data)
            self.maker.known["UUID"] = (self.maker.known["UUID"] + [one.UUID for one in response.new])[-UUIDS_KNOWN:]

    async def _odd_subjects(self) -> None:
        """Under names that no RM may have."""
        name = self.random.choice(("é", "a" * 300, "rm\x7f", "$SYS", "rm,1", "%", self.rm_id.upper()))
        for verb in ("register", "deregister", "heartbeat", *REQUESTS):
            payload = self.maker.sensible(si.RegisterResourceManagerRequest(), items=1).SerializeToString()
            await self.client.publish(f"si.v1.rm.{name}.{verb}", payload, reply=self.client.new_inbox())


ACTS: tuple[tuple[Callable[[FuzzingRm], Awaitable[None]], float], ...] = (
    (FuzzingRm._work, 30), (FuzzingRm._say_something_wrong, 30), (FuzzingRm._scramble, 15), (FuzzingRm._babble, 3),
    (FuzzingRm._configure, 4), (FuzzingRm._beat, 5), (FuzzingRm._query, 10), (FuzzingRm._query_others, 3),
    (FuzzingRm._resolve, 5), (FuzzingRm._acknowledge_oddly, 8), (FuzzingRm._odd_subjects, 1),
    (FuzzingRm._flood_with_questions, 0.3), (FuzzingRm._be_silent, 0.5),
    (FuzzingRm._register_wrongly, 3), (FuzzingRm._register, 2), (FuzzingRm._deregister, 0.5),
)  # fmt: skip
