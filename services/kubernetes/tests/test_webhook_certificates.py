"""Certificates of the webhook, in virtual time, and its registration."""

from __future__ import annotations

import base64
import gzip
import ssl
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature

from remuda_kubernetes import limits
from remuda_kubernetes.shell.certificates import certificates_of
from remuda_kubernetes.webhook.certificates import Certificates, made
from remuda_kubernetes.webhook.configuration_maps import queues_of
from remuda_kubernetes.webhook.registration import MUTATING, Place, registrations
from remuda_kubernetes.webhook.user_info import TEMPLATES, Denied

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


def test_map_without_a_known_key_is_refused() -> None:
    with pytest.raises(Denied, match="expected the key queues.yaml"):
        text_in(data={"queue.yaml": ""})


def test_what_is_not_unpacked_is_refused() -> None:
    bomb = base64.b64encode(gzip.compress(bytes(limits.CONFIGURATION_BYTES + 1))).decode()
    cut = base64.b64encode(gzip.compress(b"text")[:-9]).decode()
    for encoded in (cut, "!", base64.b64encode(b"no gzip").decode(), bomb):
        with pytest.raises(Denied):
            text_in(binaryData={"queues.yaml.gz": encoded})
