"""All RMs at a glance: sums, what needs attention in its order, what has changed, and what each reader sees."""

from __future__ import annotations

from typing import Any

from remuda_operations.operators import Operator
from remuda_web import limits
from remuda_web.overview import KINDS, Overviews, Rates
from remuda_web.restricted import RestrictedSource
from remuda_web.source import Row, Unreadable

NOW_MS = 1_700_000_100_000
OLD_MS, YOUNG_MS = NOW_MS - limits.ATTENTION_AFTER_MS, NOW_MS - limits.ATTENTION_AFTER_MS + 1
WAITS = {"waiting": 3, "waiting_since_ms": OLD_MS}


def listed(*rows: Row, total: int = 0) -> Row:
    return {"total": max(total, len(rows)), "rows": list(rows)}


def partition(name: str, waiting: int, since_ms: int) -> Row:
    return {
        "name": name, "total": {"vcore": 8}, "occupied": {}, "allocated": {"vcore": 2}, "pending": {"vcore": waiting},
        "nodes": 2, "unschedulable": 1, "waiting": waiting, "waiting_since_ms": since_ms,
    }  # fmt: skip


def action(at_ms: int, operator: str = "ann") -> Row:
    texts = dict.fromkeys(("reason", "partition", "application_id", "queue", "node_id", "allocation_key", "uuid"), "")
    return {"kind": "HoldQueue", "operator": operator, "outcome": "accepted", "priority": 0, "at_ms": at_ms, **texts}


def of_core(**more: Any) -> Row:
    nothing = {kind: listed() for kind in ("below_guarantee", "fits_nowhere", "idle", "held", "drained")}
    return {
        "state": "Running", "at_ms": 5, "applications": 4, "allocations": 3, "allocations_ever": 30, **nothing,
        "partitions": [partition("default", 5, OLD_MS), partition("gpu", 0, 0), partition("more", 1, OLD_MS + 1)],
        "actions": [], **more,
    }  # fmt: skip


class Source:
    def __init__(self, rms: dict[str, Row | None], halts: list[Row] | None = None, versions: Row | None = None) -> None:
        self._rms, self._halts, self._versions = rms, halts or [], versions

    def rms(self) -> list[str]:
        return sorted(self._rms)

    def records(self) -> Row:
        return {"halts": self._halts, "dead_letters": {"a": 7}}

    async def rows(self, rm: str, kind: str, **filters: str) -> list[Row]:
        return [
            {"partition": "default", "path": path, "submit_acl": acl, "admin_acl": ""}
            for path, acl in (("root", ""), ("root.own", "eve"), ("root.secret", ""))
        ]

    async def page(self, rm: str, kind: str, **arguments: Any) -> Row:
        found = self._rms[rm]
        if found is None:
            raise Unreadable("no core answers")
        return dict(found)

    async def configurations(self, kind: str, request: Row) -> Row:
        if self._versions is None:
            raise Unreadable("there is no file", 409)
        return self._versions


async def read(source: Any, rates: Rates | None = None) -> Row:
    return await Overviews(rates or Rates()).read(source, NOW_MS)


async def test_an_rm_has_the_sums_of_its_partitions() -> None:
    (rm,) = (await read(Source({"a": of_core()})))["rms"]
    assert rm["waiting"] == 6 and rm["waiting_since_ms"] == OLD_MS and rm["total"] == {"vcore": 24}
    assert (rm["allocated"], rm["nodes"], rm["unschedulable"]) == ({"vcore": 6}, 6, 3)
    assert rm["allocations_per_s"] is None


