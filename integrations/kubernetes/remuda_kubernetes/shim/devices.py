"""Devices of drivers and claims of them (dynamic resource allocation): what nodes have, what is in use, and what claims
want. Pure.

A class of devices that the settings name is a resource of the scheduler, one for each device. A claim is understood if
it asks for a number of devices of such classes (`exactly`, with a count). All else is told as the reason why a pod
waits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from remuda_kubernetes import limits
from remuda_kubernetes.api.objects import (
    AllocatedDevice,
    DeviceAttribute,
    DeviceClass,
    DeviceRequest,
    Node,
    Pod,
    ResourceClaim,
    ResourceSlice,
    SliceDevice,
)
from remuda_kubernetes.predicates.on_node import NOTHING, node_selected

ClaimKey = tuple[str, str]  # namespace and name
Pool = tuple[str, str]  # driver and name
Booked = Mapping[str, tuple[str, ...]]  # resource -> names of devices on a node
EXACT_COUNT: Final = "ExactCount"
_EFFECTS: Final = ("NoSchedule", "NoExecute")  # of taints that keep pods off a device
_QUOTED: Final = r"\"[^\"]*\"|'[^']*'"
_DRIVER: Final = re.compile(rf"device\.driver\s*==\s*({_QUOTED})")
_ATTRIBUTE: Final = re.compile(
    rf"device\.attributes\[({_QUOTED})\]\.([A-Za-z_]\w*)\s*==\s*({_QUOTED}|true|false|-?\d+)"
)


class DeviceId(NamedTuple):
    driver: str
    pool: str
    device: str


class Device(NamedTuple):
    """`is_unfit`: a taint keeps new pods off."""

    id: DeviceId
    is_unfit: bool


OfNode = dict[str, dict[str, Device]]  # resource -> name -> device


class Write(NamedTuple):
    """A write into a claim before a pod is bound. `allocation`: None: the claim has one already."""

    claim: ResourceClaim
    allocation: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Selection:
    """The devices of a class: those of a driver with these attributes, by domain and name."""

    driver: str
    attributes: tuple[tuple[str, str, str | int | bool], ...] = ()

    def selects(self, driver: str, device: SliceDevice) -> bool:
        return driver == self.driver and all(
            _value_of(device.attributes or {}, driver, domain, name) == value and value is not None
            for domain, name, value in self.attributes
        )


def selection_of(of: DeviceClass) -> Selection:
    """Raises ValueError for selectors other than equalities of the driver and of attributes, joined by &&."""
    driver, attributes = "", []
    expressions = [one.cel.expression if one.cel is not None else "" for one in of.spec.selectors]
    for term in (term.strip() for one in expressions for term in one.split("&&")):
        if matched := _DRIVER.fullmatch(term):
            driver = matched[1][1:-1]
        elif matched := _ATTRIBUTE.fullmatch(term):
            attributes.append((matched[1][1:-1], matched[2], _literal(matched[3])))
        else:
            raise ValueError(
                f"DeviceClass {of.metadata.name} selects by {term[: limits.QUANTITY_CHARACTERS]!r}: expected "
                f'device.driver == "..." and device.attributes["..."].name == ..., joined by &&'
            )
    if not driver:
        raise ValueError(f'DeviceClass {of.metadata.name} names no driver: expected device.driver == "..."')
    return Selection(driver, tuple(attributes))


def _literal(text: str) -> str | int | bool:
    if text in ("true", "false"):
        return text == "true"
    return text[1:-1] if text[0] in "\"'" else int(text)


def _value_of(
    attributes: Mapping[str, DeviceAttribute], driver: str, domain: str, name: str
) -> str | int | bool | None:
    """A name without a domain is of the driver's own."""
    found = attributes.get(f"{domain}/{name}") or (attributes.get(name) if domain == driver else None)
    if found is None:
        return None
    return next((one for one in (found.string, found.bool_, found.int_) if one is not None), None)


def claims_named(pod: Pod) -> Iterator[tuple[str, str | None]]:
    """The claims of the pod: its own name of each, and the claim's. None: it is not made yet. Those that the pod does
    not need are left out."""
    made = {one.name: one.resource_claim_name for one in pod.status.resource_claim_statuses}
    for one in pod.spec.resource_claims:
        name = one.resource_claim_name or made.get(one.name)
        if name != "":
            yield one.name, name


def claim_keys(pod: Pod) -> list[ClaimKey]:
    """The claims that there are for the pod, each once."""
    return list(dict.fromkeys((pod.metadata.namespace, name) for _, name in claims_named(pod) if name))


