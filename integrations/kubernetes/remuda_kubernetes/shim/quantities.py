"""Amounts of resources: Kubernetes quantities, and the requests of pods, as the scheduler counts them. Pure.

`cpu` becomes `vcore` in thousandths, `memory` is in bytes, every other resource keeps its name and is in whole units.
Fractions are rounded up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from functools import lru_cache
from typing import Final

from remuda_kubernetes import limits
from remuda_kubernetes.api.objects import Container, ContainerStatus, Pod, PodStatus, Resources
from remuda_proto.bounds import shown
from remuda_proto.constants import CPU, MEMORY

Amounts = dict[str, int]

PODS: Final = "pods"
INT64_MAX: Final = 2**63 - 1
_QUANTITY: Final = re.compile(r"([+-]?[0-9]+\.?[0-9]*|[+-]?\.[0-9]+)([eE][+-]?[0-9]{1,3}|[numkMGTPE]|[KMGTPE]i)?")
_FACTORS: Final = {
    "": Decimal(1), "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "k": Decimal(10**3),
    **{unit: Decimal(1_000**power) for power, unit in enumerate("MGTPE", 2)},
    **{f"{unit}i": Decimal(1_024**power) for power, unit in enumerate("KMGTPE", 1)},
}  # fmt: skip


@lru_cache(maxsize=4_096)
def quantity(text: str) -> Decimal:
    """The amount of a Kubernetes quantity. Raises ValueError for a text that is no Kubernetes quantity."""
    matched = _QUANTITY.fullmatch(text.strip()) if len(text) <= limits.QUANTITY_CHARACTERS else None
    if matched is None:
        raise ValueError(f"{shown(text)}: expected a Kubernetes quantity such as 500m, 2 or 4Gi")
    number, unit = matched[1], matched[2] or ""
    try:
        return Decimal(number) * _FACTORS[unit] if unit in _FACTORS else Decimal(number + unit)
    except InvalidOperation:
        raise ValueError(f"{shown(text)}: expected a Kubernetes quantity such as 500m, 2 or 4Gi") from None


@lru_cache(maxsize=4_096)
def _scaled(text: str, factor: int) -> int:
    value = int((quantity(text) * factor).to_integral_value(ROUND_CEILING))
    if abs(value) > INT64_MAX:
        raise ValueError(f"{text!r}: expected a quantity below 2**63")
    return value


def amounts(quantities: Mapping[str, str] | None) -> Amounts:
    """Raises ValueError that names the resource."""
    found: Amounts = {}
    for name, text in (quantities or {}).items():
        try:
            if name == "cpu":
                found[CPU] = _scaled(text, 1_000)
            else:
                found[name] = _scaled(text, 1)
        except ValueError as error:
            raise ValueError(f"{name}={error}") from None
    return found


def add(into: Amounts, more: Mapping[str, int], times: int = 1) -> Amounts:
    """Adds in place, and returns `into`."""
    for name, value in more.items():
        into[name] = into.get(name, 0) + value * times
    return into


def request_of(pod: Pod) -> Amounts:
    """The request of a pod: of each resource the maximum of its containers together, and of each init container with
    the side-cars started before it; plus its overhead, plus one pod. Sums saturate at INT64_MAX: such a pod fits no
    node. Raises ValueError for a quantity that is none."""
    spec = pod.spec
    in_place = _InPlace(pod)
    total: Amounts = {}
    for container in spec.containers:
        add(total, in_place.size_of(container))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.init_containers:
        if container.restart_policy == "Always":
            add(sidecars, in_place.size_of(container))
            _raise_to(peak, sidecars)
        else:
            _raise_to(peak, add(dict(sidecars), _requested(container.resources)))
    add(total, sidecars)
    _raise_to(total, peak)
    total.update(in_place.size_of_pod())
    add(total, amounts(spec.overhead))
    total[PODS] = 1
    return {name: min(value, INT64_MAX) for name, value in total.items() if value > 0}


def request_names(pod: Pod) -> set[str]:
    """The names of the resources that the containers of a pod request."""
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    return {name for one in containers if one.resources is not None for name in one.resources.requests or ()}


def measured(pod: Pod, before: Amounts) -> tuple[Amounts, str]:
    """The request of a pod, and why it cannot be read; then it counts as `before`, or as one pod."""
    try:
        return request_of(pod), ""
    except ValueError as error:
        return before or {PODS: 1}, str(error)


class _InPlace:
    """The sizes of a pod that may be resized in place, and of its containers: the maximum of what is requested, of what
    the node has allocated, and of what they have. A resize that is infeasible changes nothing."""

    def __init__(self, pod: Pod) -> None:
        status = pod.status
        self._pod = pod
        self._statuses = {one.name: one for one in (*status.container_statuses, *status.init_container_statuses)}
        self._is_infeasible = status.resize == "Infeasible" or any(
            one.type == "PodResizePending" and one.reason == "Infeasible" for one in status.conditions
        )

    def size_of(self, container: Container) -> Amounts:
        return self._size(_requested(container.resources), self._statuses.get(container.name))

    def size_of_pod(self) -> Amounts:
        """The amounts that the pod requests as a whole."""
        requested = _requested(self._pod.spec.resources)
        size = self._size(requested, self._pod.status)
        return {name: size[name] for name in requested if name in size}

    def _size(self, requested: Amounts, status: ContainerStatus | PodStatus | None) -> Amounts:
        has: Amounts = {}
        if status is not None:
            _raise_to(has, amounts(status.allocated_resources))
            _raise_to(has, _requested(status.resources))
        if not has or not self._is_infeasible:
            _raise_to(has, requested)
        return has


def _requested(resources: Resources | None) -> Amounts:
    return amounts(resources.requests) if resources is not None else {}


def _raise_to(into: Amounts, least: Mapping[str, int]) -> None:
    for name, value in least.items():
        if value > into.get(name, 0):
            into[name] = value


def excess(size: Mapping[str, int], over: Mapping[str, int]) -> Amounts:
    """The amounts by which `size` exceeds `over`."""
    return {name: value - over.get(name, 0) for name, value in size.items() if value > over.get(name, 0)}


def total(sizes: Iterable[Mapping[str, int]]) -> Amounts:
    """The sum. It saturates at INT64_MAX, the largest amount of a message."""
    found: Amounts = {}
    for size in sizes:
        add(found, size)
    return {name: min(value, INT64_MAX) for name, value in found.items()}


__all__ = [
    "CPU",
    "MEMORY",
    "PODS",
    "Amounts",
    "add",
    "amounts",
    "excess",
    "measured",
    "quantity",
    "request_of",
    "total",
]
