"""Answers ResolveConfiguration: the configuration of a registration or of an update."""

from __future__ import annotations

from functools import cache

from google.protobuf.message import DecodeError

from remuda_bus import subjects
from remuda_bus.bus import Bus, Message, Refused
from remuda_config import metrics
from remuda_config.defaults import Defaults
from remuda_config.extra_config import check_extra_config, timing_in
from remuda_config.file import check_size
from remuda_config.load import load
from remuda_config.problems import Invalid, Problem
from remuda_config.shell.active_configuration import ActiveConfiguration
from remuda_config.shell.assignments import AssignedConfiguration, Assignments
from remuda_config.shell.worker_pool import WorkerPool
from remuda_config.wire import problems_to_wire
from remuda_proto.remuda.v1 import config_pb2


class ConfigurationResolver:
    """Answers rmproxy with the configurations of RMs. `defaults`: for RMs and partitions that leave something open."""

    def __init__(
        self,
        bus: Bus,
        active: ActiveConfiguration | None,
        assignments: Assignments,
        pool: WorkerPool,
        defaults: Defaults,
    ) -> None:
        self._bus = bus
        self._active = active
        self._assignments = assignments
        self._pool = pool
        self._defaults = defaults

    async def answer(self, message: Message) -> bytes:
        """Answers a ResolveConfiguration with a ResolvedConfiguration, which has either the configuration or all
        problems. Raises Refused.
        """
        request = config_pb2.ResolveConfiguration()
        try:
            request.ParseFromString(message.payload)
            subjects.check_rm_id(request.rm_id)
        except (DecodeError, ValueError) as error:
            raise Refused(f"ResolveConfiguration: {error}") from error
        try:
            configuration = await self._resolve(request)
        except Invalid as error:
            metrics.RESOLVED.labels("refused").inc()
            return config_pb2.ResolvedConfiguration(problems=problems_to_wire(error.problems)).SerializeToString()
        metrics.RESOLVED.labels("accepted").inc()
        return config_pb2.ResolvedConfiguration(configuration=configuration).SerializeToString()

    async def _resolve(self, request: config_pb2.ResolveConfiguration) -> config_pb2.Configuration:
        problems = check_extra_config(request.extra_config)
        configuration, revision = config_pb2.Configuration(), 0
        try:
            chosen, revision = await self._choose(request)
            configuration.CopyFrom(chosen)
        except Invalid as error:
            problems = error.problems + problems
        if problems:
            raise Invalid(problems)
        configuration.revision = revision
        configuration.compatibility = request.extra_config.get("compatibility", self._defaults.compatibility)
        timing = timing_in(request.extra_config)
        self._defaults.apply(configuration, timing)
        assigned = AssignedConfiguration(
            revision, configuration.checksum, configuration.source, configuration.compatibility, timing
        )
        if request.config.strip():
            self._assignments.rm_versions.expect(request.rm_id, request.config, configuration.checksum)
        await self._assignments.note_answer(request.rm_id, assigned)
        return configuration

    async def _choose(self, request: config_pb2.ResolveConfiguration) -> tuple[config_pb2.Configuration, int]:
        """The configuration of the request's own text, else of the file, else the built-in one; and the revision of the
        file's text, else 0."""
        if request.config.strip():
            configuration = await self._pool.load(request.config, "registration")
            check_size(configuration, 0, self._bus.max_payload)
            return configuration, 0
        if self._active is None:
            return _built_in(), 0
        await self._active.loaded()
        if self._active.current is None:
            raise Invalid(self._active.problems or [Problem("", 0, f"{self._active.file} has not been read yet")])
        return self._active.current.configuration, self._active.current.number


@cache
def _built_in() -> config_pb2.Configuration:
    return load("")
