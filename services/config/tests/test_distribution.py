"""Which RMs the active configuration is sent to, and when, over a real NATS server."""

from __future__ import annotations

import json

import structlog

from remuda_bus import subjects
from services.config.tests.running_service import (
    BROKEN,
    answers,
    applications,
    eventually,
    inbox,
    is_active,
    is_on_record,
    join,
    limited,
    no_rm_waits,
    problems_of_file,
    register,
    resolve,
    resolved,
    sent,
    service,
)


async def test_a_valid_change_is_sent_to_rms_that_use_the_file(server, bus, tmp_path):
    file = tmp_path / "queues.yaml"
    file.write_text(limited(1))
    async with service(server, file):
        assert applications(await join(bus, "rm:1", compatibility="yunikorn-1.4")) == 1
        await register(bus, "rm-2", source="registration")
        await eventually(lambda: is_on_record(bus, "rm-2"))
        with structlog.testing.capture_logs() as logs:
            file.write_text(limited(2))
            assert await sent(bus, 1, "rm:1") == [2]
        activated = next(entry for entry in logs if entry["event"] == "configuration activated")
        assert activated["changes"] == ["root.a: maxapplications 1 → 2"]
        (configure,) = await inbox(bus, "rm:1")
        assert (configure.rm_id, configure.configuration.compatibility) == ("rm:1", "yunikorn-1.4")
        assert configure.configuration.source == str(file)
        # The same text again later is another change.
        file.write_text(limited(1))
        assert await sent(bus, 2, "rm:1") == [2, 1]
        file.write_text(limited(2))
        assert await sent(bus, 3, "rm:1") == [2, 1, 2]
        assert await inbox(bus, "rm-2") == []


async def test_restarts(server, bus, tmp_path):
    file = tmp_path / "queues.yaml"
    file.write_text(limited(1))
    async with service(server, file):
        await join(bus)
        file.write_text(limited(2))
        assert await sent(bus, 1) == [2]
        await eventually(lambda: no_rm_waits(bus))
    file.write_text(BROKEN)
    async with service(server, file):  # broken meanwhile: the stored text stays active
        assert await resolved(bus, 2)
        await eventually(lambda: is_on_record(bus))
        assert await no_rm_waits(bus)
        assert await problems_of_file(bus)
    file.write_text(limited(3))
    async with service(server, file):  # changed meanwhile
        assert await sent(bus, 2) == [2, 3]
        await eventually(lambda: no_rm_waits(bus))
    async with service(server, file):  # nothing happened meanwhile
        await eventually(lambda: is_on_record(bus))
        assert await no_rm_waits(bus)
    assert len(await inbox(bus)) == 2


async def test_two_services_send_one_message(server, bus, tmp_path):
    file = tmp_path / "queues.yaml"
    file.write_text(limited(1))
    async with service(server, file), service(server, file):
        await join(bus)
        for count in (2, 3, 4):
            file.write_text(limited(count))
            await sent(bus, count - 1)
            await eventually(lambda: no_rm_waits(bus))
        assert await sent(bus, 3) == [2, 3, 4]


async def test_a_registration_under_way_is_not_overtaken(server, bus, tmp_path):
    file = tmp_path / "queues.yaml"
    file.write_text(limited(1))
    async with service(server, file):
        await join(bus, state="registering")
        file.write_text(limited(2))
        await eventually(lambda: is_active(bus, limited(2)))
        assert await inbox(bus) == []
        await register(bus)
        assert await sent(bus, 1) == [2]


async def test_a_registration_does_not_bring_an_old_text_back(server, bus, tmp_path):
    file = tmp_path / "queues.yaml"
    file.write_text(limited(1))
    async with service(server, file):
        await join(bus)
        await resolve(bus)  # it registers again
        file.write_text(limited(2))
        assert await sent(bus, 1) == [2]
        await register(bus)  # and what it brings along arrives only now
        assert await sent(bus, 2) == [2, 2]


async def test_the_entry_of_an_rm_goes_with_its_record(server, bus, tmp_path):
    file = tmp_path / "queues.yaml"
    file.write_text(limited(1))
    key = subjects.configuration_key("rm-1")
    async with service(server, file):
        await resolve(bus, compatibility="yunikorn-1.4")
        assert await bus.get(subjects.CONFIGURATIONS.name, key) is None
        await register(bus, state="registering")

        async def kept() -> bytes | None:
            entry = await bus.get(subjects.CONFIGURATIONS.name, key)
            return None if entry is None else entry.value

        assert json.loads(await eventually(kept))["compatibility"] == "yunikorn-1.4"
        await bus.delete(subjects.RMS.name, "rm-1")  # the core has refused it, and rmproxy was killed at this moment

        async def gone() -> bool:
            return await kept() is None

        await eventually(gone)


async def test_an_rm_without_an_entry_keeps_the_settings_of_its_registration(server, bus, tmp_path):
    file = tmp_path / "queues.yaml"
    file.write_text(limited(1))
    async with service(server, file):
        extra = {"compatibility": "yunikorn-1.4", "timing.completing": "7s"}
        await register(bus, extra_config=extra)
        assert await sent(bus, 1) == [1]
        (configure,) = await inbox(bus)
        assert configure.configuration.compatibility == "yunikorn-1.4"
        assert configure.configuration.timing.completing_ms == 7_000


async def test_a_change_while_the_server_is_down(server, bus, tmp_path):
    file = tmp_path / "queues.yaml"
    file.write_text(limited(1))
    async with service(server, file):
        await join(bus)
        await server.kill()
        file.write_text(limited(2))
        await server.start()
        await eventually(lambda: answers(bus))
        assert await sent(bus, 1) == [2]


async def test_an_unreadable_record_does_not_affect_other_rms(server, bus, tmp_path):
    file = tmp_path / "queues.yaml"
    file.write_text(limited(1))
    await bus.put(subjects.RMS.name, "rm-0", b"{")
    async with service(server, file):
        await register(bus)
        await eventually(lambda: is_on_record(bus))
        assert await sent(bus, 1) == [1]  # it had nothing yet


async def test_a_registration_with_an_older_version_gets_the_newest(server, bus, tmp_path):
    """A service that has crashed since, or that is behind, has answered the registration."""
    file = tmp_path / "queues.yaml"
    file.write_text(limited(1))
    async with service(server, file):
        first = await join(bus)
        file.write_text(limited(2))
        assert await sent(bus, 1) == [2]
        await eventually(lambda: no_rm_waits(bus))
        await register(bus, checksum=first.checksum, registration=2)
        assert await sent(bus, 2) == [2, 2]
        await eventually(lambda: no_rm_waits(bus))
        (configure, again) = await inbox(bus)
        assert configure.configuration.revision == again.configuration.revision == 2
        await register(bus, checksum=again.configuration.checksum, registration=3)
        file.write_text(limited(3))
        assert await sent(bus, 3) == [2, 2, 3]
