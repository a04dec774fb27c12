"""Who may do what over HTTP: tokens, client certificates, and logins and tokens of a real OpenID provider, on a bus
with keys."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from joserfc import jwt
from joserfc.jwk import RSAKey

from remuda.embedded import free_port
from remuda_bus import subjects
from remuda_bus.nats import NatsBus, connect
from remuda_config.shell import ConfigSettings
from remuda_config.shell import main as config
from remuda_core.shell.main import main as core
from remuda_core.shell.settings import CoreSettings
from remuda_events.shell import serve as events
from remuda_replication.process import Settings
from remuda_rmproxy.shell import main as rmproxy
from remuda_sdk import ResourceManager, application, ask, node
from remuda_web import limits
from remuda_web.settings import WebSettings
from remuda_web.shell import serve as web_main
from remuda_web.source import LISTS
from tests.patience import READY_S
from tests.system.guarded import GuardedServer
from tests.system.openid_provider import SECRET, log_in, openid_provider, token_for_program
from tests.system.running import placed, running, until
from tests.system.test_grpc_certificates import make_certificates
from tests.system.web_client import address_of

RM = "rm-1"
QUEUES = """
partitions:
  - name: default
    queues:
      - {name: root, adminacl: ' admins', queues: [{name: a, submitacl: eve}, {name: b, submitacl: zoe}]}
