"""The correlation ID of a command: it names the request that a decision answers. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

from remuda_rmproxy.records.rm_record import ConfigSource

KINDS = ("register", "configure", "deregister")


@dataclass(frozen=True, slots=True)
class Correlation:
    """The core copies the correlation ID of a command into its decision. So rmproxy can write the RM's record from the
    decision alone, also after a restart.

    `id`: of a registration a nonce, of a configuration update the stream sequence of the request, of a deregistration
    the number of the registration that ends. `config_source`, `policy_group`: what the record will contain."""

    kind: Literal["register", "configure", "deregister"]
    id: str
    config_source: ConfigSource = "built-in"
    policy_group: str = ""

    def encode(self) -> str:
        return f"{self.kind}:{self.id}:{self.config_source}:{self.policy_group}"

    @classmethod
    def decode(cls, text: str) -> Correlation | None:
        """Reads an ID; None: rmproxy did not make this ID."""
        kind, _, rest = text.partition(":")
        parts = rest.split(":", 2)
        if kind not in KINDS or len(parts) != 3:
            return None
        return cls(kind, parts[0], cast(ConfigSource, parts[1]), parts[2])  # type: ignore[arg-type]
