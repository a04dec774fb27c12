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
from remuda_kubernetes.api.objects import Container, ContainerStatus, Pod
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
    """Raises ValueError for a text that is no Kubernetes quantity."""
    matched = _QUANTITY.fullmatch(text.strip()) if len(text) <= limits.QUANTITY_CHARACTERS else None
    if matched is None:
        raise ValueError(f"{shown(text)}: expected a Kubernetes quantity such as 500m, 2 or 4Gi")
    number, unit = matched[1], matched[2] or ""
    try:
        return Decimal(number + unit) if unit[:1] in ("e", "E") and len(unit) > 1 else Decimal(number) * _FACTORS[unit]
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
    sizes = _sizes_in_place(pod)
    total: Amounts = {}
    for container in spec.containers:
        add(total, _of_container(container, sizes))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.init_containers:
        own = _of_container(container, sizes)
        if container.restart_policy == "Always":
            add(sidecars, own)
            _raise_to(peak, sidecars)
        else:
            _raise_to(peak, add(dict(sidecars), own))
    add(total, sidecars)
    _raise_to(total, peak)
    if spec.resources is not None and spec.resources.requests:
        total.update(amounts(spec.resources.requests))
    add(total, amounts(spec.overhead))
    total[PODS] = 1
    return {name: min(value, INT64_MAX) for name, value in total.items() if value > 0}


def _of_container(container: Container, sizes: Mapping[str, Amounts]) -> Amounts:
    own = amounts(container.resources.requests) if container.resources is not None else {}
    return sizes.get(container.name) or own


def _sizes_in_place(pod: Pod) -> Mapping[str, Amounts]:
    """The sizes of containers that are resized in place: the maximum of what is requested and what they have. A resize
    that is infeasible changes nothing."""
    found = {}
    requested = {one.name: one.resources.requests for one in pod.spec.containers if one.resources is not None}
    infeasible = pod.status.resize == "Infeasible" or any(
        one.type == "PodResizePending" and one.reason == "Infeasible" for one in pod.status.conditions
    )
    for status in pod.status.container_statuses:
        has = _has(status)
        if has:
            if not infeasible:
                _raise_to(has, amounts(requested.get(status.name)))
            found[status.name] = has
    return found


def _has(status: ContainerStatus) -> Amounts:
    has = amounts(status.allocated_resources)
    if status.resources is not None:
        _raise_to(has, amounts(status.resources.requests))
    return has


def _raise_to(into: Amounts, least: Mapping[str, int]) -> None:
    for name, value in least.items():
        if value > into.get(name, 0):
            into[name] = value


def total(sizes: Iterable[Mapping[str, int]]) -> Amounts:
    """The sum. It saturates at INT64_MAX, the largest amount of a message."""
    found: Amounts = {}
    for size in sizes:
        add(found, size)
    return {name: min(value, INT64_MAX) for name, value in found.items()}


__all__ = ["CPU", "MEMORY", "PODS", "Amounts", "add", "amounts", "quantity", "request_of", "total"]
