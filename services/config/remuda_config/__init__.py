"""remuda's configuration: `load` reads and verifies a queues.yaml, `difference` says what changed, `shell` serves."""

from remuda_config.build import BUILT_IN, checksum
from remuda_config.diff import difference
from remuda_config.load import COMPATIBILITIES, load
from remuda_config.problems import Invalid, Problem

__all__ = ["BUILT_IN", "COMPATIBILITIES", "Invalid", "Problem", "checksum", "difference", "load"]
