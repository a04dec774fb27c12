"""Versions of the configuration by API over a real NATS server: updates, history, rollback, staged changes."""

from __future__ import annotations

import asyncio
import getpass
import json
import os
import time

import pytest

from remuda_bus import subjects
from remuda_bus.bus import Refused
from remuda_config import checksum
from remuda_operations.operators import Operator
from services.config.tests.running_service import (
    BROKEN,
    eventually,
    inbox,
    is_active,
    join,
    limited,
    no_rm_waits,
    register,
    resolve,
    sent,
    service,
    stopped_clock,
)

OWNER = Operator(getpass.getuser())


async def change(bus, verb, operator=OWNER, **request):
    subject = subjects.configuration_change(operator.token, operator.groups_token, verb)
    return json.loads((await bus.request(subject, json.dumps(request).encode(), timeout_s=30)).payload)


async def query(bus, kind, **request):
    subject = subjects.configuration_query(kind)
    return json.loads((await bus.request(subject, json.dumps(request).encode(), timeout_s=30)).payload)


async def history(bus, **request):
    """(number, origin, operator) of all versions, the newest first."""
    found = (await query(bus, "history", **request))["versions"]
    return [(version["number"], version["origin"], version.get("by", "")) for version in found]


async def refused(code, coroutine) -> str:
    with pytest.raises(Refused) as caught:
        await coroutine
    assert caught.value.code == code, caught.value
    return caught.value.reason


async def test_an_update_is_in_force_in_the_file_and_in_the_history(server, bus, tmp_path):
    file = tmp_path / "queues.yaml"
    file.write_text(limited(1))
    file.chmod(0o640)
    async with service(server, file):
        await join(bus)
        made = await change(bus, "update", text=limited(2), message="more room", base=1)
        assert (made["version"]["number"], made["changed"], made["changes"]) == (
            2, True, ["root.a: maxapplications 1 → 2"],
        )  # fmt: skip
        assert file.read_text() == limited(2)
        assert file.stat().st_mode & 0o777 == 0o640
        assert await sent(bus, 1) == [2]
        assert (await query(bus, "get"))["text"] == limited(2)
        assert await history(bus) == [(2, "api", OWNER.name), (1, "file", "")]
        shown = (await query(bus, "show", version=2))["version"]
        assert (shown["message"], shown["changes"]) == ("more room", ["root.a: maxapplications 1 → 2"])
        assert shown["checksum"] == checksum(limited(2))
        # An edit of the file, and back: each is a version, and nothing is written back over it.
        file.write_text(limited(1))
        assert await sent(bus, 2) == [2, 1]
        assert await history(bus) == [(3, "file", ""), (2, "api", OWNER.name), (1, "file", "")]
        assert file.read_text() == limited(1)
        back = await change(bus, "rollback", version=2)
        assert (back["version"]["restores"], back["version"]["message"]) == (2, "back to version 2")
        assert file.read_text() == limited(2)
        compared = await query(bus, "diff", **{"from": 1, "to": 4})
        assert compared["changes"] == ["root.a: maxapplications 1 → 2"]
        assert "+" in {line[0] for line in compared["lines"]}
        assert sorted(os.listdir(tmp_path)) == ["nats", "queues.yaml"]
    async with service(server, file):  # a restart makes no version
        await eventually(lambda: no_rm_waits(bus))
        assert (await history(bus))[0] == (4, "rollback", OWNER.name)


async def test_the_text_an_update_was_made_from(server, bus, tmp_path):
    file = tmp_path / "queues.yaml"
    file.write_text(limited(1))
    async with service(server, file):
        based = f"checksum: {checksum(limited(1))}\n"
        assert (await change(bus, "update", text=based + limited(2)))["version"]["number"] == 2
        assert file.read_text() == limited(2)
        assert "with checksum" in await refused(409, change(bus, "update", text=based + limited(3)))
        assert "version 2 is in force" in await refused(409, change(bus, "update", text=limited(3), base=1))
        assert not (await change(bus, "update", text=limited(2), base=2))["changed"]
        assert (await query(bus, "get"))["version"]["number"] == 2


async def test_problems_of_an_update_change_nothing(server, bus, tmp_path):
    file = tmp_path / "queues.yaml"
    file.write_text(limited(1))
    async with service(server, file):
        answer = await change(bus, "update", text=BROKEN)
        assert [(one["path"], one["line"]) for one in answer["problems"]] == [("colour", 7), ("size", 8)]
        assert (await change(bus, "update", text="a: [\n"))["problems"][0]["line"] == 2
        assert (await change(bus, "update", text=" \n"))["problems"]
        assert (await query(bus, "check", text=BROKEN))["valid"] is False
        assert (await query(bus, "check", text=limited(5)))["checksum"] == checksum(limited(5))
        for request in ({}, {"text": 7}, {"text": limited(2), "base": "x"}, {"text": limited(2), "for_ms": 1}):
            await refused(400, change(bus, "update", **request))
        await refused(400, change(bus, "update", text=limited(2), message="m" * 1_001))
        await refused(404, change(bus, "rollback", version=9))
        await refused(404, query(bus, "show", version=9))
        await refused(409, change(bus, "confirm"))
        assert await history(bus) == [(1, "file", "")]
        assert file.read_text() == limited(1)


