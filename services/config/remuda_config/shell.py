"""The configuration service: answers what configuration an RM runs under, and hands out the file's whenever it changes.

`settle` compares what every RM has with what is in force and sends the difference: it is run after whatever may have
changed either, and every few seconds, so nothing that fails once stays undone.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal

import structlog
from google.protobuf.message import DecodeError

from remuda_bus import health, subjects
from remuda_bus.bus import Bus, BusError, Entry, Message, Refused
from remuda_bus.process import Settings
from remuda_config import limits
from remuda_config.build import BUILT_IN, checksum
from remuda_config.load import TIMES, check_extra, load, timing
from remuda_config.problems import Invalid, Problem
from remuda_config.standing import Standing, too_large
from remuda_config.watching import moments
from remuda_proto.remuda.v1 import config_pb2, inbox_pb2

log = structlog.get_logger()


class ConfigSettings(Settings):
    """REMUDA_COMPATIBILITY: what RMs get that do not ask for one themselves (`extraConfig["compatibility"]`)."""

    compatibility: Literal["none", "yunikorn-1.4"] = "none"


@dataclass(frozen=True, slots=True)
class Rm:
    """An entry of the bucket RMS, written by rmproxy."""

    rm_id: str
    policy_group: str
    config_source: str
    state: str
    revision: int

    @property
    def takes_file(self) -> bool:
        """Whoever has sent no text takes the file, also one that is there since the RM has registered. Before that its
        registration is still on its way, and brings the configuration along."""
        return self.config_source in ("file", "built-in") and self.state == "registered"


@dataclass(frozen=True, slots=True)
class Given:
    """What an RM was given last, as an answer or sent, as kept in the bucket. `revision`: of the file's text, or 0."""

    revision: int = 0
    checksum: str = ""
    source: str = ""
    compatibility: str = "none"
    # As in its `extraConfig`.
    timing: Mapping[str, str] = field(default_factory=dict)


async def main(bus: Bus, settings: Settings, file: Path | None = None) -> None:
    """Serve until cancelled. Without a file, RMs that bring no configuration get the built-in default."""
    own = settings if isinstance(settings, ConfigSettings) else ConfigSettings()
    service = Service(bus, Standing(bus, file) if file else None, own.compatibility)
    await service.begin()
    await bus.serve(subjects.RESOLVE_CONFIGURATION, service.answer_resolve, "resolve")
    await bus.serve(subjects.CURRENT_CONFIGURATIONS, service.answer_current, "current")
    health.OWN.say("answers which configuration an RM has")
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(service.follow_rms())
        if file is not None:
            tasks.create_task(service.follow_file(file))


