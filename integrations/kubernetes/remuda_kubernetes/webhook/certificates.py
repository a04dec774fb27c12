"""Certificates of the webhook: a CA of its own and a server certificate, made and renewed here. Pure but for chance.

A new CA is trusted beside the former one, so the API server accepts the server certificates of both.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from remuda_kubernetes import limits


@dataclass(frozen=True, slots=True)
class Certificates:
    """PEM. `trusted`: the CAs that the API server is to trust; the first one has signed `certificate`."""

    trusted: tuple[bytes, ...]
    ca_key: bytes
    certificate: bytes
    key: bytes

    @property
    def bundle(self) -> bytes:
        return b"".join(self.trusted)

    def check(self) -> None:
        """Raises ValueError when they do not belong together, as `made` makes them."""
        try:
            ca, served = map(x509.load_pem_x509_certificate, (self.trusted[0], self.certificate))
            served.verify_directly_issued_by(ca)
            served.extensions.get_extension_for_class(x509.SubjectAlternativeName)
            keys = (_key(self.ca_key).public_key(), _key(self.key).public_key())
        except (IndexError, TypeError, InvalidSignature, x509.ExtensionNotFound) as error:
            raise ValueError(f"certificates that do not belong together: {error!r}") from None
        if keys != (ca.public_key(), served.public_key()):
            raise ValueError("a key that is not that of its certificate")

    def is_due(self, now: datetime, hosts: Sequence[str]) -> bool:
        """Whether they have to be renewed: a third of their time is left, or they are for other hosts."""
        served = x509.load_pem_x509_certificate(self.certificate)
        left = served.not_valid_after_utc - now
        named = served.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return left < timedelta(days=limits.CERTIFICATE_DAYS) / 3 or named != _names(hosts)


def made(hosts: Sequence[str], now: datetime, former: Certificates | None = None) -> Certificates:
    """New certificates for these names. `former`: its CA stays in use until two thirds of its time are over, and is
    trusted as long as it is valid."""
    if former is not None and not _is_old(former.trusted[0], now):
        ca, ca_key = x509.load_pem_x509_certificate(former.trusted[0]), _key(former.ca_key)
        trusted = former.trusted
    else:
        ca_key = ec.generate_private_key(ec.SECP256R1())
        ca = _ca(ca_key, now)
        still = () if former is None else former.trusted[:1]
        trusted = (_pem(ca), *still)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0][:64])])
    served = (
        _builder(name, ca.subject, key, now, limits.CERTIFICATE_DAYS)
        .add_extension(_names(hosts), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    return Certificates(trusted, _private(ca_key), _pem(served), _private(key))


def _names(hosts: Sequence[str]) -> x509.SubjectAlternativeName:
    return x509.SubjectAlternativeName([_name(host) for host in hosts])


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _is_old(ca: bytes, now: datetime) -> bool:
    left = x509.load_pem_x509_certificate(ca).not_valid_after_utc - now
    return left < timedelta(days=limits.CA_DAYS) / 3


# Strict clients, such as Python's from 3.13 on, trust only a CA that says what its key is for.
_CA_USAGE = x509.KeyUsage(
    key_cert_sign=True,
    crl_sign=True,
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    encipher_only=False,
    decipher_only=False,
)


def _ca(key: ec.EllipticCurvePrivateKey, now: datetime) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "remuda webhook")])
    return (
        _builder(name, name, key, now, limits.CA_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_CA_USAGE, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, days: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=limits.CLOCK_SKEW_MINUTES))
        .not_valid_after(now + timedelta(days=days))
    )


def _key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(pem, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TypeError("the key of the CA: expected one of an elliptic curve")
    return key


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
