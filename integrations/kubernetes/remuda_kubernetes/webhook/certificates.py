"""Certificates of the webhook: a CA of its own and a server certificate, made and renewed here. Pure but for chance.

A new CA is trusted beside the former one, so the API server accepts the server certificates of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from remuda_kubernetes import limits, signing


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
        """Check that the certificates are as `made` makes them. Raises ValueError when they do not belong together, as
        `made` makes them."""
        try:
            ca, served = map(x509.load_pem_x509_certificate, (self.trusted[0], self.certificate))
            served.verify_directly_issued_by(ca)
            served.extensions.get_extension_for_class(x509.SubjectAlternativeName)
            keys = [signing.key_in(pem).public_key() for pem in (self.ca_key, self.key)]
        except (IndexError, TypeError, InvalidSignature, x509.ExtensionNotFound) as error:
            raise ValueError(f"certificates that do not belong together: {error!r}") from None
        if keys != [ca.public_key(), served.public_key()]:
            raise ValueError("a key that is not that of its certificate")

    def is_due(self, now: datetime, hosts: Sequence[str]) -> bool:
        """Whether the certificates have to be renewed: less than a third of their time is left, or they are for other
        hosts."""
        served = x509.load_pem_x509_certificate(self.certificate)
        left = signing.time_left(served, now)
        named = served.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return left < timedelta(days=limits.CERTIFICATE_DAYS) / 3 or named != signing.hosts_of(hosts)


def made(hosts: Sequence[str], now: datetime, former: Certificates | None = None) -> Certificates:
    """New certificates for these names. `former`: its CA stays in use until two thirds of its time are over, and is
    trusted as long as it is valid."""
    if former is not None and not _is_old(former.trusted[0], now):
        ca, ca_key = x509.load_pem_x509_certificate(former.trusted[0]), signing.key_in(former.ca_key)
        trusted = former.trusted
    else:
        ca_key = signing.new_key()
        ca = signing.authority("remuda webhook", ca_key, _for_days(now, limits.CA_DAYS))
        still = () if former is None else former.trusted[:1]
        trusted = (signing.pem_of(ca), *still)
    key = signing.new_key()
    valid = _for_days(now, limits.CERTIFICATE_DAYS)
    served = signing.issued(hosts[0][:64], hosts, key, (ca, ca_key), valid, for_clients=False)
    return Certificates(trusted, signing.pem_of_key(ca_key), signing.pem_of(served), signing.pem_of_key(key))


def _is_old(ca: bytes, now: datetime) -> bool:
    return signing.time_left(x509.load_pem_x509_certificate(ca), now) < timedelta(days=limits.CA_DAYS) / 3


def _for_days(now: datetime, days: int) -> tuple[datetime, datetime]:
    return now - timedelta(minutes=limits.CLOCK_SKEW_MINUTES), now + timedelta(days=days)
