"""The webhook configurations of the API server. Pure."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from remuda_kubernetes import limits
from remuda_kubernetes.shim import names

Json = dict[str, Any]
NAME: Final = "remuda"
MUTATING: Final = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
VALIDATING: Final = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
MUTATE, VALIDATE = "/mutate", "/validate"
NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"  # a label of every namespace from 1.21
_WORKLOADS: Final = ("deployments", "replicasets", "statefulsets", "daemonsets")


@dataclass(frozen=True, slots=True)
class Place:
    """The address at which the API server reaches the webhook: at a service of its namespace, or at a URL."""

    namespace: str
    service: str
    url: str = ""

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names in the server certificate."""
        if self.url:
            return (urlsplit(self.url).hostname or "",)
        return (f"{self.service}.{self.namespace}.svc", f"{self.service}.{self.namespace}.svc.cluster.local")

    def client(self, path: str, bundle: bytes) -> Json:
        trusted = {"caBundle": base64.b64encode(bundle).decode()}
        if self.url:
            return {"url": self.url.rstrip("/") + path, **trusted}
        return {"service": {"namespace": self.namespace, "name": self.service, "path": path, "port": 443}, **trusted}


def registrations(place: Place, bundle: bytes) -> Mapping[str, Json]:
    """The webhook configurations by the path of their collection. Managed namespaces depend on the webhook, no
    others."""
    not_here = _among(NAMESPACE_NAME, "NotIn", place.namespace, "kube-system")
    mutate, validate = place.client(MUTATE, bundle), place.client(VALIDATE, bundle)
    pods = [_rule("", "v1", ["pods"], "CREATE", "UPDATE")]
    # A template that is not reviewed could name any user: its controller, which is trusted, copies it into pods.
    workloads = [
        _rule("", "v1", ["replicationcontrollers"], "CREATE", "UPDATE"),
        _rule("apps", "v1", [*_WORKLOADS], "CREATE", "UPDATE"),
        _rule("batch", "*", ["jobs", "cronjobs"], "CREATE", "UPDATE"),
    ]
    managed = [_among(names.MANAGED, "In", "true"), not_here]
    others = [_among(names.MANAGED, "NotIn", "true"), not_here]
    again = {"reinvocationPolicy": "IfNeeded"}
    return {
        MUTATING: _configuration(
            "MutatingWebhookConfiguration",
            {**_hook("managed.remuda.io", "Fail", mutate, managed, pods + workloads), **again},
            {**_hook("others.remuda.io", "Ignore", mutate, others, pods + workloads), **again},
        ),
        VALIDATING: _configuration(
            "ValidatingWebhookConfiguration",
            _hook(
                "configuration.remuda.io",
                "Ignore",
                validate,
                [_among(NAMESPACE_NAME, "In", place.namespace)],
                [_rule("", "v1", ["configmaps"], "CREATE", "UPDATE")],
            ),
        ),
    }


def _configuration(kind: str, *hooks: Json) -> Json:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": NAME},
        "webhooks": list(hooks),
    }


def _hook(name: str, failure_policy: str, client: Json, selector: list[Json], rules: list[Json]) -> Json:
    return {
        "name": name,
        "clientConfig": client,
        "rules": rules,
        "failurePolicy": failure_policy,
        "namespaceSelector": {"matchExpressions": selector},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": limits.WEBHOOK_WITHIN_S,
    }


def _rule(group: str, version: str, resources: list[str], *operations: str) -> Json:
    return {
        "apiGroups": [group], "apiVersions": [version], "resources": resources,
        "operations": list(operations), "scope": "Namespaced",
    }  # fmt: skip


def _among(key: str, operator: str, *values: str) -> Json:
    return {"key": key, "operator": operator, "values": list(values)}
