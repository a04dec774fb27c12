"""Devices: a resource that stands on devices of equal amount, the *unit* (semantics section 20).

A node has capacity / unit devices, each with a name. An allocation takes an equal *share* of one or several of them.
This file reads what attributes and tags say of devices, and chooses devices by what is free on each. Amounts are in
base units. Knows no node and no allocation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from remuda_proto.bounds import exceeds, shown, too_long, too_many
from remuda_proto.constants import DEVICES_COUNT as COUNT
from remuda_proto.constants import DEVICES_OCCUPIED as OCCUPIED
from remuda_proto.constants import DEVICES_TAG as PREFIX
from remuda_proto.constants import DEVICES_UNFIT as UNFIT

from ..limits import DEVICE_NAME_BYTES, DEVICES_PER_NODE
from .resource import Resource

# Devices by resource, as facts have them: {"gpu": "GPU-a,GPU-c"}.
Chosen = Mapping[str, str]
NO_DEVICES: Final[Chosen] = {}

# Ends the name of a place in the vectors of the index. Protobuf and YAML have no texts with this code point, so it is
# in no name of a resource.
_PLACE: Final = "\ud800"


class DeviceNeed(NamedTuple):
    """`share` of each of so many `devices`."""

    resource: str
    share: int
    devices: int


def place_name(resource: str, place: int) -> str:
    """The name of the amount that is free on the device with the `place`-th most free (from 1), as a resource of its
    own."""
    return f"{resource}{_PLACE}{place}"


def never_free(place: str) -> str:
    """The place 0 of the same resource, of which no node has anything."""
    return place_name(resource_of(place), 0)


def resource_of(name: str) -> str:
    """The resource of a place; a resource itself."""
    return name.partition(_PLACE)[0]


def is_place(name: str) -> bool:
    return _PLACE in name


# Nodes


def names_of(resource: str, attributes: Mapping[str, str], count: int) -> tuple[str, ...]:
    """The names of the devices of a node, in the order of their positions."""
    given = split(attributes.get(PREFIX + resource, ""))
    return given if len(given) == count else tuple(map(str, range(count)))


def split(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",")) if text.strip() else ()


def unfit_of(resource: str, attributes: Mapping[str, str]) -> frozenset[str]:
    return frozenset(split(attributes.get(PREFIX + resource + UNFIT, "")))


def occupied_of(resource: str, attributes: Mapping[str, str]) -> list[tuple[str, int]]:
    """(name of a device, amount) as the attribute has them, which has been checked."""
    entries = (entry.rpartition("=") for entry in split(attributes.get(PREFIX + resource + OCCUPIED, "")))
    return [(name.strip(), int(amount)) for name, _, amount in entries if amount.strip().isdecimal()]


def problem_of_node(units: Resource, capacity: Resource, attributes: Mapping[str, str]) -> str | None:
    """Why a node cannot have these devices. None if it can."""
    for resource, unit in units.items():
        count, rest = divmod(capacity.get(resource, 0), unit)
        if rest:
            had = f"schedulableResource: {resource}={capacity[resource]}"
            return f"{had}, expected a multiple of {unit}, the amount of a device"
        if problem := too_many(f"schedulableResource: devices of {resource}", count, DEVICES_PER_NODE):
            return problem
        if problem := _problem_of_names(resource, attributes, count):
            return problem
    return None


def _problem_of_names(resource: str, attributes: Mapping[str, str], count: int) -> str | None:
    key = PREFIX + resource
    given = split(attributes.get(key, ""))
    for name in given:
        if not name or "=" in name:
            return f"attribute {key}: {shown(name)}, expected a name without '='"
        if exceeds(name, DEVICE_NAME_BYTES):
            return too_long(f"attribute {key}: name", name, DEVICE_NAME_BYTES)
    if len(set(given)) < len(given):
        return f"attribute {key}: {shown(_repeated(given))} is there twice"
    if given and len(given) != count:
        return f"attribute {key}: {len(given)} names, expected {count}, one for each device"
    known = set(names_of(resource, attributes, count))
    for name in split(attributes.get(key + UNFIT, "")):
        if name not in known:
            return f"attribute {key}{UNFIT}: {shown(name)}, expected a device of the node"
    for entry in split(attributes.get(key + OCCUPIED, "")):
        name, _, amount = entry.rpartition("=")
        if name.strip() not in known or not amount.strip().isdecimal() or len(amount) > 18:
            return f"attribute {key}{OCCUPIED}: {shown(entry)}, expected DEVICE=AMOUNT, with a device of the node"
    return None


def _repeated(names: Iterable[str]) -> str:
    """The first name that is there twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return ""