async def test_the_most_pressing_comes_first_and_young_waits_do_not_count() -> None:
    in_queue = {"partition": "default", "queue": "root.own", **WAITS}
    a = of_core(
        below_guarantee=listed(in_queue, {**in_queue, "waiting_since_ms": YOUNG_MS}),
        fits_nowhere=listed({**in_queue, "application": "x", "key": "k"}, total=70),
        idle=listed({"partition": "default", "resource": "gpu", "free": 3, "pending": 9, **WAITS}),
        held=listed({"partition": "default", "queue": "root.own", "operator": "ann", "reason": "", "since_ms": NOW_MS}),
        drained=listed({"partition": "default", "node": "n1", "operator": "ann", "reason": "", "since_ms": 1}),
    )
    versions = {"active": 2, "versions": [version(1), version(2, until_ms=NOW_MS + 5)]}
    halt = {"rm_id": "c", "reason": "lost", "by": "core-1", "at_ms": 3}
    found = await read(Source({"a": a, "b": None, "d": of_core(state="Paused")}, [halt], versions))
    assert [one["kind"] for one in found["attention"]] == [
        "halted", "unanswered", "below_guarantee", "fits_nowhere", "fits_nowhere", "idle", "not_running", "staged",
        "held", "drained", "dead_letters",
    ]  # fmt: skip
    assert {one["kind"] for one in found["attention"]} == KINDS.keys(), "each kind has an example here"
    assert [one["more"] for one in found["attention"] if "more" in one] == [69]
    assert [(one["rm"], one["state"], one["error"]) for one in found["rms"]] == [
        ("a", "Running", ""), ("b", "", "no core answers"), ("c", "halted", ""), ("d", "Paused", ""),
    ]  # fmt: skip


def version(number: int, **more: Any) -> Row:
    """What is not set is left out."""
    return {"number": number, "at_ms": number, "origin": "api", **more}


async def test_changes_are_the_newest_of_versions_and_actions() -> None:
    versions = {"active": 2, "versions": [version(1), version(3)]}
    source = Source({"a": of_core(actions=[action(4), action(0)]), "b": of_core(actions=[action(2)])}, None, versions)
    found = (await read(source))["changes"]
    assert [(one["kind"], one["rm"], one["at_ms"]) for one in found] == [
        ("action", "a", 4), ("version", "", 3), ("action", "b", 2), ("version", "", 1),
    ]  # fmt: skip
    many = Source({"a": of_core(actions=[action(n) for n in range(1, 90)])})
    assert len((await read(many))["changes"]) == limits.CHANGES


async def test_rates_are_over_the_last_minute_and_of_one_life() -> None:
    now = [100.0]
    rates = Rates(lambda: now[0])
    for ever in (10, 20, 30):
        rates.add("a", ever)
    assert rates.of("a") is None, "samples that are too close count once"
    for second in range(10, 130, 10):
        now[0] = 100.0 + second
        rates.add("a", 10 * second)
    assert rates.of("a") == 10.0
    rates.add("a", 5)
    assert rates.of("a") is None and rates.of("b") is None
    rates.forget(["b"])
    assert not rates._samples


async def test_an_operator_of_one_queue_sees_what_it_waits_for() -> None:
    rows = [{"partition": "default", "queue": queue, **WAITS} for queue in ("root.own", "root.secret")]
    idle = {"partition": "default", "resource": "gpu", "free": 3, "pending": 9, **WAITS}
    core = of_core(
        below_guarantee=listed(*rows), fits_nowhere=listed(*rows),
        held=listed(*({**one, "since_ms": 1} for one in rows)),
        idle=listed(idle), actions=[action(1, "ann"), action(2, "eve")],
    )  # fmt: skip
    halt = {"rm_id": "c", "reason": "secret", "by": "core-1", "at_ms": 3}
    found = await read(RestrictedSource(Source({"a": core}, [halt], {}), Operator("eve")))  # type: ignore[arg-type]
    assert "secret" not in str(found) and "'queue': 'root.own'" in str(found)
    assert [one["kind"] for one in found["attention"]] == ["halted", "below_guarantee", "fits_nowhere", "held"]
    assert [one["operator"] for one in found["changes"]] == ["eve"]
    assert (found["rms"][0]["waiting"], found["rms"][0]["pending"]) == (0, {})
    assert found["rms"][0]["allocated"] == {"vcore": 6}, "as in the rows of partitions"
