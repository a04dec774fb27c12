"""What an operator of one queue reads from a source of many, page by page."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from remuda_operations.operators import Operator
from remuda_operations.queries import rows
from remuda_web import limits
from remuda_web.restricted import RestrictedSource
from remuda_web.source import LISTS, Row, Unreadable
from remuda_web.ws_v1 import queues
from remuda_web.ws_v1.partitions import Place

PARTITION = {"name": "default", "placement_rules": [{"name": "fixed", "value": "root.secret"}]}


def queue(path: str, acl: str = "") -> Row:
    return {"partition": "default", "path": path, "submit_acl": acl, "admin_acl": ""}


def application(name: str, path: str) -> Row:
    return {"partition": "default", "id": name, "queue": path, "user": "zoe"}


ROWS = {
    "queues": [queue("root"), queue("root.own", "eve"), queue("root.secret")],
    # In the order of pages: those of others are first, between and last.
    "applications": [
        application(name, f"root.{name.partition('-')[0]}")
        for name in ("secret-1", "own-1", "secret-2", "own-2", "own-3", "secret-3", "secret-4", "own-4", "secret-5")
    ],
}


class Source:
    """`asked`: kinds and limits of pages. `rows_of`: of each kind."""

    def __init__(self, rows_of: dict[str, list[Row]] = ROWS) -> None:
        self.asked: list[tuple[str, int]] = []
        self.rows_of = rows_of

    def rms(self) -> list[str]:
        return ["rm"]

    async def partitions(self, rm: str) -> list[Row]:
        return [PARTITION]

    async def rows(self, rm: str, kind: str, **filters: str) -> list[Row]:
        return self.rows_of[kind]

    async def page(self, rm: str, kind: str, limit: int = 1_000, after: Any = None) -> Row:
        """`next` names the last row of the page, as that of a core."""
        self.asked.append((kind, limit))
        first = 0 if after is None else after[0]
        rows = self.rows_of[kind][first : first + limit]
        head = {"log_seq": 1, **({"partitions": [PARTITION]} if kind == "queues" else {})}
        more = first + limit < len(self.rows_of[kind])
        return {**head, LISTS[kind]: rows, **({"next": [first + limit, rows[-1].get("id")]} if more else {})}


@pytest.fixture
def eve() -> RestrictedSource:
    return RestrictedSource(Source(), Operator("eve"))  # type: ignore[arg-type]


@pytest.mark.parametrize("limit", range(1, 11))
async def test_pages_have_every_visible_row_once_and_name_no_other(eve: RestrictedSource, limit: int) -> None:
    found: list[str] = []
    asked: Row = {"limit": limit}
    while True:
        page = await eve.page("rm", "applications", **asked)
        found += [row["id"] for row in page["applications"]]
        assert "secret" not in str(page), page
        if page.get("next") is None:
            break
        asked = {"limit": limit, "after": page["next"]}
    assert found == ["own-1", "own-2", "own-3", "own-4"]


def among_others(foreign: int, own: int) -> dict[str, list[Row]]:
    """Rows of others, then own ones, then others again."""
    paths = ["root.secret"] * foreign + ["root.own"] * own + ["root.secret"] * foreign
    rows = [{**application(f"{path[5:]}-{number}", path), "constraints": []} for number, path in enumerate(paths)]
    return {"queues": ROWS["queues"], **dict.fromkeys(("applications", "asks", "explain"), rows)}


@pytest.mark.parametrize("kind", ["applications", "asks", "explain"])
@pytest.mark.parametrize("limit", [1, 3, 1_000])
async def test_rows_of_others_are_passed_over_in_few_queries(kind: str, limit: int) -> None:
    source = Source(among_others(5_000, 7))
    eve = RestrictedSource(source, Operator("eve"))  # type: ignore[arg-type]
    found: list[str] = []
    asked: Row = {"limit": limit}
    while True:
        source.asked.clear()
        page = await eve.page("rm", kind, **asked)
        assert len(source.asked) <= 5_000 // limits.PAGE_ROWS + 4, source.asked
        assert len(page[LISTS[kind]]) <= limit
        assert "secret" not in str(page), page
        found += [row["queue"] for row in page[LISTS[kind]]]
        if page.get("next") is None:
            break
        asked = {"limit": limit, "after": page["next"]}
    assert found == ["root.own"] * 7


async def test_asks_of_others_are_not_explained() -> None:
    """That takes a core time."""
    source = Source(among_others(5_000, 7))
    eve = RestrictedSource(source, Operator("eve"))  # type: ignore[arg-type]
    assert len((await eve.page("rm", "explain", limit=1_000))["asks"]) == 7
    assert [limit for kind, limit in source.asked if kind == "explain"] == [7]


@pytest.mark.parametrize("kind", ["explain", "asks", "applications", "allocations"])
async def test_an_application_of_others_is_answered_like_none(eve: RestrictedSource, kind: str) -> None:
    answers = []
    for name in ("secret-1", "nobody-1"):
        with pytest.raises(Unreadable) as refusal:
            await eve.page("rm", kind, application=name)
        answers.append((refusal.value.code, str(refusal.value).replace(name, "NAME")))
    assert answers == [(404, "application 'NAME' does not exist")] * 2


async def test_placement_rules_are_not_shown(eve: RestrictedSource) -> None:
    assert "secret" not in str([await eve.partitions("rm"), await eve.page("rm", "queues")])


def test_partition_without_a_visible_queue_has_no_tree() -> None:
    assert queues.tree(Place("rm", "default", "default", {}), []) == {}


async def test_of_a_queue_above_only_public_fields_are_shown() -> None:
    """Also none of a newer core, of which this service does not know whether it is public."""
    used = rows.Queue(partition="default", path="root", allocated={"vcore": 5}, applications=3, max={"vcore": 9},
                      limits=[rows.Limit(users=["zoe"])], held=rows.Hold("zoe"), submit_acl="zoe")  # fmt: skip
    above = {**msgspec.to_builtins(used), "of_a_newer_core": "zoe"}
    source = Source({"queues": [above, queue("root.own", "eve")]})
    eve = RestrictedSource(source, Operator("eve"))  # type: ignore[arg-type]
    root, own = (await eve.page("rm", "queues"))["queues"]
    public = rows.Queue(partition="default", path="root", max={"vcore": 9})
    assert msgspec.convert(root, rows.Queue) == msgspec.convert(msgspec.to_builtins(public), rows.Queue)
    assert list(root) == [one for one in above if one != "of_a_newer_core"]
    assert own == queue("root.own", "eve")


class Past(Source):
    """Had another queue and other applications at `then`. Rights were others, too."""

    THEN = {
        "queues": [queue("root"), queue("root.own"), queue("root.own.gone"), queue("root.secret", "eve")],
        "applications": [application("old-1", "root.own.gone"), application("old-2", "root.secret")],
        "allocations": [
            {"partition": "default", "uuid": "1", "application": "old-1"},
            {"partition": "default", "uuid": "2", "application": "old-2"},
        ],
        "nodes": [{"reserved_for": {"application": name}, "partition": "default"} for name in ("old-1", "old-2")],
    }

    async def rows(self, rm: str, kind: str, **filters: str) -> list[Row]:
        return self.THEN[kind] if filters.get("at") == "then" else await super().rows(rm, kind)

    async def page(self, rm: str, kind: str, limit: int = 1_000, after: Any = None, **given: Any) -> Row:
        if given.get("at") == "then":
            return {"log_seq": 1, LISTS[kind]: self.THEN[kind]}
        return await super().page(rm, kind, limit, after)


async def test_the_past_of_what_is_visible_now_is_shown_and_no_other() -> None:
    eve = RestrictedSource(Past(), Operator("eve"))  # type: ignore[arg-type]

    async def at_that_time(kind: str, **given: Any) -> list[Row]:
        found: list[Row] = (await eve.page("rm", kind, at="then", **given))[LISTS[kind]]
        return found

    paths = [row["path"] for row in await at_that_time("queues")]
    assert paths == ["root", "root.own", "root.own.gone"], "root.secret was eve's then, and is not now"
    assert [row["id"] for row in await at_that_time("applications")] == ["old-1"]
    assert [row["uuid"] for row in await at_that_time("allocations")] == ["1"]
    reserved = [row["reserved_for"] for row in await at_that_time("nodes")]
    assert reserved == [{"application": "old-1"}, None]
    with pytest.raises(Unreadable, match="does not exist"):
        await at_that_time("applications", application="old-2")
    assert [row["id"] for row in (await eve.page("rm", "applications"))["applications"]] != ["old-1"]


class OfRacks(Source):
    """A page of domains, and groups that wait in two queues."""

    async def page(self, rm: str, kind: str, limit: int = 1_000, after: Any = None) -> Row:
        if kind != "topology":
            return await super().page(rm, kind, limit, after)
        waiting = [{"application": f"{name}-1", "queue": f"root.{name}"} for name in ("own", "secret")]
        partition = {"name": "default", "levels": [], "devices": {}, "waiting": waiting, "waiting_count": 2}
        return {"log_seq": 1, "partitions": [partition], "domains": [{"partition": "default", "path": [], "nodes": 3}]}


async def test_of_groups_that_wait_for_racks_only_visible_ones_are_shown() -> None:
    eve = RestrictedSource(OfRacks(), Operator("eve"))  # type: ignore[arg-type]
    page = await eve.page("rm", "topology")
    (partition,) = page["partitions"]
    assert [one["application"] for one in partition["waiting"]] == ["own-1"] and partition["waiting_count"] == 1
    assert page["domains"][0]["nodes"] == 3
