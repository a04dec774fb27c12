"""`remuda keys`, `remuda rm add`, `remuda rm remove`: what they print."""

from __future__ import annotations

from pathlib import Path

from ..errors import UserError
from .keys import ACCOUNTS, Keys
from .permissions import RM_DOMAIN

# A new account is connected to the others only when it is read for the second time (nats-server 2.15).
RELOAD = "The NATS servers know it once they have read it twice: send each of them SIGHUP, and again a second later."


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
    print(f"{rm_id} has no key any more. Send each of the NATS servers SIGHUP: then its connections are ended.")