class Service:
    def __init__(self, bus: Bus, standing: Standing | None, compatibility: str) -> None:
        self._bus = bus
        self._standing = standing
        self._compatibility = compatibility
        self._rms: dict[str, Rm] = {}
        self._given: dict[str, Given] = {}
        self._answered: dict[str, Given] = {}  # on its way to an RM with its registration
        self._settling = asyncio.Lock()

    async def begin(self) -> None:
        if self._standing is None:
            log.info("no configuration file", default="built-in", checksum=checksum(BUILT_IN))
            return
        await self._standing.restore()
        await self._standing.look()

    # Answers.

    async def answer_resolve(self, message: Message) -> bytes:
        """ResolveConfiguration -> ResolvedConfiguration, which holds a configuration or all problems."""
        request = config_pb2.ResolveConfiguration()
        try:
            request.ParseFromString(message.payload)
            subjects.check_rm_id(request.rm_id)
        except (DecodeError, ValueError) as error:
            raise Refused(f"ResolveConfiguration: {error}") from error
        try:
            configuration = await self._resolve(request)
        except Invalid as error:
            return config_pb2.ResolvedConfiguration(problems=_spell(error.problems)).SerializeToString()
        return config_pb2.ResolvedConfiguration(configuration=configuration).SerializeToString()

    async def _resolve(self, request: config_pb2.ResolveConfiguration) -> config_pb2.Configuration:
        compatibility = request.extra_config.get("compatibility", self._compatibility)
        times = {key: value for key, value in request.extra_config.items() if key in TIMES}
        problems = check_extra(request.extra_config)
        configuration, revision = config_pb2.Configuration(), 0
        try:
            configuration, revision = await self._choose(request)
        except Invalid as error:
            problems = error.problems + problems
        if problems:
            raise Invalid(problems)
        configuration.compatibility = compatibility
        if times:
            configuration.timing.CopyFrom(timing(times)[0])
        given = Given(revision, configuration.checksum, configuration.source, compatibility, times)
        self._answered[request.rm_id] = given
        await self._put(request.rm_id, given)
        return configuration

    async def _choose(self, request: config_pb2.ResolveConfiguration) -> tuple[config_pb2.Configuration, int]:
        """A configuration of its own to write into, and the revision when it is the file's."""
        if request.config.strip():
            configuration = await asyncio.to_thread(load, request.config, "registration")
            if problem := too_large(configuration, 0, self._bus.max_payload):
                raise Invalid([problem])
            return configuration, 0
        if self._standing is None:
            return load(""), 0
        if self._standing.in_force is None:
            raise Invalid(self._standing.problems or [Problem("", 0, f"{self._standing.file} has not been read yet")])
        copy = config_pb2.Configuration()
        copy.CopyFrom(self._standing.in_force.configuration)
        return copy, self._standing.in_force.revision

    async def answer_current(self, _message: Message) -> bytes:
        """JSON of what is in force for whom, and what is wrong with the file; for people."""
        standing = self._standing
        in_force = standing.in_force if standing else None
        answer = {
            "built_in": checksum(BUILT_IN),
            "compatibility": self._compatibility,
            "file": standing
            and {
                "path": str(standing.file),
                "checksum": in_force and in_force.configuration.checksum,
                "revision": in_force and in_force.revision,
                "problems": [asdict(problem) for problem in standing.problems[: limits.MAX_PROBLEMS]],
            },
            "rms": [await self._describe(rm) for _, rm in sorted(self._rms.items())],
        }
        return json.dumps(answer).encode()

    async def _describe(self, rm: Rm) -> dict[str, object]:
        given = await self._given_to(rm.rm_id)
        entry = {name: value for name, value in asdict(rm).items() if name != "revision"}
        return {**entry, **asdict(given), "waits": rm.takes_file and given.revision != self._revision()}

    # What changes by itself.

    async def follow_rms(self) -> None:
        async for entry in self._bus.watch(subjects.RMS.name):
            rm = _read_rm(entry)
            if rm is None:
                self._rms.pop(subjects.rm_of_key(entry.key), None)
                continue
            self._rms[rm.rm_id] = rm
            # What came with a registration is what the RM has, also when something newer was sent before it.
            arrived = self._answered.pop(rm.rm_id, None) if rm.state == "registered" else None
            await self._settle([rm], arrived)

    async def follow_file(self, file: Path) -> None:
        assert self._standing is not None
        async for _ in moments(file):
            try:
                await self._standing.look()
            except BusError as error:
                log.warning("the configuration cannot be kept, trying again", error=str(error))
            await self._settle(list(self._rms.values()))

    async def _settle(self, rms: list[Rm], arrived: Given | None = None) -> None:
        """Send what is in force to those that take the file and have another text."""
        async with self._settling:
            for rm in rms:
                try:
                    if arrived is not None:
                        await self._put(rm.rm_id, arrived)
                    if rm.takes_file:
                        await self._send(rm)
                except BusError as error:
                    log.warning("configuration not handed out, trying again", rm=rm.rm_id, error=str(error))

    async def _send(self, rm: Rm) -> None:
        rm_id = rm.rm_id
        in_force = self._standing.in_force if self._standing else None
        if in_force is None or (await self._given_to(rm_id)).revision == in_force.revision:
            return
        given = await self._given_to(rm_id, afresh=True)  # another config service may have been faster
        if given.revision == in_force.revision:
            return
        command = inbox_pb2.Command()
        command.configure.rm_id = rm_id
        command.configure.configuration.CopyFrom(in_force.configuration)
        command.configure.configuration.compatibility = given.compatibility
        if given.timing:
            command.configure.configuration.timing.CopyFrom(timing(given.timing)[0])
        # The same after a restart and from every config service, so that the stream keeps one of them; another one
        # after the RM has registered again.
        msg_id = f"configure.{rm_id}.{in_force.revision}.{rm.revision}"
        await self._bus.append(subjects.inbox(rm_id), command.SerializeToString(), msg_id=msg_id)
        configuration = in_force.configuration
        await self._put(
            rm_id,
            replace(given, revision=in_force.revision, checksum=configuration.checksum, source=configuration.source),
        )
        log.info("configuration handed out", rm=rm_id, revision=in_force.revision, checksum=configuration.checksum)

    def _revision(self) -> int:
        return self._standing.in_force.revision if self._standing and self._standing.in_force else 0

    # What RMs have, in the bucket.

    async def _given_to(self, rm_id: str, afresh: bool = False) -> Given:
        if afresh or rm_id not in self._given:
            entry = await self._bus.get(subjects.CONFIGURATIONS.name, _key(rm_id))
            kept = json.loads(entry.value) if entry is not None and entry.value is not None else None
            self._given[rm_id] = Given(**kept) if kept else Given(compatibility=self._compatibility)
        return self._given[rm_id]

    async def _put(self, rm_id: str, given: Given) -> None:
        if self._given.get(rm_id) == given:
            return
        await self._bus.put(subjects.CONFIGURATIONS.name, _key(rm_id), json.dumps(asdict(given)).encode())
        self._given[rm_id] = given


def _key(rm_id: str) -> str:
    return f"rm.{subjects.key_of(rm_id)}"


def _read_rm(entry: Entry) -> Rm | None:
    if entry.value is None:
        return None
    try:
        value = json.loads(entry.value)
    except ValueError as error:  # one bad entry must not stop the service for all others
        log.warning("unreadable entry of an RM", key=entry.key, error=str(error))
        return None
    return Rm(
        rm_id=subjects.rm_of_key(entry.key),
        policy_group=value.get("policy_group", ""),
        config_source=value.get("config_source", ""),
        state=value.get("state", "registered"),
        revision=entry.revision,
    )


def _spell(problems: list[Problem]) -> list[config_pb2.ConfigurationProblem]:
    spelt = [
        config_pb2.ConfigurationProblem(path=problem.path, line=problem.line, message=problem.message)
        for problem in problems[: limits.MAX_PROBLEMS]
    ]
    if len(problems) > limits.MAX_PROBLEMS:
        spelt.append(config_pb2.ConfigurationProblem(message=f"and {len(problems) - limits.MAX_PROBLEMS} more"))
    return spelt
