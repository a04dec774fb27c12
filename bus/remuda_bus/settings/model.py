"""The settings that several services share (001, Scheduler Configuration and Access Control Lists)."""

from __future__ import annotations

import os
import pwd
import socket
from dataclasses import replace
from typing import Annotated, ClassVar, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, field_validator

from remuda_bus.settings.setting import ReadableFile, setting
from remuda_proto.access_list import AccessList, canonical

# The services that read a section, and check it. All services read all other sections.
SERVICES_OF_SECTION: Final = {
    "archive": ("archive", "history"),
    "config": ("config",),
    "core": ("core",),
    "events": ("events",),
    "groups": ("rmproxy",),
    "grpc": ("grpc",),
    "kubernetes": ("kubernetes",),
    "placement": ("placement",),
    "preemption": ("config",),
    "resmgr": ("resmgr",),
    "rms": ("rmproxy",),
    "scheduler": ("rmproxy", "config", "web", "resmgr"),
    "shadow": ("shadow",),
    "timing": ("config",),
    "web": ("web",),
}


class Settings(BaseModel):
    """The settings that all services read. A service adds fields in a subclass; `load` fills the fields from the
    sources, and the constructor from its arguments and the defaults alone.

    `is_rm`: the service is an RM on the bus, and declares no streams. `keeps_logs`: the service leads logs, from which
    states are restored."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)
    is_rm: ClassVar[bool] = False
    keeps_logs: ClassVar[bool] = False

    instance: str = setting(
        "instance",
        default_factory=lambda: f"{socket.gethostname()}-{os.getpid()}",
        default_shown="host name and process ID",
        description="unique name of the process",
    )
    nats_url: str = setting("nats.url", "nats://127.0.0.1:4222", "servers of the bus, separated by commas")
    nats_ca: ReadableFile = setting("nats.ca", None, "file: CA certificates of the servers; with it, TLS")
    nats_cert: ReadableFile = setting("nats.cert", None, "file: client certificate")
    nats_key: ReadableFile = setting("nats.key", None, "file: private key of the certificate")
    nats_seed: ReadableFile = setting("nats.seed", None, "file: nkey seed of this process")
    nats_domain: str = setting("nats.domain", "", "JetStream domain, where the account imports JetStream")
    replicas: int = setting(
        "nats.replicas", 1, "servers that store each stream", variables=("REMUDA_REPLICAS",),
        ge=1, le=5,
    )  # fmt: skip
    log_format: Literal["console", "json"] = setting("log.format", "console", "format of the log on stderr")
    log_level: Literal["debug", "info", "warning", "error"] = setting("log.level", "info", "least level that is logged")
    health_host: str = setting("health.host", "", "address of the health pages; empty: all addresses")
    health_port: int = setting("health.port", 0, "port of `/livez`, `/readyz` and `/metrics`; 0: none", ge=0, le=65535)
    traces_endpoint: str = setting(
        "traces.endpoint", "", "URL to send traces to (OTLP over HTTP); empty: none",
        variables=("OTEL_EXPORTER_OTLP_ENDPOINT",),
    )  # fmt: skip
    traces_part: float = setting(
        "traces.part", 1.0, "part of the traces that begin here",
        ge=0, le=1,
    )  # fmt: skip

    @property
    def needs_bus(self) -> bool:
        """Whether the process connects to the bus. A process that does not connect needs no key of the bus."""
        return True

    @property
    def rm_on_the_bus(self) -> str:
        """The rmID of a service that is an RM on the bus; "": it is none."""
        return ""

    def connection_name(self, service: str) -> str:
        """The name of this process's connection to the bus."""
        return f"remuda-{service}"

    @field_validator("instance")
    @classmethod
    def _named(cls, name: str) -> str:
        if not name:
            raise ValueError("expected a name")
        return name


def _access_list(text: str) -> str:
    AccessList.parse(text)
    return canonical(text)


class SchedulerAclSettings(Settings):
    """Settings of a service that acts for scheduler administrators."""

    scheduler_acl: Annotated[str, AfterValidator(_access_list)] = setting(
        "scheduler.acl", "",
        "scheduler administrators: an access list like `alice,bob ops`. The owner of the process is "
        "always one",
    )  # fmt: skip

    def scheduler_administrators(self) -> AccessList:
        """The scheduler administrators of the setting, and the owner of this process."""
        configured = AccessList.read(self.scheduler_acl)
        try:
            return replace(configured, users=configured.users | {pwd.getpwuid(os.geteuid()).pw_name})
        except KeyError:  # a container's user without a name
            return configured
