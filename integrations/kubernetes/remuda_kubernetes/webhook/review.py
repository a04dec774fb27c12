"""Reviews of the API server (admission.k8s.io/v1): which rule decides, and the answer. Pure."""

from __future__ import annotations

import base64
import json
from typing import Any, Final

import msgspec

from remuda_kubernetes.webhook.pods import Operation, Surroundings, admit_changed_pod, admit_new_pod, admit_workload
from remuda_kubernetes.webhook.policy import Caller, WebhookPolicy
from remuda_kubernetes.webhook.user_info import TEMPLATES, Denied

CREATE: Final = "CREATE"


class _Kind(msgspec.Struct):
    kind: str = ""


class _UserInfo(msgspec.Struct):
    username: str = ""
    groups: list[str] | None = None


class Request(msgspec.Struct, rename="camel"):
    """`resource.subResource` is empty for the object itself."""

    uid: str
    kind: _Kind
    operation: str
    user_info: _UserInfo
    namespace: str = ""
    name: str = ""
    sub_resource: str = ""
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None

    @property
    def caller(self) -> Caller:
        return Caller(self.user_info.username, tuple(self.user_info.groups or ()))


class _Review(msgspec.Struct):
    request: Request


_REVIEWS: Final = msgspec.json.Decoder(_Review)


def request_of(content: bytes) -> Request:
    """Raises ValueError for a review that is not understood."""
    try:
        return _REVIEWS.decode(content).request
    except RecursionError as error:
        raise ValueError(str(error)) from None


def decide(request: Request, policy: WebhookPolicy, around: Surroundings) -> list[Operation]:
    """The patch of an object. Raises Denied."""
    if request.object is None or request.sub_resource:
        return []
    is_new = request.operation == CREATE
    if request.kind.kind == "Pod" and is_new:
        return admit_new_pod(request.object, request.caller, policy, around)
    if request.kind.kind == "Pod" and request.old_object is not None:
        return admit_changed_pod(request.object, request.old_object, request.caller, policy)
    if request.kind.kind in TEMPLATES:
        return admit_workload(request.object, None if is_new else request.old_object, request.caller, policy)
    return []


def answer(request: Request, policy: WebhookPolicy, around: Surroundings) -> dict[str, Any]:
    """The AdmissionReview to send back."""
    try:
        operations = decide(request, policy, around)
    except Denied as denied:
        return refused(request.uid, str(denied))
    return allowed(request.uid, operations)


def allowed(uid: str, operations: list[Operation] | None = None) -> dict[str, Any]:
    response: dict[str, Any] = {"uid": uid, "allowed": True}
    if operations:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(json.dumps(operations).encode()).decode()
    return _review(response)


def refused(uid: str, reason: str) -> dict[str, Any]:
    return _review({"uid": uid, "allowed": False, "status": {"code": 403, "message": reason}})


def _review(response: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
