"""nats-server, one or three, under the configuration shipped in deploy/: TLS, an account for each RM, a key for each
role."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from remuda.access.keys import ACCOUNTS, Keys
from remuda.embedded import NatsServer, free_port
from remuda_bus.bus import Full, Refused, Unanswered
from remuda_bus.nats import Access, NatsBus, connect
from remuda_operations.operators import Operator, encode
from tests.system.running import until

DEPLOY = Path(__file__).parents[2] / "deploy"
VALID_DAYS, EXPIRED = 2, 0


class GuardedServer(NatsServer):
    """`days` is how long the certificate is good for. `like`: with the certificates and keys of that one. `acts_as`: in
    whose names a front end may act."""

    secrets: Path
    keys: Keys
    routes: Sequence[int] = ()  # ports of all servers of its cluster, its own first

    def __init__(
        self,
        data_dir: Path,
        rms: tuple[str, ...] = ("rm-1", "rm-2"),
        days: int = VALID_DAYS,
        name: str = "remuda",
        like: GuardedServer | None = None,
        operators: Sequence[Operator] = (Operator("alice@example.com", ("ops",)),),
        acts_as: Mapping[str, Sequence[Operator | str]] = {},
    ) -> None:
        super().__init__(data_dir, name=name)
        if like is not None:
            self.secrets, self.keys = like.secrets, like.keys
            return
        self.secrets = self.data_dir / "secrets"
        make_certificates(self.secrets, days)
        self.keys = Keys(self.data_dir / "keys")
        self.keys.ensure_roles()
        for rm_id in rms:
            self.keys.add_rm(rm_id)
        for operator in operators:
            self.keys.add_operator(operator)
        for front_end, names in acts_as.items():
            self.keys.set_acts_as(front_end, names)

    def access(self, role: str) -> Access:
        """Of a role; of an RM, an operator or a client of Peloton's resource manager, when it has a key."""
        for directory in (self.keys.operators_directory, self.keys.clients_directory):
            if (seed := directory / f"{encode(role)}.seed").exists():
                return Access(ca=self.ca, seed=seed)
        rm_seed = self.keys.rms_directory / f"{role}.seed"
        if rm_seed.exists():
            return Access(ca=self.ca, seed=rm_seed, domain="remuda")
        return Access(ca=self.ca, seed=self.keys.directory / f"{role}.seed")

    @property
    def ca(self) -> Path:
        return self.secrets / "ca.pem"

    def _spawn(self, config: Path) -> subprocess.Popen[bytes]:
        """As shipped, but for the places: here it is no container."""
        text = (DEPLOY / "nats" / "nats.conf").read_text()
        keys = os.path.relpath(self.keys.directory, self.data_dir)  # what is included is named from here
        if self.routes:
            text += (DEPLOY / "nats" / "cluster.conf").read_text().replace("include ./nats.conf", "")
            routes = [f"nats://{self.host}:{port}" for port in self.routes]
            text = text.replace("$NATS_ROUTES", json.dumps(routes))
            text = text.replace("0.0.0.0:6222", f"{self.host}:{self.routes[0]}")
        for place, here in (
            ("0.0.0.0:4222", f"{self.host}:{self.port}"),
            ("http: 127.0.0.1:8222", f'log_file: "{self.log_file}"'),
            ("./keys/", f"./{keys}/{ACCOUNTS.parent}/"),
            ("/data", f'"{self.data_dir}"'),
            ("/run/secrets", str(self.secrets)),
            ("$NATS_NAME", self.name),
            ("$NATS_MAX_STORE", "1TB"),
        ):
            assert place in text, f"deploy/nats/nats.conf does not say {place}"
            text = text.replace(place, here)
        config.write_text(text)
        return super()._spawn(config)

    async def _answers(self) -> bool:
        """It says hello before it asks who is there."""
        try:
            reader, writer = await asyncio.open_connection(self.host, self.port)
        except OSError:
            return False
        info = json.loads((await reader.readline()).partition(b" ")[2] or b"{}")
        writer.close()
        return info.get("server_name") == self.name and bool(info.get("jetstream"))


class GuardedCluster:
    """Three of them: `async with GuardedCluster(directory) as cluster`. They have the same keys and certificates."""

    def __init__(self, directory: Path) -> None:
        first = GuardedServer(directory / "nats-1", name="nats-1")
        others = [GuardedServer(directory / name, name=name, like=first) for name in ("nats-2", "nats-3")]
        self.servers = [first, *others]
        ports = [free_port(first.host) for _ in self.servers]
        for place, server in enumerate(self.servers):
            server.routes = (*ports[place:], *ports[:place])

    async def connect(self, name: str, role: str, but: str = "") -> NatsBus:
        """To any of them but one."""
        urls = ",".join(server.url for server in self.servers if server.name != but)
        return await connect(urls, name, replicas=3, access=self.servers[0].access(role), timeout_s=10)

    async def declared(self) -> NatsBus:
        """A connection of the administrator, with all streams declared: an election may take nine seconds, and the next
        one as many."""
        bus = await self.connect("remuda-cli", "admin")

        async def is_declared() -> bool:
            try:
                await bus.declare()
            except (Unanswered, Refused, Full):  # the servers have not found each other yet
                return False
            return True

        await until(is_declared, 60)
        return bus

    async def __aenter__(self) -> Self:
        await asyncio.gather(*(server.start() for server in self.servers))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.gather(*(server.stop() for server in self.servers))


def make_certificates(directory: Path, days: int = VALID_DAYS) -> None:
    """The test is skipped where there is nothing to make them with."""
    if shutil.which("openssl") is None:
        pytest.skip("no `openssl` to make certificates with: apt-get install openssl")
    script = DEPLOY / "tls" / "make-ca.sh"
    subprocess.run([script, directory, str(days)], check=True, capture_output=True, env={**os.environ})
