"""Settings of the front end, and which rmIDs a certificate is for."""

from pathlib import Path

import grpc
import pytest
from pydantic import ValidationError

from remuda_grpc.identity import Clients
from remuda_grpc.settings import GrpcSettings
from remuda_grpc.status import Failure
from remuda_operations.operators import certificate_names


@pytest.fixture
def pem(tmp_path: Path) -> Path:
    file = tmp_path / "file.pem"
    file.write_text("-----BEGIN CERTIFICATE-----\n")
    return file


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "[::1]", "localhost"])
def test_loopback_needs_no_certificates(host):
    assert GrpcSettings(host=host).host == host


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.com"])
def test_other_addresses_need_client_certificates(host, pem):
    with pytest.raises(ValidationError, match=r"grpc.host='.*': expected a loopback address"):
        GrpcSettings(host=host)
    with pytest.raises(ValidationError, match="expected a loopback address"):
        GrpcSettings(host=host, certificate=pem, key=pem)
    assert GrpcSettings(host=host, certificate=pem, key=pem, client_ca=pem).client_ca == pem
    assert GrpcSettings(host=host, open=True).open


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"certificate": True}, "expected both or neither"),
        ({"client_ca": True}, "expected grpc.certificate"),
        ({"clients": ("a",)}, "expected NAME=RM, found 'a'"),
        ({"clients": ("a=/(/",)}, "missing"),
        ({"port": 70_000}, "65535"),
    ],
)
def test_settings_that_contradict_each_other(given, said, pem):
    with pytest.raises(ValidationError, match=said):
        GrpcSettings(**{key: pem if value is True else value for key, value in given.items()})


@pytest.mark.parametrize(
    ("host", "address"),
    [("127.0.0.1", "127.0.0.1:3333"), ("::1", "[::1]:3333"), ("[::1]", "[::1]:3333"), ("localhost", "localhost:3333")],
)
def test_address(host, address):
    assert GrpcSettings(host=host, port=3333).address == address


@pytest.mark.parametrize(
    ("names", "rm_id", "allowed"),
    [
        ({"rm-1"}, "rm-1", True),
        ({"rm-1"}, "rm-2", False),
        ({"team"}, "team-1", True),
        ({"team"}, "team", False),
        ({"team"}, "gpu", True),
        ({"team"}, "other", False),
        ({"x", "rm-1"}, "rm-1", True),
        (set(), "rm-1", False),
        ({"*"}, "rm-1", False),
    ],
)
def test_certificate_is_for_the_listed_rms_or_for_its_own_name(names, rm_id, allowed):
    clients = Clients(True, ("team=team-*", "team=gpu"))
    if allowed:
        clients.check(frozenset(names), rm_id)
    else:
        with pytest.raises(Failure) as failure:
            clients.check(frozenset(names), rm_id)
        assert failure.value.code == grpc.StatusCode.PERMISSION_DENIED


def test_without_certificates_each_client_may_be_each_rm():
    Clients(False, ()).check(frozenset(), "rm-1")


def test_names_are_the_common_and_the_alternative_ones():
    auth = {
        "x509_common_name": [b"a"],
        "x509_subject_alternative_name": [b"b", b"\xff"],
        "transport_security_type": [b"ssl"],
    }
    assert certificate_names(auth) == {"a", "b", "\ufffd"}
