"""Defaults from the settings of the service, for configurations without a value of their own. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from remuda_config.extra_config import read_timing
from remuda_proto.remuda.v1 import config_pb2


@dataclass(frozen=True, slots=True)
class Defaults:
    """The defaults of RMs and partitions that leave something open.

    `compatibility`, `timing`: keys of `extraConfig`, as they are written. `preemption_threshold`: in per cent.
    """

    compatibility: str = "none"
    timing: Mapping[str, str] = field(default_factory=dict)
    preemption_threshold: int = 0

    def apply(self, configuration: config_pb2.Configuration, timing: Mapping[str, str]) -> None:
        """Completes the configuration of an RM. `timing`: the keys of its `extraConfig`, verified."""
        own = {**self.timing, **timing}
        if own:
            configuration.timing.CopyFrom(read_timing(own)[0])
        for partition in configuration.partitions if self.preemption_threshold else ():
            if not partition.HasField("preemption_threshold"):
                partition.preemption_threshold = self.preemption_threshold
