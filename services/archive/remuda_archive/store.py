"""The place where an archive is kept: a directory, or a bucket of an object store, by obstore."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import obstore
from obstore.exceptions import BaseError
from obstore.store import LocalStore, from_url

from remuda_archive import limits, metrics
from remuda_archive.segments import Damaged

# Options of the connection. obstore takes them apart from the options of the store, and ends the process where they are
# among those. People write them with the prefix of the store, as object stores name their variables.
CONNECTION = {
    "allow_http", "allow_invalid_certificates", "connect_timeout", "default_content_type", "http1_only",
    "http2_keep_alive_interval", "http2_keep_alive_timeout", "http2_keep_alive_while_idle", "http2_only",
    "pool_idle_timeout", "pool_max_idle_per_host", "proxy_url", "proxy_ca_certificate", "proxy_excludes",
    "randomize_addresses", "timeout", "user_agent",
}  # fmt: skip
PREFIXES = ("aws_", "azure_", "google_")


class StoreFailed(Exception):
    """The store has refused a request, or was not reached."""


class Store:
    """Objects by name. A name that was put is complete: readers see the whole object or none."""

    def __init__(self, store: Any, directory: Path | None, where: str) -> None:
        self._store = store
        self._directory = directory  # where files are forced to the disk
        self.where = where

    @classmethod
    def open(cls, where: str, options: Mapping[str, str] | None = None) -> Self:
        """`where`: the path of a directory, which is made, or a URL such as `s3://bucket/prefix`. `options`: of the
        object store, beside those that it reads from the environment (docs/history.md). Raises ValueError that names
        what is wrong."""
        try:
            if "://" in where and not where.startswith("file://"):
                config, client = _divided(options or {})
                return cls(from_url(where, config=config, client_options=client), None, where)
            directory = Path(where.removeprefix("file://"))
            return cls(LocalStore(directory, automatic_cleanup=True, mkdir=True), directory, str(directory))
        except (BaseError, OSError, TypeError, ValueError) as error:
            raise ValueError(f"archive.store {where!r}: {_first_line(error)}") from None

    async def put(self, name: str, content: bytes) -> None:
        """Durable when it returns. Raises StoreFailed."""
        async with self._asked():
            await obstore.put_async(self._store, name, content)
            if self._directory is not None:
                await asyncio.to_thread(_sync, self._directory / name)

    async def get(self, name: str) -> bytes | None:
        """None: there is no such object. Raises StoreFailed."""
        async with self._asked():
            try:
                found = await obstore.get_async(self._store, name)
            except FileNotFoundError:
                return None
            return bytes(await found.bytes_async())

    async def content(self, name: str) -> bytes:
        """The content of an object that was listed. Raises StoreFailed; Damaged when there is no such object."""
        if (found := await self.get(name)) is None:
            raise Damaged("it was deleted while it was to be read")
        return found

    async def beginning(self, name: str, size: int, length: int) -> bytes:
        """Returns the first `length` bytes of an object of `size` bytes, or all. Raises StoreFailed; Damaged when there
        is no such object."""
        if size <= length:  # not as a range: some servers answer a range that is everything with the whole object
            return await self.content(name)
        async with self._asked():
            return bytes(await obstore.get_range_async(self._store, name, start=0, length=length))

    async def names(self, prefix: str = "") -> dict[str, int]:
        """All names that begin with this path, with the sizes of the objects in bytes. Raises StoreFailed."""
        found: dict[str, int] = {}
        async with self._asked(within_s=None):
            try:
                async for some in obstore.list(self._store, prefix or None):
                    found.update((one["path"], one["size"]) for one in some)
            except FileNotFoundError:
                pass
        return found

    async def delete(self, name: str) -> None:
        """Does nothing where there is none. Raises StoreFailed."""
        async with self._asked():
            try:
                await obstore.delete_async(self._store, name)
            except FileNotFoundError:
                pass

    @asynccontextmanager
    async def _asked(self, within_s: float | None = limits.STORE_TIMEOUT_S) -> AsyncIterator[None]:
        """One request to the store. Raises StoreFailed for whatever it fails with."""
        try:
            async with asyncio.timeout(within_s):
                yield
        except (BaseError, OSError) as error:  # a time-out is an OSError
            metrics.FAILING.set(1)
            said = f"no answer within {within_s} s" if isinstance(error, TimeoutError) else _first_line(error)
            raise StoreFailed(f"{self.where}: {said}") from None
        metrics.FAILING.set(0)


def _divided(options: Mapping[str, str]) -> tuple[Any, Any]:
    """Returns the options of the store and those of the connection. An http endpoint allows http."""
    config, client = {}, {}
    for name, value in options.items():
        plain = next((name.lower().removeprefix(one) for one in PREFIXES if name.lower().startswith(one)), name.lower())
        if plain in CONNECTION:
            client[plain] = value
        else:
            config[name] = value
            if plain in ("endpoint", "endpoint_url") and value.startswith("http://"):
                client.setdefault("allow_http", "true")
    return config, client


def _sync(path: Path) -> None:
    for one in (path, path.parent):
        descriptor = os.open(one, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
