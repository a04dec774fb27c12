"""A core process that ends without a word when it decides about a node called "deadly", as one that is out of memory.

python -m tests.system.poisoned_core
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

from remuda_bus.settings import load
from remuda_core import commands, decide
from remuda_core.facts import Fact
from remuda_core.shell.main import main
from remuda_core.shell.settings import CoreSettings
from remuda_core.state import State
from remuda_replication import process

by_command: dict[Any, Any] = decide.BY_COMMAND
update_node = by_command[commands.UpdateNode]


def poisoned(state: State, command: commands.UpdateNode, now_ms: int) -> Iterator[Fact]:
    if command.node_id == "deadly":
        os.kill(os.getpid(), signal.SIGKILL)
    return update_node(state, command, now_ms)


if __name__ == "__main__":
    by_command[commands.UpdateNode] = poisoned
    process.run("core", main, load(CoreSettings).settings)
