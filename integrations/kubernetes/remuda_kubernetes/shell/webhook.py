"""The process of the admission webhook: an HTTPS server, its certificates, and its registration at the API server."""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections.abc import Sequence
from typing import Any, TypeVar

import aiohttp
import msgspec
import structlog
from aiohttp import web

from remuda_bus import health
from remuda_kubernetes import limits
from remuda_kubernetes.api.client import Client, Resource
from remuda_kubernetes.api.errors import ApiError, NotFound
from remuda_kubernetes.api.objects import ConfigMap, Namespace, Object, PriorityClass
from remuda_kubernetes.api.reflector import Reflector
from remuda_kubernetes.api.resources import NAMESPACES, PRIORITY_CLASSES, config_maps
from remuda_kubernetes.plugin.policy import Hold, hold_of
from remuda_kubernetes.settings import KubernetesSettings
from remuda_kubernetes.shell.certificates import CertificateStore
from remuda_kubernetes.shell.plugin import version_of
from remuda_kubernetes.shell.server import served
from remuda_kubernetes.shell.start import until_answered
from remuda_kubernetes.webhook.configuration_maps import MAPS, queues_of
from remuda_kubernetes.webhook.pods import Surroundings
from remuda_kubernetes.webhook.registration import MUTATE, VALIDATE, Place
from remuda_kubernetes.webhook.review import Request, allowed, answer, refused, request_of
from remuda_kubernetes.webhook.user_info import Denied

log = structlog.get_logger()
T = TypeVar("T", bound=Object)


class _Verdict(msgspec.Struct):
    """The answer of `/ws/v1/validate-conf`."""

    allowed: bool
    reason: str = ""


class Webhook:
    """`run()` runs until cancelled."""

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
                await store.keep()

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
        """Those of these ConfigMaps that are there. One that cannot be read counts as not there, and is logged."""
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
    """What is wrong with a queue configuration, as the web service of `webhook_validation` says. Empty: nothing, or it
    has not checked it, which is logged."""
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
