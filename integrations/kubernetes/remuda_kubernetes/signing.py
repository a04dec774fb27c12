"""Parts of certificates: of the webhook's, and of those of an installation (`remuda cluster-keys`).

Keys are of the curve P-256. Signatures are made with SHA-256.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PrivateKey = ec.EllipticCurvePrivateKey


def new_key() -> PrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def authority(name: str, key: PrivateKey, valid: tuple[datetime, datetime]) -> x509.Certificate:
    """The certificate of a CA, which `key` signs itself. `valid`: from when until when."""
    subject = named(name)
    return (
        builder(subject, subject, key, valid)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        # Strict clients, such as Python's from 3.13 on, trust only a CA that says what its key is for.
        .add_extension(usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def issued(
    subject: str, hosts: Sequence[str], key: PrivateKey, issuer: tuple[x509.Certificate, PrivateKey],
    valid: tuple[datetime, datetime], *, for_clients: bool,
) -> x509.Certificate:  # fmt: skip
    """A certificate of a server, and `for_clients`: also of a client, by a CA and its key. `hosts`: names and
    addresses."""
    ca, ca_key = issuer
    uses = [ExtendedKeyUsageOID.SERVER_AUTH, *([ExtendedKeyUsageOID.CLIENT_AUTH] if for_clients else [])]
    return (
        builder(named(subject), ca.subject, key, valid)
        .add_extension(hosts_of(hosts), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        # Python 3.13 refuses certificates without it.
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )


def builder(
    subject: x509.Name, issuer: x509.Name, key: PrivateKey, valid: tuple[datetime, datetime]
) -> x509.CertificateBuilder:
    """A certificate of the key, without extensions and not signed. `valid`: from when until when."""
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(valid[0])
        .not_valid_after(valid[1])
    )


def named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def hosts_of(hosts: Sequence[str]) -> x509.SubjectAlternativeName:
    """`hosts`: names and addresses."""
    return x509.SubjectAlternativeName([_host(host) for host in hosts])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def usage(*, signs_certificates: bool) -> x509.KeyUsage:
    """The usage of a key that signs certificates, else of a key that signs the messages of its owner."""
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


def time_left(certificate: x509.Certificate, now: datetime) -> timedelta:
    return certificate.not_valid_after_utc - now


def pem_of(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def pem_of_key(key: PrivateKey) -> bytes:
    """The key in PEM, without encryption."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def key_in(pem: bytes) -> PrivateKey:
    """The private key in a PEM text. Raises ValueError for a text without a key, TypeError for a key of another
    kind."""
    key = serialization.load_pem_private_key(pem, None)
    if not isinstance(key, PrivateKey):
        raise TypeError("the key of the CA: expected one of an elliptic curve")
    return key
