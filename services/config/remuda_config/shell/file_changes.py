"""Watches for changes of a file.

The watch is on folders, not on the file: editors replace a file by a new one, and an update of a ConfigMap replaces a
link beside it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import structlog
from watchfiles import awatch

from remuda_config import limits

log = structlog.get_logger()


async def file_changes(file: Path, interval_s: float = limits.FILE_CHECK_INTERVAL_S) -> AsyncIterator[None]:
    """One item whenever the file may have changed, and at least one every `interval_s`."""
    while True:
        folders = _folders(file)
        if not folders:
            await asyncio.sleep(interval_s)
            yield
            continue
        watch = awatch(
            *folders,
            watch_filter=None,
            recursive=False,
            debounce=limits.FILE_SETTLE_MS,
            rust_timeout=int(interval_s * 1000),
            yield_on_timeout=True,
        )
        try:
            async with aclosing(watch):
                async for _ in watch:
                    yield
                    if _folders(file) != folders:
                        break
        except (OSError, RuntimeError) as error:  # a folder was removed, or the system allows no more watches
            log.warning("cannot watch the file, polling it", file=str(file), every_s=interval_s, error=str(error))
            await asyncio.sleep(interval_s)
        yield


def _folders(file: Path) -> list[Path]:
    """The existing ones of two folders: of the file's name, and of its content if the name is a link."""
    try:
        candidates = {file.parent.absolute(), file.resolve().parent}
    except (OSError, RuntimeError):  # links in a circle
        candidates = {file.parent.absolute()}
    return sorted(folder for folder in candidates if folder.is_dir())
