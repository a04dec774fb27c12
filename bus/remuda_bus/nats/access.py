"""The credentials of a process at a NATS server: paths of files with keys and certificates. Their content is never in
an argument or a variable. Without any, the connection is neither encrypted nor authenticated."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILES = ("ca", "cert", "key", "seed")


@dataclass(frozen=True, slots=True)
class Access:
    """`ca`: the CA certificates that sign the server's certificate; with it the connection must be encrypted. `cert`
    and `key`: the client certificate, for a server that requires one. `seed`: the nkey that identifies the process
    (written by `remuda keys` and `remuda rm add`). `domain`: the JetStream domain, where the account imports JetStream
    from another account (`remuda` for RMs with a key of their own)."""

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    seed: Path | None = None
    domain: str = ""

    @classmethod
    def from_environment(cls) -> Access:
        """The credentials named by REMUDA_NATS_CA, _CERT, _KEY and _SEED (paths), and REMUDA_NATS_DOMAIN. Raises
        ValueError that names the variable whose file does not exist."""
        paths = {}
        for name in FILES:
            variable = f"REMUDA_NATS_{name.upper()}"
            path = os.environ.get(variable)
            if path:
                paths[name] = Path(path)
                if not paths[name].is_file():
                    raise ValueError(f"{variable}={path}: no such file")
        return cls(**paths, domain=os.environ.get("REMUDA_NATS_DOMAIN", ""))

    @property
    def api(self) -> str:
        """The prefix of the subjects of JetStream's API."""
        return f"$JS.{self.domain}.API" if self.domain else "$JS.API"

    def options(self) -> dict[str, Any]:
        """Options for nats-py's `connect`. Reads the certificates. Raises ValueError when they are invalid."""
        given: dict[str, Any] = {}
        if self.seed is not None:
            given["nkeys_seed"] = str(self.seed)
        if self.ca is not None:
            given["tls"] = self._encryption(self.ca)
        elif self.cert is not None:
            raise ValueError(f"REMUDA_NATS_CERT={self.cert} without REMUDA_NATS_CA: expected the servers' CA, too")
        return given

    def _encryption(self, ca: Path) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=str(ca))
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            if self.cert is not None:
                context.load_cert_chain(str(self.cert), str(self.key) if self.key else None)
        except (OSError, ssl.SSLError) as error:
            raise ValueError(f"REMUDA_NATS_CA={ca}, _CERT={self.cert}, _KEY={self.key}: {error}") from error
        return context
