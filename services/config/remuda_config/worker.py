"""The worker process: reads and verifies texts of queues.yaml, one after the other.

The configuration service starts it as `python -m remuda_config.worker MEMORY_BYTES`. Each request on stdin is a frame:
a length of four bytes, then JSON. Each answer on stdout is a frame with a `ResolvedConfiguration`. When stdin ends, the
process ends too, so that it does not outlive the service.
"""

from __future__ import annotations

import json
import resource
import signal
import struct
import sys
import time
from typing import BinaryIO

from remuda_config.load import load
from remuda_config.problems import Invalid
from remuda_config.wire import problems_to_wire
from remuda_proto.remuda.v1 import config_pb2

LENGTH = struct.Struct(">I")


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal
    memory_bytes = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while request := read_frame(sys.stdin.buffer):
        answer = handle(request).SerializeToString()
        sys.stdout.buffer.write(LENGTH.pack(len(answer)) + answer)
        sys.stdout.buffer.flush()


def encode_request(text: str, source: str, cpu_s: int) -> bytes:
    return json.dumps([text, source, cpu_s]).encode()


def read_frame(stream: BinaryIO) -> bytes:
    """The next frame; empty at the end of the stream."""
    head = stream.read(LENGTH.size)
    return stream.read(LENGTH.unpack(head)[0]) if len(head) == LENGTH.size else b""


def handle(request: bytes) -> config_pb2.ResolvedConfiguration:
    text, source, cpu_s = json.loads(request)
    _limit_processor_time(cpu_s)
    try:
        return config_pb2.ResolvedConfiguration(configuration=load(text, source))
    except Invalid as error:
        return config_pb2.ResolvedConfiguration(problems=problems_to_wire(error.problems))


def _limit_processor_time(cpu_s: int) -> None:
    """Have the kernel end this process (SIGXCPU) once it has used so much more processor time."""
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + cpu_s + 1, hard))


if __name__ == "__main__":
    main()
