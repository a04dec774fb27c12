"""Certificates of the webhook, in virtual time, and its registration."""

from __future__ import annotations

import base64
import gzip
import json
import ssl
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature

from remuda_kubernetes import limits
from remuda_kubernetes.api.client import NotFound
from remuda_kubernetes.api.objects import ConfigMap, Metadata
from remuda_kubernetes.shell.webhook import CertificateStore, certificates_of
from remuda_kubernetes.webhook.certificates import Certificates, made
from remuda_kubernetes.webhook.registration import MUTATING, Place, registrations
from remuda_kubernetes.webhook.review import TEMPLATES, Denied, queues_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOSTS = ("remuda-webhook.remuda.svc",)


def later(days: float) -> datetime:
    return NOW + timedelta(days=days)


def is_trusted(certificates: Certificates, by: Certificates) -> bool:
    served = x509.load_pem_x509_certificate(certificates.certificate)
    for pem in by.trusted:
        with suppress(InvalidSignature, ValueError):
            served.verify_directly_issued_by(x509.load_pem_x509_certificate(pem))
            return True
    return False


def test_certificate_is_due_when_a_third_of_its_time_is_left() -> None:
    first = made(HOSTS, NOW)
    assert is_trusted(first, first)
    assert not first.is_due(later(limits.CERTIFICATE_DAYS * 0.6), HOSTS)
    assert first.is_due(later(limits.CERTIFICATE_DAYS * 0.7), HOSTS)
    assert first.is_due(NOW, ("another",))


def test_certificate_is_renewed_under_the_same_ca() -> None:
    first = made(HOSTS, NOW)
    second = made(HOSTS, later(60), first)
    assert (second.trusted, second.certificate != first.certificate) == (first.trusted, True)
    assert is_trusted(second, first)


def test_new_ca_is_trusted_beside_the_former_one() -> None:
    first = made(HOSTS, NOW)
    second = made(HOSTS, later(limits.CA_DAYS * 0.7), first)
    third = made(HOSTS, later(limits.CA_DAYS * 1.4), second)
    assert len(second.trusted) == len(third.trusted) == 2
    assert is_trusted(first, second) and is_trusted(second, second) and is_trusted(second, third)
    assert not is_trusted(second, first)
    assert not is_trusted(first, third)


def test_strict_client_trusts_what_was_made(tmp_path: Path) -> None:
    certificates = made(HOSTS, datetime.now(UTC))
    file = tmp_path / "served.pem"
    file.write_bytes(certificates.key + certificates.certificate)
    server_side = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server_side.load_cert_chain(file)
    client_side = ssl.create_default_context(cadata=certificates.bundle.decode())
    client_side.verify_flags |= ssl.VERIFY_X509_STRICT
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_side.wrap_bio(to_server, to_client, server_side=True)
    client = client_side.wrap_bio(to_client, to_server, server_hostname=HOSTS[0])
    for _ in range(3):  # Messages of a handshake in turn.
        for side in (client, server):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
    assert client.version() == server.version() == "TLSv1.3"


class Secrets:
    """An API server that keeps one secret."""

    def __init__(self) -> None:
        self.secret: dict[str, Any] | None = None

    async def call(self, verb: str, path: str, body: dict[str, Any] | None = None) -> bytes:
        if body is not None:
            self.secret = body | {"metadata": body["metadata"] | {"resourceVersion": "1"}}
        if self.secret is None:
            raise NotFound("no secret", 404)
        return json.dumps(self.secret).encode()

    async def create(self, path: str, body: dict[str, Any]) -> bytes:
        return await self.call("POST", path, body)


