"""Reads a configuration file. The service and `remuda config check` accept the same files."""

from __future__ import annotations

from pathlib import Path

from remuda_config import limits
from remuda_config.load import decode, load
from remuda_config.problems import Invalid, Problem
from remuda_proto.remuda.v1 import config_pb2


def read_file(file: Path) -> bytes | Problem:
    """Returns the content of a file, or the problem why it cannot be read."""
    try:
        return file.read_bytes()
    except (OSError, ValueError) as error:
        return Problem("", 0, f"{file} cannot be read: {getattr(error, 'strerror', None) or error}")


def load_file(content: bytes | Problem, file: Path, max_payload: int) -> config_pb2.Configuration:
    """Returns the configuration of a file's content. `max_payload`: the largest message of the NATS server, in
    bytes. Raises Invalid.
    """
    text = text_of_file(content, file)
    configuration = load(text, source=str(file))
    check_size(configuration, len(text.encode()), max_payload)
    return configuration


def text_of_file(content: bytes | Problem, file: Path) -> str:
    """Returns the text of a file's content. Raises Invalid: an empty file is refused, since a file is also empty for
    a moment while an editor writes it.
    """
    if isinstance(content, Problem):
        raise Invalid([content])
    text = decode(content)
    if not text.strip():
        raise Invalid([Problem("", 0, f"{file} is empty; run the service without a file for the built-in default")])
    return text


def check_size(configuration: config_pb2.Configuration, text_bytes: int, max_payload: int) -> None:
    """Raises Invalid for a configuration that does not fit into one message."""
    size, most = max(2 * text_bytes, configuration.ByteSize()), max_payload - limits.ROOM_FOR_THE_REST_BYTES
    if size > most:
        needed, setting = size + limits.ROOM_FOR_THE_REST_BYTES, "max_payload of the NATS server"
        raise Invalid([Problem("", 0, f"the configuration needs a {setting} of {needed} bytes, it is {max_payload}")])
