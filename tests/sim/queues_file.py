"""The surroundings of the configuration service beside the bus: its file, in memory, and the processes that read texts.

A step on the file takes its time, and a process can be killed before it and after it. Real files are those of
`services/config/tests`."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from remuda_config import limits
from remuda_config.file_writer import NotWritable
from remuda_config.load import load
from remuda_config.problems import Invalid, Problem
from remuda_config.shell import active_configuration, distributor, service, write_back
from remuda_proto.remuda.v1 import config_pb2

LONG_CHARACTERS = 10_000
S_PER_CHARACTER = 10e-6
STEP_S = 0.003
FILE_CHECK_S = 0.7
FILE = Path("queues.yaml")


class QueuesFile:
    """`content`: None while there is no file. `writable`: off, it can be read only."""

    def __init__(self) -> None:
        self.content: bytes | None = None
        self.writable = True

    def read(self) -> bytes | Problem:
        return Problem("", 0, "no such file") if self.content is None else self.content


class Prepared:
    def __init__(self, file: QueuesFile, content: bytes) -> None:
        self._file = file
        self._content = content

    def commit(self) -> None:
        if not self._file.writable:
            raise NotWritable("the disk is full")
        self._file.content = self._content

    def discard(self) -> None:
        pass


class Workers:
    """Reads texts as the worker processes do, in this process."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    async def load(self, text: str, source: str, cpu_s: int = 0) -> config_pb2.Configuration:
        if len(text) > LONG_CHARACTERS:
            await asyncio.sleep(len(text) * S_PER_CHARACTER)
            raise Invalid([Problem("", 0, "too long")])
        await asyncio.sleep(STEP_S)
        loaded = _loaded(text, source)
        if isinstance(loaded, Invalid):
            raise Invalid(loaded.problems)
        return loaded


@functools.cache
def _loaded(text: str, source: str) -> config_pb2.Configuration | Invalid:
    try:
        return load(text, source)
    except Invalid as invalid:
        return invalid


async def _in_steps(call: Callable[..., Any], *args: Any) -> Any:
    """Instead of asyncio.to_thread."""
    await asyncio.sleep(STEP_S)
    answer = call(*args)
    await asyncio.sleep(STEP_S)
    return answer


async def _file_changes(file: Path) -> AsyncIterator[None]:
    while True:
        await asyncio.sleep(FILE_CHECK_S)
        yield


def replacements(file: QueuesFile) -> list[tuple[Any, str, Any]]:
    """The replacements of threads, processes and the disk in `environment`."""

    def prepare(_: Path, content: bytes) -> Prepared:
        if not file.writable:
            raise NotWritable("the disk is full")
        return Prepared(file, content)

    return [
        (limits, "ROOM_FOR_THE_REST_BYTES", 1_024),  # messages of a simulation may be small
        (asyncio, "to_thread", _in_steps),
        (service, "WorkerPool", Workers),
        (distributor, "file_changes", _file_changes),
        (active_configuration, "read_file", lambda _: file.read()),
        (write_back, "read_file", lambda _: file.read()),
        (write_back, "prepare", prepare),
        (write_back, "remove_leftovers", lambda _: None),
    ]
