"""The web page in a real Chromium, over the whole system."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
import yaml

from remuda.embedded import NatsServer
from remuda_bus import subjects
from remuda_bus.bus import Bus
from remuda_bus.nats import connect
from remuda_operations.ledger import hours
from remuda_operations.ledger.bookmark import Bookmark
from remuda_sdk import ResourceManager, application, ask, node
from remuda_web import limits
from remuda_web.source import Row
from tests.system.browser import AXE, Tab, needs_chromium, tab
from tests.system.node_packages import installed_packages
from tests.system.running import QUEUES, placed
from tests.system.test_web import Web, rm_with_work, web_of

pytestmark = [needs_chromium, pytest.mark.timeout(400)]
# The place of each view, and what it has to show.
VIEWS = {
    "": ["Overview", "Resource managers", "rm-1", "vcore 0.001 of 0.002", "Changed lately", "version 1"],
    "queues/rm-1": ["Queues", "partition default", "vcore 0.001 of 0.002", "root", "waiting"],
    "queues/rm-1/default%20root.a": ["root.a", "History", "fair share", "big", "no node is large", "too large for"],
    "applications/rm-1": ["app", "root.a", "alice"],
    "applications/rm-1?kinds=asks": ["big", "root.a", "too_large"],
    "applications/rm-1?kinds=rejections": ["None."],
    "applications/rm-1/app": ["Time line", "Why it waits", "big", "no node is large enough", "Allocations", "n1"],
    "nodes/rm-1": ["n1", "Schedulable", "Colour by"],
    "nodes/rm-1?colour=use%20vcore": ["n1", "0.001 of 0.002 vcore free", "0 to 100 % used"],
    "nodes/rm-1/n1": ["n1", "Schedulable", "available", "app"],
    "users/rm-1": ["Users", "alice"],
    "users/rm-1?kinds=limits": ["None."],
    "users/rm-1?kinds=by%20queue": ["alice", "root.a"],
    "users/rm-1?kinds=past": ["No ledger is kept. With events.ledger"],
    "events/rm-1": ["application", "app"],
    "configuration/rm-1": ["Edit the file", "version 1", "in force"],
    "configuration/rm-1/rm%3A1": ["Version 1", "partitions:"],
    "configuration/rm-1/edit": ["Edit the file", "Apply", "valid"],
    "system/rm-1": ["Resource managers", "registered", "leads", "None on record."],
    "pools": ["Pools of default"],
    "queues/nobody": ["No resource manager nobody is registered.", "rm-1"],
}  # fmt: skip
# Without any RM.
EMPTY = {
    **{view: ["Welcome", "remuda load", "ResourceManager.connect"]
       for view in ("", "queues", "applications", "nodes", "users", "queues/gone")},
    "events": ["None yet."], "configuration": ["Edit the file", "version 1"], "configuration//edit": ["valid", "Apply"],
    "system": ["None is registered.", "stands by", "None on record."],
}  # fmt: skip
SCREENS = ((1400, 900), (1100, 800), (360, 740))
NARROW = 400
# What these places ask for is not there: such an RM, or Peloton.
MISSING = ("peloton", "/nobody/", "/gone/", "status of 404", "status of 503")


@pytest.fixture
async def web(server: NatsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Web]:
    monkeypatch.setattr(limits, "HISTORY_EVERY_MS", 100)
    (tmp_path / "queues.yaml").write_text(QUEUES)
    async with web_of(server.url, tmp_path / "queues.yaml") as found:
        yield found


def page_of(web: Web) -> str:
    return str(web.client.base_url.copy_with(path="/"))


@pytest.mark.parametrize(("width", "height"), SCREENS)
async def test_each_view_shows_its_data_to_everybody(web: Web, width: int, height: int) -> None:
    """In light and dark, with nothing that axe-core takes for serious, nothing wider than the screen, and no value that
    is not there; before the first RM, and with one."""
    axe = (installed_packages(AXE) / "axe-core" / "axe.min.js").read_text()
    async with tab(page_of(web), "dark", width, height) as found:
        for place, words in EMPTY.items():
            await _check(found, place, words, axe)
        rm = await rm_with_work(web, "rm-1")
        for place, words in VIEWS.items():
            await _check(found, place, words if width > NARROW else words[:1], axe)
        found.problems = [one for one in found.problems if not any(place in one for place in MISSING)]
    await rm.__aexit__(None, None, None)


async def _check(found: Tab, place: str, words: list[str], axe: str) -> None:
    await found.open(place)
    await found.shows(*words)
    for scheme in ("light", "dark"):
        await found.page.emulate_media(color_scheme=scheme)
        assert await found.accessibility(axe) == [], f"{place}, {scheme}"
    assert await found.nonsense() == [], place
    assert await found.overflow() <= 0, place
    assert (await found.page.title()).endswith("remuda"), place


RACKS = """
partitions:
  - name: default
    topology: [{level: block, attribute: remuda/block}, {level: rack, attribute: si/rackname}]
    devices: {gpu: 1000}
    queues: [{name: root, submitacl: '*', queues: [{name: a}]}]
