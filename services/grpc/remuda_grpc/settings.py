"""Settings of the gRPC front end, beyond those of every service."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import AfterValidator, model_validator

from remuda_bus import name_patterns
from remuda_bus.settings import ReadableFile, Texts, is_loopback, setting
from remuda_grpc import limits
from remuda_operations.operators import certified
from remuda_replication.process import Settings


def _clients(entries: tuple[str, ...]) -> tuple[str, ...]:
    for entry in entries:
        name, equals, pattern = entry.partition("=")
        if not (name and equals):
            raise ValueError(f"expected NAME=RM, found {entry!r}")
        name_patterns.check(pattern)
    return entries


def _operators(entries: tuple[str, ...]) -> tuple[str, ...]:
    certified(entries)
    return entries


class GrpcSettings(Settings):
    """The settings of the gRPC front end.

    Any process that reaches the port may act for any RM, unless client certificates are required. So they are, on every
    address but loopback, unless `open` says that something else protects the port.
    """

    host: str = setting("grpc.host", "127.0.0.1", "address to listen on")
    port: int = setting("grpc.port", limits.PORT, "port", ge=0, le=65535)
    certificate: ReadableFile = setting("grpc.certificate", None, "file: certificate chain")
    key: ReadableFile = setting("grpc.key", None, "file: private key")
    client_ca: ReadableFile = setting(
        "grpc.client_ca", None, "file: CA of client certificates, which clients then need"
    )
    clients: Annotated[Texts, AfterValidator(_clients)] = setting(
        "grpc.clients", (),
        "rmIDs of client certificates, as `NAME=RM`, or a pattern as in `rms.allowed`; "
        "others use the rmID of their name",
    )  # fmt: skip
    operators: Annotated[Texts, AfterValidator(_operators)] = setting(
        "grpc.operators", (),
        "operators by client certificate, as `NAME=OPERATOR` or `NAME=OPERATOR+GROUP+GROUP`",
    )  # fmt: skip
    open: bool = setting("grpc.open", False, "listen beyond loopback without client certificates")

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("grpc.certificate and grpc.key: expected both or neither")
        if self.client_ca is not None and self.certificate is None:
            raise ValueError("grpc.client_ca: expected grpc.certificate and grpc.key, too")
        if self.client_ca is None and not self.open and not is_loopback(self.host):
            raise ValueError(
                f"grpc.host={self.host!r}: expected a loopback address, or client certificates (grpc.client_ca), or "
                "grpc.open=true where something else protects the port"
            )
        return self

    @property
    def address(self) -> str:
        host = self.host.strip("[]")
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"
