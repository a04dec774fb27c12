"""Bearer tokens, and the addresses on which a web service may listen."""

from __future__ import annotations

from pathlib import Path

import pytest
from httpx import ASGITransport, AsyncClient
from pydantic import ValidationError
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from remuda_web.access import LocalOnly, TokenRequired, read_tokens
from remuda_web.settings import WebSettings

TOKEN = "0123456789abcdefghij"


async def greet(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse(scope["state"]["client"])(scope, receive, send)


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    file = tmp_path / "tokens"
    file.write_text(f"# people\n{TOKEN} alice\n\n")
    return file


async def test_only_a_known_token_gets_through(tokens: Path) -> None:
    app = TokenRequired(greet, read_tokens(tokens))
    async with AsyncClient(transport=ASGITransport(app), base_url="http://web") as client:
        for header in ({}, {"Authorization": f"Bearer {TOKEN}x"}, {"Authorization": f"Basic {TOKEN}"}):
            refused = await client.get("/ws/v1/partitions", headers=header)
            assert (refused.status_code, refused.headers["WWW-Authenticate"]) == (401, 'Bearer realm="remuda"')
        assert (await client.get("/api/v1/rms", headers={"Authorization": f"bearer {TOKEN}"})).text == "alice"


@pytest.mark.parametrize("text", ["short alice", f"{TOKEN}", f"{TOKEN} alice ops", "# nobody"])
def test_a_wrong_file_is_refused(tokens: Path, text: str) -> None:
    tokens.write_text(text)
    with pytest.raises(ValueError, match=str(tokens)):
        read_tokens(tokens)


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
