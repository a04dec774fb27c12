"""The process of the admission webhook: an HTTPS server, its registration at the API server, and its certificates in a
secret, which all processes of the webhook share."""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
import ssl
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar

import aiohttp
import msgspec
import structlog
from aiohttp import web

from remuda_bus import health
from remuda_kubernetes import limits
from remuda_kubernetes.api.client import (
    NAMESPACES,
    PRIORITY_CLASSES,
    ApiError,
    Client,
    Conflict,
    NotFound,
    Resource,
    config_maps,
)
from remuda_kubernetes.api.objects import ConfigMap, Namespace, Object, PriorityClass
from remuda_kubernetes.api.reflector import Reflector
from remuda_kubernetes.plugin.plugin import Hold, hold_of
from remuda_kubernetes.settings import KubernetesSettings
from remuda_kubernetes.shell.controller import version_of
from remuda_kubernetes.shell.server import served
from remuda_kubernetes.shell.start import until_answered
from remuda_kubernetes.webhook.certificates import Certificates, made
from remuda_kubernetes.webhook.registration import MUTATE, NAME, VALIDATE, Place, registrations
from remuda_kubernetes.webhook.review import (
    MAPS,
    Denied,
    Request,
    Surroundings,
    allowed,
    answer,
    queues_of,
    refused,
    request_of,
)

log = structlog.get_logger()
T = TypeVar("T", bound=Object)


class _Verdict(msgspec.Struct):
    """The answer of `/ws/v1/validate-conf`."""

    allowed: bool
    reason: str = ""


class Webhook:
    """Runs the webhook until it is cancelled (`run()`)."""

    def __init__(self, client: Client, settings: KubernetesSettings) -> None:
        self._client = client
        self._settings = settings
        self._policy = settings.webhook_policy(client.namespace, gates=False)
        self._namespaces: dict[str, Namespace] = {}
        self._priority_classes: dict[str, PriorityClass] = {}
        self._http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(limits.VALIDATION_WITHIN_S))

    async def run(self) -> None:
        settings = self._settings
        hold = hold_of(settings.hold, await version_of(self._client))
        self._policy = settings.webhook_policy(self._client.namespace, gates=hold is Hold.GATES)
        place = Place(self._client.namespace, settings.webhook_service, settings.webhook_url)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        store = CertificateStore(self._client, place, settings.webhook_secret, context)
        health.PROCESS_HEALTH.set_status("reads the Kubernetes cluster", ready=False)
        reflectors: list[Reflector[Any]] = [
            self._reflector(NAMESPACES, self._namespaces),
            self._reflector(PRIORITY_CLASSES, self._priority_classes),
        ]
        async with self._http, asyncio.TaskGroup() as tasks:
            for reflector in reflectors:
                tasks.create_task(reflector.run())
                await reflector.synced.wait()
            await until_answered(store.load, "reads the certificates of the webhook")
            store.serve()
            routes = [web.post(MUTATE, self._mutate), web.post(VALIDATE, self._validate)]
            async with served(routes, settings.webhook_host, settings.webhook_port, limits.REVIEW_BYTES, context):
                await until_answered(store.register, "registers the webhook")
                log.info("answers the API server", host=settings.webhook_host, port=settings.webhook_port)
                health.PROCESS_HEALTH.set_status("reviews pods")
                for collection in registrations(place, b""):
                    tasks.create_task(self._watching(collection, store).run())
                await store.keep()

    def _watching(self, collection: str, store: CertificateStore) -> Reflector[Object]:
        """Follows a registration of the webhook. Without the right to watch it, the store looks at it every hour."""

        def changed(_: Object) -> None:
            store.registration_changed.set()

        return Reflector(self._client, Resource(collection, Object, NAME), changed, changed, served=lambda _: None)

    def _reflector(self, resource: Resource[T], known: dict[str, T]) -> Reflector[T]:
        def changed(value: T) -> None:
            known[value.metadata.name] = value

        def gone(value: T) -> None:
            known.pop(value.metadata.name, None)

        return Reflector(self._client, resource, changed, gone)

    async def _mutate(self, request: web.Request) -> web.Response:
        review = await _read(request)
        around = Surroundings(
            review.namespace,
            self._namespaces.get(review.namespace),
            self._priority_classes,
            secrets.token_hex(limits.UNIQUE_BYTES),
        )
        return web.json_response(answer(review, self._policy, around))

    async def _validate(self, request: web.Request) -> web.Response:
        review = await _read(request)
        maps = self._settings.config_maps or MAPS
        if review.name not in maps or review.object is None:
            return web.json_response(allowed(review.uid))
        at = maps.index(review.name)
        below, above = await asyncio.gather(self._stored(maps[:at]), self._stored(maps[at + 1 :]))
        try:
            text = queues_of(review.object, below, above)
        except Denied as denied:
            return web.json_response(refused(review.uid, str(denied)))
        problem = await problem_of(self._http, self._settings, text) if text.strip() else ""
        return web.json_response(refused(review.uid, problem) if problem else allowed(review.uid))

    async def _stored(self, names: Sequence[str]) -> list[ConfigMap]:
        """The ConfigMaps with these names that exist. A ConfigMap that cannot be read is left out, and the failure is
        logged."""
        found: list[ConfigMap] = []
        for name in names:
            path = f"{config_maps(self._client.namespace).path}/{name}"
            try:
                found.append(await self._client.get(path, ConfigMap))
            except NotFound:
                continue
            except ApiError as error:
                log.warning("a ConfigMap cannot be read; others are checked without it", name=name, error=str(error))
        return found


