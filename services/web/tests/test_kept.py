"""Answers and rows that are kept for moments: how old they may be, who shares them, and how many there are."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Awaitable, Callable

import pytest
from httpx import ASGITransport, AsyncClient, Response
from starlette.types import Message, Receive, Scope, Send

from remuda_operations.operator_api.messages import READER, Caller
from remuda_operations.operators import Operator
from remuda_web import limits
from remuda_web.callers import set_caller
from remuda_web.kept import Kept
from remuda_web.kept_answers import KeptAnswers
from remuda_web.kept_source import KeptSource
from remuda_web.source import Row


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def reads(clock: Clock, takes_s: float = 0.0) -> Callable[[], Awaitable[float]]:
    """The time at which the reading has begun."""

    async def read() -> float:
        began = clock.now
        clock.now += takes_s
        return began

    return read


def kept(clock: Clock, most: int = 100, weight: int | None = 1) -> Kept[float]:
    return Kept(most, lambda _: weight, clock)


async def test_a_value_is_read_again_when_its_time_is_over() -> None:
    clock = Clock()
    values = kept(clock)
    assert await values.get("a", reads(clock)) == 0.0
    clock.now = limits.KEPT_S - 0.01
    assert await values.get("a", reads(clock)) == 0.0
    clock.now = limits.KEPT_S
    assert await values.get("a", reads(clock)) == limits.KEPT_S


async def test_what_takes_long_is_kept_longer_but_never_beyond_the_bound() -> None:
    clock = Clock()
    values = kept(clock)
    await values.get("a", reads(clock, 0.1))
    clock.now = 0.1 + 0.1 * limits.KEPT_REST - 0.01
    assert await values.get("a", reads(clock)) == 0.0
    for takes_s in (0.5, 1.0, 1.9, 5.0):
        began = clock.now = clock.now + 100
        await values.get(takes_s, reads(clock, takes_s))
        clock.now = began + limits.KEPT_AT_MOST_S
        assert await values.get(takes_s, reads(clock)) == clock.now, takes_s


async def test_a_value_is_as_old_as_what_it_is_made_of() -> None:
    """Read at 0, kept, and put into another value shortly before it is too old: together they are not older."""
    clock = Clock()
    rows, answers = kept(clock), kept(clock)
    await rows.get("rows", reads(clock, 1.0))
    clock.now = limits.KEPT_AT_MOST_S - 0.1

    async def made() -> float:
        return sum(await asyncio.gather(rows.get("rows", reads(clock)), rows.get("more", reads(clock))))

    before = await answers.get("answer", made)
    clock.now = limits.KEPT_AT_MOST_S - 0.01
    assert await answers.get("answer", made) == before
    clock.now = limits.KEPT_AT_MOST_S
    assert await answers.get("answer", made) > before


async def test_who_asks_meanwhile_gets_the_same_reading_and_nobody_ends_it_for_others() -> None:
    values, go, count = kept(Clock()), asyncio.Event(), 0

    async def read() -> float:
        nonlocal count
        count += 1
        await go.wait()
        return float(count)

    impatient, *others = [asyncio.create_task(values.get("a", read)) for _ in range(5)]
    await asyncio.sleep(0)
    impatient.cancel()
    go.set()
    assert (await asyncio.gather(*others), count) == ([1.0] * 4, 1)


async def test_nothing_is_read_any_more_when_all_who_asked_have_gone_away() -> None:
    """Also what it is made of."""
    values, parts, steps = kept(Clock()), kept(Clock()), 0

    async def read() -> float:
        nonlocal steps
        while True:
            steps += 1
            await asyncio.sleep(0)

    async def made() -> float:
        return await parts.get("part", read)

    asked = [asyncio.create_task(values.get("a", made)) for _ in range(3)]
    for _ in range(10):
        await asyncio.sleep(0)
    for one in asked:
        one.cancel()
    await asyncio.wait(asked)
    for _ in range(5):
        await asyncio.sleep(0)
    before = steps
    for _ in range(5):
        await asyncio.sleep(0)
    assert steps == before > 0
    assert await values.get("a", reads(Clock())) == 0.0


async def test_a_failure_is_for_those_who_wait_and_not_kept() -> None:
    values = kept(Clock())

    async def fail() -> float:
        raise ValueError("down")

    found = await asyncio.gather(*(values.get("a", fail) for _ in range(3)), return_exceptions=True)
    assert [str(one) for one in found] == ["down"] * 3
    assert await values.get("a", reads(Clock())) == 0.0


async def test_what_is_forgotten_is_read_anew_also_what_is_being_read() -> None:
    clock = Clock()
    values, go = kept(clock), asyncio.Event()

    async def before() -> float:
        await go.wait()
        return 1.0

    first = asyncio.create_task(values.get("a", before))
    await asyncio.sleep(0)
    values.forget()
    clock.now = 0.1
    assert await values.get("a", reads(clock)) == 0.1
    go.set()
    assert await first == 1.0
    assert await values.get("a", reads(clock)) == 0.1


async def test_weights_are_bounded_and_old_entries_are_dropped() -> None:
    clock = Clock()
    values = kept(clock, most=3)
    for number in range(5):
        await values.get(number, reads(clock))
    assert (list(values._entries), values._sum) == ([2, 3, 4], 3)
    clock.now = 10.0
    await values.get("new", reads(clock))
    assert (list(values._entries), values._sum) == (["new"], 1)
    for weight in (None, 4):  # not to be kept, and too large
        values = kept(clock, most=3, weight=weight)
        await values.get("a", reads(clock))
        assert (values._entries, values._sum) == ({}, 0)


class Source:
    """Counts how often it is read."""

    def __init__(self) -> None:
        self.count = 0

    async def rows(self, rm: str, kind: str, **filters: str) -> list[Row]:
        self.count += 1
        return [{"kind": kind, **filters}]


async def test_rows_with_other_filters_are_other_rows() -> None:
    source = Source()
    kept_source = KeptSource(source)  # type: ignore[arg-type]
    for _ in range(2):
        for filters in ({}, {"node": "n1"}, {"application": "n1"}):
            assert await kept_source.rows("rm", "allocations", **filters) == [{"kind": "allocations", **filters}]
    assert source.count == 3
    kept_source.forget()
    await kept_source.rows("rm", "allocations")
    assert source.count == 4


class App:
    """Answers with the number of the request and who has sent it. Paths with `large` get more, `down` 503."""

    def __init__(self) -> None:
        self.count = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.count += 1
        text = f"{self.count} {scope['state']['caller'].operator} "
        body = text.encode() * (200 if "large" in scope["path"] else 1)
        status = 503 if "down" in scope["path"] else 200
        headers = [(b"content-type", b"text/plain"), (b"etag", b'"tag"'), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


class Web:
    """`caller`: of the next requests."""

    def __init__(self) -> None:
        self.app = App()
        self.answers = KeptAnswers(self.app, KeptSource(Source()))  # type: ignore[arg-type]
        self.caller = READER

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        set_caller(scope, self.caller)
        await self.answers(scope, receive, send)

    async def ask(self, path: str, method: str = "GET", **headers: str) -> Response:
        named = {"Accept-Encoding": "", **{name.replace("_", "-"): value for name, value in headers.items()}}
        async with AsyncClient(transport=ASGITransport(self), base_url="http://web") as client:
            return await client.request(method, path, headers=named)


@pytest.fixture
def web() -> Web:
    return Web()


@pytest.mark.parametrize(
    ("path", "is_kept"),
    [
        ("/ws/v1/clusters", True), ("/ws/v1/partition/default/queues", True), ("/api/v1/rms", True),
        ("/api/v1/rms/rm-1/nodes?limit=1", True), ("/api/v1/rms/rm-1/stats", True), ("/ws/v1/events/stream", False),
        ("/api/v1/events", False), ("/api/v1/me", False), ("/api/v1/rms/rm-1/watch/nodes", False),
        ("/api/v1/rms/rm-1/what-if", False), ("/page/main.js", False), ("/ws/v1/down", False),
        (f"/ws/v1/clusters?x={'x' * limits.KEPT_QUERY_BYTES}", False),
    ],
)  # fmt: skip
async def test_answers_to_readers_are_kept_streams_and_errors_are_not(web: Web, path: str, is_kept: bool) -> None:
    first, again = [(await web.ask(path)).text for _ in range(2)]
    assert (first == again) == is_kept


async def test_other_questions_get_other_answers(web: Web) -> None:
    found = [
        (await web.ask("/ws/v1/config")).text, (await web.ask("/ws/v1/config?rm=a")).text,
        (await web.ask("/ws/v1/config?rm=b")).text, (await web.ask("/ws/v1/config", Accept="application/json")).text,
        (await web.ask("/ws/v1/partition/P/node/a/b")).text, (await web.ask("/ws/v1/partition/P/node/a%2Fb")).text,
    ]  # fmt: skip
    assert len(set(found)) == len(found)


async def test_a_header_that_changes_nothing_makes_no_other_question(web: Web) -> None:
    """Anyone may send any: each would be kept and read anew."""
    found = {(await web.ask("/ws/v1/config", Accept=f"text/{number}" + "x" * 1_000)).text for number in range(20)}
    assert (len(found), web.app.count) == (1, 1)
    assert (await web.ask("/ws/v1/config", Accept="application/json")).text not in found


async def test_rights_are_part_of_the_question(web: Web) -> None:
    """Those who read everything share answers; others share theirs with nobody, and are told nothing of others."""
    operators = [Operator("eve"), Operator("eve", ("ops",)), Operator("bob")]
    callers = [READER, *(Caller(operator) for operator in operators), Caller(Operator("eve"), reads_all=True), Caller()]
    found = []
    for web.caller in callers:
        found.append((await web.ask("/ws/v1/partitions")).text)
    assert found[4] == found[0]
    assert len(set(found)) == len(callers) - 1
    for caller, text in zip(callers[1:4], found[1:4], strict=True):
        assert str(caller.operator) in text


async def test_a_client_that_has_the_answer_is_told_so(web: Web) -> None:
    for _ in range(2):
        answer = await web.ask("/api/v1/rms/rm-1/nodes", If_None_Match='"tag"')
        assert (answer.status_code, answer.content, answer.headers["ETag"]) == (304, b"", '"tag"')
    assert (await web.ask("/api/v1/rms/rm-1/nodes", If_None_Match='"old"')).text.startswith("1 ")


async def test_an_answer_is_compressed_once(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    compressed = []
    compress = gzip.compress

    def counted(body: bytes, *args: int, **more: int) -> bytes:
        compressed.append(body)
        return compress(body, *args, **more)

    monkeypatch.setattr(gzip, "compress", counted)
    plain = await web.ask("/ws/v1/large")
    for aside in (limits.COMPRESSED_ASIDE_BYTES, 0):
        monkeypatch.setattr(limits, "COMPRESSED_ASIDE_BYTES", aside)
        answers = await asyncio.gather(*(web.ask("/ws/v1/large", Accept_Encoding="gzip") for _ in range(5)))
        for answer in answers:
            assert (answer.headers["Content-Encoding"], answer.headers["Vary"]) == ("gzip", "Accept-Encoding")
            assert answer.content == plain.content  # the client unpacks it
            assert int(answer.headers["Content-Length"]) < len(plain.content) / 5
    assert len(compressed) == 1
    assert "Content-Encoding" not in plain.headers
    assert "Content-Encoding" not in (await web.ask("/ws/v1/small", Accept_Encoding="gzip")).headers


async def test_what_an_operator_does_is_seen_at_once(web: Web) -> None:
    before = (await web.ask("/ws/v1/partitions")).text
    await web.ask("/ws/v1/validate-conf", "POST")
    assert (await web.ask("/ws/v1/partitions")).text == before
    await web.ask("/api/v1/rms/rm-1/actions/drain-node", "POST")
    assert (await web.ask("/ws/v1/partitions")).text != before


async def test_a_client_that_hangs_up_ends_what_it_alone_has_asked_for() -> None:
    began, ended, hangs_up = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slow(_: Scope, __: Receive, ___: Send) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def receive() -> Message:
        await hangs_up.wait()
        return {"type": "http.disconnect"}

    async def send(_: Message) -> None:
        raise AssertionError("nobody listens")

    answers = KeptAnswers(slow, KeptSource(Source()))  # type: ignore[arg-type]
    asked = asyncio.create_task(answers(get("/ws/v1/clusters"), receive, send))
    async with asyncio.timeout(5):
        await began.wait()
        hangs_up.set()
        await ended.wait()
        await asked


async def never() -> Message:
    await asyncio.Event().wait()
    raise AssertionError


def get(path: str) -> Scope:
    return {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": []}


async def test_an_application_that_fails_fails_for_all_who_wait() -> None:
    async def broken(_: Scope, __: Receive, ___: Send) -> None:
        raise RuntimeError("broken")

    async def send(_: Message) -> None:
        raise AssertionError("nothing was answered")

    answers = KeptAnswers(broken, KeptSource(Source()))  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="broken"):
        await answers(get("/ws/v1/clusters"), never, send)
