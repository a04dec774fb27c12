"""A CA and the certificates that it signs, in a directory: as deploy/tls/make-ca.sh makes them, and renewed here.

Clients read the CA's file when they connect, so a new CA is added to that file in front of the former one.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from .. import limits


class Certificates:
    """`directory`/ca.{pem,key}, and NAME.{pem,key} of each certificate. `now`: with a time zone."""

    def __init__(self, directory: Path, now: datetime) -> None:
        self._directory = directory
        self._now = now

    def ensure_ca(self) -> None:
        """Make the CA, or its successor when it is to be renewed."""
        self._directory.mkdir(exist_ok=True)
        still = [one for one in self._cas() if one.not_valid_after_utc > self._now]
        if still and not self._is_old(still[0], limits.CA_RENEWED_BEFORE_DAYS):
            return
        key = ec.generate_private_key(ec.SECP256R1())
        name = _subject("remuda CA")
        made = (
            self._builder(name, name, key, limits.CA_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        self._write("ca", b"".join(_pem(one) for one in (made, *still)), key)

    def ensure(self, name: str, subject: str, hosts: Sequence[str]) -> None:
        """Make the certificate `name`, or make it again when it expires soon, is for other hosts, or the CA is another
        one. `hosts`: names and addresses."""
        if self._is_right(name, hosts):
            return
        ca, ca_key = self._cas()[0], self._key("ca")
        key = ec.generate_private_key(ec.SECP256R1())
        made = (
            self._builder(_subject(subject), ca.subject, key, limits.CERTIFICATE_DAYS)
            .add_extension(_names(hosts), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            # NATS servers are clients of each other.
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            # Python 3.13 refuses certificates without it.
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
            .sign(ca_key, hashes.SHA256())
        )
        self._write(name, _pem(made), key)

    def _is_right(self, name: str, hosts: Sequence[str]) -> bool:
        file = self._directory / f"{name}.pem"
        if not file.exists():
            return False
        found = x509.load_pem_x509_certificate(file.read_bytes())
        try:
            found.verify_directly_issued_by(self._cas()[0])
        except (ValueError, TypeError, InvalidSignature):
            return False
        named = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return named == _names(hosts) and not self._is_old(found, limits.CERTIFICATE_RENEWED_BEFORE_DAYS)

    def _is_old(self, found: x509.Certificate, before_days: int) -> bool:
        return found.not_valid_after_utc - self._now < timedelta(days=before_days)

    def _cas(self) -> list[x509.Certificate]:
        file = self._directory / "ca.pem"
        return x509.load_pem_x509_certificates(file.read_bytes()) if file.exists() else []

    def _key(self, name: str) -> ec.EllipticCurvePrivateKey:
        key = serialization.load_pem_private_key((self._directory / f"{name}.key").read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)  # as `_write` writes it
        return key

    def _builder(
        self, subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - timedelta(hours=1))  # clocks differ
            .not_valid_after(self._now + timedelta(days=days))
        )

    def _write(self, name: str, pem: bytes, key: ec.EllipticCurvePrivateKey) -> None:
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        file = os.open(self._directory / f"{name}.key", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(file, "wb") as out:
            out.write(private)
        (self._directory / f"{name}.pem").write_bytes(pem)


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _names(hosts: Sequence[str]) -> x509.SubjectAlternativeName:
    return x509.SubjectAlternativeName([_name(host) for host in hosts])


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