async def problem_of(http: aiohttp.ClientSession, settings: KubernetesSettings, text: str) -> str:
    """The problem of a queue configuration, as the web service of `webhook_validation` says; empty: there is none, or
    the service did not check the configuration, which is logged."""
    if not settings.webhook_validation:
        return ""
    url = settings.webhook_validation.rstrip("/")
    token, ca = settings.webhook_validation_token, settings.webhook_validation_ca
    try:
        headers = {"Authorization": f"Bearer {token.read_text().strip()}"} if token else {}
        trusted = ssl.create_default_context(cafile=ca) if ca else True
        async with http.post(
            f"{url}/ws/v1/validate-conf", data=text.encode(), headers=headers, ssl=trusted
        ) as answered:
            answered.raise_for_status()
            verdict = msgspec.json.decode(await answered.read(), type=_Verdict)
    except (aiohttp.ClientError, OSError, ValueError) as error:
        log.warning("a configuration was not checked", error=str(error) or type(error).__name__)
        return ""
    return "" if verdict.allowed else verdict.reason or "not allowed"


async def _read(request: web.Request) -> Request:
    try:
        return request_of(await request.read())
    except ValueError as error:
        raise web.HTTPBadRequest(text=str(error)) from None


_TRUSTED, _CA_KEY, _CERTIFICATE, _KEY = "ca.crt", "ca.key", "tls.crt", "tls.key"


class CertificateStore:
    """Keeps the webhook's certificates in a secret. `context`: the TLS context of the server. New connections use what
    was loaded last."""

    def __init__(self, client: Client, place: Place, secret: str, context: ssl.SSLContext) -> None:
        self._client = client
        self._place = place
        self._secret = secret
        self._path = f"/api/v1/namespaces/{place.namespace}/secrets"
        self._context = context
        self.registration_changed = asyncio.Event()
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
        """The certificates that were loaded last."""
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
            with suppress(TimeoutError):
                async with asyncio.timeout(limits.CERTIFICATE_CHECK_S):
                    await self.registration_changed.wait()
                    # Its own changes come back, too; and two versions of the webhook may want different ones.
                    await asyncio.sleep(limits.REGISTRATION_PAUSE_S)
            self.registration_changed.clear()
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
    """The certificates of a secret; None: the secret has no usable certificates."""
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
