"""The verbs of the Kubernetes API: list, watch, create, bind, patch, delete; its errors, and the collections that
this front end reads.

Every call answers with a value or raises an ApiError, of which there is a class per reaction of a caller. Calls are not
repeated here.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final, Generic, Literal, Self, TypeVar, cast

import aiohttp
import msgspec

from remuda_kubernetes import limits
from remuda_kubernetes.api.credentials import Credentials
from remuda_kubernetes.api.objects import (
    Claim,
    ConfigMap,
    CsiDriver,
    CsiNode,
    DeviceClass,
    DisruptionBudget,
    JobSet,
    ListMetadata,
    Namespace,
    Node,
    Object,
    Pod,
    PodGroup,
    PriorityClass,
    ResourceClaim,
    ResourceSlice,
    Status,
    StorageCapacity,
    StorageClass,
    Volume,
    VolumeAttachment,
    Workload,
)
from remuda_kubernetes.shim import names

T = TypeVar("T", bound=Object)

JSON: Final = "application/json"
JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"

ADDED, MODIFIED, DELETED, BOOKMARK = "ADDED", "MODIFIED", "DELETED", "BOOKMARK"
INITIAL_END: Final = "INITIAL_END"  # the bookmark behind all objects
_LEASES: Final = "/apis/coordination.k8s.io/"
_INITIAL_END: Final = "k8s.io/initial-events-end"


class _Line(msgspec.Struct):
    type: str
    object: msgspec.Raw


_LINES: Final = msgspec.json.Decoder(_Line)
_STATUSES: Final = msgspec.json.Decoder(Status)
_BOOKMARKS: Final = msgspec.json.Decoder(Object)


class _Listed(msgspec.Struct, Generic[T]):
    metadata: ListMetadata
    items: list[T] | None = None


@dataclass(frozen=True, slots=True)
class Resource(Generic[T]):
    """A kind of objects. `path`: of its collection in all namespaces. `name`: only the object of this name, for rights
    that name it."""

    path: str
    kind: type[T]
    name: str = ""

    @property
    def selector(self) -> dict[str, str]:
        return {"fieldSelector": f"metadata.name={self.name}"} if self.name else {}


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """One event of a watch. `value`: None in a bookmark and in INITIAL_END."""

    type: str
    value: T | None
    version: str


class Pace:
    """Lets `at_once` calls pass at once, and `per_s` a second after that, in the order of their coming."""

    def __init__(self, per_s: int, at_once: int) -> None:
        self._interval_s = 1 / per_s
        self._ahead_s = at_once / per_s
        self._due = -float("inf")  # when the bucket is full again

    async def wait(self) -> None:
        now = asyncio.get_running_loop().time()
        self._due = max(self._due, now) + self._interval_s
        pause_s = self._due - now - self._ahead_s
        if pause_s > 0:
            await asyncio.sleep(pause_s)


class Client:
    """A client of one API server, used as `async with Client(credentials) as client`. Calls share limits.CONNECTIONS
    connections; watches have more."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self.eviction_version = "policy/v1"  # before 1.22 another one
        self.pace: Pace | None = None  # of calls; watches and the lease, which must not wait, have none
        self._session: aiohttp.ClientSession | None = None

    @property
    def namespace(self) -> str:
        return self._credentials.namespace

    async def __aenter__(self) -> Self:
        tls = self._credentials.tls
        connector = aiohttp.TCPConnector(limit=0, ssl=tls if tls is not None else True)
        self._session = aiohttp.ClientSession(connector=connector, headers={"Accept": JSON})
        self._slots = asyncio.Semaphore(limits.CONNECTIONS)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    # Reading

    async def list(self, resource: Resource[T]) -> tuple[list[T], str]:
        """List all objects, in pages. Returns them, and the version from which to watch. Raises Expired when a list
        takes too long."""
        decoder = msgspec.json.Decoder(_Listed[resource.kind])  # type: ignore[name-defined]
        found: list[T] = []
        query = {"limit": str(limits.LIST_PAGE), **resource.selector}
        while True:
            page = _decoded(decoder, await self.call("GET", resource.path, query=query), resource.path)
            found += page.items or ()
            if not page.metadata.next:
                return found, page.metadata.resource_version
            query["continue"] = page.metadata.next

    async def watch(self, resource: Resource[T], version: str) -> AsyncIterator[Change[T]]:
        """The changes after `version`, until the API server ends the watch. Without a version, all objects come first,
        and INITIAL_END behind them. Raises Expired when the version is too old, Rejected when the API server cannot
        begin with all objects, Away."""
        decoder = msgspec.json.Decoder(resource.kind)
        query = {
            "watch": "1",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(limits.WATCH_S),
            **resource.selector,
        }
        if not version:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        async for line in self.lines(resource.path, query):
            yield _change(line, decoder, resource.path)

    async def lines(self, path: str, query: Mapping[str, str]) -> AsyncIterator[bytes]:
        """The lines of an answer that goes on. Raises Away after a silence, and what a call raises."""
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=limits.CALL_WITHIN_S, sock_read=limits.WATCH_S + limits.WATCH_SILENCE_S
        )
        try:
            async with self._connected().get(
                self._credentials.server + path, params=query, headers=await self._headers(), timeout=timeout
            ) as answer:
                if answer.status >= 400:
                    raise self._error(answer.status, await answer.read())
                async for line in _lines(answer.content):
                    yield line
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise Away(f"watch of {path}: {error!r}", 0) from None

    async def get(self, path: str, kind: type[T]) -> T:
        """Read one object. Raises NotFound."""
        return cast(T, _decoded(msgspec.json.Decoder(kind), await self.call("GET", path), path))

    # Writing

    async def create(self, path: str, body: Mapping[str, Any]) -> bytes:
        return await self.call("POST", path, body)

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        """Bind the pod of this UID to the node. Raises Conflict when it is bound, or the name has another pod."""
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "uid": uid},
            "target": {"kind": "Node", "name": node},
        }
        await self.call("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/binding", body)

    async def patch(
        self, path: str, body: Mapping[str, Any] | Sequence[Any], form: str = STRATEGIC_MERGE_PATCH
    ) -> bytes:
        return await self.call("PATCH", path, body, form=form)

    async def delete_pod(self, namespace: str, name: str, uid: str, grace_s: int | None = None) -> None:
        """Delete the pod of this UID. Raises Conflict when the name has another pod by now, NotFound."""
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        await self.call("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}", options)

    async def evict(self, namespace: str, name: str, uid: str) -> None:
        """Delete the pod of this UID unless a disruption budget forbids it. Raises Budgeted, Conflict when the name has
        another pod by now, NotFound."""
        body = {
            "apiVersion": self.eviction_version,
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }
        try:
            await self.call("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", body)
        except Away as error:
            if _BUDGET.search(error.reason):
                raise Budgeted(error.reason, error.code) from None
            raise

    async def call(
        self,
        verb: str,
        path: str,
        body: Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        form: str = JSON,
        query: Mapping[str, str] | None = None,
    ) -> bytes:
        """Make one call. Returns the body of the answer. Raises ApiError."""
        if self.pace is not None and not path.startswith(_LEASES):
            await self.pace.wait()
        data = None if body is None else msgspec.json.encode(body)
        headers = await self._headers()
        if data is not None:
            headers["Content-Type"] = form
        try:
            async with (
                self._slots,
                asyncio.timeout(limits.CALL_WITHIN_S),
                self._connected().request(
                    verb, self._credentials.server + path, data=data, params=query, headers=headers
                ) as answer,
            ):
                content = await answer.read()
                if answer.status >= 400:
                    raise self._error(answer.status, content)
                return content
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise Away(f"{verb} {path}: {error!r}", 0) from None

    async def _headers(self) -> dict[str, str]:
        try:
            token = await self._credentials.tokens.token()
        except (OSError, ValueError) as error:
            raise Away(f"credentials: {error}", 0) from None
        return {"Authorization": f"Bearer {token}"} if token else {}

    def _connected(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("not connected: use `async with Client(...) as client`")
        return self._session

    def _error(self, code: int, content: bytes) -> ApiError:
        if code == 401:
            self._credentials.tokens.forget()
        try:
            reason = _STATUSES.decode(content).message
        except msgspec.MsgspecError:
            reason = content.decode(errors="replace")
        return error_of(code, reason[: limits.REASON_CHARACTERS] or "no reason given")


def _decoded(decoder: msgspec.json.Decoder[Any], content: bytes | msgspec.Raw, path: str) -> Any:
    try:
        return decoder.decode(content)
    except msgspec.MsgspecError as error:
        raise Away(f"{path}: an answer that is not understood: {error}", 0) from None


def _change(line: bytes, decoder: msgspec.json.Decoder[T], path: str) -> Change[T]:
    event = _decoded(_LINES, line, path)
    if event.type == "ERROR":
        status = _decoded(_STATUSES, event.object, path)
        raise error_of(status.code, status.message) if status.code else Expired(status.message or "unknown error", 0)
    if event.type == BOOKMARK:
        metadata = _decoded(_BOOKMARKS, event.object, path).metadata
        kind = INITIAL_END if metadata.annotation(_INITIAL_END) else BOOKMARK
        return Change(kind, None, metadata.resource_version)
    value = _decoded(decoder, event.object, path)
    return Change(event.type, value, value.metadata.resource_version)


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    rest = b""
    async for chunk in content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > limits.LINE_BYTES:
            raise Away("a line of a watch is longer than the API server writes any", 0)
        for line in lines:
            if line:
                yield line


PODS: Final = Resource("/api/v1/pods", Pod)
NODES: Final = Resource("/api/v1/nodes", Node)
NAMESPACES: Final = Resource("/api/v1/namespaces", Namespace)
CLAIMS: Final = Resource("/api/v1/persistentvolumeclaims", Claim)
VOLUMES: Final = Resource("/api/v1/persistentvolumes", Volume)
STORAGE_CLASSES: Final = Resource("/apis/storage.k8s.io/v1/storageclasses", StorageClass)
CSI_NODES: Final = Resource("/apis/storage.k8s.io/v1/csinodes", CsiNode)
CSI_DRIVERS: Final = Resource("/apis/storage.k8s.io/v1/csidrivers", CsiDriver)
STORAGE_CAPACITIES: Final = Resource("/apis/storage.k8s.io/v1/csistoragecapacities", StorageCapacity)
STORAGE_CAPACITIES_BETA: Final = Resource("/apis/storage.k8s.io/v1beta1/csistoragecapacities", StorageCapacity)
VOLUME_ATTACHMENTS: Final = Resource("/apis/storage.k8s.io/v1/volumeattachments", VolumeAttachment)
PRIORITY_CLASSES: Final = Resource("/apis/scheduling.k8s.io/v1/priorityclasses", PriorityClass)
# Of other schedulers and controllers; an API server need not have them.
# A budget's refusal has the status of an overload (429), and that of several budgets the status of a fault (500).
_BUDGET: Final = re.compile(r"disruption ?budget", re.IGNORECASE)
DEVICE_CLASSES: Final = Resource("/apis/resource.k8s.io/v1/deviceclasses", DeviceClass)
RESOURCE_CLAIMS: Final = Resource("/apis/resource.k8s.io/v1/resourceclaims", ResourceClaim)
RESOURCE_SLICES: Final = Resource("/apis/resource.k8s.io/v1/resourceslices", ResourceSlice)
BUDGETS: Final = Resource("/apis/policy/v1/poddisruptionbudgets", DisruptionBudget)
BUDGETS_BETA: Final = Resource("/apis/policy/v1beta1/poddisruptionbudgets", DisruptionBudget)  # before 1.21
GROUP_OBJECTS: Final[dict[str, Resource[Any]]] = {
    names.NATIVE_PODGROUPS: Resource("/apis/scheduling.k8s.io/v1alpha2/podgroups", PodGroup),
    names.NATIVE_WORKLOADS: Resource("/apis/scheduling.k8s.io/v1alpha1/workloads", Workload),
    names.PLUGIN_PODGROUPS: Resource("/apis/scheduling.x-k8s.io/v1alpha1/podgroups", PodGroup),
    names.VOLCANO_PODGROUPS: Resource("/apis/scheduling.volcano.sh/v1beta1/podgroups", PodGroup),
    names.JOB_SETS: Resource("/apis/jobset.x-k8s.io/v1alpha2/jobsets", JobSet),
}


def config_maps(namespace: str) -> Resource[ConfigMap]:
    return Resource(f"/api/v1/namespaces/{namespace}/configmaps", ConfigMap)


class ApiError(Exception):
    """A call of the API has failed. `code`: the HTTP status; 0: there was no answer."""

    def __init__(self, reason: str, code: int) -> None:
        super().__init__(f"{reason} ({code})" if code else reason)
        self.reason = reason
        self.code = code


class NotFound(ApiError):
    """The object does not exist."""


class Conflict(ApiError):
    """The object has changed, or exists, or is bound already."""


class Expired(ApiError):
    """The version from which to watch is too old: list again."""


class Rejected(ApiError):
    """The API server does not accept this call. Trying it again does not help."""


class Budgeted(ApiError):
    """A disruption budget forbids the eviction now."""


class Away(ApiError):
    """The API server is not reached, overloaded or failing. Try again."""


_BY_CODE: dict[int, type[ApiError]] = {
    HTTPStatus.NOT_FOUND: NotFound,
    HTTPStatus.CONFLICT: Conflict,
    HTTPStatus.GONE: Expired,
    HTTPStatus.TOO_MANY_REQUESTS: Away,
    HTTPStatus.REQUEST_TIMEOUT: Away,
    # A token that has expired is renewed before the next try.
    HTTPStatus.UNAUTHORIZED: Away,
}


def error_of(code: int, reason: str) -> ApiError:
    if code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Away(reason, code)
    return _BY_CODE.get(code, Rejected)(reason, code)


def now_text(precision: Literal["seconds", "microseconds"] = "microseconds") -> str:
    """The time now, in RFC 3339."""
    return datetime.now(UTC).isoformat(timespec=precision).replace("+00:00", "Z")
