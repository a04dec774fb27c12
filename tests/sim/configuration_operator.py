"""Those who change the configuration: an operator, by requests to the configuration service, and an editor of the
file."""

from __future__ import annotations

import asyncio
import json
from random import Random
from typing import Any

from remuda_bus import subjects
from remuda_bus.bus import Bus, BusError, Refused
from remuda_operations.operators import NO_GROUPS

from .lies import INVALID
from .operator import INTERNAL, NAME, NOBODY, WRONG
from .queues_file import QueuesFile
from .resource_manager import CONFIGURATIONS
from .story import Story, Violation
from .version_auditor import VersionAuditor

PACE_S = (0.3, 1.0, 3.0)
TIMEOUT_S = 4.0
FOR_MS = (1_000, 4_000)
FORBIDDEN = 403
DISK_FULL_S = 3.0


class ConfigurationOperator:
    """`accepted`, `refused`: the messages of updates and rollbacks, by the answer. One without an answer is in neither.
    `broken`: text of the present content of the file that is refused."""

    def __init__(self, random: Random, story: Story, file: QueuesFile, audited: VersionAuditor) -> None:
        self.resting = False
        self.accepted: set[str] = set()
        self.refused: set[str] = set()
        self._random = random
        self._story = story
        self._file = file
        self._audited = audited
        self._pace_s = random.choice(PACE_S)
        self._number = 0
        self.edit()

    def _new_text(self) -> str:
        """Unlike all others."""
        self._number += 1
        return f"# change {self._number}\n{self._random.choice(CONFIGURATIONS)}"

    # By requests

    async def main(self, bus: Bus) -> None:
        while True:
            await asyncio.sleep(self._random.expovariate(1 / self._pace_s))
            if not self.resting:
                await self._random.choice((self._update, self._update, self._rollback, self._confirm))(bus)

    async def _update(self, bus: Bus) -> None:
        text = self._new_text()
        message = f"update {self._number}"
        request: dict[str, Any] = {"text": text, "message": message, "overwrite": self._random.random() < 0.3}
        if self._random.random() < 0.4:
            request["for_ms"] = self._random.randint(*FOR_MS)
        if self._random.random() < 0.1:
            request["text"] = INVALID
        if self._random.random() < 0.4:
            request["base"] = self._base()
        self._audited.requested[message] = request["text"]
        await self._ask(bus, "update", request)

    async def _rollback(self, bus: Bus) -> None:
        self._number += 1
        request = {"version": self._random.randint(1, self._base() or 1), "message": f"rollback {self._number}"}
        await self._ask(bus, "rollback", {**request, "overwrite": self._random.random() < 0.3})

    async def _confirm(self, bus: Bus) -> None:
        await self._ask(bus, "confirm", {})

    def _base(self) -> int:
        current = self._audited.current
        return current[0].number if current is not None else 0

    async def _ask(self, bus: Bus, verb: str, request: dict[str, Any]) -> None:
        operator = NOBODY if self._random.random() < WRONG else NAME
        message = str(request.get("message", ""))
        try:
            reply = await bus.request(
                subjects.configuration_change(operator, NO_GROUPS, verb),
                json.dumps(request).encode(),
                timeout_s=TIMEOUT_S,
            )
        except BusError as error:
            self._story.tell(f"{verb} {message}: no answer, {error}")
            if isinstance(error, Refused) and error.code < INTERNAL:
                if (operator == NOBODY) != (error.code == FORBIDDEN):
                    raise Violation(f"{verb} {message} by {operator}: {error.code} {error}") from None
                self._note(self.refused, message)
            return
        if operator == NOBODY:
            raise Violation(f"{verb} {message} by {operator} is not refused")
        answer = json.loads(reply.payload)
        self._story.tell(f"{verb} {message}: {answer.get('version', 'refused')}")
        if "version" not in answer:
            self._note(self.refused, message)
        elif answer["changed"]:
            self._note(self.accepted, message)

    @staticmethod
    def _note(outcome: set[str], message: str) -> None:
        if message:  # confirmations have none
            outcome.add(message)

    # In the file

    async def edit_now_and_then(self, _: Bus) -> None:
        while True:
            await asyncio.sleep(self._random.expovariate(1 / (4 * self._pace_s)))
            if self.resting or self._audited.current is None:  # RMs cannot register before there is one
                continue
            match self._random.choices(("edit", "break", "remove", "fill"), (4, 1, 1, 1))[0]:
                case "edit":
                    self.edit()
                case "break":
                    self._file.content = self._random.choice((INVALID.encode(), b"", b"\xff", b"a: [1"))
                case "remove":
                    self._file.content = None
                case _:
                    self._file.writable = False
                    await asyncio.sleep(self._random.uniform(0, DISK_FULL_S))
                    self._file.writable = True

    def edit(self) -> None:
        """Give the file a text of its own."""
        text = self._new_text()
        self._story.tell(f"the file has change {self._number}")
        self._audited.edits.add(text)
        self._file.content = text.encode()
