"""`remuda topology RM [DOMAIN]`: domains as a tree with their nodes and devices, and groups that wait for a domain."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import msgspec
from rich.table import Table
from rich.text import Text

from remuda_bus.bus import Bus
from remuda_operations.queries.core import pages_of
from remuda_operations.queries.rows import Domain, Node, NodesPage, TopologyPage, TopologyPartition, WaitingGroup

from ..client.connections import answered
from ..errors import UserError
from ..terminal.devices import drawn_all
from ..terminal.output import Unbroken, console, unbroken
from ..terminal.units import number, ordered, shares
from .queue_tree import bar

# So many nodes are shown without being asked for: a screen or two.
FEW_NODES = 48
BAR = 12
NARROW = 76  # columns: below that, less is shown


class Topology(msgspec.Struct):
    """`partitions`: levels, devices and groups that wait. `nodes`: those to be shown."""

    partitions: list[TopologyPartition]
    domains: list[Domain]
    nodes: list[Node]


def topology(url: str, rm: str, domain: str | None, with_nodes: bool, as_json: bool) -> None:
    """`domain`: its path such as z1/r7, or the end of it. Raises UserError for a domain that does not exist."""
    found = answered(url, lambda bus: _query(bus, rm, domain, with_nodes))
    if as_json:
        print(msgspec.json.encode(found).decode())
        return
    for partition in found.partitions:
        if any(one.partition == partition.name for one in found.domains):
            print_partition(partition, found)


async def _query(bus: Bus, rm: str, domain: str | None, with_nodes: bool) -> Topology:
    pages = [page async for page in pages_of(bus, "topology", TopologyPage, rm=rm)]
    found = Topology(pages[-1].partitions, [row for page in pages for row in page.domains], [])
    if domain is not None:
        found.domains = within(found.domains, domain)
    roots = [row for row in found.domains if not row.path] or found.domains[:1]
    if with_nodes or domain is not None or sum(row.nodes for row in roots) <= FEW_NODES:
        found.nodes = await _nodes(bus, rm, found.domains)
    return found


async def _nodes(bus: Bus, rm: str, domains: Sequence[Domain]) -> list[Node]:
    """The nodes that are in one of the domains."""
    known = {(row.partition, tuple(row.path)) for row in domains}
    return [
        node
        async for page in pages_of(bus, "nodes", NodesPage, rm=rm)
        for node in page.nodes
        if (node.partition, tuple(node.domain)) in known
    ]


def within(domains: Sequence[Domain], wanted: str) -> list[Domain]:
    """The domains whose path, or the end of it, is the wanted one, with those below. Raises UserError."""
    parts = wanted.strip("/").split("/")
    tops = [(row.partition, row.path) for row in domains if row.path and list(row.path[-len(parts) :]) == parts]
    if not tops:
        levels = sorted({row.level for row in domains if row.level})
        raise UserError(
            f"no domain {wanted!r}: expected a path such as "
            + next(("/".join(row.path) for row in reversed(domains) if row.path), "b1/r1")
            + (f" ({', '.join(levels)})" if levels else "; the partition has no topology")
        )
    return [row for row in domains if any(row.partition == one and list(row.path[: len(p)]) == p for one, p in tops)]


def print_partition(partition: TopologyPartition, found: Topology) -> None:
    name = partition.name
    domains = [row for row in found.domains if row.partition == name]
    nodes = [row for row in found.nodes if row.partition == name]
    console.print(Unbroken(heading(partition, domains)))
    for line in device_lines(domains[0]):
        console.print(line, markup=False)
    console.print(tree(domains, nodes, console.width))
    for line in waiting_lines(partition, time.time() * 1000):
        console.print(line, markup=False)


def heading(partition: TopologyPartition, domains: Sequence[Domain]) -> Text:
    """Levels, and how many domains and nodes there are in what is shown."""
    levels = " › ".join(one.level for one in partition.levels) or "no levels"
    top = domains[0]
    counts = [
        (sum(row.level == one.level and row is not top for row in domains), one.level) for one in partition.levels
    ]
    told = ", ".join(_plural(count, noun) for count, noun in [*filter(all, counts), (top.nodes, "node")])
    where = f", {'/'.join(top.path)}" if top.path else ""
    return Text.assemble((f"partition {partition.name}{where}", "bold"), f"   {levels}   {unbroken(told)}")


def _plural(count: int, noun: str) -> str:
    return f"{number(count)} {noun}{'' if count == 1 else 's'}"


def device_lines(top: Domain) -> Iterator[str]:
    """A line for each resource on devices: how many there are, what is free, and what of that nobody can use."""
    for one in top.devices:
        line = (
            f"{one.resource}: {number(one.devices)} devices, {number(one.used)} in use; "
            f"free {number(one.free / one.unit)}, of which {number(one.whole)} whole"
        )
        if one.fragments:
            line += f", and {number(one.fragments / one.unit)} that no waiting or common ask can use"
        yield line + (f"; {number(one.unfit)} unfit" if one.unfit else "")


def tree(domains: Sequence[Domain], nodes: Sequence[Node], width: int) -> Table:
    """One row per domain: bar of what is used, nodes and empty ones, devices that are in use, free as a whole, and
    fragments, in devices. Nodes below their domain, with a character for each device."""
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim", expand=False)
    has_devices = any(row.devices for row in domains)
    table.add_column("domain", no_wrap=True, overflow="ellipsis")
    table.add_column("used", no_wrap=True)
    table.add_column("nodes", justify="right", no_wrap=True)
    table.add_column("empty", justify="right", no_wrap=True)
    names = ["in use", "whole", "useless"] if has_devices and width >= NARROW else ["whole"] if has_devices else []
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    inside: dict[tuple[str, ...], list[Node]] = {}
    for node in nodes:
        inside.setdefault(tuple(node.domain), []).append(node)
    least = min((len(row.path) for row in domains), default=0)
    for row in domains:
        depth = len(row.path) - least
        cells = [Text("  " * depth + (row.path[-1] if row.path else "all nodes"), style="bold")]
        resource, used, whole = fullest(row)
        cells += [Text.assemble(bar(used, whole, None, BAR), f" {_percent(used, whole):>5} ", (resource, "dim"))]
        cells += [Text(number(row.nodes)), _or_dim(row.empty)]
        if names:
            cells += _device_cells(row, len(names) > 1)
        table.add_row(*cells)
        for node in inside.get(tuple(row.path), ()):
            table.add_row(*_node_cells(node, depth + 1, len(names)))
    return table


def _device_cells(row: Domain, all_of_them: bool) -> list[Text]:
    """Sums over the resources that stand on devices."""
    used, devices, whole, useless = 0, 0, 0, 0.0
    for one in row.devices:
        used, devices, whole = used + one.used, devices + one.devices, whole + one.whole
        useless += one.fragments / one.unit
    cells = [Text(f"{number(used)}/{number(devices)}"), _or_dim(whole), _or_dim(useless)]
    return cells if all_of_them else [cells[1]]


def _node_cells(node: Node, depth: int, more: int) -> list[Text]:
    devices = drawn_all(node.devices)
    state = "" if node.status == "Schedulable" else node.status.lower()
    used = devices or ", ".join(shares(node.allocated, node.capacity)[:1])
    empty = not node.allocations and not state
    cells = [Text("  " * depth + node.id, style="dim" if empty else "")]
    cells += [Text.assemble(unbroken(used), (f" {state}" if state else "", "yellow")), Text("")]
    cells += [Text("") for _ in range(more + 1)]
    return cells


def fullest(row: Domain) -> tuple[str, int, int]:
    """The resource of which the largest part is allocated, how much, and of how much. Of equal ones a resource on
    devices comes first."""
    devices = {one.resource for one in row.devices}
    names = sorted(ordered(row.capacity), key=lambda name: name not in devices)
    if not names:
        return "", 0, 0
    most = max(names, key=lambda name: row.allocated.get(name, 0) / (row.capacity[name] or 1))
    return most, row.allocated.get(most, 0), row.capacity[most]


def _percent(used: int, whole: int) -> str:
    return f"{100 * used / whole:.0f} %" if whole else "-"


def _or_dim(value: float) -> Text:
    return Text(number(value) if value else "-", style="" if value else "dim")


def waiting_lines(partition: TopologyPartition, now_ms: float) -> Iterator[str]:
    """The groups that wait, those that wait longest first."""
    rows = partition.waiting
    if not rows:
        return
    yield "waiting groups:"
    for row in rows:
        yield "  " + _waiting_line(row, now_ms)
    if partition.waiting_count > len(rows):
        yield f"  and {number(partition.waiting_count - len(rows))} more; `remuda explain` shows all asks that wait"


def _waiting_line(row: WaitingGroup, now_ms: float) -> str:
    wants = [
        f"{name} {getattr(row, name)}" for name in ("required", "preferred", "spread", "slice") if getattr(row, name)
    ]
    group = f"/{row.group}" if row.group not in ("", row.application) else ""
    placed = f", {number(row.placed)} placed" if row.placed else ""
    where = f" in {'/'.join(row.domain)}" if row.domain else ""
    reason = f", waits for {row.waits_for[0]}" if row.waits_for else ""
    minutes = max(0.0, now_ms - row.since_ms) / 60_000
    age = f"{number(round(minutes))} min" if minutes >= 1 else "less than a minute"
    avoided = f"; others avoid {'/'.join(row.avoided)}" if row.avoided else ""
    wish = "; ".join(wants)
    return f"{row.application}{group}: {number(row.waiting)} wait{placed}{where} ({wish}){reason}, {age}{avoided}"
