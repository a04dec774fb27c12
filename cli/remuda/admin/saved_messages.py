"""The file with the messages that `remuda rebuild` deletes: gzip, one JSON object per line.

The first line is the header: `{"format": "remuda-saved-1", "rm": ..., "at_ms": ..., "halt": {...} or null}`. Each
further line is a message: `{"stream", "subject", "seq", "headers", "payload"}`, the payload in base64, stream by
stream, in order.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from remuda_bus.bus import Message
from remuda_replication.rms.halts import Halt

FORMAT = "remuda-saved-1"


Add = Callable[[str, Message], None]


@contextmanager
def writing(path: Path, rm_id: str, at_ms: int, halt: Halt | None) -> Iterator[Add]:
    """`add(stream, message)` as often as there is one. Raises FileExistsError: nothing is overwritten."""
    with gzip.open(path, "xt") as file:

        def line(value: dict[str, Any]) -> None:
            file.write(json.dumps(value) + "\n")

        def add(stream: str, message: Message) -> None:
            payload = base64.b64encode(message.payload).decode()
            said = {"subject": message.subject, "seq": message.seq, "headers": dict(message.headers)}
            line({"stream": stream, **said, "payload": payload})

        line({"format": FORMAT, "rm": rm_id, "at_ms": at_ms, "halt": asdict(halt) if halt else None})
        yield add


def read(path: Path) -> Iterator[tuple[str, Message]]:
    """(stream, message) of each. Raises ValueError when it is no such file."""
    with gzip.open(path, "rt") as file:
        found = json.loads(next(file)).get("format")
        if found != FORMAT:
            raise ValueError(f"{path}: format {found!r}, expected {FORMAT!r}")
        for line in file:
            said = json.loads(line)
            payload = base64.b64decode(said["payload"])
            yield said["stream"], Message(said["subject"], payload, said["headers"], said["seq"])
