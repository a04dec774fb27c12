"""Changes to the files of a stopped server."""

from __future__ import annotations

import shutil
from pathlib import Path

STREAMS = Path("jetstream/$G/streams")


def cut_tail(store: Path, stream: str, keep: float = 0.6) -> None:
    """The last block ends in the middle of a message, as after a write that was acknowledged and never synced."""
    block = max((store / STREAMS / stream / "msgs").glob("*.blk"), key=lambda path: int(path.stem))
    with block.open("r+b") as file:
        file.truncate(int(block.stat().st_size * keep))


def forget_index(store: Path, stream: str) -> None:
    (store / STREAMS / stream / "msgs" / "index.db").unlink()


def copy(store: Path, to: Path) -> None:
    shutil.copytree(store / "jetstream", to / "jetstream")


def put_back(store: Path, copied: Path) -> None:
    shutil.rmtree(store / "jetstream")
    copy(copied, store)


def swap_stream(store: Path, other: Path, stream: str) -> None:
    """One stream is that of another run, the others stay."""
    shutil.rmtree(store / STREAMS / stream)
    shutil.copytree(other / STREAMS / stream, store / STREAMS / stream)
