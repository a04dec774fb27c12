"""The API server: objects with versions, watches of them, and the verbs that front ends use. As far as they can tell,
it behaves like the real one of its minor version, from 1.20 to 1.36.

What it has stored survives when it is killed. Its watches, pages of lists and older versions do not."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from remuda_kubernetes.api.client import ADDED, BOOKMARK, DELETED, MODIFIED, ApiError, error_of
from remuda_kubernetes.api.objects import SELECTED_NODE

from ..environment import loop_time_s, wall_clock_s
from ..story import Story, Violation
from . import pod_rules

Json = dict[str, Any]
Push = Callable[[bytes | ApiError | None], None]

_PATH = re.compile(
    r"(?:/api/v1|/apis/[^/]+/v1(?:beta1)?)(?:/namespaces/(?P<namespace>[^/]+))?/(?P<kind>[a-z]+)(?:/(?P<name>[^/]+))?"
    r"(?:/(?P<part>[a-z]+))?"
)
# APIs of groups of pods, which this server does not have.
_UNSERVED = re.compile(
    r"/apis/(scheduling\.k8s\.io/v1alpha\d|(scheduling|jobset)\.x-k8s\.io|scheduling\.volcano\.sh)/.*"
)
# The minor version since when an API is there.
_SINCE = {
    "/apis/policy/v1/": 21,
    "/apis/resource.k8s.io/v1/": 34,
    "/apis/storage.k8s.io/v1/csistoragecapacities": 24,
    "/apis/storage.k8s.io/v1beta1/csistoragecapacities": 21,
}
KEPT_VERSIONS = 5
TOLD = ("pods", "nodes", "persistentvolumes", "persistentvolumeclaims")


@dataclass(frozen=True, slots=True)
class Event:
    version: int
    kind: str
    type: str
    line: bytes


@dataclass(eq=False, slots=True)
class Watching:
    """`push`: takes a line; an error, after which nothing comes; None at the end."""

    kind: str
    push: Push


@dataclass(slots=True)
class ApiServer:
    """`minor`: of its version of Kubernetes 1. `is_up`: off, it answers nobody. `streams`: a watch may begin with all
    objects. `on_bound`: called with each pod that was bound; `on_reserved`: with a volume before and after a front end
    has changed it; `on_allocated`: with a claim of devices whose status a front end has changed."""

    story: Story
    minor: int = 20
    is_up: bool = True
    streams: bool = False
    version: int = 1
    changed_at: float = 0.0  # but for leases
    on_bound: Callable[[Json], None] = lambda pod: None
    on_allocated: Callable[[Json], None] = lambda claim: None
    on_reserved: Callable[[Json, Json], None] = lambda before, after: None
    _objects: dict[str, dict[str, Json]] = field(default_factory=dict)
    _events: list[Event] = field(default_factory=list)
    _oldest: int = 0
    _watches: dict[Watching, None] = field(default_factory=dict)
    _pages: dict[str, tuple[list[Json], int]] = field(default_factory=dict)
    _made: int = 0

    # What others in the cluster do, without a call

    def all(self, kind: str) -> list[Json]:
        return list(self._objects.get(kind, {}).values())

    def find(self, kind: str, name: str, namespace: str = "default") -> Json | None:
        return self._objects.get(kind, {}).get(f"{namespace}/{name}")

    def add(self, kind: str, value: Json, namespace: str = "") -> Json:
        """Raises ApiError: the name is taken."""
        name = value["metadata"]["name"]
        if self.find(kind, name, namespace) is not None:
            raise error_of(409, f'{kind} "{name}" already exists')
        self._made += 1
        if kind == "pods":
            value = pod_rules.created(value, self.minor)
        metadata = {**value["metadata"], "namespace": namespace, "uid": f"uid-{self._made:05d}",
                    "creationTimestamp": _now()}  # fmt: skip
        return self._store(kind, ADDED, {"spec": {}, "status": {"phase": "Pending"}, **value, "metadata": metadata})

    def put(self, kind: str, value: Json, **parts: Any) -> Json:
        """The object with other `parts`: metadata, spec and status are merged."""
        merged = {**value, **{part: {**value.get(part, {}), **new} for part, new in parts.items()}}
        return self._store(kind, MODIFIED, merged)

    def remove(self, kind: str, value: Json) -> None:
        self._store(kind, DELETED, value)

    def _store(self, kind: str, what: str, value: Json) -> Json:
        self.version += 1
        if kind != "leases":
            self.changed_at = loop_time_s()
        stored = {**value, "metadata": {**value["metadata"], "resourceVersion": str(self.version)}}
        key = f"{stored['metadata'].get('namespace', '')}/{stored['metadata']['name']}"
        of_kind = self._objects.setdefault(kind, {})
        if what == DELETED:
            del of_kind[key]
        else:
            of_kind[key] = stored
        if kind in TOLD:
            self.story.tell(_said(kind, what, stored))
        event = Event(self.version, kind, what, _line(what, stored))
        self._events.append(event)
        for watching in list(self._watches):
            if watching.kind == kind:
                watching.push(event.line)
        return stored

    # Its own life

    def kill(self) -> None:
        self.is_up = False
        for watching in list(self._watches):
            watching.push(error_of(500, "connection reset"))
        self._watches.clear()
        self._pages.clear()

    def compact(self) -> None:
        """Older versions cannot be read any more."""
        self._events = self._events[-KEPT_VERSIONS:]
        self._oldest = self._events[0].version - 1 if self._events else self.version
        self._pages.clear()

    def bookmark(self) -> None:
        for watching in list(self._watches):
            watching.push(_line(BOOKMARK, {"metadata": {"resourceVersion": str(self.version)}}))

    def end_watches(self) -> None:
        for watching in list(self._watches):
            self._end(watching)

    def _end(self, watching: Watching) -> None:
        if self._watches.pop(watching, self) is None:
            watching.push(None)

    # The verbs

    def watch(self, path: str, query: Mapping[str, str], push: Push) -> Callable[[], None]:
        """Returns what ends it. Raises ApiError."""
        kind, version = self._parsed(path)[1], query["resourceVersion"]
        since = int(version) if version else self.version
        if since < self._oldest:
            raise error_of(410, "too old resource version")
        if not version:
            self._push_all(kind, push)
        watching = Watching(kind, push)
        self._watches[watching] = None
        for event in self._events:
            if event.version > since and event.kind == kind:
                push(event.line)
        return lambda: self._end(watching)

    def _push_all(self, kind: str, push: Push) -> None:
        if not self.streams:
            raise error_of(422, "sendInitialEvents: Forbidden")
        for value in self.all(kind):
            push(_line(ADDED, value))
        end = {"k8s.io/initial-events-end": "true"}
        push(_line(BOOKMARK, {"metadata": {"resourceVersion": str(self.version), "annotations": end}}))

    def call(self, verb: str, path: str, body: Any, query: Mapping[str, str] | None) -> bytes:
        """Raises ApiError."""
        namespace, kind, name, part = self._parsed(path)
        if kind == "events":
            return b"{}"
        if verb == "GET" and not name:
            return self._listed(kind, query or {})
        if verb == "POST" and not name:
            return _json(self.add(kind, body, namespace))
        found = self.find(kind, name, namespace)
        if found is None:
            raise error_of(404, f'{kind} "{name}" not found')
        match verb, part:
            case "GET", _:
                return _json(found)
            case "POST", "binding":
                return self._bind(found, body)
            case "POST", "eviction":  # no budget forbids it
                return self._delete(found, body.get("deleteOptions"))
            case "PATCH", "" if kind == "pods":
                return _json(self._patch_pod(found, body))
            case "PATCH", "" | "status" if kind == "resourceclaims":
                return _json(self._patch_claim(found, body, part))
            case "PATCH", "" if kind in ("persistentvolumes", "persistentvolumeclaims"):
                return _json(self._merge(kind, found, body))
            case "PATCH", "status":
                return self._patch_status(kind, found, body)
            case "DELETE", "":
                return self._delete(found, body)
            case "PUT", "":
                if body["metadata"]["resourceVersion"] != found["metadata"]["resourceVersion"]:
                    raise error_of(409, "the object has been modified")
                return _json(self.put(kind, found, spec=body["spec"]))
        raise Violation(f"{verb} {path}: not simulated")

    def _listed(self, kind: str, query: Mapping[str, str]) -> bytes:
        if token := query.get("continue"):
            if token not in self._pages:
                raise error_of(410, "the provided continue parameter is too old")
            rest, version = self._pages.pop(token)
        else:
            rest, version = self.all(kind), self.version
        size = int(query["limit"])
        page, rest = rest[:size], rest[size:]
        metadata = {"resourceVersion": str(version)}
        if rest:
            self._made += 1
            metadata["continue"] = f"page-{self._made}"
            self._pages[metadata["continue"]] = (rest, version)
        return _json({"metadata": metadata, "items": page})

    def _bind(self, pod: Json, body: Json) -> bytes:
        _same(pod, body["metadata"])
        spec, status = pod_rules.bound(pod, body["target"]["name"], self.minor)
        self.on_bound(self.put("pods", pod, spec=spec, status=status))
        return b"{}"

    def _patch_pod(self, pod: Json, body: Json | list[Json]) -> Json:
        if isinstance(body, list):
            return self.put("pods", pod_rules.changed(pod, _json_patched(pod, body), self.minor))
        _same(pod, body["metadata"])
        annotations = {**pod["metadata"].get("annotations", {}), **body["metadata"]["annotations"]}
        return self.put("pods", pod, metadata={"annotations": annotations})

    def _merge(self, kind: str, found: Json, body: Json) -> Json:
        """RFC 7386, as far as volumes and claims need it."""
        metadata = found["metadata"]
        _same(found, body["metadata"])
        _unchanged(found, body)
        annotations = {**metadata.get("annotations", {}), **body["metadata"].get("annotations", {})}
        merged = self.put(kind, found, metadata={"annotations": annotations}, spec=body.get("spec", {}))
        if kind == "persistentvolumes":
            self.on_reserved(found, merged)
        return merged

    def _patch_claim(self, found: Json, body: Json, part: str) -> Json:
        """RFC 7386. An allocation is never changed into another one, and pods use allocated claims only."""
        _same(found, body["metadata"])
        _unchanged(found, body)
        if not part:
            return self.put("resourceclaims", found, metadata={"finalizers": body["metadata"]["finalizers"]})
        before, status = found["status"], {**found["status"], **body["status"]}
        status = {name: value for name, value in status.items() if value is not None}
        if (had := before.get("allocation")) and status.get("allocation", had) != had:
            raise error_of(422, "status.allocation: Invalid value: field is immutable")
        consumers = status.get("reservedFor", [])
        if consumers and "allocation" not in status:
            raise error_of(422, "status.reservedFor: Forbidden: may not be specified when `allocated` is not set")
        if len(consumers) > 256 or len({one["uid"] for one in consumers}) != len(consumers):
            raise error_of(422, "status.reservedFor: Too many, or a duplicate value")
        if found["metadata"].get("deletionTimestamp") and not had and "allocation" in status:
            raise error_of(422, "status.allocation: Forbidden: the claim is being deleted")
        written = self._store("resourceclaims", MODIFIED, {**found, "status": status})
        self.on_allocated(written)
        return written

    def _patch_status(self, kind: str, found: Json, body: Json) -> bytes:
        _same(found, body["metadata"])
        status = dict(body["status"])
        if "conditions" in status:
            by_type = {one["type"]: one for one in found.get("status", {}).get("conditions", ())}
            by_type |= {one["type"]: one for one in status["conditions"]}
            status["conditions"] = list(by_type.values())
        return _json(self.put(kind, found, status=status))

    def _delete(self, pod: Json, options: Json | None) -> bytes:
        _same(pod, (options or {}).get("preconditions", {}))
        self.delete(pod)
        return b"{}"

    def delete(self, pod: Json) -> None:
        """A pod on a node goes when its kubelet has ended it."""
        if pod["spec"].get("nodeName") and pod["status"]["phase"] not in ("Succeeded", "Failed"):
            if not pod["metadata"].get("deletionTimestamp"):
                self.put("pods", pod, metadata={"deletionTimestamp": _now()})
        else:
            self.remove("pods", pod)

    def _parsed(self, path: str) -> tuple[str, str, str, str]:
        too_new = any(path.startswith(api) and self.minor < since for api, since in _SINCE.items())
        if too_new or _UNSERVED.fullmatch(path):
            raise error_of(404, "the server could not find the requested resource")
        parts = _PATH.fullmatch(path)
        if parts is None:
            raise Violation(f"{path}: not simulated")
        return parts["namespace"] or "", parts["kind"], parts["name"] or "", parts["part"] or ""


def _json_patched(value: Json, operations: list[Json]) -> Json:
    """RFC 6902, as far as gates and affinity need it."""
    patched: Json = deepcopy(value)
    for one in operations:
        *above, last = one["path"].split("/")[1:]
        at: Any = patched
        try:
            for step in above:
                at = at[int(step)] if isinstance(at, list) else at[step]
            if one["op"] == "add" and isinstance(at, list):
                at.insert(len(at) if last == "-" else int(last), one["value"])
                continue
            key: Any = int(last) if isinstance(at, list) else last
            match one["op"]:
                case "test" if at[key] != one["value"]:
                    raise error_of(422, f"testing value {one['path']} failed")
                case "add":
                    at[key] = one["value"]
                case "remove":
                    del at[key]
        except (KeyError, IndexError):
            raise error_of(422, f"{one['path']} does not exist") from None
    return patched


def _unchanged(found: Json, body: Json) -> None:
    version = found["metadata"]["resourceVersion"]
    if body["metadata"].get("resourceVersion", version) != version:
        raise error_of(409, "the object has been modified")


def _same(found: Json, given: Json) -> None:
    uid = given.get("uid", found["metadata"]["uid"])
    if uid != found["metadata"]["uid"]:
        raise error_of(409, f"the UID in the precondition ({uid}) does not match: {found['metadata']['uid']}")


def _said(kind: str, what: str, value: Json) -> str:
    metadata, spec = value["metadata"], value["spec"]
    of = (
        metadata.get("labels", {}).get("applicationId", ""),
        spec.get("nodeName", ""),
        value["status"].get("phase", ""),
        spec.get("volumeName", ""),
        (spec.get("claimRef") or {}).get("name", ""),
        metadata.get("annotations", {}).get(SELECTED_NODE, ""),
    )
    ends = "to be deleted" if metadata.get("deletionTimestamp") else ""
    return " ".join(one for one in (what.lower(), kind[:-1], metadata["name"], metadata["uid"], *of, ends) if one)


def _now() -> str:
    return datetime.fromtimestamp(wall_clock_s(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _line(what: str, value: Json) -> bytes:
    return _json({"type": what, "object": value})


def _json(value: Json) -> bytes:
    return msgspec.json.encode(value)
