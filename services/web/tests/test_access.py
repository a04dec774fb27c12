"""Bearer tokens, and the addresses on which a web service may listen."""

from __future__ import annotations

from pathlib import Path

import pytest
from httpx import ASGITransport, AsyncClient
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from remuda_operations.operators import Operator
from remuda_web.access.guard import Guard, LocalOnly, Ways
from remuda_web.access.tokens import Tokens
from remuda_web.callers import caller_of, sender_of
from remuda_web.problems import Problem
from remuda_web.settings import WebSettings

TOKEN = "0123456789abcdefghij"


async def greet(scope: Scope, receive: Receive, send: Send) -> None:
    operator = caller_of(Request(scope)).operator
    shown = "nobody" if operator is None else "+".join((operator.name, *operator.groups))
    await PlainTextResponse(shown)(scope, receive, send)


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    file = tmp_path / "tokens"
    file.write_text(f"# people\n{TOKEN} alice\n{TOKEN[::-1]} bob+ops+dev\n\n")
    return file


async def test_only_a_known_token_gets_through(tokens: Path) -> None:
    app = Guard(greet, Ways((Tokens(tokens).operator,)))
    async with AsyncClient(transport=ASGITransport(app), base_url="http://web") as client:
        for header in ({}, {"Authorization": f"Bearer {TOKEN}x"}, {"Authorization": f"Basic {TOKEN}"}):
            refused = await client.get("/ws/v1/partitions", headers=header)
            assert (refused.status_code, refused.headers["WWW-Authenticate"]) == (401, 'Bearer realm="remuda"')
        assert (await client.get("/api/v1/rms", headers={"Authorization": f"bearer {TOKEN}"})).text == "alice"
        assert (await client.get("/x", headers={"Authorization": f"Bearer {TOKEN[::-1]}"})).text == "bob+ops+dev"


async def test_a_stream_can_ask_later_whether_its_sender_is_known(tokens: Path) -> None:
    """A token that has ended, as an operator has let it."""
    known = [Operator("alice")]
    senders = []

    async def operator(_: str) -> Operator | None:
        return known[0] if known else None

    async def keep(scope: Scope, receive: Receive, send: Send) -> None:
        senders.append(sender_of(Request(scope)))
        await greet(scope, receive, send)

    app = Guard(keep, Ways((operator,)))
    async with AsyncClient(transport=ASGITransport(app), base_url="http://web") as client:
        assert (await client.get("/x", headers={"Authorization": f"Bearer {TOKEN}"})).text == "alice"
    assert senders[0] is not None and await senders[0]() == Operator("alice")
    known.clear()
    with pytest.raises(Problem, match="not known here") as refusal:
        await senders[0]()
    assert refusal.value.status == 401


@pytest.mark.parametrize("text", ["short alice", f"{TOKEN}", f"{TOKEN} alice ops", f"{TOKEN} a\x7fb", "# nobody",
                                  f"{TOKEN} alice\n{TOKEN} bob"])  # fmt: skip
def test_a_wrong_file_is_refused(tokens: Path, text: str) -> None:
    tokens.write_text(text)
    with pytest.raises(ValueError, match=str(tokens)):
        Tokens(tokens)


def test_certificate_names_one_operator(tokens: Path) -> None:
    for entries in ("ci=alice,ci=bob", "ci"):
        with pytest.raises(ValidationError, match="ci"):
            WebSettings(host="::1", operators=entries)


def test_other_addresses_than_loopback_need_tokens(tokens: Path) -> None:
    for host in ("0.0.0.0", "10.0.0.1", "example.org"):
        with pytest.raises(ValidationError, match="expected a loopback address"):
            WebSettings(host=host)
        assert WebSettings(host=host, open=True).host == host
        assert WebSettings(host=host, tokens=tokens).host == host
    assert WebSettings(host="::1").host == "::1"
    with pytest.raises(ValidationError, match="expected both or neither"):
        WebSettings(certificate=tokens)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "localhost:9080"}, 200),
        ({"Host": "127.0.0.1:9080"}, 200),
        ({"Host": "[::1]:9080"}, 200),
        ({"Host": "localhost:9080", "Origin": "http://localhost:9889"}, 200),
        ({"Host": "rebound.example:9080"}, 403),
        ({"Host": "127.0.0.1.rebound.example"}, 403),
        ({"Host": "localhost:9080", "Origin": "https://any.example"}, 403),
        ({"Host": "localhost:9080", "Origin": "null"}, 403),
        ({"Host": "[::1"}, 403),
    ],
)
async def test_without_tokens_only_pages_of_this_machine_read(headers: dict[str, str], status: int) -> None:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse("data")(scope, receive, send)

    async with AsyncClient(transport=ASGITransport(LocalOnly(answer)), base_url="http://localhost") as client:
        assert (await client.get("/ws/v1/partitions", headers=headers)).status_code == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Origin": "http://localhost:9080"}, 200),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Origin": "http://localhost:9889"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
    ],
)
async def test_only_our_own_page_changes_something(headers: dict[str, str], status: int) -> None:
    """Another page on this machine reads, as web interfaces of the family do, but does not act as its visitor."""
    guarded = LocalOnly(greet, Operator("alice"))
    async with AsyncClient(transport=ASGITransport(guarded), base_url="http://localhost:9080") as client:
        changed = await client.post("/api/v1/configuration", headers=headers)
        assert (changed.status_code, changed.text == "alice") == (status, status == 200)
        read = await client.get("/api/v1/rms", headers=headers)
        assert (read.status_code == 200) is (headers.get("Origin") != "null")


@pytest.mark.parametrize(("origin", "status"), [("https://people.example", 200), ("http://people.example", 403)])
async def test_our_own_page_is_that_at_the_url_of_the_proxy(origin: str, status: int) -> None:
    """A proxy may forward requests with another host."""
    ways = Ways(by_connection=(lambda _: Operator("alice"),), url="https://people.example/")
    async with AsyncClient(transport=ASGITransport(Guard(greet, ways)), base_url="http://web:9080") as client:
        assert (await client.post("/api/v1/configuration", headers={"Origin": origin})).status_code == status
