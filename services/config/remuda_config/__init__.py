"""remuda's configuration: `load` reads and verifies a text of queues.yaml, `load_file` a file; `findings_in` lists what
`load` would refuse, `advice_on` what is worth knowing about a valid text; `difference` compares two configurations;
`divide` divides a text by partitions; `shell` is the service."""

from remuda_config.build import BUILT_IN, checksum
from remuda_config.diff import difference
from remuda_config.divide import NotDivisible, divide, partitions_of
from remuda_config.file import load_file, read_file
from remuda_config.load import COMPATIBILITIES, AdviceOnText, advice_on, findings_in, load
from remuda_config.problems import Invalid, Problem

__all__ = [
    "BUILT_IN", "COMPATIBILITIES", "AdviceOnText", "Invalid", "NotDivisible", "Problem", "advice_on", "checksum",
    "difference", "divide", "findings_in", "load", "load_file", "partitions_of", "read_file",
]  # fmt: skip
