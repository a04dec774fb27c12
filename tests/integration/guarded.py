"""A nats-server under the configuration shipped in deploy/: TLS, an account for each RM, a key for each role."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path

from remuda.access.keys import ACCOUNTS, Keys
from remuda.embedded import NatsServer
from remuda_bus.nats import Access

DEPLOY = Path(__file__).parents[2] / "deploy"
VALID_DAYS, EXPIRED = 2, -1


class GuardedServer(NatsServer):
    """`days` is how long the certificate is good for."""

    def __init__(self, data_dir: Path, rms: tuple[str, ...] = ("rm-1", "rm-2"), days: int = VALID_DAYS) -> None:
        super().__init__(data_dir)
        self.secrets = self.data_dir / "secrets"
        make_certificates(self.secrets, days)
        self.keys = Keys(self.data_dir / "keys")
        self.keys.ensure_roles()
        for rm_id in rms:
            self.keys.add_rm(rm_id)

    def access(self, role: str) -> Access:
        """Of a role; of an RM, when it has a key."""
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
        for place, here in (
            ("0.0.0.0:4222", f"{self.host}:{self.port}"),
            ("http: 127.0.0.1:8222", f'log_file: "{self.log_file}"'),
            ("./keys/", f"./{self.keys.directory.name}/{ACCOUNTS.parent}/"),
            ("/data", f'"{self.data_dir}"'),
            ("/run/secrets/server.pem", f'"{self.secrets / "server.pem"}"'),
            ("/run/secrets/server.key", f'"{self.secrets / "server.key"}"'),
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


def make_certificates(directory: Path, days: int = VALID_DAYS) -> None:
    script = DEPLOY / "tls" / "make-ca.sh"
    subprocess.run([script, directory, str(days)], check=True, capture_output=True, env={**os.environ})
