"""The run times of allocations: bounds and expectations (semantics section 22).

A *bound* is enforced as an execution time-out, so it may decide. An *expectation* is a guess, and orders only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median_low
from typing import Final, NamedTuple

from remuda_proto.bounds import ID_BYTES, shown, too_long
from remuda_proto.constants import EXPECTED_RUNTIME, MAX_RUNTIME, RUNTIME_NAME
from remuda_proto.durations import EXPECTED, milliseconds

DEFAULT: Final = "runtime.default"
MOST: Final = "runtime.most"
# Fewer runs are no base for an expectation.
RUNS_NEEDED: Final = 5


class Bound(NamedTuple):
    """A bound in ms, 0: none; and what was unreadable in the tags, empty: nothing."""

    bound_ms: int
    ignored: str = ""


def bound_of(
    timeout_ms: int, tags: Mapping[str, str], application_tags: Mapping[str, str],
    path_to_root: Iterable[Mapping[str, str]], placeholder: bool,
) -> Bound:  # fmt: skip
    """The bound of an ask: the smallest of its execution time-out and of the tags of it and its application; else the
    default of its queue, from the properties of the queues on the path to root. A placeholder has its time-out alone:
    the clock of its gang ends it."""
    bounds, ignored = [timeout_ms] if timeout_ms > 0 else [], []
    if not placeholder:
        for found in (tags, application_tags):
            if MAX_RUNTIME in found:
                read_ms = milliseconds(found[MAX_RUNTIME])
                if read_ms:
                    bounds.append(read_ms)
                else:
                    ignored.append(f"tag {MAX_RUNTIME} {shown(found[MAX_RUNTIME])}: {EXPECTED}")
            if EXPECTED_RUNTIME in found and not milliseconds(found[EXPECTED_RUNTIME]):
                ignored.append(f"tag {EXPECTED_RUNTIME} {shown(found[EXPECTED_RUNTIME])}: {EXPECTED}")
        if RUNTIME_NAME in tags and (problem := too_long(f"tag {RUNTIME_NAME}", tags[RUNTIME_NAME], ID_BYTES)):
            ignored.append(problem)
        if not bounds:
            bounds = [duration_in(path_to_root, DEFAULT)]
    bound_ms = min(bounds, default=0)
    return Bound(bound_ms, "; ".join(dict.fromkeys(ignored))) if ignored else Bound(bound_ms)


def bound_of_running(
    tags: Mapping[str, str], application_tags: Mapping[str, str], path_to_root: Sequence[Mapping[str, str]]
) -> int:
    """The bound of an allocation that runs already, in ms; 0: none. An RM reports no execution time-out with it.
    Without a tag it may run as long as any ask of its queue: none is ended that was promised more."""
    bounds = [milliseconds(found[MAX_RUNTIME]) for found in (tags, application_tags) if MAX_RUNTIME in found]
    by_tags = min(filter(None, bounds), default=0)
    return by_tags or max(duration_in(path_to_root, DEFAULT), duration_in(path_to_root, MOST))


def duration_in(path_to_root: Iterable[Mapping[str, str]], name: str) -> int:
    """The duration that the nearest queue with this property sets, in ms; 0: none does. A dynamic queue has no
    inherited properties of its own."""
    for properties in path_to_root:
        if name in properties:
            return milliseconds(properties[name]) or 0
    return 0


def name_of(tags: Mapping[str, str], application_tags: Mapping[str, str]) -> str:
    """The name under which runs are remembered; empty: none."""
    name = tags.get(RUNTIME_NAME, "") or application_tags.get(RUNTIME_NAME, "")
    return "" if too_long("name", name, ID_BYTES) else name


def expected_by_tags(tags: Mapping[str, str], application_tags: Mapping[str, str]) -> int:
    """The expected run time that the tags give, in ms; 0: none does."""
    return milliseconds(tags.get(EXPECTED_RUNTIME, "") or application_tags.get(EXPECTED_RUNTIME, "")) or 0


def expected(bound_ms: int, *runs: Sequence[int]) -> int:
    """The expected run time by the first of `runs` that are enough, in ms; else the bound. Never above the bound."""
    for ran_ms in runs:
        if len(ran_ms) >= RUNS_NEEDED:
            middle_ms = max(1, median_low(ran_ms))
            return min(middle_ms, bound_ms) if bound_ms else middle_ms
    return bound_ms
