"""Settings of the web service, beyond those of every service."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from remuda_bus.process import Settings
from remuda_bus.settings import ReadableFile, is_loopback, setting
from remuda_web import limits


class WebSettings(Settings):
    """Any client that reaches the port reads everything, unless it needs a token. So it does, on every address but
    loopback, unless `open` says that something else protects the port."""

    host: str = setting("web.host", "127.0.0.1", "address to listen on; `0.0.0.0` or `::`: all addresses")
    port: int = setting("web.port", limits.PORT, "port; 0: any free one, shown by `remuda status`", ge=0, le=65535)
    certificate: ReadableFile = setting("web.certificate", None, "file: certificate chain; with it, HTTPS")
    key: ReadableFile = setting("web.key", None, "file: private key of the certificate")
    tokens: ReadableFile = setting(
        "web.tokens", None, "file: bearer tokens, a line `TOKEN NAME` each; with it, every request needs one"
    )
    open: bool = setting("web.open", False, "listen on an address other than loopback without tokens")

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("web.certificate and web.key: expected both or neither")
        if self.tokens is None and not self.open and not is_loopback(self.host):
            raise ValueError(
                f"web.host={self.host!r}: expected a loopback address, or bearer tokens (web.tokens), or "
                "web.open=true where something else protects the port"
            )
        return self

    @property
    def scheme(self) -> str:
        return "http" if self.certificate is None else "https"
