"""The certificates of the webhook in a secret, which all its processes share, and in the API server's configuration."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import structlog

from remuda_kubernetes import limits
from remuda_kubernetes.api.client import Client
from remuda_kubernetes.api.errors import ApiError, Conflict, NotFound
from remuda_kubernetes.webhook.certificates import Certificates, made
from remuda_kubernetes.webhook.registration import NAME, Place, registrations

log = structlog.get_logger()
_TRUSTED, _CA_KEY, _CERTIFICATE, _KEY = "ca.crt", "ca.key", "tls.crt", "tls.key"


class CertificateStore:
    """`context`: of the server. New connections use what was loaded last."""

    def __init__(self, client: Client, place: Place, secret: str, context: ssl.SSLContext) -> None:
        self._client = client
        self._place = place
        self._secret = secret
        self._path = f"/api/v1/namespaces/{place.namespace}/secrets"
        self._context = context
        self._certificates: Certificates | None = None
        self._served: Certificates | None = None

    async def load(self) -> None:
        """Read the certificates, and make or renew them if that is due. Raises ApiError."""
        while True:
            stored, version = await self._read()
            now = datetime.now(UTC)
            if stored is None or stored.is_due(now, self._place.hosts):
                wanted = made(self._place.hosts, now, stored)
                if stored is None and self._certificates is not None:
                    # The secret was deleted. Other processes still serve a certificate of the former CA.
                    wanted = replace(wanted, trusted=(*wanted.trusted, self._certificates.trusted[0]))
                try:
                    stored = await self._write(wanted, version)
                except Conflict:
                    continue  # another process has been faster: read its certificates
            self._certificates = stored
            return

    def serve(self) -> None:
        """Use the certificate for new connections."""
        if self._certificates is not None and self._certificates != self._served:
            _serve(self._context, self._certificates)
            self._served = self._certificates
            log.info("serves a certificate", hosts=self._place.hosts)

    @property
    def certificates(self) -> Certificates:
        """As they were loaded last."""
        if self._certificates is None:
            raise RuntimeError("no certificates: load first")
        return self._certificates

    async def register(self) -> None:
        """Tell the API server where the webhook is and which CAs to trust. Raises Conflict when another process has
        been faster, ApiError."""
        for collection, wanted in registrations(self._place, self.certificates.bundle).items():
            try:
                found = json.loads(await self._client.call("GET", f"{collection}/{NAME}"))
            except NotFound:
                await self._client.create(collection, wanted)
                continue
            if _differs(found.get("webhooks") or [], wanted["webhooks"]):
                metadata = {"name": NAME, "resourceVersion": found["metadata"]["resourceVersion"]}
                await self._client.call("PUT", f"{collection}/{NAME}", {**wanted, "metadata": metadata})

    async def keep(self) -> None:
        """Renew in time, and put back a registration that somebody has changed. Runs until cancelled."""
        while True:
            await asyncio.sleep(limits.CERTIFICATE_CHECK_S)
            try:
                await self.load()
                await self.register()  # first the new CA is trusted, then its certificate is served
                self.serve()
            except ApiError as error:
                log.warning("certificates were not checked", error=str(error))

    async def _read(self) -> tuple[Certificates | None, str]:
        try:
            found = json.loads(await self._client.call("GET", f"{self._path}/{self._secret}"))
        except NotFound:
            return None, ""
        return certificates_of(found.get("data") or {}), found["metadata"]["resourceVersion"]

    async def _write(self, certificates: Certificates, version: str) -> Certificates:
        data = {
            _TRUSTED: certificates.bundle,
            _CA_KEY: certificates.ca_key,
            _CERTIFICATE: certificates.certificate,
            _KEY: certificates.key,
        }
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "Opaque",
            "metadata": {"name": self._secret, "namespace": self._place.namespace},
            "data": {name: base64.b64encode(value).decode() for name, value in data.items()},
        }
        if version:
            body["metadata"]["resourceVersion"] = version
            await self._client.call("PUT", f"{self._path}/{self._secret}", body)
        else:
            await self._client.create(self._path, body)
        return certificates


def certificates_of(data: Mapping[str, str]) -> Certificates | None:
    """Those of a secret; None: there are none that can be used."""
    try:
        values = {name: base64.b64decode(data[name]) for name in (_TRUSTED, _CA_KEY, _CERTIFICATE, _KEY)}
        pems = tuple(f"{_BEGIN}{part}".encode() for part in values[_TRUSTED].decode().split(_BEGIN)[1:])
        found = Certificates(pems, values[_CA_KEY], values[_CERTIFICATE], values[_KEY])
        found.check()
    except (KeyError, ValueError) as error:
        log.warning("the secret has no certificates that can be used; makes new ones", reason=str(error))
        return None
    return found


_BEGIN = "-----BEGIN CERTIFICATE-----"


def _serve(context: ssl.SSLContext, certificates: Certificates) -> None:
    with tempfile.NamedTemporaryFile() as file:  # readable by this user only; OpenSSL reads files only
        file.write(certificates.certificate + certificates.key)
        file.flush()
        context.load_cert_chain(file.name)


def _differs(found: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> bool:
    """The API server adds fields with defaults."""
    return len(found) != len(wanted) or any(not _holds(one, other) for one, other in zip(found, wanted, strict=True))


def _holds(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(_holds(found.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(_holds, found, wanted))
    return bool(found == wanted)
