"""For each kind of difference: answers that it has to explain, and near misses that it must not.

In a near miss ours is wrong, or theirs is another difference about the same object.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from . import applications, gangs, nodes, preemption, queues, requests
from .sided import Cases

MODULES: Final = (requests, applications, nodes, gangs, queues, preemption)


def _all(of_modules: Iterable[Cases]) -> Cases:
    found: Cases = {}
    for cases in of_modules:
        for name, several in cases.items():
            found.setdefault(name, []).extend(several)
    return found


EXPLAINED: Final[Cases] = _all(module.EXPLAINED for module in MODULES)
NEAR_MISSES: Final[Cases] = _all(module.NEAR_MISSES for module in MODULES)
