"""The start of plugin mode and of the webhook, where the API server is away; and the check of configurations."""

from __future__ import annotations

import json
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import structlog
from aiohttp import web

from remuda.embedded import free_port
from remuda_bus.retry import RetryPolicy
from remuda_kubernetes import limits
from remuda_kubernetes.api.client import Away, Conflict, NotFound, Rejected
from remuda_kubernetes.settings import KubernetesSettings
from remuda_kubernetes.shell.controller import version_of
from remuda_kubernetes.shell.server import served
from remuda_kubernetes.shell.start import until_answered
from remuda_kubernetes.shell.webhook import CertificateStore, problem_of
from remuda_kubernetes.webhook.certificates import made
from remuda_kubernetes.webhook.registration import Place


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "START_RETRY", RetryPolicy(0.0))


class Server:
    """`failures`: of the next calls. `faster`: another process creates each object just before this one does."""

    def __init__(self, *failures: Exception, faster: bool = False) -> None:
        self.failures = list(failures)
        self.faster = faster
        self.objects: dict[str, Any] = {}

    async def call(self, verb: str, path: str, body: dict[str, Any] | None = None) -> bytes:
        if self.failures:
            raise self.failures.pop(0)
        if path == "/version":
            return b'{"minor": "27"}'
        if verb == "PUT":
            self.objects[path] = body
        if path not in self.objects:
            raise NotFound(path, 404)
        return json.dumps(self.objects[path]).encode()

    async def create(self, path: str, body: dict[str, Any]) -> bytes:
        path = f"{path}/{body['metadata']['name']}"
        is_there = path in self.objects
        if self.faster or not is_there:
            self.objects[path] = {**body, "metadata": {**body["metadata"], "resourceVersion": "1"}}
        if self.faster or is_there:
            raise Conflict("exists", 409)
        return b""


async def test_version_is_awaited() -> None:
    server = Server(Away("connection refused", 0), Rejected("forbidden", 403))
    assert await version_of(server) == {"minor": "27"}  # type: ignore[arg-type]
    assert not server.failures


async def test_two_webhooks_start_at_the_same_time() -> None:
    """The slower one finds what the other one has made."""
    server = Server(Away("connection refused", 0), faster=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    store = CertificateStore(server, Place("remuda", "remuda-webhook"), "secret", context)  # type: ignore[arg-type]
    await until_answered(store.load, "reads")
    store.serve()
    await until_answered(store.register, "registers")
    assert len(server.objects) == 3


@pytest.mark.parametrize(
    ("status", "body", "problem", "warnings"),
    [
        (200, {"allowed": True}, "", 0),
        (200, {"allowed": False, "reason": "root: wrong"}, "root: wrong", 0),
        (401, {"title": "Unauthorized"}, "", 1),
        (200, [], "", 1),
    ],
)
async def test_configuration_that_was_not_checked_is_reported(
    status: int, body: Any, problem: str, warnings: int
) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response(body, status=status)

    port = free_port("127.0.0.1")
    routes = [web.post("/ws/v1/validate-conf", answer)]
    with structlog.testing.capture_logs() as logs:
        async with served(routes, "127.0.0.1", port, 1_000, None), aiohttp.ClientSession() as http:
            settings = KubernetesSettings(webhook_validation=f"http://127.0.0.1:{port}/")
            assert await problem_of(http, settings, "text") == problem
    assert [one["event"] for one in logs] == ["a configuration was not checked"] * warnings


async def test_configuration_is_checked_where_the_web_service_asks_for_a_login(tmp_path: Path) -> None:
    """A token that changes, as that of a secret does, counts from the next check on."""
    certificates = made(("127.0.0.1",), datetime.now(UTC))
    ca, served_by, token = (tmp_path / name for name in ("ca.pem", "served.pem", "token"))
    ca.write_bytes(certificates.bundle)
    served_by.write_bytes(certificates.key + certificates.certificate)
    token.write_text("former\n")

    async def answer(request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != "Bearer current":
            return web.json_response({}, status=401)
        return web.json_response({"allowed": False, "reason": "no queues"})

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(served_by)
    port = free_port("127.0.0.1")
    settings = KubernetesSettings(
        webhook_validation=f"https://127.0.0.1:{port}", webhook_validation_token=token, webhook_validation_ca=ca
    )
    async with (
        served([web.post("/ws/v1/validate-conf", answer)], "127.0.0.1", port, 1_000, context),
        aiohttp.ClientSession() as http,
    ):
        assert await problem_of(http, settings, "text") == ""
        token.write_text("current\n")
        assert await problem_of(http, settings, "text") == "no queues"
        token.unlink()
        assert await problem_of(http, settings, "text") == ""


PLUGIN: dict[str, Any] = {"mode": "plugin", "hold": "extender"}


@pytest.mark.parametrize("host", ["", "0.0.0.0", "10.0.0.1", "::", "remuda.example"])
def test_extender_that_others_reach_needs_to_know_its_clients(host: str, tmp_path: Path) -> None:
    """Whoever asks it twice about a pod takes back the pod's approval."""
    file = tmp_path / "some.pem"
    file.write_text("")
    given: dict[str, Any] = {"extender_cert": file, "extender_key": file}
    with pytest.raises(ValueError, match=r"extender_host=.*kubernetes\.extender_client_ca"):
        KubernetesSettings(**PLUGIN, extender_host=host, **given)
    KubernetesSettings(**PLUGIN, extender_host=host, extender_client_ca=file, **given)


@pytest.mark.parametrize(
    "of",
    [
        {**PLUGIN, "extender_host": "127.0.0.1"},
        {**PLUGIN, "extender_host": "::1"},
        {**PLUGIN, "extender_host": "localhost"},
        {"mode": "plugin", "hold": "gates", "extender_host": ""},
        {"mode": "shim", "extender_host": ""},
        {**PLUGIN, "role": "webhook", "extender_host": ""},
    ],
)
def test_extender_of_this_machine_needs_no_certificates(of: dict[str, Any]) -> None:
    KubernetesSettings(**of)


def test_names_of_clients_need_their_ca() -> None:
    with pytest.raises(ValueError, match=r"extender_clients='a, b': expected also kubernetes\.extender_client_ca"):
        KubernetesSettings(**PLUGIN, extender_clients="a,b")


def test_webhook_needs_no_bus() -> None:
    assert not KubernetesSettings(role="webhook").needs_bus
    assert KubernetesSettings().needs_bus
