"""Settings of the Kubernetes front end, beyond those of every service."""

from __future__ import annotations

from typing import ClassVar, Literal

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
    lease: str = setting(
        "kubernetes.lease", "",
        "name of a lease in the namespace of this process: of several with one lease, one schedules; empty: none",
    )  # fmt: skip
    gangs: bool = setting("kubernetes.gangs", True, "task groups of pods make gangs with placeholders")
    predicates: bool = setting(
        "kubernetes.predicates", True, "check selectors, affinity, taints and ports of a pod before it is placed"
    )

    mode: Literal["shim", "plugin"] = setting(
        "kubernetes.mode", "shim",
        "plugin: pods with an application that the default scheduler places wait for their quota too",
    )  # fmt: skip
    placed_by: Texts = setting(
        "kubernetes.placed_by", ("default-scheduler",), "plugin mode: schedulers that place pods with an application"
    )
    hold: Literal["auto", "gates", "extender"] = setting(
        "kubernetes.hold", "auto",
        "plugin mode: what holds pods back; auto: gates if the API server knows them (1.27), else the extender",
    )  # fmt: skip
    pin: Literal["auto", "hard", "soft", "free"] = setting(
        "kubernetes.pin", "auto",
        "plugin mode with gates: how the node is given to the default scheduler; auto: soft from 1.35, else hard",
    )  # fmt: skip
    extender_host: str = setting("kubernetes.extender_host", "127.0.0.1", "address of the extender")
    extender_port: int = setting("kubernetes.extender_port", 8099, "port of the extender; 0: none", ge=0, le=65535)
    extender_cert: ReadableFile = setting(
        "kubernetes.extender_cert", None, "file: certificate of the extender; with it, the extender speaks TLS only"
    )
    extender_key: ReadableFile = setting("kubernetes.extender_key", None, "file: private key of that certificate")
    extender_client_ca: ReadableFile = setting(
        "kubernetes.extender_client_ca", None,
        "file: CA of the default scheduler's client certificate, which the extender then requires",
    )  # fmt: skip

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
