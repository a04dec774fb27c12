"""Settings of the Kubernetes front end, beyond those of every service."""

from __future__ import annotations

from ipaddress import ip_address
from typing import ClassVar, Literal, Self

from pydantic import field_validator, model_validator

from remuda_bus import subjects
from remuda_bus.settings import ReadableFile, Texts, setting
from remuda_kubernetes.shim.cache import ShimPolicy
from remuda_kubernetes.webhook.policy import WebhookPolicy, check_patterns
from remuda_replication.process import Settings


class KubernetesSettings(Settings):
    """Settings of the Kubernetes front end. On the bus, it is an RM and has the permissions of one."""

    is_rm: ClassVar[bool] = True

    rm: str = setting("kubernetes.rm", "kubernetes", "rmID of the cluster")
    policy_group: str = setting(
        "kubernetes.policy_group", "", "the scheduler's configuration for this cluster; empty: its own"
    )
    kubeconfig: ReadableFile = setting(
        "kubernetes.kubeconfig", None, "file: kubeconfig; without it, the service account of the pod"
    )
    context: str = setting("kubernetes.context", "", "context of the kubeconfig; empty: its current one")
    scheduler_names: Texts = setting(
        "kubernetes.scheduler_names", ("remuda", "yunikorn"), "schedulers whose pods are scheduled"
    )
    placeholder_image: str = setting(
        "kubernetes.placeholder_image", "registry.k8s.io/pause:3.7", "image of placeholders"
    )
    generate_unique_app_id: bool = setting(
        "kubernetes.generate_unique_app_id", False,
        "each pod without an application gets its own, not that of its namespace",
    )  # fmt: skip
    config_maps: Texts = setting(
        "kubernetes.config_maps", (),
        "ConfigMaps of the configuration in the process's namespace, the last on top; none: the scheduler's own",
    )  # fmt: skip
    lease: str = setting(
        "kubernetes.lease", "",
        "lease in the process's namespace, whose holder schedules; empty: none",
    )  # fmt: skip
    gangs: bool = setting("kubernetes.gangs", True, "task groups of pods make gangs with placeholders")
    gangs_of_others: bool = setting(
        "kubernetes.gangs_of_others", True,
        "read gangs of PodGroups, Workloads, JobSets and so on",
    )  # fmt: skip
    informational: bool = setting(
        "kubernetes.informational", False,
        "events `Informational` on pods and nodes show what the scheduler records",
    )  # fmt: skip
    budgets: Literal["never", "last"] = setting(
        "kubernetes.budgets", "never",
        "preemption may violate a PodDisruptionBudget where nothing else helps",
    )  # fmt: skip
    predicates: bool = setting(
        "kubernetes.predicates", True, "check selectors, affinity, taints and ports of a pod before it is placed"
    )

    topology: bool = setting(
        "kubernetes.topology", True,
        "annotations of pods, also Kueue's and KAI's, name levels of the topology",
    )  # fmt: skip
    topology_labels: Texts = setting(
        "kubernetes.topology_labels",
        (
            "cloud.google.com/gce-topology-block", "cloud.google.com/gce-topology-subblock",
            "cloud.google.com/gce-topology-host", "topology.k8s.aws/network-node-layer-1",
            "topology.k8s.aws/network-node-layer-2", "topology.k8s.aws/network-node-layer-3", "nvidia.com/gpu.clique",
        ),
        "node labels that levels may name as attributes, beside zone and region",
    )  # fmt: skip

    device_classes: Texts = setting(
        "kubernetes.device_classes", (),
        "device classes whose claims are allocated here, with their resources: `gpu.nvidia.com=nvidia/gpu`",
    )  # fmt: skip

    mode: Literal["shim", "plugin"] = setting(
        "kubernetes.mode", "shim",
        "plugin: the default scheduler places pods, within their quotas",
    )  # fmt: skip
    placed_by: Texts = setting(
        "kubernetes.placed_by", ("default-scheduler",), "plugin mode: schedulers that place pods with an application"
    )
    hold: Literal["auto", "gates", "extender"] = setting(
        "kubernetes.hold", "auto",
        "plugin mode: what holds pods; auto: gates where the API server knows them",
    )  # fmt: skip
    pin: Literal["auto", "hard", "soft", "free"] = setting(
        "kubernetes.pin", "auto",
        "plugin mode with gates: how the default scheduler is given the node; auto: soft from 1.35, else hard",
    )  # fmt: skip
    extender_host: str = setting("kubernetes.extender_host", "127.0.0.1", "address of the extender")
    extender_port: int = setting("kubernetes.extender_port", 8099, "port of the extender; 0: none", ge=0, le=65535)
    extender_cert: ReadableFile = setting(
        "kubernetes.extender_cert", None, "file: certificate of the extender; with it, TLS only"
    )
    extender_key: ReadableFile = setting("kubernetes.extender_key", None, "file: private key")
    extender_client_ca: ReadableFile = setting(
        "kubernetes.extender_client_ca", None,
        "file: CA of client certificates, which clients then need",
    )  # fmt: skip
    extender_clients: Texts = setting(
        "kubernetes.extender_clients", (),
        "common names of client certificates; none: all",
    )  # fmt: skip

    role: Literal["front", "webhook"] = setting("kubernetes.role", "front", "front end, or admission webhook")
    webhook_host: str = setting("kubernetes.webhook_host", "", "address of the webhook; empty: all addresses")
    webhook_port: int = setting("kubernetes.webhook_port", 9443, "port of the webhook (HTTPS)", ge=1, le=65535)
    webhook_service: str = setting(
        "kubernetes.webhook_service",
        "remuda-webhook",
        "service (port 443) by which the API server reaches it",
    )
    webhook_url: str = setting(
        "kubernetes.webhook_url", "", "URL by which the API server reaches it; empty: by the service"
    )
    webhook_secret: str = setting("kubernetes.webhook_secret", "remuda-webhook", "secret with the certificates")
    webhook_validation: str = setting(
        "kubernetes.webhook_validation", "", "URL of the web service, which checks configurations; empty: no check"
    )
    webhook_validation_token: ReadableFile = setting(
        "kubernetes.webhook_validation_token", None,
        "file: bearer token for that service",
    )  # fmt: skip
    webhook_validation_ca: ReadableFile = setting(
        "kubernetes.webhook_validation_ca", None, "file: CA of that service; none: the system's"
    )
    process_namespaces: Texts = setting(
        "kubernetes.process_namespaces", (), "webhook: namespaces whose pods are managed; none: all (expressions)"
    )
    bypass_namespaces: Texts = setting(
        "kubernetes.bypass_namespaces", ("^kube-system$",), "webhook: namespaces that are not managed (expressions)"
    )
    label_namespaces: Texts = setting(
        "kubernetes.label_namespaces", (),
        "webhook: managed namespaces where pods without an application get one; none: all (expressions)",
    )  # fmt: skip
    no_label_namespaces: Texts = setting(
        "kubernetes.no_label_namespaces", (), "webhook: managed namespaces where they do not (expressions)"
    )
    bypass_auth: bool = setting("kubernetes.bypass_auth", False, "webhook: any user may name any user")
    trust_controllers: bool = setting(
        "kubernetes.trust_controllers", True, "webhook: controllers may name the users of their pods"
    )
    system_users: Texts = setting(
        "kubernetes.system_users",
        ("^system:serviceaccount:kube-system:",),
        "webhook: controllers (expressions)",
    )
    external_users: Texts = setting(
        "kubernetes.external_users", (), "webhook: users that may name other users (expressions)"
    )
    external_groups: Texts = setting(
        "kubernetes.external_groups", (), "webhook: groups whose users may name other users (expressions)"
    )
    own_user: str = setting(
        "kubernetes.own_user", "system:serviceaccount:remuda:remuda", "webhook: the user of the front end"
    )

    @field_validator(
        "process_namespaces", "bypass_namespaces", "label_namespaces", "no_label_namespaces",
        "system_users", "external_users", "external_groups",
    )  # fmt: skip
    @classmethod
    def _are_patterns(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        check_patterns(patterns)
        return patterns

    @field_validator("device_classes")
    @classmethod
    def _are_device_classes(cls, pairs: tuple[str, ...]) -> tuple[str, ...]:
        """A device counts once: two classes cannot share a resource."""
        found = [tuple(pair.split("=", 1)) for pair in pairs]
        for pair, parts in zip(pairs, found, strict=True):
            if len(parts) != 2 or not all(parts):
                raise ValueError(f"{pair!r}: expected CLASS=RESOURCE, such as gpu.nvidia.com=nvidia/gpu")
        for position in (0, 1):
            named = [parts[position] for parts in found]
            if twice := next((one for one in named if named.count(one) > 1), ""):
                raise ValueError(f"{twice!r} is there twice: expected a resource of its own for each class")
        return pairs

    @model_validator(mode="after")
    def _extender_knows_its_clients(self) -> Self:
        """Whoever reaches the extender may ask it about any pod, and take approvals back by asking twice."""
        if self.extender_clients and self.extender_client_ca is None:
            raise ValueError(
                f"kubernetes.extender_clients={', '.join(self.extender_clients)!r}: expected also "
                "kubernetes.extender_client_ca, without which no client has a name"
            )
        is_served = self.mode == "plugin" and self.hold != "gates" and self.role == "front"
        if is_served and not is_loopback(self.extender_host):
            missing = [
                f"kubernetes.{name}"
                for name in ("extender_cert", "extender_key", "extender_client_ca")
                if getattr(self, name) is None
            ]
            if missing:
                raise ValueError(
                    f"kubernetes.extender_host={self.extender_host!r}: expected an address of this machine only, "
                    f"such as 127.0.0.1, or also {', '.join(missing)}"
                )
        return self

    @field_validator("rm")
    @classmethod
    def _is_rm_id(cls, rm_id: str) -> str:
        return subjects.check_rm_id(rm_id)

    @property
    def needs_bus(self) -> bool:
        return self.role == "front"

    @property
    def rm_on_the_bus(self) -> str:
        return self.rm

    def connection_name(self, service: str) -> str:
        """The name of the connection to the bus is that of an RM, which its permissions name."""
        return f"rm-{subjects.key_of(self.rm)}"

    def webhook_policy(self, namespace: str, *, gates: bool) -> WebhookPolicy:
        """The settings of the webhook. `namespace`: the webhook's own namespace. `gates`: the Hold that holds pods in
        plugin mode."""
        is_plugin = self.mode == "plugin"
        return WebhookPolicy(
            scheduler_name=self.placed_by[0] if is_plugin else self.scheduler_names[0],
            allowed_names=frozenset((*self.scheduler_names, *(self.placed_by if is_plugin else ()))),
            own_user=self.own_user,
            own_namespace=namespace,
            gates=is_plugin and gates,
            process=self.process_namespaces,
            bypass=self.bypass_namespaces,
            label=self.label_namespaces,
            no_label=self.no_label_namespaces,
            unique_applications=self.generate_unique_app_id,
            bypass_auth=self.bypass_auth,
            trust_controllers=self.trust_controllers,
            system_users=self.system_users,
            external_users=self.external_users,
            external_groups=self.external_groups,
        )

    @property
    def policy(self) -> ShimPolicy:
        return ShimPolicy(
            frozenset(self.scheduler_names),
            self.placeholder_image,
            self.generate_unique_app_id,
            self.gangs,
            self.predicates,
            topology=self.topology,
            topology_labels=self.topology_labels,
            device_classes=tuple(tuple(one.split("=", 1)) for one in self.device_classes),  # type: ignore[misc]
        )


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine only. Empty: all addresses."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
