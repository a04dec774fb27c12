"""`remuda keys`, `remuda rm add`, `remuda rm remove`: what they print."""

from __future__ import annotations

from pathlib import Path

from ..errors import UserError
from .keys import ACCOUNTS, Keys
from .permissions import RM_DOMAIN

RELOAD = "The NATS servers know it once they read it again: send each of them SIGHUP."


def make_keys(directory: Path) -> None:
    made = Keys(directory).ensure_roles()
    print(f"made: {', '.join(made)}" if made else "all keys are there")
    print(f"{directory / ACCOUNTS} is up to date. {RELOAD}")


def add_rm(directory: Path, rm_id: str) -> None:
    try:
        seed = Keys(directory).add_rm(rm_id)
    except ValueError as error:
        raise UserError(str(error)) from None
    print(f"The key of {rm_id}, for it alone: {seed}")
    print(f"It connects with  REMUDA_NATS_SEED={seed.name} REMUDA_NATS_DOMAIN={RM_DOMAIN} REMUDA_NATS_CA=ca.pem")
    print(RELOAD)


def remove_rm(directory: Path, rm_id: str) -> None:
    try:
        Keys(directory).remove_rm(rm_id)
    except ValueError as error:
        raise UserError(str(error)) from None
    print(f"{rm_id} has no key any more. {RELOAD} Then its connections are ended.")
