"""Devices of a node as characters: `██▄░×`. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from remuda_operations.queries.rows import NodeDevices

FREE, FULL, UNFIT = "░", "█", "×"
_HEIGHTS = "▁▂▃▄▅▆▇"


def drawn(devices: NodeDevices) -> str:
    """A character for each device: as high as it is used, or unfit."""
    unfit, unit = set(devices.unfit), devices.unit
    return "".join(
        UNFIT if name in unfit else _used(unit - free, unit)
        for name, free in zip(devices.names, devices.free, strict=True)
    )


def _used(used: int, unit: int) -> str:
    if used <= 0:
        return FREE
    return FULL if used >= unit else _HEIGHTS[used * len(_HEIGHTS) // unit]


def drawn_all(all_devices: Sequence[NodeDevices]) -> str:
    """Draws the devices of each resource, with the names of resources if there are several."""
    if len(all_devices) == 1:
        return drawn(all_devices[0])
    return ", ".join(f"{one.resource} {drawn(one)}" for one in all_devices)