# Asks and allocations


def needs(units: Resource, resource: Resource, tags: Mapping[str, str]) -> tuple[DeviceNeed, ...]:
    """The device needs of an ask. An amount that no devices can serve, of an ask that came before its resource stood on
    devices, is a share that no device has."""
    found = []
    for name, unit in units.items():
        amount = resource.get(name, 0)
        if amount > 0:
            count = _count(name, tags) or max(1, amount // unit)
            share, count = (amount // count, count) if fits(amount, count, unit) else (amount + unit, 1)
            found.append(DeviceNeed(name, share, count))
    return tuple(found)


def fits(amount: int, count: int, unit: int) -> bool:
    """Whether `count` equal shares of at most the unit make up the amount."""
    return count > 0 and amount % count == 0 and amount // count <= unit


def _count(resource: str, tags: Mapping[str, str]) -> int:
    """The number of devices that the tags name; 0: none, or the tag is not a number."""
    text = tags.get(PREFIX + resource + COUNT, "") if tags else ""
    return int(text) if text.isdecimal() and len(text) < 10 else 0


def with_counts(units: Resource, resource: Resource, tags: Mapping[str, str]) -> Resource:
    """The resource of an ask, with the number of devices that its tags name as an amount of the tag: asks of one amount
    on different numbers of devices are not alike. The resource itself if its tags name none."""
    counts = {PREFIX + name + COUNT: _count(name, tags) for name in units} if tags else {}
    return {**resource, **{tag: count for tag, count in counts.items() if count}} if any(counts.values()) else resource


def problem_of_ask(units: Resource, resource: Resource, tags: Mapping[str, str]) -> str | None:
    """Why devices cannot serve an ask. None if they can."""
    for name, unit in units.items():
        amount, key = resource.get(name, 0), PREFIX + name
        if key in tags:
            return f"tag {key}: an ask cannot choose devices, expected no such tag"
        count = _count(name, tags)
        if key + COUNT in tags and not count:
            return f"tag {key}{COUNT}: {shown(tags[key + COUNT])}, expected a number of devices, 1 or more"
        if count:
            if not fits(amount, count, unit):
                return f"tag {key}{COUNT}: {name}={amount} in {count} shares, expected equal shares of at most {unit}"
        elif amount > unit and amount % unit:
            return (
                f"resourceAsk: {name}={amount}, expected at most {unit}, the amount of a device, "
                f"or a multiple of it, or the tag {key}{COUNT}"
            )
        if problem := too_many(f"resourceAsk: devices of {name}", count or amount // unit, DEVICES_PER_NODE):
            return problem
    return None


def problem_of_tags(devices: Mapping[str, Iterable[str]], resource: Resource, tags: Mapping[str, str]) -> str | None:
    """Why a reported allocation cannot be on the devices that its tags name. `devices`: the names of the node's, by
    resource. None if it can, or if it names none."""
    for name, known in devices.items():
        key = PREFIX + name
        given = split(tags.get(key, ""))
        for device in given:
            if device not in known:
                return f"tag {key}: {shown(device)}, expected a device of the node"
        if len(set(given)) < len(given):
            return f"tag {key}: {shown(_repeated(given))} is there twice"
        if given and not resource.get(name, 0):
            return f"tag {key}: the allocation has no {name}"
    return None


def named(tags: Mapping[str, str], resource: str) -> str:
    """The devices that the tags of a reported allocation name, as in `Chosen`; "": none."""
    return ",".join(split(tags.get(PREFIX + resource, "")))


def shares_of(amount: int, count: int) -> list[int]:
    """The amount in `count` shares, as equal as whole numbers can be."""
    least, more = divmod(amount, count)
    return [least + (place < more) for place in range(count)]


# The choice of devices


def choose(free: Sequence[int], share: int, count: int) -> list[int]:
    """Positions of `count` devices that have the share free: those with least free, and of equal ones the first ones.
    Empty if there are too few."""
    if count == 1:
        best, least = -1, 0
        for at, amount in enumerate(free):
            if amount >= share and (best < 0 or amount < least):
                best, least = at, amount
        return [best] if best >= 0 else []
    fitting = sorted((amount, at) for at, amount in enumerate(free) if amount >= share)[:count]
    return sorted(at for _, at in fitting) if len(fitting) == count else []


def most_free(free: Sequence[int], count: int) -> list[int]:
    """Positions of the `count` devices with most free, whatever that is; of all if there are fewer."""
    return sorted(at for _, at in sorted((-amount, at) for at, amount in enumerate(free))[:count])
