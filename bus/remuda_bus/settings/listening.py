"""The addresses on which services listen, and the files of a server with TLS."""

from __future__ import annotations

import ipaddress
import socket
from pathlib import Path
from typing import NamedTuple, Protocol


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def shown_host(host: str) -> str:
    """The host that clients may connect to: `host`, or the name of this machine if the service listens on all
    addresses."""
    try:
        everywhere = ipaddress.ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        return host
    return socket.gethostname() if everywhere else host


class TlsSettings(Protocol):
    """The settings of a server with TLS. `client_ca`: CA certificates of clients; None: clients need no certificate."""

    @property
    def certificate(self) -> Path | None: ...
    @property
    def key(self) -> Path | None: ...
    @property
    def client_ca(self) -> Path | None: ...


class ServerPem(NamedTuple):
    """The contents of the files in PEM form. `client_ca`: None: clients need no certificate."""

    key: bytes
    certificate: bytes
    client_ca: bytes | None


def server_pem(section: str, settings: TlsSettings) -> ServerPem | None:
    """The contents of the files in the settings of this section; None without a certificate. Raises ValueError that
    names the setting of a file that cannot be read or is not in PEM form."""
    if settings.certificate is None or settings.key is None:
        return None
    ca = settings.client_ca
    return ServerPem(
        _read(f"{section}.key", settings.key),
        _read(f"{section}.certificate", settings.certificate),
        None if ca is None else _read(f"{section}.client_ca", ca),
    )


def _read(name: str, file: Path) -> bytes:
    try:
        content = file.read_bytes()
    except OSError as error:
        raise ValueError(f"{name} {str(file)!r}: {error.strerror}") from None
    if b"-----BEGIN " not in content:
        raise ValueError(f"{name} {str(file)!r}: expected a file in PEM form")
    return content
