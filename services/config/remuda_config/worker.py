"""The worker process: reads, verifies, edits and compares texts of queues.yaml, one after the other.

The configuration service starts it as `python -m remuda_config.worker MEMORY_BYTES`. Each request on stdin is a frame:
a length of four bytes, then JSON: what to do, the processor time in seconds, and the arguments. Each answer on stdout
is a frame: of `load` a `ResolvedConfiguration`, of all others JSON. When stdin ends, the process ends too, so that it
does not outlive the service.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, BinaryIO

from remuda_config import limits
from remuda_config.diff import difference
from remuda_config.edits import NotEditable, edit
from remuda_config.load import advice_on, load
from remuda_config.problems import Invalid
from remuda_config.wire import bounded_problems, problems_to_wire
from remuda_proto.remuda.v1 import config_pb2

LENGTH = struct.Struct(">I")


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal
    memory_bytes = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(limits.WORKER_NICENESS)
    gc.disable()  # a text becomes many objects that stay until the answer: looking at them again takes most of the time
    while request := read_frame(sys.stdin.buffer):
        answer = handle(request)
        sys.stdout.buffer.write(LENGTH.pack(len(answer)) + answer)
        sys.stdout.buffer.flush()
        gc.collect()


def encode_request(do: str, cpu_s: int, *arguments: Any) -> bytes:
    return json.dumps([do, cpu_s, *arguments]).encode()


def read_frame(stream: BinaryIO) -> bytes:
    """Returns the next frame; empty at the end of the stream."""
    head = stream.read(LENGTH.size)
    return stream.read(LENGTH.unpack(head)[0]) if len(head) == LENGTH.size else b""


def handle(request: bytes) -> bytes:
    do, cpu_s, *arguments = json.loads(request)
    _limit_processor_time(cpu_s)
    return _DO[do](*arguments)


def _load(text: str, source: str) -> bytes:
    try:
        return config_pb2.ResolvedConfiguration(configuration=load(text, source)).SerializeToString()
    except Invalid as error:
        return config_pb2.ResolvedConfiguration(problems=problems_to_wire(error.problems)).SerializeToString()


def _advise(text: str) -> bytes:
    try:
        advice = advice_on(text)
    except Invalid as error:
        return json.dumps({"refused": str(error)}).encode()
    shown = {kind: bounded_problems(found) for kind, found in advice._asdict().items()}
    return json.dumps({"advice": {kind: [asdict(one) for one in found] for kind, found in shown.items()}}).encode()


def _edit(text: str, edits: list[Any]) -> bytes:
    try:
        return json.dumps({"text": edit(text, edits)}).encode()
    except NotEditable as error:
        return json.dumps({"refused": str(error)}).encode()


def _compare(before: str, after: str) -> bytes:
    """One line for each change between two texts; what is wrong with one that is no longer valid."""
    try:
        return json.dumps({"changes": difference(load(before), load(after))}).encode()
    except Invalid as error:
        return json.dumps({"refused": f"a text is not valid for this version of remuda: {error.problems[0]}"}).encode()


_DO: dict[str, Callable[..., bytes]] = {"load": _load, "advise": _advise, "edit": _edit, "compare": _compare}


def _limit_processor_time(cpu_s: int) -> None:
    """Have the kernel end this process (SIGXCPU) once it has used so much more processor time."""
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + cpu_s + 1, hard))


if __name__ == "__main__":
    main()
