"""The process of the configuration service: answers which configuration an RM gets, and distributes the file's."""

from __future__ import annotations

import asyncio
from pathlib import Path

import structlog

from remuda_bus import health, subjects
from remuda_bus.bus import Bus
from remuda_config import metrics
from remuda_config.build import BUILT_IN, checksum
from remuda_config.shell.access import ConfigurationAccess
from remuda_config.shell.active_configuration import ActiveConfiguration
from remuda_config.shell.api import ConfigurationApi
from remuda_config.shell.assignments import Assignments
from remuda_config.shell.distributor import Distributor
from remuda_config.shell.resolver import ConfigurationResolver
from remuda_config.shell.settings import ConfigSettings
from remuda_config.shell.status import answer_current
from remuda_config.shell.version_watch import end_stages, follow_versions
from remuda_config.shell.worker_pool import WorkerPool
from remuda_replication.process import Settings

log = structlog.get_logger()


async def main(bus: Bus, settings: Settings, file: Path | None = None) -> None:
    """Serves until cancelled. `file`: instead of the file of the settings. Without a file, RMs that bring no
    configuration get the built-in default.
    """
    own = settings if isinstance(settings, ConfigSettings) else ConfigSettings()
    file, defaults = file or own.queues_file, own.defaults()
    async with WorkerPool() as pool:
        active = ActiveConfiguration(bus, file, pool) if file else None
        metrics.VERSION.set_function(lambda: active.current.number if active and active.current else 0)
        metrics.PROBLEMS.set_function(lambda: len(active.problems) if active else 0)
        if active is None:
            log.info("no configuration file", default="built-in", checksum=checksum(BUILT_IN))
        assignments = Assignments(bus, defaults.compatibility)
        resolver = ConfigurationResolver(bus, active, assignments, pool, defaults)
        distributor = Distributor(bus, active, assignments, defaults)
        # Each process answers, since one of them may hang. The first answer counts.
        await bus.serve(subjects.RESOLVE_CONFIGURATION, resolver.answer, "resolve", lambda: True)
        await bus.serve(
            subjects.CURRENT_CONFIGURATIONS,
            lambda _: answer_current(active, assignments, own.compatibility),
            "current",
            lambda: True,
        )
        api = ConfigurationApi(
            active, pool, assignments.rm_versions, ConfigurationAccess(own.scheduler_administrators())
        )
        for kind in api.queries:
            await bus.serve(subjects.configuration_query(kind), api.answer, kind, lambda: True)
        # One process makes a change.
        await bus.serve(subjects.configuration_change("*", "*", "*"), api.change, "change")
        # Requests that arrive before are answered as soon as the file is loaded.
        if active is not None:
            await active.load()
        health.PROCESS_HEALTH.set_status("answers which configuration an RM has")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(distributor.follow_rms())
            if file is not None and active is not None:
                tasks.create_task(distributor.follow_file(file))
                tasks.create_task(distributor.follow_active())
                tasks.create_task(follow_versions(bus, active))
                tasks.create_task(end_stages(active))
