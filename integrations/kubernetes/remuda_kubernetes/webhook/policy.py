"""Which namespaces the webhook manages, and whom it trusts. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from remuda_kubernetes.api.objects import Namespace
from remuda_kubernetes.shim import names

NODES: Final = "system:nodes"  # the group of kubelets
TRUE, FALSE = "true", "false"


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request, as the API server has authenticated it."""

    user: str
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookPolicy:
    """`scheduler_name`: that managed pods get. `allowed_names`: those that they may name themselves. `own_user`: that
    of the front end. `gates`: managed pods get the gate of plugin mode. The others are regular expressions; a list
    matches if one of them does, anywhere in the name."""

    scheduler_name: str
    allowed_names: frozenset[str]
    own_user: str
    own_namespace: str
    gates: bool = False
    process: Sequence[str] = ()
    bypass: Sequence[str] = ("^kube-system$",)
    label: Sequence[str] = ()
    no_label: Sequence[str] = ()
    unique_applications: bool = False
    bypass_auth: bool = False
    trust_controllers: bool = True
    system_users: Sequence[str] = ("^system:serviceaccount:kube-system:",)
    external_users: Sequence[str] = ()
    external_groups: Sequence[str] = ()

    def manages(self, name: str, namespace: Namespace | None) -> bool:
        """Whether the webhook manages the namespace: by its label, then its annotation, then the lists, which name the
        namespaces to bypass."""
        if name == self.own_namespace:
            return False
        said = namespace.metadata.label(names.MANAGED) if namespace is not None else ""
        said = said or (namespace.metadata.annotation(names.ENABLE) if namespace is not None else "")
        return said == TRUE if said else _chosen(name, self.process, self.bypass)

    def labels(self, name: str, namespace: Namespace | None) -> bool:
        """Whether a pod without an application gets one."""
        said = namespace.metadata.annotation(names.GENERATE_APPLICATION) if namespace is not None else ""
        return said == TRUE if said else _chosen(name, self.label, self.no_label)

    def is_own(self, caller: Caller) -> bool:
        return caller.user == self.own_user

    def is_system(self, caller: Caller) -> bool:
        """A controller of Kubernetes, or the front end: they copy what users have written."""
        return self.is_own(caller) or _matches(caller.user, self.system_users)

    def may_name_users(self, caller: Caller) -> bool:
        """Whether the caller may say for which user a pod runs."""
        if self.is_own(caller) or self.bypass_auth:
            return True
        if self.trust_controllers and _matches(caller.user, self.system_users):
            return True
        return _matches(caller.user, self.external_users) or any(
            _matches(group, self.external_groups) for group in caller.groups
        )

    def may_choose_nodes(self, caller: Caller) -> bool:
        """Kubelets create the mirror pods of their static pods; controllers may bind pods themselves."""
        return self.is_system(caller) or NODES in caller.groups


def _chosen(name: str, included: Sequence[str], excluded: Sequence[str]) -> bool:
    return (not included or _matches(name, included)) and not _matches(name, excluded)


def _matches(text: str, patterns: Sequence[str]) -> bool:
    return any(re.search(pattern, text) is not None for pattern in patterns)


def check_patterns(patterns: Sequence[str]) -> None:
    """Check regular expressions. Raises a ValueError that names the malformed pattern."""
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"{pattern!r}: expected a regular expression ({error})") from None