"""
TOKENS = {"eve": "eve-has-a-token-of-her-own", "pat": "the-token-of-pat-the-admin"}
pytestmark = pytest.mark.asyncio(loop_scope="module")
HOLD, RESUME = f"/api/v1/rms/{RM}/actions/hold-queue", f"/api/v1/rms/{RM}/actions/resume-queue"


@dataclass
class System:
    url: str
    issuer: str
    files: Path
    restricted: str  # the URL of a web service that restricts reading
    admin: NatsBus

    def client(self, certificate: str = "", restricted: bool = False, **options: Any) -> httpx.AsyncClient:
        context = ssl.create_default_context(cafile=self.files / "ca.pem")
        if certificate:
            context.load_cert_chain(self.files / f"{certificate}.pem", self.files / f"{certificate}.key")
        base = self.restricted if restricted else self.url
        return httpx.AsyncClient(base_url=base, verify=context, timeout=20, **options)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def system(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[System]:
    directory = tmp_path_factory.mktemp("access")
    (directory / "queues.yaml").write_text(QUEUES)
    (directory / "tokens").write_text(f"{TOKENS['eve']} eve+nobodies\n{TOKENS['pat']} pat+admins\n")
    (directory / "secret").write_text(SECRET)
    make_certificates(directory, "localhost", "pat-laptop", "stranger")
    port = free_port("127.0.0.1")
    url = f"https://localhost:{port}"
    async with AsyncExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(limits, "DEAD_LETTERS_EVERY_S", 0.5)
        issuer = await stack.enter_async_context(openid_provider(directory, f"{url}/login/callback"))
        server = GuardedServer(directory / "nats", acts_as={"web": ["*"]})
        await stack.enter_async_context(server)
        admin = await connect(server.url, "remuda-cli", access=server.access("admin"), timeout_s=5)
        stack.push_async_callback(admin.close)
        await admin.declare()

        def web(**given: Any) -> WebSettings:
            files = {"certificate": "localhost.pem", "key": "localhost.key", "client_ca": "ca.pem", "tokens": "tokens"}
            given |= {name: directory / file for name, file in files.items()}
            return WebSettings(
                port=port, operators=("pat-laptop=pat@example.com+admins",), openid_issuer=issuer,
                openid_secret=directory / "secret", openid_name="name", **given,
            )  # fmt: skip

        def restricted(**given: Any) -> WebSettings:
            given["instance"] = "web-restricted"
            return WebSettings(port=0, restricted=True, tokens=directory / "tokens", **given)

        for name, main, settings in (
            ("config", lambda bus, own: config(bus, own, directory / "queues.yaml"), ConfigSettings),
            ("core", core, CoreSettings),
            ("rmproxy", rmproxy, Settings),
            ("events", lambda bus, _: events(bus, "events"), Settings),
            ("web", web_main, web),
            ("web", web_main, restricted),
        ):
            chosen: Any = settings
            await stack.enter_async_context(running(server.url, name, main, chosen, server.access(name)))
        assert (await address_of(admin))["port"] == port
        other = f"http://127.0.0.1:{(await address_of(admin, 'web-restricted'))['port']}"
        bus = await connect(server.url, "rm-rm-1", access=server.access(RM), timeout_s=5)
        rm = await stack.enter_async_context(ResourceManager.connect(bus, RM))
        await rm.report_nodes([node("n1", vcore=2_000)])
        for user, queue in (("eve", "a"), ("zoe", "b")):
            await rm.submit(application(f"of-{user}", user=user, queue=f"root.{queue}"))
            await rm.ask(
                [ask(f"of-{user}", f"{user}-runs", vcore=1_000), ask(f"of-{user}", f"{user}-waits", vcore=9_000)]
            )
            await placed(rm, f"{user}-runs")
        found = System(url, issuer, directory, other, admin)
        async with found.client(headers=bearer(TOKENS["pat"])) as client:

            async def is_known() -> bool:
                asks = await client.get(f"/api/v1/rms/{RM}/explain")
                told = (await client.get("/ws/v1/events/batch")).text
                return asks.status_code == 200 and len(asks.json()["rows"]) == 2 and "zoe-waits" in told

            await until(is_known)
        yield found


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def me(client: httpx.AsyncClient) -> tuple[str, list[str]]:
    answer = await client.get("/api/v1/me")
    assert answer.status_code == 200, answer.text
    found = answer.json()
    return found["operator"], found["groups"]


async def may_hold(client: httpx.AsyncClient) -> bool:
    outcomes = []
    for path in (HOLD, RESUME):
        answer = await client.post(path, json={"queue": "root.a"})
        assert answer.status_code == 200, answer.text
        outcomes.append(answer.json()["outcome"])
    assert outcomes in (["accepted"] * 2, ["refused"] * 2)
    return outcomes[0] == "accepted"


async def test_nobody_reads_without_a_name(system: System) -> None:
    async with system.client() as client:
        for path in ("/api/v1/rms", "/ws/v1/partitions", "/api/v1/changes/stream", "/openapi.json"):
            refused = await client.get(path)
            assert (refused.status_code, refused.json()["login"]) == (401, "/login"), path
            assert refused.headers["WWW-Authenticate"] == 'Bearer realm="remuda"'
        assert (await client.post(HOLD, json={"queue": "root.a"})).status_code == 401
        assert (await client.get("/")).status_code == 200


async def test_access_lists_decide_over_what_tokens_may(system: System) -> None:
    for who, may in (("eve", False), ("pat", True)):
        async with system.client(headers=bearer(TOKENS[who])) as client:
            assert (await me(client))[0] == who
            assert await may_hold(client) is may
            # What says who acts is the token alone.
            answer = await client.post(HOLD, json={"queue": "root.a", "operator": "pat", "groups": ["admins"]})
            assert answer.status_code == 400
    async with system.client(headers=bearer(TOKENS["eve"])) as client:
        refused = await client.post("/api/v1/configuration", json={"text": QUEUES + "# changed\n"})
        assert refused.status_code == 403 and "eve may not change" in refused.json()["detail"]


async def test_a_client_certificate_names_an_operator(system: System) -> None:
    async with system.client("pat-laptop") as client:
        assert await me(client) == ("pat@example.com", ["admins"])
        assert await may_hold(client)
        foreign = await client.post(HOLD, json={"queue": "root.a"}, headers={"Origin": "https://any.example"})
        assert foreign.status_code == 403
    async with system.client("stranger") as client:
        assert await me(client) == ("stranger", [])
        assert not await may_hold(client)


async def test_a_program_brings_a_token_of_the_provider(system: System) -> None:
    token = await token_for_program(system.issuer, "pat+admins")
    async with system.client(headers=bearer(token)) as client:
        assert await me(client) == ("pat", ["admins"])
        assert await may_hold(client)
    for wrong in (
        await token_for_program(system.issuer, "stranger", "urn:other"),  # for another service
        token[:-8] + "AAAAAAAA",
        "a.b.c",
        "not-known",
    ):
        async with system.client(headers=bearer(wrong)) as client:
            assert (await client.get("/api/v1/rms")).status_code == 401, wrong


def symmetric(token: str, secret: bytes) -> str:
    header, payload, _ = token.split(".")
    changed = json.loads(base64.urlsafe_b64decode(header + "=" * (-len(header) % 4))) | {"alg": "HS256"}
    signed = base64.urlsafe_b64encode(json.dumps(changed).encode()).decode().rstrip("=") + "." + payload
    signature = hmac.digest(secret, signed.encode(), "sha256")
    return f"{signed}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"


async def test_tokens_that_the_provider_has_not_signed_are_refused(system: System) -> None:
    async with httpx.AsyncClient(timeout=READY_S) as http:
        (key, *_) = (await http.get(f"{system.issuer}/jwks")).json()["keys"]
    claims = {"iss": system.issuer, "aud": "remuda", "name": "pat", "groups": ["admins"], "exp": int(time.time()) + 60}
    own = RSAKey.generate_key(2048)
    forged = [
        jwt.encode({"alg": "RS256", "kid": key["kid"]}, claims, own),
        # The public key as the secret of a symmetric signature.
        symmetric(jwt.encode({"alg": "RS256", "kid": key["kid"]}, claims, own), RSAKey.import_key(key).as_pem()),
        jwt.encode({"alg": "RS256", "kid": "unknown"}, claims, own),
    ]
    forged.append("eyJhbGciOiJub25lIn0." + forged[0].split(".")[1] + ".")
    for token in forged:
        async with system.client(headers=bearer(token)) as client:
            assert (await client.get("/api/v1/rms")).status_code == 401, token


async def test_a_person_logs_in_acts_and_logs_out(system: System) -> None:
    async with system.client() as browser:
        done = await log_in(browser, "/login", "pat+admins")
        assert (done.status_code, done.headers["Location"]) == (303, "/"), done.text
        cookie = done.headers["Set-Cookie"].lower()
        assert all(word in cookie for word in ("httponly", "secure", "samesite=lax"))
        assert await me(browser) == ("pat", ["admins"])
        assert await may_hold(browser)
        for header in ({"Origin": "https://any.example"}, {"Sec-Fetch-Site": "cross-site"}):
            assert (await browser.post(HOLD, json={"queue": "root.a"}, headers=header)).status_code == 403
            assert (await browser.post("/logout", headers=header)).status_code == 403
        replayed = await browser.get(done.url)  # the code of the login counts once
        assert replayed.status_code == 401
        assert (await browser.post("/logout")).status_code == 204
        assert (await browser.get("/api/v1/me")).status_code == 401


async def test_a_session_cannot_be_made_or_changed(system: System) -> None:
    async with system.client() as browser:
        await log_in(browser, "/login", "eve+nobodies")
        assert await me(browser) == ("eve", ["nobodies"]) and not await may_hold(browser)
        (cookie,) = [one for one in browser.cookies.jar if one.name == "remuda_session"]
    payload, _, signature = str(cookie.value).partition(".")
    for forged in (f"{payload[:-4]}AAAA.{signature}", payload, "e30="):
        async with system.client(cookies={"remuda_session": forged}) as browser:
            assert (await browser.get("/api/v1/me")).status_code == 401
    async with system.client() as browser:
        assert (await browser.get("/login/callback?code=x&state=y")).status_code == 401


async def test_restricted_reading_shows_the_own_queues(system: System) -> None:
    """On every path that shows something of a queue, for an operator of one queue and for an administrator."""
    partition = "/ws/v1/partition/default"
    rms = f"/api/v1/rms/{RM}"
    paths = (
        "/ws/v1/partitions", f"{partition}/queues", f"{partition}/queue/root.a", f"{partition}/nodes",
        f"{partition}/node/n1", f"{partition}/applications/active", f"{partition}/queue/root.a/applications",
        f"{partition}/usage/users", "/ws/v1/events/batch", "/ws/v1/metrics", "/ws/v1/clusters",
        "/api/v1/overview",
        *(f"{rms}/{kind}" for kind in LISTS),
    )  # fmt: skip
    eve, pat = (system.client(restricted=True, headers=bearer(TOKENS[who])) for who in ("eve", "pat"))
    async with eve, pat:
        seen = {path: await eve.get(path) for path in paths}
        assert {path: answer.status_code for path, answer in seen.items()} == dict.fromkeys(paths, 200)
        for path, answer in seen.items():
            for word in ("zoe", "root.b", '"b"', "admins"):
                assert word not in answer.text, (path, word, answer.text)
        of_eve = "\n".join(answer.text for answer in seen.values())
        assert all(word in of_eve for word in ("of-eve", "eve-runs", "eve-waits", "root.a"))
        everything = "\n".join([(await pat.get(path)).text for path in paths])
        assert all(word in everything for word in ("of-zoe", "zoe-runs", "zoe-waits", "root.b"))


async def test_dead_letters_need_attention_of_those_who_read_everything(system: System) -> None:
    """The key of the web service may count them."""
    await system.admin.append(subjects.dead_letter(RM), b"", {subjects.REASON: "odd"})

    async def is_shown() -> bool:
        return [one["count"] for one in await attention(pat) if one["kind"] == "dead_letters"] == [1]

    async def attention(client: httpx.AsyncClient) -> list[dict[str, Any]]:
        return list((await client.get("/api/v1/overview")).json()["attention"])

    pat = system.client(headers=bearer(TOKENS["pat"]))
    eve = system.client(restricted=True, headers=bearer(TOKENS["eve"]))
    async with eve, pat:
        await until(is_shown)
        assert "dead_letters" not in [one["kind"] for one in await attention(eve)]


async def test_restricted_reading_refuses_what_shows_every_queue(system: System) -> None:
    async with system.client(restricted=True, headers=bearer(TOKENS["eve"])) as eve:
        for path, status in (
            ("/ws/v1/config", 403), ("/ws/v1/fullstatedump", 403), ("/ws/v1/partition/default/queue/root.b", 400),
            ("/ws/v1/partition/default/application/of-zoe", 400), ("/api/v1/configuration", 403),
            (f"/api/v1/rms/{RM}/story?id=of-zoe", 403), ("/api/v1/changes?from_oldest=true", 403),
            ("/api/v1/changes/stream", 403), (f"/api/v1/rms/{RM}/metrics/queues", 403),
        ):  # fmt: skip
            assert (await eve.get(path)).status_code == status, path
        assert (await eve.get("/ws/v1/scheduler/healthcheck")).json()["Healthy"] is True


@pytest.mark.parametrize(
    ("path", "end"), [("/ws/v1/events/stream?count=1000", ""), ("/api/v1/events?count=1000", "data: ")]
)
async def test_restricted_streams_show_the_own_queues(system: System, path: str, end: str) -> None:
    async with (
        system.client(restricted=True, headers=bearer(TOKENS["eve"])) as eve,
        asyncio.timeout(20), eve.stream("GET", path) as stream,
    ):  # fmt: skip
        async for line in stream.aiter_lines():
            assert "zoe" not in line and "root.b" not in line
            if line.startswith(end) and "eve-waits" in line:
                break


async def test_restricted_live_views_show_the_own_queues(system: System) -> None:
    async with (
        system.client(restricted=True, headers=bearer(TOKENS["eve"])) as eve,
        asyncio.timeout(20), eve.stream("GET", f"/api/v1/rms/{RM}/watch/applications") as stream,
    ):  # fmt: skip
        async for line in stream.aiter_lines():
            if line.startswith("data: "):
                assert [one["id"] for one in json.loads(line[6:])["rows"]] == ["of-eve"]
                break
