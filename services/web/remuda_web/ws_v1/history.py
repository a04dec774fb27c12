"""The number of running applications and of allocations in the last day, a sample a minute."""

from __future__ import annotations

from collections import deque
from typing import Final

from remuda_web.limits import SAMPLES
from remuda_web.ws_v1.go_json import Json

APPLICATIONS: Final = "totalApplications"
CONTAINERS: Final = "totalContainers"


class History:
    def __init__(self) -> None:
        self._samples: deque[tuple[int, int, int]] = deque(maxlen=SAMPLES)

    def add(self, at_ns: int, applications: int, containers: int) -> None:
        self._samples.append((at_ns, applications, containers))

    def applications(self) -> list[Json] | None:
        return self._shown(APPLICATIONS, 1)

    def containers(self) -> list[Json] | None:
        return self._shown(CONTAINERS, 2)

    def _shown(self, name: str, number: int) -> list[Json] | None:
        """None, as in the reference: no sample yet. Numbers are texts there."""
        return [{"timestamp": one[0], name: str(one[number])} for one in self._samples] or None
