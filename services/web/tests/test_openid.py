"""The keys of an OpenID provider that answers, fails or hangs: how often it is asked, and who waits."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import httpx2
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey

from remuda_web import limits
from remuda_web.access.openid import Provider
from remuda_web.problems import Problem
from remuda_web.settings import WebSettings

ISSUER = "http://127.0.0.1:9"
KEY = ECKey.generate_key("P-256", {"kid": "known"})


class Answers:
    """In place of the client of the provider. `hangs`: until it is set, an answer does not come."""

    def __init__(self) -> None:
        self.asked = 0
        self.fails = False
        self.hangs: asyncio.Event | None = None

    async def load_server_metadata(self) -> dict[str, str]:
        self.asked += 1
        if self.hangs is not None:
            await self.hangs.wait()
        if self.fails:
            raise httpx2.ConnectError("")
        return {"issuer": ISSUER}

    async def fetch_jwk_set(self, force: bool) -> dict[str, Any]:
        return {"keys": [KEY.as_dict(private=False)]}


@pytest.fixture
def provider() -> Provider:
    found = Provider(WebSettings(openid_issuer=ISSUER))
    found.client = Answers()
    return found


def token(kid: str = "known") -> str:
    claims = {"iss": ISSUER, "aud": "remuda", "exp": 2**40, "sub": "alice"}
    return jwt.encode({"alg": "ES256", "kid": kid}, claims, KEY, algorithms=["ES256"])


async def status_of(provider: Provider, text: str) -> int:
    with pytest.raises(Problem) as refused:
        await provider.operator(text)
    return refused.value.status


async def test_provider_that_fails_is_asked_once_for_many_tokens(provider: Provider) -> None:
    provider.client.fails = True
    assert await asyncio.gather(*(status_of(provider, token()) for _ in range(20))) == [503] * 20
    assert provider.client.asked == 1


async def test_tokens_with_unknown_keys_hold_up_no_others(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anyone can make them."""
    operator = await provider.operator(token())
    assert operator is not None and operator.name == "alice"
    monkeypatch.setattr(limits, "PROVIDER_KEYS_EVERY_S", 0.0)
    provider.client.fails, provider.client.hangs = True, asyncio.Event()
    strange = [asyncio.create_task(status_of(provider, token("strange"))) for _ in range(5)]
    async with asyncio.timeout(5):
        await asyncio.sleep(0)
        assert await provider.operator(token()) == operator
        provider.client.hangs.set()
        assert await asyncio.gather(*strange) == [503] * 5
    assert provider.client.asked == 2


@pytest.mark.parametrize("header", ["[]", '{"alg": "ES256", "kid": "known", "crit": 1}', '{"alg": "none"}'])
async def test_malformed_headers_are_refused(provider: Provider, header: str) -> None:
    encoded = base64.urlsafe_b64encode(header.encode()).decode().rstrip("=")
    assert await status_of(provider, ".".join((encoded, *token().split(".")[1:]))) == 401
