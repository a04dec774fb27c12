"""The health check of the reference, over the rows of partitions, nodes and applications."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from remuda_web.ws_v1.amounts import add
from remuda_web.ws_v1.go_json import Json
from remuda_web.ws_v1.partitions import Place

Row = Mapping[str, Any]
UNHEALTHY: Final = "Scheduler is not healthy"
NEGATIVE: Final = "Negative resources"
CONSISTENCY: Final = "Consistency of data"
PARTITIONS: Final = "Partitions with inconsistent data"
NODES: Final = "Nodes with inconsistent data"


@dataclass(frozen=True, slots=True)
class Checked:
    """The rows of one partition."""

    place: Place
    nodes: Sequence[Row]
    applications: Sequence[Row]
    allocations: Sequence[Row]


# Of a check: its name, description, diagnosis, and the names of objects that fail it.
Found = tuple[str, str, str, frozenset[str]]


def check(partitions: Sequence[Checked], before: Sequence[Checked] | None = None) -> Json:
    """`before`: an earlier reading; then only objects count that fail a check in both. Rows are read one after the
    other, and the scheduler works meanwhile. Failed nodes and scheduling errors are counters of the reference. The core
    has neither: an error ends its process."""
    checks = [
        _counted("Scheduling errors", "scheduling error", "scheduling errors"),
        _counted("Failed nodes", "failed nodes", "failed nodes"),
        *_shown(_sums, partitions, before),
        _reservations(partitions),
        *_shown(_orphans, partitions, before),
    ]
    return {"Healthy": all(one["Succeeded"] for one in checks), "HealthChecks": checks}


def _shown(
    find: Callable[[Sequence[Checked]], list[Found]], partitions: Sequence[Checked], before: Sequence[Checked] | None
) -> list[Json]:
    now = find(partitions)
    then = now if before is None else find(before)
    return [
        _listed(name, description, diagnosis, wrong & former[-1])
        for (name, description, diagnosis, wrong), former in zip(now, then, strict=True)
    ]


def _sums(partitions: Sequence[Checked]) -> list[Found]:
    places = [rows.place for rows in partitions]
    nodes = [node for rows in partitions for node in rows.nodes]
    listed: list[tuple[str, str, str, Iterable[str]]] = [
        (
            NEGATIVE, "Check for negative resources in the partitions", "Partitions with negative resources",
            (place.shown for place in places if _negative(place.row, "total", "allocated")),
        ),
        (
            NEGATIVE, "Check for negative resources in the nodes", "Nodes with negative resources",
            (node["id"] for node in nodes if _negative(node, "allocated", "available", "capacity", "occupied")),
        ),
        (
            CONSISTENCY, "Check if a partition's allocated resource <= total resource of the partition", PARTITIONS,
            (place.shown for place in places if not _fits(place.row["allocated"], place.row["total"])),
        ),
        (
            CONSISTENCY,
            "Check if total partition resource == sum of the node resources from the partition", PARTITIONS,
            (rows.place.shown for rows in partitions if not _adds_up(rows)),
        ),
        (
            CONSISTENCY,
            "Check if node total resource = allocated resource + occupied resource + available resource", NODES,
            (node["id"] for node in nodes if not _node_adds_up(node)),
        ),
        (
            CONSISTENCY, "Check if node capacity >= allocated resources on the node", NODES,
            (node["id"] for node in nodes if not _fits(node["allocated"], node["capacity"])),
        ),
    ]  # fmt: skip
    return [(name, description, diagnosis, frozenset(wrong)) for name, description, diagnosis, wrong in listed]


def _orphans(partitions: Sequence[Checked]) -> list[Found]:
    return [
        (
            f"Orphan allocation on {name} check",
            f"Check if there are orphan allocations on the {name_of_all}", diagnosis,
            frozenset(one["uuid"] for rows in partitions for one in _without(rows, field)),
        )
        for name, name_of_all, diagnosis, field in (
            ("node", "nodes", "Orphan allocations", "application"),
            ("app", "applications", "OrphanAllocations", "node"),
        )
    ]  # fmt: skip


def _counted(name: str, entries: str, counted: str) -> Json:
    return _named(
        name, f"Check for {entries} entries in metrics", (), f"There were 0 {counted} logged in the metrics"
    )  # fmt: skip


def _named(name: str, description: str, wrong: Iterable[str], diagnosis: str) -> Json:
    return {"Name": name, "Succeeded": not list(wrong), "Description": description, "DiagnosisMessage": diagnosis}


def _listed(name: str, description: str, diagnosis: str, wrong: Iterable[str]) -> Json:
    found = sorted(wrong)
    shown = " ".join(f'"{one}"' for one in found)
    return _named(name, description, found, f"{diagnosis}: [{shown}]")


def _reservations(partitions: Sequence[Checked]) -> Json:
    """A node has at most one reservation, so the ratio is never above 1."""
    ratios = [
        sum(node["reserved_for"] is not None for node in rows.nodes) / len(rows.nodes)
        for rows in partitions
        if rows.nodes
    ]
    shown = " ".join(f"{ratio:.6f}" for ratio in ratios)
    return _named(
        "Reservation check", "Check the reservation nr compared to the number of nodes",
        (str(ratio) for ratio in ratios if ratio > 1), f"Reservation/node nr ratio: [{shown}]",
    )  # fmt: skip


def _negative(row: Row, *fields: str) -> bool:
    return any(amount < 0 for field in fields for amount in row[field].values())


def _fits(used: Mapping[str, int], whole: Mapping[str, int]) -> bool:
    return all(amount <= whole.get(name, 0) for name, amount in used.items())


def _adds_up(rows: Checked) -> bool:
    total: dict[str, int] = {}
    for node in rows.nodes:
        add(total, node["capacity"])
    return _same(total, rows.place.row["total"])


def _node_adds_up(row: Row) -> bool:
    total: dict[str, int] = {}
    for field in ("allocated", "occupied", "available"):
        add(total, row[field])
    return _same(total, row["capacity"])


def _same(one: Mapping[str, int], other: Mapping[str, int]) -> bool:
    return all(one.get(name, 0) == other.get(name, 0) for name in {*one, *other})


def _without(rows: Checked, field: str) -> Iterable[Row]:
    """The allocations whose application (or node) is not there."""
    there = {row["id"] for row in (rows.applications if field == "application" else rows.nodes)}
    return (one for one in rows.allocations if one[field] not in there)
