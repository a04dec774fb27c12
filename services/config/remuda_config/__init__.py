"""remuda's configuration: `load` reads and verifies a text of queues.yaml, `load_file` a file; `difference` compares
two configurations; `shell` is the service."""

from remuda_config.build import BUILT_IN, checksum
from remuda_config.diff import difference
from remuda_config.file import load_file, read_file
from remuda_config.load import COMPATIBILITIES, load
from remuda_config.problems import Invalid, Problem

__all__ = [
    "BUILT_IN", "COMPATIBILITIES", "Invalid", "Problem", "checksum", "difference", "load", "load_file", "read_file",
]  # fmt: skip
