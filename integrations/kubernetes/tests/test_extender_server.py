"""Access to the extender: the CA has signed the client's certificate, and its name is expected."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from integrations.kubernetes.tests.reporting_plugin import plugin
from remuda.embedded import free_port
from remuda_kubernetes.settings import KubernetesSettings
from remuda_kubernetes.shell.extender import Extender

MAKE_CA = Path(__file__).parents[3] / "deploy/tls/make-ca.sh"
QUESTION = {"Pod": {"metadata": {"name": "p", "namespace": "default", "uid": "u"}}, "NodeNames": ["n1"]}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run([MAKE_CA, folder, "2", "default-scheduler", "somebody"], check=True, capture_output=True)
    subprocess.run([MAKE_CA, folder / "other", "2", "default-scheduler"], check=True, capture_output=True)
    return folder


@asynccontextmanager
async def serving(certificates: Path, **of: Any) -> AsyncIterator[tuple[str, list[None]]]:
    """Its address, and one entry for each question that was answered."""
    port = free_port("127.0.0.1")
    settings = KubernetesSettings(
        mode="plugin", hold="extender", extender_port=port, extender_cert=certificates / "extender.pem",
        extender_key=certificates / "extender.key", extender_client_ca=certificates / "ca.pem", **of,
    )  # fmt: skip
    answered: list[None] = []
    running = asyncio.create_task(Extender(plugin(), settings, lambda: answered.append(None)).run())
    try:
        async with asyncio.timeout(10):
            while True:
                with suppress(OSError):
                    (await asyncio.open_connection("127.0.0.1", port))[1].close()
                    break
                await asyncio.sleep(0.01)
        yield f"https://127.0.0.1:{port}/filter", answered
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def asked(url: str, certificates: Path, client: str) -> int:
    """The status of the answer to a client; empty: to one without a certificate."""
    context = ssl.create_default_context(cafile=certificates / "ca.pem")
    if client:
        context.load_cert_chain(certificates / f"{client}.pem", certificates / f"{client}.key")
    async with aiohttp.ClientSession() as http, http.post(url, json=QUESTION, ssl=context) as answer:
        return answer.status


async def test_default_scheduler_is_answered(certificates: Path) -> None:
    async with serving(certificates, extender_clients="default-scheduler") as (url, answered):
        assert await asked(url, certificates, "client-default-scheduler") == 200
    assert len(answered) == 1


async def test_client_of_another_name_is_refused(certificates: Path) -> None:
    async with serving(certificates, extender_clients="default-scheduler") as (url, answered):
        assert await asked(url, certificates, "client-somebody") == 403
        assert not answered
    async with serving(certificates) as (url, answered):
        assert await asked(url, certificates, "client-somebody") == 200


@pytest.mark.parametrize("client", ["", "other/client-default-scheduler"])
async def test_client_that_the_ca_has_not_signed_is_refused(certificates: Path, client: str) -> None:
    async with serving(certificates, extender_clients="default-scheduler") as (url, answered):
        with pytest.raises(aiohttp.ClientError):
            await asked(url, certificates, client)
        assert not answered
