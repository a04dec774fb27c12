"""The keys of an RM's `extraConfig` that concern its configuration. Other keys belong to other services."""

from __future__ import annotations

from collections.abc import Mapping

from remuda_config.load import COMPATIBILITIES, unknown_compatibility
from remuda_config.problems import Problem
from remuda_proto import durations
from remuda_proto.bounds import shown
from remuda_proto.remuda.v1 import config_pb2

# Key -> field of `Timing`: `timing.completing` -> completing_ms.
TIMING_KEYS = {f"timing.{field.name.removesuffix('_ms')}": field.name for field in config_pb2.Timing.DESCRIPTOR.fields}


def check_extra_config(extra: Mapping[str, str]) -> list[Problem]:
    problems = []
    if "queues.yaml" in extra:
        problems.append(Problem('extraConfig["queues.yaml"]', 0, "expected the queues in the field config"))
    if (value := extra.get("compatibility", "none")) not in COMPATIBILITIES:
        problems.append(unknown_compatibility("extraConfig.compatibility", value))
    return problems + read_timing(extra)[1]


def read_timing(extra: Mapping[str, str]) -> tuple[config_pb2.Timing, list[Problem]]:
    """Reads the `timing.` keys, such as `timing.completing: 30s`. Returns them and their problems."""
    timing, problems = config_pb2.Timing(), []
    for key, value in extra.items():
        path = f"extraConfig[{shown(key)}]"
        if key in TIMING_KEYS:
            if not (duration_ms := durations.milliseconds(value)):
                problems.append(Problem(path, 0, f"{shown(value)}: {durations.EXPECTED}"))
            else:
                setattr(timing, TIMING_KEYS[key], duration_ms)
        elif key.startswith("timing."):
            problems.append(Problem(path, 0, f"unknown key: expected one of {', '.join(TIMING_KEYS)}"))
    return timing, problems


def timing_in(extra: Mapping[str, str]) -> dict[str, str]:
    """Returns the `timing.` keys alone, as they are written."""
    return {key: value for key, value in extra.items() if key in TIMING_KEYS}