async def test_edits_keep_the_rest_of_the_text(server, bus, tmp_path):
    file = tmp_path / "queues.yaml"
    text = limited(1) + "# the end\n"
    file.write_text(text)
    async with service(server, file):
        await change(bus, "update", edits=[{"do": "set", "queue": "root.a", "key": "maxapplications", "value": "7"}])
        assert file.read_text() == text.replace("maxapplications: 1", "maxapplications: 7")
        wrong = [{"do": "set", "queue": "root.z", "key": "maxapplications", "value": "7"}]
        assert "'root.z'" in await refused(400, change(bus, "update", edits=wrong))


async def test_who_may_change_it(server, bus, tmp_path):
    file = tmp_path / "queues.yaml"
    file.write_text(
        "partitions: [{name: default, queues: [{name: root, adminacl: 'ann admins', queues: [{name: a}]}]}]"
    )
    async with service(server, file, scheduler_acl="sam ops"):
        may = [OWNER, Operator("sam"), Operator("x", ("ops",)), Operator("ann"), Operator("y", ("admins",))]
        for number, operator in enumerate(may, 2):
            edits = [{"do": "set", "queue": "root.a", "key": "maxapplications", "value": str(number)}]
            made = await change(bus, "update", operator, edits=edits)
            assert (made["version"]["number"], made["version"]["by"]) == (number, operator.name)
        for operator in (Operator("eve"), Operator("eve", ("sam", "ann"))):
            for verb in ("update", "rollback", "confirm"):
                assert "eve may not" in await refused(403, change(bus, verb, operator, text=limited(1), version=1))


async def test_a_staged_change(server, bus, tmp_path):
    file = tmp_path / "queues.yaml"
    file.write_text(limited(1))
    async with service(server, file):
        await join(bus)
        made = await change(bus, "update", text=limited(2), for_ms=60_000)
        assert made["version"]["falls_back_to"] == 1
        assert "staged" in await refused(409, change(bus, "update", text=limited(3)))
        assert file.read_text() == limited(2)
        assert (await change(bus, "confirm", version=2))["version"]["confirmed_by"] == OWNER.name
        await refused(409, change(bus, "confirm"))
        await change(bus, "update", text=limited(5), for_ms=60_000)
        await change(bus, "rollback", version=2)
        assert file.read_text() == limited(2)
        await change(bus, "update", text=limited(6), for_ms=60_000)
        file.write_text(limited(7))  # an edit of the file ends it
        await eventually(lambda: is_active(bus, limited(7)))
        versions = (await query(bus, "history"))["versions"]
        assert versions[0]["message"] == "ends the staged version 5"
        await refused(409, change(bus, "confirm"))


async def test_a_staged_change_that_nobody_confirms(server, bus, tmp_path):
    file = tmp_path / "queues.yaml"
    file.write_text(limited(1))
    async with service(server, file):
        await join(bus)
        await change(bus, "update", text=limited(2), for_ms=1_000)
        assert await sent(bus, 2) == [2, 1]
        await eventually(lambda: file.read_text() == limited(1))
        assert [one[1] for one in await history(bus)] == ["expired", "api", "file"]


async def test_the_deadline_of_a_staged_change_survives_a_restart(server, bus, tmp_path):
    file = tmp_path / "queues.yaml"
    file.write_text(limited(1))
    async with service(server, file):
        await change(bus, "update", text=limited(2), for_ms=1_000)
    await asyncio.sleep(1.0)  # the deadline is a time of day
    async with service(server, file):
        await eventually(lambda: is_active(bus, limited(1)))
        await eventually(lambda: file.read_text() == limited(1))
        assert [one[1] for one in await history(bus)] == ["expired", "api", "file"]


@pytest.mark.parametrize("verb", ["confirm", "update"])
async def test_a_staged_change_that_cannot_be_rolled_back_is_confirmed_or_replaced(server, bus, tmp_path, verb):
    """The version before it is gone, so it stays in force behind its deadline."""
    file = tmp_path / "queues.yaml"
    file.write_text(limited(1))
    async with service(server, file):
        await join(bus)
        with stopped_clock():
            made = await change(bus, "update", text=limited(2), for_ms=1_000)
            await bus.delete(subjects.CONFIGURATION_VERSIONS.name, subjects.version_key(1))
        request = {"text": limited(3)} if verb == "update" else {"version": 2}
        await eventually(lambda: time.time() * 1_000 > made["version"]["until_ms"])
        await change(bus, verb, **request)
        newest = (await query(bus, "history"))["versions"][0]
        expected = (3, "", limited(3)) if verb == "update" else (2, OWNER.name, limited(2))
        assert (newest["number"], newest.get("confirmed_by", ""), (await query(bus, "get"))["text"]) == expected
        await eventually(lambda: file.read_text() == expected[2])


