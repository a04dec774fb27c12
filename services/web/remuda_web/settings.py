"""Settings of the web service, beyond those of every service."""

from __future__ import annotations

from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, model_validator

from remuda_bus.settings import ReadableFile, SchedulerAclSettings, Texts, is_loopback, setting
from remuda_operations.operators import certified
from remuda_web import limits


def _operators(entries: tuple[str, ...]) -> tuple[str, ...]:
    certified(entries)
    return entries


def _secure(url: str | None) -> str | None:
    if url is None:
        return None
    parts = urlsplit(url)
    if parts.hostname is None or not (
        parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname))
    ):
        raise ValueError(f"expected a URL with https, found {url!r}")
    return url


Url = Annotated[str | None, AfterValidator(_secure)]


class WebSettings(SchedulerAclSettings):
    """Any client that reaches the port reads everything, unless it has to say who it is. So it has, on every address
    but loopback, unless `open` says that something else protects the port."""

    host: str = setting("web.host", "127.0.0.1", "address to listen on")
    port: int = setting("web.port", limits.PORT, "port", ge=0, le=65535)
    certificate: ReadableFile = setting("web.certificate", None, "file: certificate chain; with it, HTTPS")
    key: ReadableFile = setting("web.key", None, "file: private key")
    tokens: ReadableFile = setting(
        "web.tokens", None, "file: bearer tokens, lines `TOKEN OPERATOR` or `TOKEN OPERATOR+GROUP+GROUP`"
    )
    client_ca: ReadableFile = setting(
        "web.client_ca", None,
        "file: CA of client certificates, whose names are those of operators",
    )  # fmt: skip
    operators: Annotated[Texts, AfterValidator(_operators)] = setting(
        "web.operators", (),
        "operators by client certificate, as `NAME=OPERATOR` or `NAME=OPERATOR+GROUP+GROUP`; "
        "others: their common name",
    )  # fmt: skip
    openid_issuer: Url = setting(
        "web.openid_issuer", None, "URL of an OpenID provider, whose tokens count and where people log in"
    )
    openid_client: str = setting("web.openid_client", "remuda", "client ID at the provider")
    openid_secret: ReadableFile = setting(
        "web.openid_secret", None, "file: client secret at the provider; none: a public client"
    )
    openid_audience: str = setting("web.openid_audience", "", "audience of bearer tokens; empty: the client ID")
    openid_scope: str = setting("web.openid_scope", "openid profile", "scopes that a login asks for")
    openid_name: str = setting("web.openid_name", "sub", "claim with the operator's name")
    openid_groups: str = setting("web.openid_groups", "groups", "claim with the operator's groups")
    session_key: ReadableFile = setting(
        "web.session_key", None,
        "file: key that signs cookies, the same for all web services",
    )  # fmt: skip
    session_s: int = setting(
        "web.session_s", 8 * 3_600, "seconds after which people log in again", ge=60, le=limits.SESSION_S
    )
    url: Url = setting("web.url", None, "URL by which browsers reach the service behind a proxy")
    prices: ReadableFile = setting("web.prices", None, "file: prices of resources (docs/time.md)")
    restricted: bool = setting(
        "web.restricted",
        False,
        "operators outside of scheduler.acl read only about queues that they may submit to or administer",
    )
    open: bool = setting("web.open", False, "listen beyond loopback for clients without a name")

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("web.certificate and web.key: expected both or neither")
        if self.client_ca is not None and self.certificate is None:
            raise ValueError("web.client_ca: expected web.certificate and web.key, too")
        if self.session_key is not None and len(self.session_key.read_text().strip()) < limits.SESSION_KEY_CHARACTERS:
            raise ValueError(f"web.session_key: expected at least {limits.SESSION_KEY_CHARACTERS} characters")
        if self.restricted and not self.knows_clients:
            raise ValueError("web.restricted: expected web.tokens, web.client_ca or web.openid_issuer, too")
        if not self.knows_clients and not self.open and not is_loopback(self.host):
            raise ValueError(
                f"web.host={self.host!r}: expected a loopback address, or clients with a name (web.tokens, "
                "web.client_ca, web.openid_issuer), or web.open=true where something else protects the port"
            )
        return self

    @property
    def knows_clients(self) -> bool:
        """Whether every client has to authenticate."""
        return any(one is not None for one in (self.tokens, self.client_ca, self.openid_issuer))

    @property
    def scheme(self) -> str:
        return "http" if self.certificate is None else "https"
