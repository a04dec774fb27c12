"""The settings that all services share."""

from __future__ import annotations

import os
import socket
from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """Settings from environment variables: REMUDA_NATS_URL and so on. A service adds its own in a subclass."""

    model_config = SettingsConfigDict(env_prefix="REMUDA_", extra="ignore")

    nats_url: str = Field("nats://127.0.0.1:4222", description="URLs of the NATS servers, separated by commas")
    log_format: Literal["console", "json"] = "console"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    instance: str = Field(
        default_factory=lambda: f"{socket.gethostname()}-{os.getpid()}",
        description="name of this process, as people see it in leases, logs and traces",
    )
    health_port: int = Field(
        0, ge=0, le=65535, description="port of the health pages /livez and /readyz (HTTP); 0: none"
    )
    replicas: int = Field(1, ge=1, le=5, description="servers of a NATS cluster that keep each stream")