async def test_a_staged_change_that_cannot_be_rolled_back_is_written_although_its_time_is_over(
    server, bus, tmp_path, monkeypatch
):
    file = tmp_path / "queues.yaml"
    file.write_text(limited(1))
    monkeypatch.setattr("remuda_config.limits.IN_FORCE_S", -1.0)  # as if the bus answered late
    async with service(server, file):
        with stopped_clock():
            made = await change(bus, "update", text=limited(2), for_ms=1_000)
            await bus.delete(subjects.CONFIGURATION_VERSIONS.name, subjects.version_key(1))
        assert file.read_text() == limited(1)
        await eventually(lambda: time.time() * 1_000 > made["version"]["until_ms"])
        monkeypatch.undo()
        (tmp_path / "other").write_text("")  # a change in the directory: the file is read again
        await eventually(lambda: file.read_text() == limited(2))


async def test_no_change_replaces_a_staged_one_that_cannot_be_rolled_back_before_its_deadline(server, bus, tmp_path):
    file = tmp_path / "queues.yaml"
    file.write_text(limited(1))
    async with service(server, file):
        await join(bus)
        await change(bus, "update", text=limited(2), for_ms=60_000)
        await bus.delete(subjects.CONFIGURATION_VERSIONS.name, subjects.version_key(1))
        assert "confirm it" in await refused(409, change(bus, "update", text=limited(3)))


async def test_two_writers_at_once(server, bus, tmp_path):
    file = tmp_path / "queues.yaml"
    file.write_text(limited(1))
    async with service(server, file), service(server, file):
        done = await asyncio.gather(
            *(change(bus, "update", text=limited(count), base=1) for count in (2, 3, 4)), return_exceptions=True
        )
        winners = [one for one in done if not isinstance(one, Exception)]
        assert len(winners) == 1
        assert all(isinstance(one, Refused) and one.code == 409 for one in done if one not in winners)
        text = (await query(bus, "get"))["text"]
        await eventually(lambda: file.read_text() == text)
        assert [one[:2] for one in await history(bus)] == [(2, "api"), (1, "file")]


async def test_versions_of_the_texts_that_an_rm_brings(server, bus, tmp_path):
    async with service(server):
        await refused(409, change(bus, "update", text=limited(2)))
        await resolve(bus, config=limited(1))
        assert await history(bus, rm="rm-1") == []  # it is not registered yet
        await register(bus, source="registration")

        async def numbers(count):
            return len(await history(bus, rm="rm-1")) == count

        await eventually(lambda: numbers(1))
        for count in (1, 2):
            await resolve(bus, config=limited(count))
        await eventually(lambda: numbers(2))
        assert await history(bus, rm="rm-1") == [(2, "rm", "rm-1"), (1, "rm", "rm-1")]
        for count in range(3, 12):
            await resolve(bus, config=limited(count))
        assert [number for number, _, _ in await history(bus, rm="rm-1")] == list(range(11, 3, -1))
        assert (await query(bus, "show", rm="rm-1", version=5))["text"] == limited(5)


async def test_the_oldest_versions_go(server, bus, tmp_path, monkeypatch):
    monkeypatch.setattr(subjects, "FILE_VERSIONS_KEPT", 4)
    file = tmp_path / "queues.yaml"
    file.write_text(limited(1))
    async with service(server, file):
        for count in range(2, 9):
            await change(bus, "update", text=limited(count))
        assert [number for number, _, _ in await history(bus)] == [8, 7, 6, 5]
        await refused(404, query(bus, "show", version=4))
        assert (await query(bus, "show", version=5))["text"] == limited(5)


async def test_a_stored_text_of_an_earlier_remuda_is_a_version(server, bus, tmp_path):
    file = tmp_path / "queues.yaml"
    file.write_text(limited(1))
    stored = {"text": limited(1), "source": str(file), "checksum": checksum(limited(1))}
    await bus.put(subjects.CONFIGURATIONS.name, "rm.rm-9", b"{}")
    revision = await bus.put(subjects.CONFIGURATIONS.name, "file", json.dumps(stored).encode())
    async with service(server, file):
        assert await history(bus) == [(revision, "file", "")]
        await change(bus, "update", text=limited(2))
        assert [number for number, _, _ in await history(bus)] == [revision + 1, revision]
        assert (await query(bus, "show", version=revision))["text"] == limited(1)
        assert await inbox(bus) == []
