"""`remuda keys`, `remuda rm add`, `remuda rm remove`: the commands' output."""

from __future__ import annotations

from pathlib import Path

from ..errors import UserError
from .keys import ACCOUNTS, Keys
from .permissions import RM_DOMAIN

# nats-server 2.15 imports into a new account only on the second reload.
RELOAD = "Reload the NATS servers twice to apply this: send SIGHUP to each, and again one second later."


def make_keys(directory: Path) -> None:
    made = Keys(directory).ensure_roles()
    print(f"created: {', '.join(made)}" if made else "all keys exist")
    print(f"{directory / ACCOUNTS} is up to date. {RELOAD}")


def add_rm(directory: Path, rm_id: str) -> None:
    try:
        seed = Keys(directory).add_rm(rm_id)
    except ValueError as error:
        raise UserError(str(error)) from None
    print(f"Key of {rm_id}: {seed} (secret; give it to its owner only)")
    print(f"Connect with:  REMUDA_NATS_SEED={seed.name} REMUDA_NATS_DOMAIN={RM_DOMAIN} REMUDA_NATS_CA=ca.pem")
    print(RELOAD)


def remove_rm(directory: Path, rm_id: str) -> None:
    try:
        Keys(directory).remove_rm(rm_id)
    except ValueError as error:
        raise UserError(str(error)) from None
    print(f"{rm_id}: key deleted. Send SIGHUP to each NATS server to close its connections.")
