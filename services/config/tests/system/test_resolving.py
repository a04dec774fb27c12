"""Answers of the service to ResolveConfiguration, over a real NATS server."""

from __future__ import annotations

import asyncio

import pytest

import remuda_config
from remuda_bus import subjects
from remuda_bus.bus import Message, Refused
from remuda_config import limits
from remuda_config.defaults import Defaults
from remuda_config.shell.active_configuration import ActiveConfiguration
from remuda_config.shell.assignments import Assignments
from remuda_config.shell.resolver import ConfigurationResolver
from remuda_config.shell.worker_pool import WorkerPool
from remuda_proto.remuda.v1 import config_pb2
from services.config.tests.running_service import (
    BROKEN,
    applications,
    current,
    eventually,
    limited,
    resolve,
    resolved,
    service,
)


async def test_without_a_file(server, bus):
    async with service(server, compatibility="yunikorn-1.4"):
        answer = await resolve(bus)
        assert answer.configuration == remuda_config.load("", compatibility="yunikorn-1.4")
        own = await resolve(bus, config=limited(3), compatibility="none")
        assert (own.configuration.source, own.configuration.compatibility) == ("registration", "none")
        assert applications(own.configuration) == 3
        assert (await current(bus))["file"] is None


async def test_problems_of_a_registration_come_all_at_once(server, bus):
    async with service(server):
        answer = await resolve(bus, config=BROKEN, compatibility="yunikorn-0.1", **{"queues.yaml": "x"})
        assert [(problem.path, problem.line) for problem in answer.problems] == [
            ("colour", 7),
            ("size", 8),
            ('extraConfig["queues.yaml"]', 0),
            ("extraConfig.compatibility", 0),
        ]
        assert not answer.HasField("configuration")
        with pytest.raises(Refused, match="ResolveConfiguration"):
            await bus.request(subjects.RESOLVE_CONFIGURATION, b"\xff\xff")
        with pytest.raises(Refused, match="rmID"):
            await resolve(bus, rm_id="a b")


async def test_broken_at_the_first_start(server, bus, tmp_path):
    file = tmp_path / "queues.yaml"
    file.write_text(BROKEN)
    async with service(server, file):
        assert [problem.path for problem in (await resolve(bus)).problems] == ["colour", "size"]
        assert applications((await resolve(bus, "rm-2", config=limited(7))).configuration) == 7
        file.write_text(limited(1))
        await eventually(lambda: resolved(bus, 1))


async def test_missing_at_the_first_start(server, bus, tmp_path):
    file = tmp_path / "folder" / "queues.yaml"
    async with service(server, file):
        assert ["cannot be read" in problem.message for problem in (await resolve(bus)).problems] == [True]
        file.parent.mkdir()
        file.write_text(limited(1))
        await eventually(lambda: resolved(bus, 1))


async def test_an_rm_without_a_record_leaves_no_entry(server, bus, monkeypatch):
    monkeypatch.setattr(limits, "ANSWERS_KEPT", 10)
    assignments = Assignments(bus, "none")
    async with WorkerPool() as pool:
        resolver = ConfigurationResolver(bus, None, assignments, pool, Defaults())
        for number in range(30):
            request = config_pb2.ResolveConfiguration(rm_id=f"rm-{number}")
            await resolver.answer(Message(subjects.RESOLVE_CONFIGURATION, request.SerializeToString()))
            key = subjects.configuration_key(f"rm-{number}")
            assert await bus.get(subjects.CONFIGURATIONS.name, key) is None
    assert len(assignments._answers) == 10
    assert not assignments._assigned


async def test_requests_wait_until_the_file_is_loaded(server, bus, tmp_path):
    file = tmp_path / "queues.yaml"
    file.write_text(limited(1))
    async with WorkerPool() as pool:
        active = ActiveConfiguration(bus, file, pool)
        resolver = ConfigurationResolver(bus, active, Assignments(bus, "none"), pool, Defaults())
        request = config_pb2.ResolveConfiguration(rm_id="rm-1").SerializeToString()
        answer = asyncio.create_task(resolver.answer(Message(subjects.RESOLVE_CONFIGURATION, request)))
        await asyncio.sleep(0)
        assert not answer.done()
        await active.load()
        assert applications(config_pb2.ResolvedConfiguration.FromString(await answer).configuration) == 1
