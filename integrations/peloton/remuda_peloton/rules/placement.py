"""A placement: tasks that an engine has put on one host."""

from __future__ import annotations

import msgspec


class Placement(msgspec.Struct, frozen=True):
    """`tasks`: pairs of a task's ID and its run's. Agent, ports and offer are the engine's, and passed on."""

    hostname: str
    tasks: tuple[tuple[str, str], ...]
    type: int = 0
    agent_id: str = ""
    host_offer_id: str = ""
    ports: tuple[int, ...] = ()
