"""Settings of the Kubernetes front end, beyond those of every service."""

from __future__ import annotations

from typing import ClassVar

from pydantic import field_validator

from remuda_bus import subjects
from remuda_bus.process import Settings
from remuda_bus.settings import ReadableFile, Texts, setting
from remuda_kubernetes.shim.books import ShimPolicy


class KubernetesSettings(Settings):
    """On the bus, the front end is an RM and has the permissions of one."""

    is_rm: ClassVar[bool] = True

    rm: str = setting("kubernetes.rm", "kubernetes", "rmID of the cluster")
    policy_group: str = setting(
        "kubernetes.policy_group", "", "the scheduler's configuration for this cluster; empty: that of the scheduler"
    )
    kubeconfig: ReadableFile = setting(
        "kubernetes.kubeconfig", None, "file: kubeconfig of the cluster; without it, the service account of the pod"
    )
    context: str = setting("kubernetes.context", "", "context of the kubeconfig; empty: its current one")
    scheduler_names: Texts = setting(
        "kubernetes.scheduler_names", ("remuda", "yunikorn"), "pods that name one of these as scheduler are scheduled"
    )
    placeholder_image: str = setting(
        "kubernetes.placeholder_image", "registry.k8s.io/pause:3.7", "image of the placeholders of gangs"
    )
    generate_unique_app_id: bool = setting(
        "kubernetes.generate_unique_app_id", False,
        "a pod without an application gets one of its own, not that of its namespace",
    )  # fmt: skip
    gangs: bool = setting("kubernetes.gangs", True, "task groups of pods make gangs with placeholders")
    predicates: bool = setting(
        "kubernetes.predicates", True, "check selectors, affinity, taints and ports of a pod before it is placed"
    )

    @field_validator("rm")
    @classmethod
    def _is_rm_id(cls, rm_id: str) -> str:
        return subjects.check_rm_id(rm_id)

    def connection_name(self, service: str) -> str:
        """That of an RM: its permissions name it."""
        return f"rm-{subjects.key_of(self.rm)}"

    @property
    def policy(self) -> ShimPolicy:
        return ShimPolicy(
            frozenset(self.scheduler_names),
            self.placeholder_image,
            self.generate_unique_app_id,
            self.gangs,
            self.predicates,
        )
