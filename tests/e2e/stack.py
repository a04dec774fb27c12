"""The stack of deploy/compose.yaml in containers, with actions on them."""

from __future__ import annotations

import asyncio
import functools
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import docker
from docker.models.containers import Container
from testcontainers.compose import DockerCompose

from remuda_bus.bus import Bus
from remuda_bus.nats import Access, connect

DEPLOY = Path(__file__).parents[2] / "deploy"
SECRETS = DEPLOY / "secrets"
PROJECT = "remuda-e2e"
LOGS = Path("/tmp/remuda-e2e-logs")
SERVICES = ("core-1", "core-2", "rmproxy-1", "rmproxy-2", "config-1", "events-1", "resmgr-1", "resmgr-2", "placement-1")
SERVERS = ("nats-1", "nats-2", "nats-3")
PORTS = {"nats-1": 14221, "nats-2": 14222, "nats-3": 14223}
IMAGES = ("nats", "core", "rmproxy", "config", "events", "resmgr", "cli")
PELOTON_PORTS = {"resmgr-1": 15394, "resmgr-2": 15395}
UP_WITHIN_S = 120.0


def why_not() -> str | None:
    """The reason why these tests cannot run here; None: they can."""
    if os.environ.get("REMUDA_E2E") != "1":
        return "end-to-end tests in containers run by `make e2e`"
    try:
        engine = docker.from_env(timeout=5)
        engine.ping()
    except docker.errors.DockerException as error:
        return f"no Docker Engine answers ({str(error)[:100]})"
    missing = [name for name in IMAGES if not engine.images.list(f"remuda/{name}:latest")]
    return f"no images of {', '.join(missing)}: deploy/offline/build.sh makes them" if missing else None


class Compose(DockerCompose):
    """Also works with docker-compose 1.29, the version of Debian."""

    @functools.cached_property
    def compose_command_property(self) -> list[str]:
        command = ["docker-compose"] if shutil.which("docker-compose") else ["docker", "compose"]
        for file in self.compose_file_name or []:
            command += ["-f", str(file)]
        return [*command, "--project-name", PROJECT, "--project-directory", str(DEPLOY), "--profile", "e2e"]