async def test_secret_that_was_deleted_is_made_anew_and_other_processes_stay_trusted() -> None:
    """They serve the certificate of the former CA until they look again."""
    api, context = Secrets(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    first, other = (
        CertificateStore(api, Place("remuda", "remuda-webhook"), "remuda-webhook", context)  # type: ignore[arg-type]
        for _ in range(2)
    )
    for one in (first, other):
        await one.load()
    api.secret = None
    served = other.certificates
    await first.load()
    assert first.certificates != served
    assert is_trusted(served, first.certificates)
    await other.load()
    assert other.certificates == first.certificates


def test_secret_without_certificates_counts_as_none() -> None:
    made_now = made(HOSTS, NOW)
    data = {
        "ca.crt": made_now.bundle, "ca.key": made_now.ca_key, "tls.crt": made_now.certificate, "tls.key": made_now.key,
    }  # fmt: skip
    encoded = {name: base64.b64encode(value).decode() for name, value in data.items()}
    assert certificates_of(encoded) == made_now
    assert certificates_of({}) is None
    assert certificates_of(encoded | {"tls.crt": "bm9uZQ=="}) is None
    other = made(("another",), NOW)
    for name, value in (("tls.key", other.key), ("ca.key", other.ca_key), ("ca.key", b"none"), ("tls.key", b"none"),
                        ("tls.crt", other.bundle), ("ca.crt", other.bundle)):  # fmt: skip
        assert certificates_of(encoded | {name: base64.b64encode(value).decode()}) is None, name


def test_only_managed_namespaces_depend_on_the_webhook() -> None:
    managed, others = registrations(Place("remuda", "remuda-webhook"), b"pem")[MUTATING]["webhooks"]
    assert (managed["failurePolicy"], others["failurePolicy"]) == ("Fail", "Ignore")
    for hook in (managed, others):
        excluded = [one for one in hook["namespaceSelector"]["matchExpressions"] if one["operator"] == "NotIn"]
        assert any("remuda" in one["values"] for one in excluded)


def test_all_workloads_with_templates_are_reviewed() -> None:
    """The controller of one that is not could name any user."""
    resources = {
        resource
        for hook in registrations(Place("remuda", "remuda-webhook"), b"pem")[MUTATING]["webhooks"]
        for rule in hook["rules"]
        for resource in rule["resources"]
    }
    assert resources == {"pods", *(f"{kind.lower()}s" for kind in TEMPLATES)}


# Config maps (admission_controller 7 to 9; configmap 1, 2)


def text_in(**contents: dict[str, str]) -> str:
    return queues_of({"metadata": {"name": "remuda-configs"}, **contents})


@pytest.mark.parametrize(
    "contents",
    [
        {"data": {"queues.yaml": "text"}},
        {"binaryData": {"queues.yaml.gz": base64.b64encode(gzip.compress(b"text")).decode()}},
        {"data": {"service.policyGroup": "blue", "blue.yaml": "text", "queues.yaml": "other"}},
        {"data": {"queues.yaml": "other"}, "binaryData": {"queues.yaml": base64.b64encode(b"text").decode()}},
    ],
)
def test_queues_are_found_in_a_map(contents: dict[str, dict[str, str]]) -> None:
    assert text_in(**contents) == "text"


def test_empty_map_and_one_with_other_settings_are_accepted() -> None:
    assert text_in() == ""
    assert text_in(data={"log.level": "INFO"}) == ""
    assert text_in(data={"timing.completing": "10s", "compatibility": "yunikorn-1.4"}) == ""


def config_map(**data: str) -> ConfigMap:
    return ConfigMap(metadata=Metadata(name="another"), data=data)


def test_map_is_checked_together_with_the_others() -> None:
    """As the front end reads them: the policy group may be in another map."""
    changed = {"metadata": {"name": "yunikorn-configs"}, "data": {"blue.yaml": "text"}}
    group = config_map(**{"service.policyGroup": "blue", "queues.yaml": "other"})
    assert queues_of(changed, below=[group]) == "text"
    assert queues_of(changed, above=[group, config_map(**{"blue.yaml": "on top"})]) == "text"
    with pytest.raises(Denied, match=r"expected the key queues\.yaml"):
        queues_of(changed)


def test_map_that_chooses_the_queues_of_another_one_is_checked_with_them() -> None:
    chosen = {"metadata": {"name": "remuda-configs"}, "data": {"service.policyGroup": "blue"}}
    assert queues_of(chosen, below=[config_map(**{"blue.yaml": "text"})]) == "text"
    other = {"metadata": {"name": "remuda-configs"}, "data": {"log.level": "INFO"}}
    assert queues_of(other, below=[config_map(**{"queues.yaml": "as before"})]) == ""


def test_other_map_that_cannot_be_read_is_left_out() -> None:
    broken = ConfigMap(metadata=Metadata(name="another"), binary_data={"queues.yaml.gz": "!"})
    changed = {"metadata": {"name": "remuda-configs"}, "data": {"queues.yaml": "text"}}
    assert queues_of(changed, below=[broken]) == "text"


def test_map_without_a_known_key_is_refused() -> None:
    with pytest.raises(Denied, match="expected the key queues.yaml"):
        text_in(data={"queue.yaml": ""})


def test_what_is_not_unpacked_is_refused() -> None:
    bomb = base64.b64encode(gzip.compress(bytes(limits.CONFIGURATION_BYTES + 1))).decode()
    cut = base64.b64encode(gzip.compress(b"text")[:-9]).decode()
    for encoded in (cut, "!", base64.b64encode(b"no gzip").decode(), bomb):
        with pytest.raises(Denied):
            text_in(binaryData={"queues.yaml.gz": encoded})
