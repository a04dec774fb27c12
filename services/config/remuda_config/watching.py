"""When a file may have changed, whatever an editor, a copy or a ConfigMap did to it. Knows nothing of what is in it.

The folder is what is watched: editors put a new file in the place of the old one, a ConfigMap swaps a link beside it.
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


async def moments(file: Path, tick_s: float = limits.LOOK_EVERY_S) -> AsyncIterator[None]:
    """One item for each moment at which the file had better be looked at again, and one every `tick_s` anyway."""
    while True:
        folders = _folders(file)
        if not folders:
            await asyncio.sleep(tick_s)
            yield
            continue
        watch = awatch(
            *folders,
            watch_filter=None,
            recursive=False,
            debounce=limits.SETTLE_MS,
            rust_timeout=int(tick_s * 1000),
            yield_on_timeout=True,
        )
        try:
            async with aclosing(watch):
                async for _ in watch:
                    yield
                    if _folders(file) != folders:
                        break
        except (OSError, RuntimeError) as error:  # a folder has just gone, or the system has no watches left
            log.warning("the file is looked at now and then only", file=str(file), every_s=tick_s, error=str(error))
            await asyncio.sleep(tick_s)
        yield


def _folders(file: Path) -> list[Path]:
    """Where the name stands and, behind links, where the content stands; those that exist."""
    try:
        candidates = {file.parent.absolute(), file.resolve().parent}
    except (OSError, RuntimeError):  # links in a circle
        candidates = {file.parent.absolute()}
    return sorted(folder for folder in candidates if folder.is_dir())
