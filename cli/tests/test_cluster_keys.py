"""`remuda cluster-keys` without a cluster: who has a key, and certificates that strict clients accept."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from remuda.access.certificates import Certificates
from remuda.admin.cluster_keys import Wanted, bring_up_to_date, objects_of, packed, parsed, unpack
from remuda.errors import UserError
from remuda_operations.operators import Operator

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def wanted(rms: tuple[str, ...] = (), operators: tuple[str, ...] = (), clients: tuple[str, ...] | None = ()) -> Wanted:
    return parsed(rms, operators, ["web=*"], clients, ["grafana"], "cluster.local")


def test_a_second_run_changes_nothing(tmp_path: Path) -> None:
    one = wanted(("kubernetes", "a"), ("alice@example.com+ops+dev",), ("a",))
    bring_up_to_date(tmp_path / "1", "remuda", one)
    first = packed(tmp_path / "1")
    unpack(first, tmp_path / "2")
    bring_up_to_date(tmp_path / "2", "remuda", one)
    assert packed(tmp_path / "2") == first
    assert objects_of(tmp_path / "2", one) == objects_of(tmp_path / "1", one)


def test_who_is_not_named_loses_the_key(tmp_path: Path) -> None:
    both, first = wanted(("a", "b"), ("alice+ops", "bob")), wanted(("a",), ("alice+dev",))
    bring_up_to_date(tmp_path, "remuda", both)
    before = objects_of(tmp_path, both)
    bring_up_to_date(tmp_path, "remuda", first)
    after = objects_of(tmp_path, first)
    assert after["secrets", "key-rm-a"] == before["secrets", "key-rm-a"] and ("secrets", "key-rm-b") not in after
    accounts = after["configmaps", "nats-accounts"]["accounts.conf"]
    assert b"RM-a" in accounts and b"RM-b" not in accounts and b"OPERATOR-bob" not in accounts
    assert after["secrets", "operators"].keys() == {"alice.seed"}
    bring_up_to_date(tmp_path, "remuda", both)
    assert objects_of(tmp_path, both)["secrets", "key-rm-b"] != before["secrets", "key-rm-b"]  # that was revoked


def test_certificates_of_others_are_not_made(tmp_path: Path) -> None:
    one = wanted(("a",), (), None)
    bring_up_to_date(tmp_path, "remuda", one)
    assert not {name for _, name in objects_of(tmp_path, one)} & {"ca", "nats-tls", "grpc-tls"}


@pytest.mark.parametrize(
    ("rms", "operators", "front_ends", "clients", "told"),
    [
        (["My-Cluster"], [], [], [], "rm 'My-Cluster': expected lower-case letters"),
        (["a>b"], [], [], [], "rmID 'a>b'"),
        ([], ["al ice"], [], [], "al ice"),
        ([], [], ["core=alice"], [], "front end 'core': expected grpc or web"),
        ([], [], [], ["A_B"], "client 'A_B': expected lower-case letters"),
    ],
)
def test_wrong_names_are_refused(
    rms: list[str], operators: list[str], front_ends: list[str], clients: list[str], told: str
) -> None:
    with pytest.raises(UserError) as raised:
        parsed(rms, operators, front_ends, clients, [], "cluster.local")
    assert told in str(raised.value)


def test_operators_of_one_name_in_a_secret_are_refused(tmp_path: Path) -> None:
    one = wanted((), ("alice@x", "alice/x"))
    assert one.operators == (Operator("alice@x"), Operator("alice/x"))
    bring_up_to_date(tmp_path, "remuda", one)
    with pytest.raises(UserError, match=r"alice@x and alice/x"):
        objects_of(tmp_path, one)


# Certificates


def shake_hands(directory: Path, ca: bytes, name: str) -> None:
    """Both ends show the server's certificate, as NATS servers do among each other. Raises ssl.SSLError."""
    contexts = []
    for purpose in (ssl.Purpose.CLIENT_AUTH, ssl.Purpose.SERVER_AUTH):
        context = ssl.create_default_context(purpose, cadata=ca.decode())
        context.load_cert_chain(directory / "nats.pem", directory / "nats.key")
        context.verify_mode = ssl.CERT_REQUIRED
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        contexts.append(context)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = contexts[0].wrap_bio(to_server, to_client, server_side=True)
    client = contexts[1].wrap_bio(to_client, to_server, server_hostname=name)
    for end in (client, server, client, server):
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue
    assert server.getpeercert() and client.getpeercert()


@pytest.mark.parametrize("name", ["nats-0.nats.here.svc.cluster.local", "nats", "localhost", "nats.here.svc"])
def test_strict_clients_accept_the_servers(tmp_path: Path, name: str) -> None:
    bring_up_to_date(tmp_path, "here", wanted())
    shake_hands(tmp_path / "tls", (tmp_path / "tls/ca.pem").read_bytes(), name)


def test_a_server_of_another_namespace_is_refused(tmp_path: Path) -> None:
    bring_up_to_date(tmp_path, "here", wanted())
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(tmp_path / "tls", (tmp_path / "tls/ca.pem").read_bytes(), "nats.there.svc")


def test_certificates_are_renewed_long_before_they_expire(tmp_path: Path) -> None:
    def ensure(after_days: int) -> tuple[bytes, bytes]:
        certificates = Certificates(tmp_path, NOW + timedelta(days=after_days))
        certificates.ensure_ca()
        certificates.ensure("nats", "nats", ["nats", "127.0.0.1"])
        return (tmp_path / "ca.pem").read_bytes(), (tmp_path / "nats.pem").read_bytes()

    ca, first = ensure(0)
    assert ensure(364) == (ca, first)
    assert ensure(366)[0] == ca and ensure(366)[1] != first
    # A new CA is in front of the former one, which signed what servers still show.
    both, renewed = ensure(3650 - 1000)
    assert both != ca and both.endswith(ca)
    cas = x509.load_pem_x509_certificates(both)
    x509.load_pem_x509_certificate(renewed).verify_directly_issued_by(cas[0])
    assert not ensure(2 * 3650 - 1500)[0].endswith(ca)  # it has expired when the next one is made


def test_other_hosts_are_another_certificate(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path, NOW)
    certificates.ensure_ca()
    certificates.ensure("nats", "nats", ["nats"])
    first = (tmp_path / "nats.pem").read_bytes()
    certificates.ensure("nats", "nats", ["nats", "nats.example"])
    assert (tmp_path / "nats.pem").read_bytes() != first
