"""A CA and the certificates that it signs, in a directory: as deploy/tls/make-ca.sh makes them, and renewed here.

Clients read the CA's file when they connect, so a new CA is added to that file in front of the former one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from remuda_kubernetes import signing
from remuda_kubernetes.signing import PrivateKey

from .. import limits


class Certificates:
    """A directory of certificates: ca.{pem,key}, and NAME.{pem,key} of each certificate. `now`: with a time zone."""

    def __init__(self, directory: Path, now: datetime) -> None:
        self._directory = directory
        self._now = now

    def ensure_ca(self) -> None:
        """Makes the CA, or its successor when it is to be renewed."""
        self._directory.mkdir(exist_ok=True)
        still = [one for one in self._cas() if one.not_valid_after_utc > self._now]
        if still and not self._is_old(still[0], limits.CA_RENEWED_BEFORE_DAYS):
            return
        key = signing.new_key()
        made = signing.authority("remuda CA", key, self._for_days(limits.CA_DAYS))
        self._write("ca", b"".join(map(signing.pem_of, (made, *still))), key)

    def ensure(self, name: str, subject: str, hosts: Sequence[str]) -> None:
        """Makes the certificate `name`, also anew when it expires soon, is for other hosts, or the CA is another
        one. `hosts`: names and addresses.
        """
        if self._is_right(name, hosts):
            return
        issuer = self._cas()[0], signing.key_in((self._directory / "ca.key").read_bytes())
        key, valid = signing.new_key(), self._for_days(limits.CERTIFICATE_DAYS)
        made = signing.issued(subject, hosts, key, issuer, valid, for_clients=True)  # NATS servers call each other
        self._write(name, signing.pem_of(made), key)

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
        return named == signing.hosts_of(hosts) and not self._is_old(found, limits.CERTIFICATE_RENEWED_BEFORE_DAYS)

    def _is_old(self, found: x509.Certificate, before_days: int) -> bool:
        return signing.time_left(found, self._now) < timedelta(days=before_days)

    def _cas(self) -> list[x509.Certificate]:
        file = self._directory / "ca.pem"
        return x509.load_pem_x509_certificates(file.read_bytes()) if file.exists() else []

    def _for_days(self, days: int) -> tuple[datetime, datetime]:
        return self._now - timedelta(hours=1), self._now + timedelta(days=days)  # clocks differ

    def _write(self, name: str, pem: bytes, key: PrivateKey) -> None:
        file = os.open(self._directory / f"{name}.key", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(file, "wb") as out:
            out.write(signing.pem_of_key(key))
        (self._directory / f"{name}.pem").write_bytes(pem)
