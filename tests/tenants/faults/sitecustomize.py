"""Found by every Python process that has this directory in PYTHONPATH: puts bugs into the services.

An application `bug-in-core` raises in the core, one `bug-in-rmproxy` where rmproxy makes commands of requests. A commit
about one that is named `log-is-full` finds no room in the log. With
REMUDA_TEST_FAULT=crash a request that is no protobuf ends rmproxy at once, as a lack of memory would.
"""

from __future__ import annotations

import os
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any


def core(module: Any) -> None:
    decide = module.decide

    def fails(state: Any, index: Any, command: Any, now_ms: int) -> Any:
        if getattr(command, "application_id", "") == "bug-in-core":
            raise RuntimeError("a bug in the core")
        return decide(state, index, command, now_ms)

    module.decide = fails


def log_writer(module: Any) -> None:
    append = module.LogWriter.append

    async def fails(writer: Any, commit: Any, headers: Any = None) -> Any:
        if b"log-is-full" in commit.SerializeToString():
            from remuda_bus.bus import Full

            raise Full("maximum bytes exceeded")
        return await append(writer, commit, headers)

    module.LogWriter.append = fails


def rmproxy(module: Any) -> None:
    commands_of = module.commands_of

    def fails(message: Any, *arguments: Any, **options: Any) -> Any:
        if b"bug-in-rmproxy" in message.payload:
            raise RuntimeError("a bug in rmproxy")
        return commands_of(message, *arguments, **options)

    module.commands_of = fails
    if os.environ.get("REMUDA_TEST_FAULT") == "crash":
        crash(module)


def crash(module: Any) -> None:
    parse = module._parse

    def ends(*arguments: Any) -> Any:
        try:
            return parse(*arguments)
        except module.InvalidRequest:
            os._exit(3)

    module._parse = ends


PATCHES = {
    "remuda_replication.log.writer": log_writer,
    "remuda_core.core": core,
    "remuda_rmproxy.inbound.translate": rmproxy,
}


class Finder(MetaPathFinder):
    """Patches a module when it has been loaded."""

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        patch = PATCHES.pop(name, None)
        if patch is None:
            return None
        spec = find_spec(name)
        assert spec is not None and spec.loader is not None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            patch(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


sys.meta_path.insert(0, Finder())
