"""An operator who keeps books: acts on RMs and changes the configuration, while both are killed. Every action that was
answered has to be decided once in the log, as it was answered; every change has to be one version.

The operator has a key: the NATS server knows by it who acts.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from remuda.access.keys import ACCOUNTS, Keys
from remuda.embedded import NatsServer
from remuda.local.system import Layout, System
from remuda_bus.bus import Bus, BusError
from remuda_bus.nats import Access, connect
from remuda_bus.subjects import FILE_VERSIONS_KEPT
from remuda_events.stories.story import StoryTarget
from remuda_events.story_reader import lines
from remuda_operations.operators import Operator
from remuda_operations.queries import NoAnswer, RequestRefused
from remuda_operations.queries.actions import request
from remuda_operations.queries.configuration import change, query
from remuda_operations.queries.core import ask_core
from remuda_operations.queries.rows import Explanation
from remuda_replication.log import LogReader
from tests.accounting.books import OPERATOR, Books, Plan

ASKED_AGAIN = 0.15  # how often an action that was answered is asked for once more
CONFIGURES = 0.1
STORIES = 3
OUTCOMES = {"action_taken": "accepted", "action_refused": "refused"}  # by the kind of fact
LEAVES = ("root.accounts", "root.others")


def queues_yaml(change: int = 0) -> str:
    """The queues of all RMs. `change`: so that each text is another one, which matters to no ask."""
    return (
        f"partitions: [{{name: default, queues: [{{name: root, submitacl: '*', adminacl: {OPERATOR}, queues: ["
        f"{{name: accounts}}, {{name: others}}, {{name: spare, resources: {{max: {{vcore: {change + 1}}}}}}}]}}]}}]\n"
    )


class KeyedSystem(System):
    """Its server knows one operator by a key. The services, and RMs, connect without one."""

    def __init__(self, layout: Layout) -> None:
        super().__init__(layout)
        self._server = self.server = KeyedServer(layout.data)


class KeyedServer(NatsServer):
    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir)
        self._keys = Keys(self.data_dir / "keys")
        self._keys.ensure_roles()
        self.seed = self._keys.add_operator(Operator(OPERATOR))

    def _config(self) -> dict[str, object]:
        found = json.loads(f"{{{(self._keys.directory / ACCOUNTS).read_text()}}}")
        found["accounts"]["REMUDA"]["users"].append({"user": "everyone", "password": "everyone"})
        return {**super()._config(), **found, "no_auth_user": "everyone"}


@dataclass(slots=True)
class Asked:
    """`outcome`: accepted or refused; "": not known."""

    rm: str
    action: str
    fields: Mapping[str, Any]
    outcome: str = ""


class AccountingOperator:
    """`asked`: all actions, by ID. `changes`: of the configuration, by message, and the version of each; 0: not
    known."""

    def __init__(self, url: str, seed: Path, rms: Sequence[str], plan: Plan, chance: random.Random) -> None:
        self.asked: dict[str, Asked] = {}
        self.changes: dict[str, int] = {}
        self.problems: list[str] = []
        self._url = url
        self._access = Access(seed=seed)
        self._rms = rms
        self._plan = plan
        self._random = chance

    async def work(self, pace_s: float) -> None:
        """Until it is cancelled."""
        async with self._connected() as (bus, people):
            while True:
                await asyncio.sleep(self._random.expovariate(1 / pace_s))
                with contextlib.suppress(NoAnswer, RequestRefused, BusError):
                    await self._act(bus, people)

    async def rest(self) -> None:
        """Learn every outcome, then end all holds and drains. Call it when nothing is killed any more."""
        async with self._connected() as (bus, _):
            await self._until(self._unknown, bus)
            ends = {"hold_queue": "resume_queue", "drain_node": "undrain_node"}
            done = [one for one in self.asked.values() if one.action in ends and one.outcome == "accepted"]
            for rm, action, target, name in {
                (one.rm, ends[one.action], *next(iter(one.fields.items()))) for one in done
            }:
                self._note(rm, action, {target: name})
            await self._until(self._unknown, bus)

    @contextlib.asynccontextmanager
    async def _connected(self) -> Any:
        """With the key; and without, to see what there is to act on."""
        bus = await connect(self._url, "remuda-cli", access=self._access, timeout_s=60)
        people = await connect(self._url, "people", timeout_s=60)
        try:
            yield bus, people
        finally:
            await bus.close()
            await people.close()

    async def _until(self, left: Callable[[], list[str]], bus: Bus) -> None:
        while ids := left():
            for action_id in ids:
                with contextlib.suppress(NoAnswer, RequestRefused, BusError):
                    await self._ask(bus, action_id)
            await asyncio.sleep(0.1)

    def _unknown(self) -> list[str]:
        return [action_id for action_id, one in self.asked.items() if not one.outcome]

    async def _act(self, bus: Bus, people: Bus) -> None:
        unknown = self._unknown()
        if unknown and self._random.random() < 0.5:
            return await self._ask(bus, self._random.choice(unknown))
        if self.asked and self._random.random() < ASKED_AGAIN:
            return await self._ask(bus, self._random.choice(list(self.asked)[-20:]))
        if self._random.random() < CONFIGURES:
            return await self._configure(bus)
        rm = self._random.choice(self._rms)
        action, fields = await self._choose(people, rm)
        return await self._ask(bus, self._note(rm, action, fields))

    def _note(self, rm: str, action: str, fields: Mapping[str, Any]) -> str:
        action_id = f"a{len(self.asked) + 1}"
        self.asked[action_id] = Asked(rm, action, fields)
        return action_id

    async def _ask(self, bus: Bus, action_id: str) -> None:
        one = self.asked[action_id]
        outcome = await request(bus, None, one.rm, one.action, action_id, {**one.fields, "reason": "chaos"})
        if outcome.outcome == "undecided":
            return
        if one.outcome and one.outcome != outcome.outcome:
            self.problems.append(f"action {action_id} was {one.outcome} and is {outcome.outcome} when asked again")
        one.outcome = outcome.outcome

    async def _choose(self, people: Bus, rm: str) -> tuple[str, dict[str, Any]]:
        held, drained = self._in_force(rm, "queue"), self._in_force(rm, "node_id")
        if held and self._random.random() < 0.5:
            return "resume_queue", {"queue": held[0]}
        if drained and self._random.random() < 0.3:
            return "undrain_node", {"node_id": drained[0]}
        kind = self._random.choice(("hold", "drain", "move", "priority", "release"))
        if kind == "priority":
            pending = (await ask_core(people, "explain", Explanation, rm=rm)).asks
            if pending:
                ask = self._random.choice(pending)
                return "change_ask_priority", {
                    "application_id": ask.application, "allocation_key": ask.key,
                    "priority": self._random.randint(-5, 5),
                }  # fmt: skip
        if kind == "release":
            page = await ask_core(people, "allocations", dict[str, Any], rm=rm)
            if page["allocations"]:
                return "release_one_allocation", {"uuid": self._random.choice(page["allocations"])["uuid"]}
        if kind == "drain":
            return "drain_node", {"node_id": self._random.choice(self._plan.node_names())}
        if kind == "move":
            number = self._random.randrange(self._plan.applications)
            queue = self._random.choice(LEAVES)
            return "move_application", {"application_id": self._plan.application(number), "queue": queue}
        return "hold_queue", {"queue": self._random.choice(LEAVES)}

    def _in_force(self, rm: str, target: str) -> list[str]:
        """What it holds or drains, as far as it knows."""
        last: dict[str, str] = {}
        for one in self.asked.values():
            if one.rm == rm and one.outcome == "accepted" and target in one.fields:
                last[one.fields[target]] = one.action
        return [name for name, action in last.items() if action in ("hold_queue", "drain_node")]

    async def _configure(self, bus: Bus) -> None:
        number = len(self.changes) + 1
        message = f"change {number}"
        self.changes[message] = 0
        answer = await change(bus, None, "update", {"text": queues_yaml(number), "message": message})
        self.changes[message] = answer["version"]["number"]

    # Afterwards

    async def account(self, bus: Bus, rm: str, books: Books) -> list[str]:
        """The inconsistencies between what was answered, the log of the RM, what the RM was told, and the story."""
        decided: dict[str, list[str]] = defaultdict(list)
        revisions: list[int] = []
        reader = await LogReader.open(bus, rm)
        async for entries in reader.read_to_end():
            for fact in (fact for entry in entries for by in entry.commit.decisions for fact in by.facts):
                if fact.HasField("configuration_applied"):
                    revisions.append(fact.configuration_applied.revision)
                kind = fact.WhichOneof("fact") or ""
                if kind in OUTCOMES and not (decision := getattr(fact, kind)).repeated:
                    decided[decision.action.action_id.removeprefix(f"{OPERATOR}/")].append(OUTCOMES[kind])
        await reader.close()
        own = {action_id: one for action_id, one in self.asked.items() if one.rm == rm}
        found = [f"action {action_id} was {own[action_id].outcome} and is {outcomes} in the log"
                 for action_id, outcomes in decided.items()
                 if action_id in own and outcomes != [own[action_id].outcome]]  # fmt: skip
        found += [f"action {action_id} is in the log, and nobody asked for it" for action_id in decided.keys() - own]
        found += [f"action {i} was {one.outcome} and is not in the log" for i, one in own.items() if i not in decided]
        released = {one.fields["uuid"] for one in own.values() if one.action == "release_one_allocation"}
        ended = {uuid for uuid, why in books.gone.items() if why == OPERATOR}
        found += [f"{uuid} was released for an operator who has not asked for it" for uuid in ended - released]
        newest = (await query(bus, "history", {}))["active"]
        if revisions[-1:] != [newest]:
            found.append(f"the RM has versions {revisions[-3:]} of the configuration, in force is {newest}")
        return [f"{rm}: {problem}" for problem in (*found, *await self._stories(bus, own))]

    async def _stories(self, bus: Bus, own: Mapping[str, Asked]) -> list[str]:
        """Of some of the things that were acted upon."""
        told = [one for one in own.values() if one.outcome == "accepted" and "queue" not in list(one.fields)[:1]]
        found = []
        for one in self._random.sample(told, min(STORIES, len(told))):
            target = next(iter(one.fields.values()))
            texts = [line.text async for line in lines(bus, one.rm, StoryTarget(target))]
            if not any(text.startswith(f"operator {OPERATOR} ") and text.endswith("chaos") for text in texts):
                found.append(f"the story of {target} does not tell of {one.action}")
        return found

    async def account_of_changes(self, bus: Bus) -> list[str]:
        """Each change that was answered is one version, and each other at most one."""
        history = await query(bus, "history", {})
        versions = defaultdict(list)
        for version in history["versions"]:
            versions[version.get("message")].append(version["number"])
        found = [
            f"{message} was made as version {number}, the history has it as {versions[message]}"
            for message, number in self.changes.items()
            if len(versions[message]) > 1
            or (number and number > history["active"] - FILE_VERSIONS_KEPT and versions[message] != [number])
        ]
        return found + self.problems

    def summary(self) -> str:
        outcomes = Counter(f"{one.action} {one.outcome}" for one in self.asked.values())
        made = sum(map(bool, self.changes.values()))
        return f"{dict(sorted(outcomes.items()))}, {made} of {len(self.changes)} changes answered"