class Stack:
    def __init__(self) -> None:
        os.environ |= {f"E2E_PORT_{name[-1]}": str(port) for name, port in PORTS.items()}
        os.environ |= {f"PELOTON_PORT_{name[-1]}": str(port) for name, port in PELOTON_PORTS.items()}
        files = [str(DEPLOY / "compose.yaml"), str(Path(__file__).parent / "ports.yaml")]
        self._compose = Compose(str(DEPLOY), compose_file_name=files, wait=False)
        self._engine = docker.from_env()

    @property
    def url(self) -> str:
        return ",".join(f"tls://127.0.0.1:{port}" for port in PORTS.values())

    def up(self, rms: Iterable[str]) -> None:
        self.let_in(*rms)
        self.down()
        self._compose.start()
        self.until_well(*SERVICES, *SERVERS)

    def let_in(self, *rms: str) -> None:
        """Create keys for these RMs. They are valid for servers that read their configuration from now on."""
        subprocess.run([DEPLOY / "secrets.sh", *rms], check=True, capture_output=True)

    def shut_out(self, rm_id: str) -> None:
        """Run `remuda rm remove` as in docs/operations.md."""
        secrets = {str(SECRETS): {"bind": "/secrets", "mode": "rw"}}
        command = ["rm", "remove", rm_id, "--keys", "/secrets/keys"]
        user = os.environ.get("REMUDA_UID", "10001")
        self._engine.containers.run("remuda/cli", command, user=user, volumes=secrets, network_mode="none", remove=True)

    def down(self) -> None:
        """Remove the containers. Their output is kept in LOGS."""
        LOGS.mkdir(exist_ok=True)
        for found in self._engine.containers.list(all=True, filters={"label": f"com.docker.compose.project={PROJECT}"}):
            service = found.labels["com.docker.compose.service"]
            (LOGS / f"{service}-{found.short_id}.log").write_bytes(found.logs(timestamps=True))
        self._compose.stop()

    def replace(self, name: str, **environment: str) -> None:
        """Replace the container by one with these variables of compose.yaml; volumes stay. Returns when it is ready."""
        command = [*self._compose.compose_command_property, "up", "--detach", "--no-deps", name]
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, **environment})
        self.until_well(name)

    def tag(self, tag: str) -> None:
        """Tag the present images as those of another version."""
        for name in IMAGES:
            self._engine.images.get(f"remuda/{name}:latest").tag(f"remuda/{name}", tag)

    def container(self, name: str) -> Container:
        for found in self._engine.containers.list(all=True, filters={"label": f"com.docker.compose.service={name}"}):
            if found.labels["com.docker.compose.project"] == PROJECT:
                return found
        raise KeyError(name)

    def cut(self, name: str) -> None:
        self._network().disconnect(self.container(name), force=True)

    def join(self, name: str) -> None:
        self._network().connect(self.container(name), aliases=[name])

    def kill(self, name: str) -> None:
        self.container(name).kill()

    def start(self, name: str) -> None:
        self.container(name).start()

    def until_well(self, *names: str) -> None:
        deadline = time.monotonic() + UP_WITHIN_S
        for name in names:
            while (health := self._health(name)) != "healthy":
                assert time.monotonic() < deadline, f"{name} is {health} after {UP_WITHIN_S} s: {self.log(name)}"
                time.sleep(0.25)

    def log(self, name: str, lines: int = 20) -> str:
        return str(self.container(name).logs(tail=lines).decode(errors="replace"))

    def memory_bytes(self, name: str) -> int:
        """The memory of its processes, without the kernel's cache of files."""
        said: dict[str, Any] = self.container(name).stats(stream=False, one_shot=True)["memory_stats"]["stats"]
        return int(said["rss"] if "rss" in said else said["anon"])

    def files_of(self, image: str) -> Iterator[bytes]:
        """Returns all files of an image, as one archive."""
        made = self._engine.containers.create(f"remuda/{image}:latest")
        try:
            yield from made.export()
        finally:
            made.remove()

    def environment(self, rm_id: str) -> dict[str, str]:
        """The environment of a process that is this RM."""
        access = self.access_of_rm(rm_id)
        return {
            "REMUDA_NATS_URL": self.url,
            "REMUDA_NATS_CA": str(access.ca),
            "REMUDA_NATS_SEED": str(access.seed),
            "REMUDA_NATS_DOMAIN": access.domain,
        }

    async def load(
        self, rm_id: str, *options: str, seed: Path | None = None, output: int = asyncio.subprocess.PIPE
    ) -> asyncio.subprocess.Process:
        """Run `remuda load` outside of the containers, as this RM. `seed`: a key instead of that in SECRETS."""
        environment = {**os.environ, **self.environment(rm_id)}
        if seed is not None:
            environment["REMUDA_NATS_SEED"] = str(seed)
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", "remuda", "load", "--nats", self.url, "--rm", rm_id, "--plain", *options,
            env=environment, stdout=output, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip

    def access_of_rm(self, rm_id: str) -> Access:
        return Access(ca=SECRETS / "tls/ca.pem", seed=SECRETS / "keys/rms" / f"{rm_id}.seed", domain="remuda")

    async def admin(self) -> Bus:
        access = Access(ca=SECRETS / "tls/ca.pem", seed=SECRETS / "keys/admin.seed")
        return await connect(self.url, "remuda-cli", access=access, timeout_s=10)

    def _health(self, name: str) -> str:
        state = self.container(name).attrs["State"]
        return str(state.get("Health", {}).get("Status", state["Status"]))

    @property
    def host(self) -> str:
        """The address of this machine for containers."""
        return str(self._network().attrs["IPAM"]["Config"][0]["Gateway"])

    def _network(self) -> Any:
        return self._engine.networks.get(f"{PROJECT}_default")


async def in_thread(call: Callable[..., None], *arguments: str) -> None:
    """Run a slow call to the engine in a thread, so that the connections of this process are served meanwhile."""
    await asyncio.to_thread(call, *arguments)
