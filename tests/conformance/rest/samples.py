"""The samples of metrics in the Prometheus text format, as far as they mean something."""

from __future__ import annotations

import re
from typing import Final

_SAMPLE: Final = re.compile(r"^(yunikorn_\w+(?:{[^}]*})?) (\S+)$", re.MULTILINE)
# Measured times, and what the Go runtime does.
_OF_THE_RUN: Final = re.compile(r"yunikorn_runtime_|\w+_latency_milliseconds")


def samples_of(text: str) -> dict[str, float]:
    """By name and labels, without those that are 0: the reference has one from its first use on."""
    return {name: float(value) for name, value in _SAMPLE.findall(text) if float(value) and not _OF_THE_RUN.match(name)}
