"""How a process gets into a NATS server that asks who is there: files with keys and certificates, never their content
in an argument or a variable. Without any, the connection is plain and nameless."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILES = ("ca", "cert", "key", "seed")


@dataclass(frozen=True, slots=True)
class Access:
    """`ca`: the certificates that sign the server's; with it the connection must be encrypted. `cert` and `key`: our
    own, for a server that wants one. `seed`: our nkey, which says who we are (`remuda keys` and `remuda rm add` write
    it). `domain`: what JetStream is called in our account, where it is imported from another one; RMs with a key of
    their own say `remuda`."""

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    seed: Path | None = None
    domain: str = ""

    @classmethod
    def from_environment(cls) -> Access:
        """REMUDA_NATS_CA, _CERT, _KEY and _SEED, which are paths, and _DOMAIN. Raises ValueError that names the one
        that is no file."""
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
        """What subjects of JetStream's API begin with."""
        return f"$JS.{self.domain}.API" if self.domain else "$JS.API"

    def options(self) -> dict[str, Any]:
        """Of nats-py's `connect`. Reads the certificates: ValueError when they are none."""
        given: dict[str, Any] = {}
        if self.seed is not None:
            given["nkeys_seed"] = str(self.seed)
        if self.ca is not None:
            given["tls"] = self._encryption(self.ca)
        elif self.cert is not None:
            raise ValueError(f"REMUDA_NATS_CERT={self.cert} without REMUDA_NATS_CA: which servers are to be trusted?")
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