"""
RACK_VIEWS = {
    "nodes/rm-1?show=racks": ["r1", "r2", "block › rack", "0 to 100 % used", "Groups that wait", "16 wait"],
    "nodes/rm-1?show=racks&history=open": ["History of gpu", "useless"],
    "nodes/rm-1?show=racks&racks=application": ["r1", "app", "train"],
    "nodes/rm-1?show=racks&racks=queue": ["r1", "root.a"],
    "nodes/rm-1?show=racks&rack=default%2Fb1%2Fr1": ["b1/r1", "n1", "train"],
    "queues/rm-1": ["Queues", "gpu 4.47 of 32"],
    "nodes/rm-1/n1": ["b1/r1", "devices of gpu"],
}  # fmt: skip


@pytest.mark.parametrize(("width", "height"), SCREENS)
async def test_racks_show_their_devices_and_who_is_on_them(web: Web, width: int, height: int) -> None:
    axe = (installed_packages(AXE) / "axe-core" / "axe.min.js").read_text()
    async with ResourceManager.connect(web.url, "rm-1", config=RACKS) as rm:
        await rm.report_nodes(
            [
                node(
                    f"n{number}", vcore=64_000, gpu=4_000,
                    attributes={"remuda/block": "b1", "si/rackname": f"r{1 + number // 5}",
                                **({"remuda/devices.gpu.unfit": "3"} if number == 2 else {})},
                )
                for number in range(1, 9)
            ]
        )  # fmt: skip
        await rm.submit(
            application("app", user="alice", queue="root.a"), application("train", user="bob", queue="root.a")
        )
        await rm.ask(
            ask("train", "k", vcore=8_000, gpu=4_000, tags={"remuda/topology.required": "rack"}),
            ask("app", "share", vcore=1_000, gpu=470),
        )
        await placed(rm, "k", "share")
        await rm.ask(ask("train", "big", vcore=8_000, gpu=4_000, count=16, tags={"remuda/topology.required": "rack"}))
        async with tab(page_of(web), "dark", width, height) as found:
            for place, words in RACK_VIEWS.items():
                await _check(found, place, words if width > NARROW else words[:1], axe)
            await found.open("nodes/rm-1")
            await found.page.get_by_label("Show").select_option("racks")
            await found.page.get_by_role("button", name="r2").click()
            await found.shows("b1/r2", "nobody")
            await found.open(found.page.url.partition("#")[2])
            await found.shows("b1/r2", "n8")
            canvas = found.page.get_by_role("img", name="b1/r1: 4 nodes, 5 of 16 devices in use")
            await canvas.hover(position={"x": 4, "y": 3})
            await found.shows("n1, gpu 0: ")
            assert found.problems == []


@pytest.mark.parametrize(("width", "height"), SCREENS)
async def test_the_past_shows_use_by_hour_shares_and_waste(web: Web, width: int, height: int) -> None:
    axe = (installed_packages(AXE) / "axe-core" / "axe.min.js").read_text()
    rm = await rm_with_work(web, "rm-1")
    bus = await connect(web.url, "test", timeout_s=5)
    await write_ledger(bus)
    places = {
        "users/rm-1?kinds=past": ["Use by hour", "Shares", "Waste", "root.a", "12 h", "25 %", "closed up to"],
        "users/rm-1?kinds=past&by=user&since=24h&resource=memory": ["alice", "in vain", "GiB h"],
        "users/rm-1?kinds=past&since=30d": ["0 to 1 h in an hour", "root.a"],
    }
    async with tab(page_of(web), "dark", width, height) as found:
        for place, words in places.items():
            await _check(found, place, words if width > NARROW else words[:1], axe)
        await found.open("users/rm-1?kinds=past")
        await found.page.locator(".heat .cell").nth(12).hover()  # of the first day; at night there is a second
        await found.shows(":00: vcore ")
        await found.page.get_by_label("Since").select_option("24h")
        await found.page.get_by_label("Resource").select_option("memory")
        await found.shows("Use by hour")
        assert found.problems == []
    await bus.close()
    await rm.__aexit__(None, None, None)


def ledger_rows(counts: Mapping[str, int]) -> list[hours.Row]:
    """A row for each kind, of so many hours of a core and a GiB."""
    return [
        hours.Row(hours.RowKey("default", "root.a", "alice", (), "app", kind), {
            "vcore": count * 1_000 * hours.HOUR_MS, "memory": count * 2**30 * hours.HOUR_MS,
        })
        for kind, count in counts.items()
    ]  # fmt: skip


async def write_ledger(bus: Bus) -> None:
    """A core in each of the last twelve hours, of which every fourth was preempted. A day that is over has its sums,
    from which it is read."""
    now_ms = time.time_ns() // 1_000_000
    closed_ms, days = hours.hour_of(now_ms), defaultdict[int, Counter[str]](Counter)
    for back in range(1, 13):
        hour_ms = closed_ms - back * hours.HOUR_MS
        kinds = ["used", *(["lost"] if back % 4 == 0 else [])]
        days[hours.day_of(hour_ms)].update(kinds)
        for payload in hours.encode(hour_ms, ledger_rows(Counter(kinds))):
            await bus.append(subjects.ledger("rm-1", hour_ms // hours.HOUR_MS), payload)
    for day_ms, counts in days.items():
        if day_ms < hours.day_of(closed_ms):
            for payload in hours.encode(day_ms, ledger_rows(counts)):
                day = day_ms // (hours.HOURS_OF_DAY * hours.HOUR_MS)
                await bus.append(subjects.ledger_days("rm-1", day), payload)
    mark = Bookmark(1, "", now_ms - 12 * hours.HOUR_MS, closed_ms).encode()
    await bus.put(subjects.EVENT_BOOKMARKS.name, subjects.ledger_key("rm-1"), mark)


async def test_values_that_are_not_there_are_noticed() -> None:
    async with tab("about:blank") as found:
        await found.page.set_content(
            "<p>undefined of 3</p><p title='NaN h'>x</p><p>[object Object]</p><pre>undefined</pre><p>nullified</p>"
        )
        assert await found.nonsense() == ["undefined of 3", "[object Object]", "NaN h"]


async def test_what_the_welcome_shows_connects_a_resource_manager(web: Web) -> None:
    async with tab(page_of(web)) as found:
        await found.open("")
        await found.shows("Welcome", "remuda load")
        load, program = [await one.inner_text() for one in await found.page.locator(".copied pre").all()]
        assert load.startswith(f"remuda load --nats {web.url} ")
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", program)
        try:
            await found.shows("my-cluster", "vcore 8 of 8", "1 ask waiting")
        finally:
            process.kill()
            await process.wait()


async def test_without_an_rm_the_family_s_interface_shows_the_configuration_of_the_file(web: Web) -> None:
    shown = yaml.safe_load((await web.client.get("/config")).text)
    names = [queue["name"] for queue in yaml.safe_load(QUEUES)["partitions"][0]["queues"][0]["queues"]]
    assert [queue["name"] for queue in shown["partitions"][0]["queues"][0]["queues"]] == names
    assert await web.get("/partitions") == [] and await web.get("/clusters") == []


async def test_a_link_shows_what_its_sender_saw(web: Web) -> None:
    """Search, tabs and choices are in the address; the title names what is shown."""
    rm = await rm_with_work(web, "rm-1")
    async with tab(page_of(web)) as found:
        page = found.page
        await found.open("applications/rm-1")
        await page.get_by_role("tab", name="asks").click()
        await page.get_by_label("Search asks").fill("big")
        await found.shows("too_large")
        sent = page.url.partition("#")[2]
        assert sent == "applications/rm-1?kinds=asks&search=big"
        await found.open(sent)
        await found.shows("too_large")
        assert await page.get_by_label("Search asks").input_value() == "big"
        await page.get_by_role("link", name="applications", exact=True).click()
        await page.get_by_label("Search applications").wait_for()
        assert await page.get_by_label("Search applications").input_value() == ""
        await found.open("queues/rm-1/default%20root.a")
        await found.shows("History")
        assert await page.title() == "default root.a · queues · rm-1 · remuda"
        await page.get_by_role("link", name="nodes", exact=True).click()
        await found.shows("Colour by")
        assert await page.title() == "nodes · rm-1 · remuda"
    await rm.__aexit__(None, None, None)


LONG = "a-queue-of-a-department-with-a-very-long-name"


async def test_names_of_queues_are_whole_on_a_telephone(web: Web) -> None:
    rm = await rm_with_work(web, "rm-1", QUEUES.replace("{name: a}", f"{{name: a}}, {{name: {LONG}}}"))
    async with tab(page_of(web), width=360, height=740) as found:
        await found.open("queues/rm-1")
        name = found.page.get_by_role("link", name=LONG)
        await name.wait_for()
        assert await name.evaluate(WHOLE), "a part of the name is out of sight"
    await rm.__aexit__(None, None, None)


# Whether all of an element is within its row, and none of its text is cut.
WHOLE = """element => {
  const own = element.getBoundingClientRect(), row = element.closest("tr").getBoundingClientRect();
  return element.scrollWidth <= element.clientWidth + 1 && own.top >= row.top - 1 && own.bottom <= row.bottom + 1;
}"""


async def test_an_operator_acts_and_changes_the_configuration(web: Web) -> None:
    rm = await rm_with_work(web, "rm-1", QUEUES.replace("submitacl", "adminacl: '*', submitacl"))
    async with tab(page_of(web)) as found:
        page = found.page
        await found.open("applications/rm-1/app")
        await page.get_by_role("button", name="What would let it run?").click()
        await found.shows("Any of these would let it run", "trials on a copy of the state")
        page.on("dialog", lambda dialog: dialog.accept())
        await found.open("queues/rm-1/default%20root.a")
        await page.get_by_role("button", name="Hold").click()
        await page.get_by_label("Reason").fill("the storage is being replaced")
        await page.get_by_role("dialog").get_by_role("button", name="Hold").click()
        await found.shows("Hold: done", "held")
        await page.get_by_role("button", name="Change priority").click()
        await page.get_by_role("spinbutton", name="Priority").fill("7")
        await page.get_by_role("dialog").get_by_role("button", name="Change priority").click()
        await found.shows("Change priority: done", "priority 7")
        assert "the storage is being replaced" in str((await _row(web, "queues", "path", "root.a"))["held"])
        await page.reload()
        await found.page.get_by_role("img", name="vcore of root.a: now used").wait_for()
        kept = await web.client.get(
            str(web.client.base_url.copy_with(path="/api/v1/rms/rm-1/queue-history")), params={"queue": "root.a"}
        )
        assert kept.json()["resources"]["vcore"]["allocated"][-1] == 1, "the history of before the reload"

        await found.open("configuration/rm-1/edit")
        editor = page.get_by_label("queues.yaml")
        await editor.fill(QUEUES.replace("name: a", "colour: red"))
        await found.shows("unknown key 'colour'")
        assert await page.get_by_role("button", name="Apply").is_disabled()
        await editor.fill(QUEUES.replace("name: a", "name: b"))
        await found.shows("valid")
        await page.get_by_role("button", name="Compare").click()
        await found.shows("+partitions:")
        await page.get_by_role("button", name="Preview").click()
        await found.shows("on a copy of the state")
        await page.get_by_label("Message").fill("b is better")
        await page.get_by_role("button", name="Apply").click()
        await found.shows("version 2", "b is better")

        await page.get_by_role("link", name="Edit the file").click()
        await editor.fill(QUEUES.replace("name: a", "name: c"))
        await found.shows("valid")
        await page.get_by_label("Roll back unless confirmed in").fill("30")
        await page.get_by_role("button", name="Apply").click()
        await found.shows("Version 3 is staged")
        await page.get_by_role("button", name="Keep version 3").click()
        await page.get_by_text("Version 3 is staged").wait_for(state="hidden")

        await page.get_by_role("link", name="version 1").click()
        await page.get_by_role("button", name="Roll back").click()
        await found.shows("version 4", "restores 1")
    await rm.__aexit__(None, None, None)


async def test_events_are_chosen_by_rm_and_lead_to_what_they_name(web: Web) -> None:
    rms = [await rm_with_work(web, name) for name in ("rm-1", "rm-2")]
    async with tab(page_of(web)) as found:
        page = found.page
        events = page.get_by_role("region", name="Events")

        async def leads(kind: str, object_: str, heading: str) -> None:
            await found.open("events/rm-1")
            await page.get_by_label("from").select_option("rm-2")
            await page.get_by_label("kind").select_option(kind)
            await events.get_by_role("link", name=object_, exact=True).first.click()
            await page.get_by_role("heading", name=heading).wait_for()
            assert "/rm-2/" in page.url, page.url

        await found.open("events/rm-1")
        await events.get_by_role("link", name="rm-1", exact=True).first.wait_for()
        await page.get_by_label("from").select_option("rm-2")
        await events.get_by_role("link", name="rm-1", exact=True).first.wait_for(state="hidden")
        assert await events.get_by_role("link", name="rm-2", exact=True).count()
        await leads("application", "app", "app")
        await leads("node", "n1", "n1")
        await leads("queue", "root.a", "root.a")
        await leads("request", "app", "app")  # the reference of an ask
        places = await page.evaluate(OBJECTS)
        assert places == [
            ["applications", "a"],
            ["queues", "root.a"],
            None,
            ["system", ""],
            None,
            ["applications", "a"],
            None,
        ]
    for rm in rms:
        await rm.__aexit__(None, None, None)


async def test_an_allocation_is_one_event_with_its_node_and_amounts(web: Web) -> None:
    rm = await rm_with_work(web, "rm-1")
    async with tab(page_of(web)) as found:
        await found.open("events/rm-1?search=app")
        events = found.page.get_by_role("region", name="Events")
        row = events.get_by_role("row").filter(has_text="added").filter(has_text=" on n").first
        await row.wait_for()
        assert await row.get_by_role("link").all_inner_texts() == ["rm-1", "app", "n1"]
        assert "vcore " in await row.inner_text()
        assert await found.page.evaluate(PAIRS) == [["app", "n1", "k"], ["n1", None, None], ["app", None, None]]
    await rm.__aexit__(None, None, None)


# Newest first: the two records of an allocation; of another one, the record of the node alone; of a third, as above.
PAIRS = """async () => {
  const { allocationsOnce } = await import(new URL("event_objects.js", document.querySelector("script").src));
  const resource = { resources: { vcore: { value: 1000 } } };
  const of = (type, objectID, referenceID, timestampNano, resource) => ({
    type, objectID, referenceID, rmID: "r", timestampNano, eventChangeType: 2,
    eventChangeDetail: type === 3 ? 303 : 206, resource,
  });
  return allocationsOnce([
    of(2, "app", "u", 3, resource), of(3, "n1", "k", 3, resource),
    of(3, "n1", "k", 2, resource), of(2, "app", "u", 1, resource),
  ]).map(({ objectID, node, key }) => [objectID, node, key]);
}"""
# What event records name: an ask, a queue, a dead letter, a halt, a user.
# And what they refer to: of a queue, of a node.
OBJECTS = """async () => {
  const { objectOf, referenceOf } = await import(new URL("event_objects.js", document.querySelector("script").src));
  return [
    objectOf({ type: 1, objectID: "k", referenceID: "a", rmID: "r" }),
    objectOf({ type: 4, objectID: "root.a", rmID: "r" }),
    objectOf({ type: 1, objectID: "7", referenceID: "7", rmID: "r" }), objectOf({ objectID: "r", rmID: "r" }),
    objectOf({ type: 5, objectID: "alice", rmID: "r" }), referenceOf({ type: 4, objectID: "root.a", referenceID: "a" }),
    referenceOf({ type: 3, objectID: "n1", referenceID: "k" }),
  ];
}"""


async def test_the_keyboard_alone_leads_to_a_node(web: Web) -> None:
    """Tab to the map of nodes, arrows on it, Enter; then back and through the views."""
    rm = await rm_with_work(web, "rm-1")
    await rm.report_nodes([node(f"n{number}", vcore=1_000) for number in range(2, 90)])
    async with tab(page_of(web)) as found:
        page = found.page
        await found.open("nodes/rm-1")
        await found.shows("89")
        for _ in range(30):
            await page.keyboard.press("Tab")
            if await page.evaluate("document.activeElement.tagName") == "CANVAS":
                break
        known = [row["id"] for row in await _rows(web, "nodes")]
        shown = ""
        for key, at in (("ArrowRight", 0), ("ArrowRight", 1), ("ArrowLeft", 0), ("ArrowLeft", 0), ("ArrowDown", -1)):
            await page.keyboard.press(key)
            shown = str(await page.locator(".pointed").text_content())
            assert shown.startswith(f"{known[at]}:") if at >= 0 else known.index(shown.partition(":")[0]) > 1, key
        await page.keyboard.press("Enter")
        await page.get_by_role("heading", name=shown.partition(":")[0]).wait_for()
    await rm.__aexit__(None, None, None)


async def _rows(web: Web, kind: str) -> list[Row]:
    answer = await web.client.get(str(web.client.base_url.copy_with(path=f"/api/v1/rms/rm-1/{kind}")))
    return list(answer.json()["rows"])


async def _row(web: Web, kind: str, field: str, value: str) -> Row:
    return next(row for row in await _rows(web, kind) if row[field] == value)
