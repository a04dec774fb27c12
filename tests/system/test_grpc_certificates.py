"""Client certificates of the gRPC front end."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from remuda.embedded import NatsServer
from remuda_bus.nats import Access
from remuda_sdk.api import RegistrationFailed, connect
from tests.system.grpc_client import client, failure
from tests.system.grpc_system import System, front_end, grpc_system
from tests.system.recording_rm import Recording, asks, in_service, registration
from tests.system.running import QUEUES


@pytest.fixture
async def system(server: NatsServer) -> AsyncIterator[System]:
    async with grpc_system(server.url) as running:
        yield running


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificates(tmp_path_factory.mktemp("certificates"), "localhost", "rm-1", "team")


def make_certificates(directory: Path, *names: str) -> Path:
    """A CA, and a certificate for each name. Returns the directory."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    usage = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")
    openssl("req", "-x509", *key, *usage, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=test CA", "-days", "2")
    for name in names:
        extension = directory / f"{name}.ext"
        extension.write_text(f"subjectAltName=DNS:{name}\n")
        openssl("req", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
                "-out", f"{name}.pem", "-days", "2", "-extfile", extension.name)  # fmt: skip
    return directory


def credentials(directory: Path, name: str | None) -> grpc.ChannelCredentials:
    ca = (directory / "ca.pem").read_bytes()
    if name is None:
        return grpc.ssl_channel_credentials(ca)
    key, certificate = (directory / f"{name}.key").read_bytes(), (directory / f"{name}.pem").read_bytes()
    return grpc.ssl_channel_credentials(ca, key, certificate)


async def test_certificate_says_which_rms_a_client_may_be(system, certificates):
    tls = {
        "certificate": certificates / "localhost.pem",
        "key": certificates / "localhost.key",
        "client_ca": certificates / "ca.pem",
        "clients": ("team=team-*",),
    }
    async with front_end(system.url, system.bus, "secure", **tls) as port:
        for name, rm_id, allowed in (
            ("rm-1", "rm-1", True),
            ("rm-1", "rm-2", False),
            ("team", "team-a", True),
            ("team", "team", False),
        ):
            async with client(port, rm_id, credentials(certificates, name)) as rm:
                if allowed:
                    assert await rm.register() == 1
                    call = rm.open("node")
                    await call.initial_metadata()
                    call.cancel()
                    continue
                for refused in (rm.register(), rm.open("node").read()):
                    error = await failure(refused)
                    assert error.code() == grpc.StatusCode.PERMISSION_DENIED
                    assert f"the client certificate is for {name}" in error.details()
        async with client(port, "rm-1", credentials(certificates, None)) as rm:
            assert (await failure(rm.register())).code() == grpc.StatusCode.UNAVAILABLE


async def test_api_with_a_certificate(system, certificates):
    """`grpcs://` of the Python API: with the certificate of its RM, of another one, and with a CA that is not the
    server's."""
    tls = {
        "certificate": certificates / "localhost.pem",
        "key": certificates / "localhost.key",
        "client_ca": certificates / "ca.pem",
    }
    own, other, stranger = (
        Access(ca=certificates / ca, cert=certificates / f"{name}.pem", key=certificates / f"{name}.key")
        for ca, name in (("ca.pem", "rm-1"), ("ca.pem", "team"), ("team.pem", "rm-1"))
    )
    async with front_end(system.url, system.bus, "secure", **tls) as port:
        rm = Recording()
        async with connect(f"grpcs://localhost:{port}", access=own) as scheduler:
            await in_service(scheduler, rm, QUEUES, "n1")
            await scheduler.update_allocation(asks("k1"))
            await rm.until(lambda: "k1" in rm.running())
        for access, code in ((other, 403), (stranger, 503)):
            async with connect(f"grpcs://localhost:{port}", access=access, register_within_s=1.0) as scheduler:
                with pytest.raises(RegistrationFailed) as failed:
                    await scheduler.register_resource_manager(registration(QUEUES), Recording())
                assert failed.value.code == code
