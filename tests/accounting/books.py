"""The records of an RM about its work, written before an action or acknowledgement, so that `kill -9` loses none.

A journal of lines, appended to a file; reading it again gives the same books. An inconsistent callback is kept as a
fault: a correct scheduler causes none. Knows nothing of the bus.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

QUEUE = "root.accounts"
QUEUES = "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: accounts}]}]}]"
OPERATOR = "alice@example.com"  # also the reason why an allocation ended that she had the RM release
MEMORY = 10  # of each ask; its vcore is 1


class Fate(Enum):
    """The end of an allocation: it keeps running, the RM releases it, or the scheduler does after its execution
    timeout."""

    KEPT = 0
    RELEASED = 1
    TIMED = 2


@dataclass(frozen=True, slots=True)
class Plan:
    """The work of one RM. Asks are numbered; everything else about an ask follows from its number."""

    asks: int
    nodes: int = 50
    applications: int = 10
    rate: float | None = None  # asks per second; None: as fast as they are taken
    lives_ms: int = 2_000  # of those that the scheduler ends

    @property
    def slots(self) -> int:
        """Of a node. Somewhat more than what is kept needs: now and then asks have to wait for room."""
        return self.asks * 6 // 10 // self.nodes + 1

    def fate(self, number: int) -> Fate:
        return (Fate.RELEASED, Fate.KEPT, Fate.RELEASED, Fate.TIMED, Fate.KEPT)[number % 5]

    def application(self, number: int) -> str:
        return f"app-{number % self.applications}"

    def node_names(self) -> list[str]:
        return [f"n-{number:03}" for number in range(self.nodes)]


@dataclass(frozen=True, slots=True)
class Placed:
    number: int
    key: str
    node: str


def key_of(number: int, attempt: int) -> str:
    return f"k{number}.{attempt}"


def number_of(key: str) -> int:
    return int(key[1:].partition(".")[0])


class Books:
    """`attempts`: under which key an ask was sent last; an ask of which nobody knows whether it was sent is withdrawn,
    and asked under the next key. `running` and `gone` are by UUID."""

    def __init__(self, plan: Plan, journal: Path) -> None:
        self.plan = plan
        self.attempts: dict[int, int] = {}
        self.doubtful: set[int] = set()  # sent, and no PubAck seen
        self.placed: dict[str, str] = {}  # key -> UUID, whatever became of it
        self.running: dict[str, Placed] = {}
        self.gone: dict[str, str] = {}  # UUID -> why
        self.starts: Counter[str] = Counter()  # "report", "replay"
        self.reported = False  # a report was completed since it was begun last
        self.crossed = 0  # allocations of withdrawn keys
        self.repeated = 0  # told again after a restart
        self.faults: list[str] = []
        self._journal = journal
        self._file = -1

    @classmethod
    def open(cls, plan: Plan, journal: Path) -> Books:
        """Reads what was written before; a line that was not finished was not acted upon."""
        books = cls(plan, journal)
        text = journal.read_text() if journal.exists() else ""
        whole, _, rest = text.rpartition("\n")
        if rest:
            os.truncate(journal, len(text.encode()) - len(rest.encode()))
        for line in whole.splitlines():
            books._enter(line.split(" ", 4))
        return books

    # Actions of the RM

    def begins(self, resync: str) -> None:
        self._write(f"begins {resync}")

    def has_reported(self) -> None:
        self._write("reported")

    def sends(self, first: int, last: int, attempt: int) -> None:
        """Asks `first` up to and with `last` are about to be published."""
        self._write(f"sends {first} {last} {attempt}")

    def sent(self, first: int, last: int) -> None:
        self._write(f"sent {first} {last}")

    # Callbacks

    def allocations(self, new: Sequence[tuple[str, str, str]]) -> list[str]:
        """(UUID, key, node) of each. Returns the UUIDs that the RM is to release."""
        self._write(*(f"new {uuid} {key} {node}" for uuid, key, node in new))
        return [uuid for uuid, _, _ in new if self.unwanted(uuid)]

    def ends(self, uuids: Iterable[str], why: str) -> None:
        self._write(*(f"gone {uuid} {why}" for uuid in uuids))

    def fault(self, text: str) -> None:
        self._write(f"fault {' '.join(text.split())}")

    # Derived

    @property
    def next_ask(self) -> int:
        return len(self.attempts)

    def wanted(self, placed: Placed) -> bool:
        return placed.key == key_of(placed.number, self.attempts[placed.number])

    def outstanding(self) -> Iterator[int]:
        """Asked for and not placed."""
        return (n for n, attempt in self.attempts.items() if key_of(n, attempt) not in self.placed)

    def unwanted(self, uuid: str) -> bool:
        """Runs, and the RM has to see to it that it does not."""
        placed = self.running.get(uuid)
        return placed is not None and (self.plan.fate(placed.number) is Fate.RELEASED or not self.wanted(placed))

    def placed_asks(self) -> int:
        return len(self.placed) - self.crossed

    def settled(self) -> bool:
        """Everything was asked for and placed, and what should not run any more does not."""
        return self.placed_asks() == self.plan.asks and all(
            self.wanted(placed) and self.plan.fate(placed.number) is Fate.KEPT for placed in self.running.values()
        )

    def problems(self) -> list[str]:
        """The inconsistencies, once the run has settled."""
        found = [f"the RM was told nonsense: {fault}" for fault in self.faults]
        missing = [n for n in range(self.plan.asks) if key_of(n, self.attempts.get(n, 0)) not in self.placed]
        found += [f"{len(missing)} asks were never placed: {missing[:10]} ..."] if missing else []
        kept = Counter(placed.number for placed in self.running.values())
        for number in range(self.plan.asks):
            uuid = self.placed.get(key_of(number, self.attempts.get(number, 0)), "")
            expected = self.plan.fate(number) is Fate.KEPT and self.gone.get(uuid) != OPERATOR
            if kept[number] != expected:
                found.append(f"ask {number} has {kept[number]} running allocations, expected {int(expected)}")
        return found

    # The journal

    def _write(self, *lines: str) -> None:
        if not lines:
            return
        if self._file < 0:
            self._file = os.open(self._journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.write(self._file, "".join(f"{line}\n" for line in lines).encode())
        for line in lines:
            self._enter(line.split(" ", 4))

    def _enter(self, words: list[str]) -> None:
        match words:
            case ["new", uuid, key, node]:
                self._allocated(uuid, key, node)
            case ["gone", uuid, why]:
                self._ended(uuid, why)
            case ["sends", first, last, attempt]:
                self.attempts.update(dict.fromkeys(range(int(first), int(last) + 1), int(attempt)))
                self.doubtful.update(range(int(first), int(last) + 1))
            case ["sent", first, last]:
                self.doubtful.difference_update(range(int(first), int(last) + 1))
            case ["begins", resync]:
                self.starts[resync] += 1
                self.reported = resync == "replay"
            case ["reported"]:
                self.reported = True
            case ["fault", *text]:
                self.faults.append(" ".join(text))
            case _:
                raise ValueError(f"{self._journal}: {' '.join(words)!r} is no entry")

    def _allocated(self, uuid: str, key: str, node: str) -> None:
        if self.placed.get(key) == uuid:
            self.repeated += 1
            return
        number = number_of(key)
        if number not in self.attempts:
            self.faults.append(f"allocation {uuid} of {key}, which was never asked for")
            return
        if key in self.placed:
            self.faults.append(f"{key} was placed twice: {self.placed[key]}, {uuid}")
        if uuid in self.running or uuid in self.gone:
            self.faults.append(f"{uuid} was given twice, now to {key}")
        self.placed[key] = uuid
        self.running[uuid] = placed = Placed(number, key, node)
        self.crossed += not self.wanted(placed)

    def _ended(self, uuid: str, why: str) -> None:
        if uuid in self.gone:
            self.repeated += 1
        elif uuid in self.running:
            placed = self.running.pop(uuid)
            self.gone[uuid] = why
            if why == "TIMEOUT" and self.plan.fate(placed.number) is not Fate.TIMED:
                self.faults.append(f"{uuid} of {placed.key} has no time limit and was ended by one")
        else:
            self.faults.append(f"{uuid} has ended ({why}), and was never given")