@dataclass(slots=True)
class Devices:
    """`resources`: name of a class -> the resource of the scheduler; each has its own. `is_served`: the API server has
    claims and slices, and gives them to this front end."""

    resources: Mapping[str, str] = field(default_factory=dict)
    is_served: bool = True
    claims: dict[ClaimKey, ResourceClaim] = field(default_factory=dict)
    _classes: dict[str, DeviceClass] = field(default_factory=dict)
    _selections: dict[str, Selection | str] = field(default_factory=dict)  # or why the class is not understood
    _slices: dict[Pool, dict[str, ResourceSlice]] = field(default_factory=dict)  # by driver and pool, and UID
    _pool_of_slice: dict[str, Pool] = field(default_factory=dict)  # by UID
    _complete: dict[Pool, list[ResourceSlice]] = field(default_factory=dict)  # the same
    _of_pool: dict[Pool, dict[str, OfNode]] = field(default_factory=dict)  # the same -> by node
    _pools: dict[str, dict[Pool, None]] = field(default_factory=dict)  # those with devices of a node
    _in_use: dict[DeviceId, ClaimKey] = field(default_factory=dict)

    # Reports of the API server

    def put_class(self, of: DeviceClass) -> list[str]:
        """Returns the nodes whose devices have changed. So do the others that change devices."""
        name = of.metadata.name
        if name not in self.resources:
            return []
        self._classes[name] = of
        try:
            self._selections[name] = selection_of(of)
        except ValueError as error:
            self._selections[name] = str(error)
        return self._see_all()

    def remove_class(self, name: str) -> list[str]:
        self._selections.pop(name, None)
        return self._see_all() if self._classes.pop(name, None) is not None else []

    def put_slice(self, of: ResourceSlice) -> list[str]:
        pool, uid = (of.spec.driver, of.spec.pool.name), of.metadata.uid
        changed = self._take_slice(uid) if self._pool_of_slice.get(uid, pool) != pool else []
        self._pool_of_slice[uid] = pool
        self._slices.setdefault(pool, {})[uid] = of
        return changed + self._see_pool(pool)

    def remove_slice(self, of: ResourceSlice) -> list[str]:
        return self._take_slice(of.metadata.uid)

    def _take_slice(self, uid: str) -> list[str]:
        pool = self._pool_of_slice.pop(uid, None)
        if pool is None:
            return []
        del self._slices[pool][uid]
        return self._see_pool(pool)

    def _see_all(self) -> list[str]:
        return [node for pool in list(self._complete) for node in self._see_devices(pool)]

    def _see_pool(self, pool: Pool) -> list[str]:
        """A driver publishes a pool in several slices. Until the newest generation is there as a whole, the one before
        counts: devices that come and go with every change of a pool would be of no use to anybody."""
        slices = self._slices.get(pool)
        if not slices:
            self._slices.pop(pool, None)
            self._complete.pop(pool, None)
        else:
            newest = max(one.spec.pool.generation for one in slices.values())
            parts = [one for one in slices.values() if one.spec.pool.generation == newest]
            if len(parts) == parts[0].spec.pool.resource_slice_count:
                self._complete[pool] = sorted(parts, key=lambda one: one.metadata.name)
        return self._see_devices(pool)

    def _see_devices(self, pool: Pool) -> list[str]:
        before, now = self._of_pool.pop(pool, {}), dict[str, OfNode]()
        for one in (one for one in self._complete.get(pool, ()) if one.spec.node_name):
            here = now.setdefault(one.spec.node_name, {})
            for device in one.spec.devices:
                self._see(here, one.spec.node_name, pool, device)
        changed = [node for node in {**before, **now} if before.get(node) != now.get(node)]
        if now:
            self._of_pool[pool] = now
        for node in changed:
            pools = self._pools.setdefault(node, {})
            if node in now:
                pools[pool] = None
            else:
                pools.pop(pool, None)
            if not pools:
                del self._pools[node]
        return changed

    def put_claim(self, claim: ResourceClaim) -> None:
        self._free(claim.key)
        self.claims[claim.key] = claim
        for one in allocated(claim):
            self._in_use[one] = claim.key

    def remove_claim(self, claim: ResourceClaim) -> None:
        """Unless there is another one of its name by now."""
        there = self.claims.get(claim.key)
        if there is not None and there.metadata.uid == claim.metadata.uid:
            self._free(claim.key)
            del self.claims[claim.key]

    def _free(self, key: ClaimKey) -> None:
        if (before := self.claims.get(key)) is not None:
            for one in allocated(before):
                if self._in_use.get(one) == key:
                    del self._in_use[one]

    # Nodes

    def on_node(self, node: str) -> Mapping[str, Mapping[str, Device]]:
        """The devices of the node, by resource and name."""
        pools = self._pools.get(node, {})
        if len(pools) == 1:
            return self._of_pool[next(iter(pools))][node]
        found: OfNode = {}
        for pool in pools:
            for resource, devices in self._of_pool[pool][node].items():
                found.setdefault(resource, {}).update(devices)
        return found

    def nodes_of(self, pool: Pool) -> Iterable[str]:
        """The nodes of the devices of a pool."""
        return self._of_pool.get(pool, ())

    def _see(self, here: OfNode, node: str, pool: Pool, device: SliceDevice) -> None:
        """Devices that are parts of others, or that claims share, or that wait for conditions, are left to others. A
        device is of the first class that selects it, so that none counts twice."""
        if device.consumes_counters or device.allow_multiple_allocations or device.binding_conditions:
            return
        driver, name = pool
        for of_class, resource in self.resources.items():
            selection = self._selections.get(of_class)
            if isinstance(selection, Selection) and selection.selects(driver, device):
                is_unfit = any(taint.effect in _EFFECTS for taint in device.taints)
                known_by = device.name if name == node else f"{name}/{device.name}"
                here.setdefault(resource, {})[known_by] = Device(DeviceId(driver, name, device.name), is_unfit)
                return

    def in_use(self, node: str) -> dict[str, list[str]]:
        """The devices of the node that claims have, by resource."""
        return {
            resource: found
            for resource, devices in self.on_node(node).items()
            if (found := [name for name, one in devices.items() if one.id in self._in_use])
        }

    def user_of(self, device: DeviceId) -> ClaimKey | None:
        """The claim that has the device."""
        return self._in_use.get(device)

    # Pods

    def amounts(self, pod: Pod) -> dict[str, int]:
        """The devices that are to be allocated for the claims of a pod that waits, as far as they are understood."""
        found: dict[str, int] = {}
        for claim in self._claims_of(pod):
            if claim.status.allocation is None:
                for request in claim.spec.devices.requests:
                    resource = self._resource_of(request)
                    if resource:
                        found[resource] = found.get(resource, 0) + _count(request)
        return found

    def _claims_of(self, pod: Pod) -> Iterator[ResourceClaim]:
        return (claim for key in claim_keys(pod) if (claim := self.claims.get(key)) is not None)

    def _resource_of(self, request: DeviceRequest) -> str:
        return self.resources.get(request.exactly.device_class_name, "") if request.exactly is not None else ""

    def is_kept(self, pod: Pod) -> bool:
        """Whether a claim of the pod is allocated: the pod is kept where the devices are."""
        return any(claim.status.allocation is not None for claim in self._claims_of(pod))

    def waits_for(self, pod: Pod) -> str:
        """Why a pod with claims can run nowhere yet; empty: it can be placed."""
        if not self.is_served:
            return "the API server has no resource.k8s.io/v1 (from 1.34), or gives this front end no right to it"
        made_for = {one.name: one.resource_claim_template_name for one in pod.spec.resource_claims}
        for name, claimed in claims_named(pod):
            if claimed is None:
                return f"its claim {name} is not made yet from ResourceClaimTemplate {made_for[name]}"
            claim = self.claims.get((pod.metadata.namespace, claimed))
            if claim is None:
                return f"ResourceClaim {claimed} does not exist"
            if made_for[name] and not any(one.uid == pod.uid for one in claim.metadata.owner_references):
                return f"ResourceClaim {claimed} was not made for the pod"
            if problem := self._problem_of(claim, pod):
                return f"ResourceClaim {claimed} {problem}"
        return ""

    def _problem_of(self, claim: ResourceClaim, pod: Pod) -> str:
        if claim.metadata.deletion_timestamp is not None:
            return "is being deleted"
        if claim.status.allocation is not None:
            is_full = len(claim.status.reserved_for) >= limits.CLAIM_CONSUMERS
            return "is in use by as many pods as it may be" if is_full and not claim.is_reserved_for(pod.uid) else ""
        devices = claim.spec.devices
        if devices.constraints:
            return "has constraints, which only the default scheduler understands"
        return next((problem for one in devices.requests if (problem := self._problem_of_request(one))), "")

    def _problem_of_request(self, request: DeviceRequest) -> str:
        exactly = request.exactly
        if exactly is None:
            return f"has the request {request.name} without exactly, which only the default scheduler understands"
        for given, what in (
            (exactly.allocation_mode not in ("", EXACT_COUNT), f"allocationMode {exactly.allocation_mode}"),
            (exactly.selectors, "selectors"), (exactly.admin_access, "adminAccess"),
            (exactly.tolerations, "tolerations"), (exactly.capacity, "capacity"),
        ):  # fmt: skip
            if given:
                return f"has {what} in the request {request.name}, which only the default scheduler understands"
        of_class = exactly.device_class_name
        if of_class not in self.resources:
            return f"wants DeviceClass {of_class}, which kubernetes.device_classes does not name"
        selection = self._selections.get(of_class, f"DeviceClass {of_class} does not exist")
        return f"waits: {selection}" if isinstance(selection, str) else ""

    def refusal(self, pod: Pod, node: Node) -> str:
        """Why the allocated claims of the pod keep it off the node; empty: they do not."""
        name, labels = node.metadata.name, node.metadata.labels or NOTHING
        for claim in self._claims_of(pod):
            of = claim.status.allocation
            if of is not None and of.node_selector is not None and not node_selected(of.node_selector, name, labels):
                return f"the devices of ResourceClaim {claim.metadata.name} are elsewhere"
        return ""

    def of_running(self, pod: Pod, node: str) -> dict[str, tuple[str, ...]]:
        """The devices on the node that the claims of a pod have, by resource."""
        mine = {one for claim in self._claims_of(pod) for one in allocated(claim)}
        return {
            resource: found
            for resource, devices in self.on_node(node).items()
            if (found := tuple(name for name, one in devices.items() if one.id in mine))
        }

    def conflict(self, pod: Pod, node: str, booked: Booked) -> str:
        """Why these devices cannot be given to the claims of the pod there; empty: they can."""
        there = self.on_node(node)
        for resource, amount in self.amounts(pod).items():
            names = booked.get(resource, ())
            if len(names) != amount:
                return (
                    f"{amount} {resource} were placed without devices: name {resource}: 1 in devices of the partition"
                )
            for name in names:
                device = there.get(resource, {}).get(name)
                if device is None:
                    return f"device {name} is gone"
                if (user := self._in_use.get(device.id)) is not None:
                    return f"device {name} is in use by ResourceClaim {'/'.join(user)}"
        return ""

    def writes(self, pod: Pod, node: str, booked: Booked) -> tuple[Write, ...]:
        """The writes into the claims of the pod before it is bound, with these devices."""
        there = self.on_node(node)
        left = {resource: [there[resource][name].id for name in names if name in there.get(resource, {})]
                for resource, names in booked.items()}  # fmt: skip
        made: list[Write] = []
        for claim in self._claims_of(pod):
            if claim.status.allocation is not None:
                if not claim.is_reserved_for(pod.uid):
                    made.append(Write(claim, None))
                continue
            results: list[dict[str, Any]] = []
            for request in claim.spec.devices.requests:
                resource = self._resource_of(request)
                some = left.get(resource, [])
                given, left[resource] = some[: _count(request)], some[_count(request) :]
                results += [{"request": request.name, **one._asdict()} for one in given]
            made.append(Write(claim, self._allocation(claim, node, results)))
        return tuple(made)

    def _allocation(self, claim: ResourceClaim, node: str, results: list[dict[str, Any]]) -> dict[str, Any]:
        """With the configuration of classes before that of the claim, as drivers expect."""
        config: list[dict[str, Any]] = []
        for request in claim.spec.devices.requests:
            of_class = self._classes.get(request.exactly.device_class_name) if request.exactly is not None else None
            if of_class is not None:
                config += [{**one, "source": "FromClass", "requests": [request.name]} for one in of_class.spec.config]
        config += [{**one, "source": "FromClaim"} for one in claim.spec.devices.config]
        here = {"key": "metadata.name", "operator": "In", "values": [node]}
        return {
            "devices": {"results": results, **({"config": config} if config else {})},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [here]}]},
        }


def allocated(claim: ResourceClaim) -> Iterator[DeviceId]:
    """The devices that the claim has for itself."""
    of = claim.status.allocation
    results: Iterable[AllocatedDevice] = of.devices.results if of is not None else ()
    return (DeviceId(one.driver, one.pool, one.device) for one in results if not one.admin_access)


def is_as_written(claim: ResourceClaim, allocation: Mapping[str, Any]) -> bool:
    """Whether the claim has the devices of this allocation."""
    wanted = {(one["driver"], one["pool"], one["device"]) for one in allocation["devices"]["results"]}
    return claim.status.allocation is not None and set(allocated(claim)) == wanted


def _count(request: DeviceRequest) -> int:
    count = request.exactly.count if request.exactly is not None else None
    return 1 if count is None else count
