"""The pool of worker processes that read texts of queues.yaml (docs/adr/configuration.md).

A text comes from outside and may take seconds of processor time. In the service's own process it would hold up the
answers to all other RMs, also in a thread. A worker has a limit of processor time and of memory. The end of a worker is
reported as a problem of its text.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

import structlog

from remuda_config import limits
from remuda_config.problems import Invalid, Problem
from remuda_config.wire import problems_from_wire
from remuda_config.worker import LENGTH, encode_request
from remuda_proto.remuda.v1 import config_pb2

log = structlog.get_logger()


class WorkerPool:
    """Reads texts in processes of their own: at most WORKERS at the same time, and one that is large, so that a
    worker remains for small ones.
    """

    def __init__(self, memory_bytes: int = limits.WORKER_MEMORY_BYTES) -> None:
        self._memory_bytes = memory_bytes
        self._idle: list[_Worker] = []
        self._slots = asyncio.Semaphore(limits.WORKERS)
        self._large = asyncio.Semaphore(1)
        self._replacing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._idle.append(await _Worker.start(self._memory_bytes))  # the first RM does not wait for it
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._replacing is not None:
            await self._replacing
        for worker in self._idle:
            await worker.stop()
        self._idle.clear()

    async def load(self, text: str, source: str, cpu_s: int = limits.LOAD_CPU_S) -> config_pb2.Configuration:
        """Loads a text as `remuda_config.load`, in a worker and with at most `cpu_s` seconds of processor time.
        Raises Invalid.
        """
        answer = config_pb2.ResolvedConfiguration.FromString(await self._ask("load", cpu_s, [text], source))
        if answer.problems:
            raise Invalid(problems_from_wire(answer.problems))
        return answer.configuration

    async def advise(self, text: str) -> dict[str, Any]:
        """`warnings` and `versions` of `remuda_config.advice_on`, bounded. Raises ValueError for an invalid text."""
        return dict(await self._ask_json("advise", "advice", [text]))

    async def edit(self, text: str, edits: Sequence[Any]) -> str:
        """Edits a text as `remuda_config.edits.edit`. Raises ValueError with the reason."""
        return str(await self._ask_json("edit", "text", [text], edits))

    async def compare(self, before: str, after: str) -> list[str]:
        """Compares two texts as `remuda_config.difference`. Raises ValueError when one of them is not valid."""
        return list(await self._ask_json("compare", "changes", [before, after]))

    async def _ask_json(self, do: str, key: str, texts: Sequence[str], *more: Any) -> Any:
        try:
            answer = json.loads(await self._ask(do, limits.LOAD_FILE_CPU_S, texts, *more))
        except Invalid as error:
            raise ValueError(str(error)) from error
        if "refused" in answer:
            raise ValueError(answer["refused"])
        return answer[key]

    async def _ask(self, do: str, cpu_s: int, texts: Sequence[str], *more: Any) -> bytes:
        """Raises Invalid when the text takes too long or ends the worker."""
        size = sum(len(text.encode(errors="surrogatepass")) for text in texts)
        is_large = size > limits.LARGE_TEXT_BYTES
        async with self._large if is_large else contextlib.nullcontext(), self._slots:
            worker, answer = await self._read(encode_request(do, cpu_s, *texts, *more), size, cpu_s)
            if is_large:  # the worker keeps the memory that the text has taken
                self._replacing = asyncio.create_task(self._replace(worker))
            else:
                self._idle.append(worker)
        return answer

    async def _replace(self, worker: _Worker) -> None:
        """So that the next text does not wait for the start of a process."""
        await worker.stop()
        if not self._idle:
            self._idle.append(await _Worker.start(self._memory_bytes))

    async def _read(self, request: bytes, size: int, cpu_s: int) -> tuple[_Worker, bytes]:
        problem, within_s = "", limits.LOAD_TIMEOUT_S + cpu_s
        for attempt in range(limits.LOAD_ATTEMPTS):
            worker = self._idle.pop() if self._idle and attempt == 0 else await _Worker.start(self._memory_bytes)
            try:
                return worker, await worker.ask(request, within_s)
            except TimeoutError:
                await worker.stop(within_s=0)
                problem = f"is not read within {within_s:g} s: it is too large, or this machine is too busy"
            except (EOFError, ConnectionError):
                status = await worker.stop()
                if status == -signal.SIGXCPU:
                    raise Invalid(
                        [Problem("", 0, f"a text of {size} bytes takes more than {cpu_s} s to read")]
                    ) from None
                problem = f"ended the process that reads it (status {status})"
            except BaseException:
                await worker.stop(within_s=0)
                raise
            log.warning("a configuration could not be read", reason=f"the text {problem}", text_bytes=size)
        raise Invalid([Problem("", 0, f"a text of {size} bytes {problem}")])


class _Worker:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, memory_bytes: int) -> _Worker:
        command = (sys.executable, "-m", "remuda_config.worker", str(memory_bytes))
        return cls(
            await asyncio.create_subprocess_exec(
                *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
            )
        )

    async def ask(self, request: bytes, timeout_s: float) -> bytes:
        """The answer. Raises EOFError or ConnectionError when the process has ended, TimeoutError when it hangs."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        async with asyncio.timeout(timeout_s):
            stdin.write(LENGTH.pack(len(request)) + request)
            await stdin.drain()
            (length,) = LENGTH.unpack(await stdout.readexactly(LENGTH.size))
            return await stdout.readexactly(length)

    async def stop(self, within_s: float = limits.WORKER_STOPS_WITHIN_S) -> int:
        """End the process, by force if it does not end with its stdin. Its exit status."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(within_s):
                return await self._process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            return await self._process.wait()
