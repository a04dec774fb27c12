"""Follows the versions of the configuration on the bus, and knows what has to be true of them. Independent of the
service: it judges each entry of the bucket as it is put."""

from __future__ import annotations

from remuda_bus import subjects
from remuda_bus.memory import MemoryBus
from remuda_config.load import load
from remuda_config.problems import Invalid
from remuda_config.shell.version_store import FILE
from remuda_config.versions import EXPIRED as BY_DEADLINE
from remuda_config.versions import FILE as BY_EDIT
from remuda_config.versions import ROLLBACK as BY_ROLLBACK
from remuda_config.versions import Version, read_document

from .story import Story, Violation

Text = str


class VersionAuditor:
    """`edits`: texts that the file has had. `requested`: texts of updates, by the message of the request."""

    def __init__(self, server: MemoryBus, story: Story) -> None:
        self.edits: set[Text] = set()
        self.requested: dict[str, Text] = {}
        self.confirmed_by_operators: set[int] = set()
        self.versions: dict[int, tuple[Version, Text]] = {}
        self._server = server
        self._story = story

    @property
    def current(self) -> tuple[Version, Text] | None:
        return self.versions[max(self.versions)] if self.versions else None

    @property
    def checksum(self) -> str:
        """Of the text in force."""
        return load(self.current[1]).checksum if self.current is not None else ""

    async def follow(self) -> None:
        async for entry in self._server.watch(subjects.CONFIGURATIONS.name):
            if entry.key == FILE:
                if not entry.value:
                    raise Violation("the version in force was deleted")
                self._judge(*read_document(entry.value, entry.revision))

    def _judge(self, text: Text, version: Version) -> None:
        self._story.tell(f"version {version.number} by {version.origin} {version.by}: {version.message}")
        try:
            load(text)
        except Invalid as invalid:
            raise Violation(f"version {version.number} has problems: {invalid}") from invalid
        before = self.current
        if before is not None and version.number == before[0].number:
            self._judge_confirmation(*before, version, text)
        elif version.number != (before[0].number + 1 if before is not None else 1):
            raise Violation(f"version {version.number} follows {before}")
        else:
            self._judge_origin(version, text, before)
        self.versions[version.number] = (version, text)

    def _judge_confirmation(self, before: Version, text_before: Text, version: Version, text: Text) -> None:
        if text != text_before or not before.is_staged or version.is_staged:
            raise Violation(f"version {version.number} was {before} and is {version}")

    def _judge_origin(self, version: Version, text: Text, before: tuple[Version, Text] | None) -> None:
        staged = before is not None and before[0].is_staged
        match version.origin:
            case "file":
                if text not in self.edits:
                    raise Violation(f"version {version.number} by {BY_EDIT} never was in the file")
            case "expired":
                assert before is not None
                restored = self.versions.get(before[0].falls_back_to)
                if not staged or restored is None or text != restored[1]:
                    raise Violation(f"version {version.number} by {BY_DEADLINE} follows {before[0]}")
            case "rollback":
                if text != self.versions[version.restores][1]:
                    raise Violation(f"version {version.number} by {BY_ROLLBACK} is not version {version.restores}")
            case _:
                if staged or text != self.requested.get(version.message):
                    raise Violation(f"version {version.number} is of no request, or follows a staged one")

    def compare_answers(self, accepted: set[str], refused: set[str]) -> None:
        """By the messages of the requests."""
        made = {version.message for version, _ in self.versions.values()}
        if lost := accepted - made:
            raise Violation(f"accepted and not in the history: {sorted(lost)}")
        if also := refused & made:
            raise Violation(f"refused and in the history: {sorted(also)}")

    async def compare_history(self) -> None:
        """The copies: the newest versions, each as it was in force."""
        newest = max(self.versions, default=0)
        for number in range(max(1, newest - subjects.FILE_VERSIONS_KEPT + 1), newest):
            entry = await self._server.get(subjects.CONFIGURATION_VERSIONS.name, subjects.version_key(number))
            if entry is None or not entry.value:
                raise Violation(f"version {number} is not in the history")
            text, version = read_document(entry.value, 0)
            if (version, text) != self.versions[number]:
                raise Violation(f"version {number} in the history is {version}, was {self.versions[number][0]}")
