"""An RM that keeps books: asks, releases, confirms; may be killed at any moment and started again on the same books.

As a process: `python -m tests.accounting.rm URL RM JOURNAL ASKS RATE`, over NATS or gRPC, as the URL says. Its
queues are those of the system. It prints how far it is, a JSON object a line.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk import DeadLetter, RegistrationFailed, application, ask, node
from remuda_sdk.api import ResourceManagerCallback, SchedulerAPI, connect
from remuda_sdk.resource_manager.registration import Resync
from tests.accounting.books import MEMORY, OPERATOR, QUEUE, QUEUES, Books, Fate, Plan, key_of

RETRY_S = 0.2
OUTAGE = 503
HEARTBEAT_S = 1.0
BORNE_S = 600.0  # how long a server may be away
CHUNK = 200  # asks at most that are published together: often enough a kill is in the middle of some
SAY_EVERY_S = 0.5


class AccountingRm:
    """`await AccountingRm(url, rm_id, books).run()` works until it is cancelled; `settled` is set when the plan is
    done. `queues`: its queues.yaml; empty: that of the system. Started again on books that know of a report, it comes
    back by replay or by a report, as `random` will."""

    def __init__(
        self, url: str, rm_id: str, books: Books, *, resync: Resync | None = None, queues: str = QUEUES
    ) -> None:
        self.books = books
        self.settled = asyncio.Event()
        self._url = url
        self._rm_id = rm_id
        self._queues = queues
        self._plan = books.plan
        ways: tuple[Resync, ...] = ("report", "replay")
        back = random.choice(ways) if resync is None else resync
        self._resync: Resync = back if books.reported else "report"
        self._release: list[str] = []
        self._to_release = asyncio.Event()
        self._books_are_open = asyncio.Event()
        self._scheduler: SchedulerAPI

    async def run(self) -> None:
        async with connect(
            self._url, heartbeat_s=HEARTBEAT_S, connect_within_s=BORNE_S, retry_for_s=BORNE_S
        ) as self._scheduler:
            self.books.begins(self._resync)
            await self._register()
            await (self._report() if self._resync == "report" else self._resolve_doubts())
            self._releases(uuid for uuid in self.books.running if self.books.unwanted(uuid))
            self._books_are_open.set()
            async with asyncio.TaskGroup() as work:
                work.create_task(self._scheduler.wait())
                work.create_task(self._send_releases())
                work.create_task(self._ask())

    async def _register(self) -> None:
        request = si.RegisterResourceManagerRequest(
            rmID=self._rm_id, config=self._queues, extraConfig={"resync": self._resync}
        )
        while True:
            try:
                await self._scheduler.register_resource_manager(request, _Callbacks(self))
                return
            except RegistrationFailed as failure:
                if failure.code != OUTAGE:
                    raise
                await asyncio.sleep(RETRY_S)

    async def _report(self) -> None:
        """Applications, nodes with their running allocations, and pending asks. Allocations lose their timeouts by
        this: the RM ends them itself."""
        books = self.books
        timed = [uuid for uuid, placed in books.running.items() if self._plan.fate(placed.number) is not Fate.KEPT]
        books.ends(timed, "RESTART")
        books.ends([uuid for uuid in books.running if books.unwanted(uuid)], "RESTART")
        existing = defaultdict(list)
        for uuid, placed in books.running.items():
            existing[placed.node].append(self._allocation(uuid))
        new = [application(f"app-{n}", queue=QUEUE, user="u") for n in range(self._plan.applications)]
        await self._scheduler.update_application(si.ApplicationRequest(rmID=self._rm_id, new=new))
        capacity = {"vcore": self._plan.slots, "memory": MEMORY * self._plan.slots}
        nodes = [node(name, existing=existing[name], resources=capacity) for name in self._plan.node_names()]
        for one in nodes:
            one.action = si.NodeInfo.CREATE
        await self._scheduler.update_node(si.NodeRequest(rmID=self._rm_id, nodes=nodes))
        outstanding = list(books.outstanding())
        await self._send(asks=[self._message(number) for number in outstanding])
        self._are_sent(outstanding)
        books.has_reported()

    async def _resolve_doubts(self) -> None:
        """Of what is in doubt the old key is withdrawn and a new one used; should the old one be placed nevertheless,
        that allocation is released."""
        books = self.books
        doubtful = [number for number in books.outstanding() if number in books.doubtful]
        self._are_sent(books.doubtful)
        withdrawn = [self._withdrawal(number) for number in doubtful]
        for number in doubtful:
            books.sends(number, number, books.attempts[number] + 1)
        await self._send(releases=si.AllocationReleasesRequest(allocationAsksToRelease=withdrawn))
        await self._send(asks=[self._message(number) for number in doubtful])
        self._are_sent(doubtful)

    def _are_sent(self, numbers: Iterable[int]) -> None:
        for number in list(numbers):
            self.books.sent(number, number)

    async def _ask(self) -> None:
        """As fast as the plan says; after an outage faster, until that is made good."""
        now = asyncio.get_running_loop().time
        began, had = now(), self.books.next_ask
        while (first := self.books.next_ask) < self._plan.asks:
            last = min(first + random.randint(1, CHUNK), self._plan.asks) - 1
            self.books.sends(first, last, 0)
            await self._send(asks=[self._message(number) for number in range(first, last + 1)])
            self.books.sent(first, last)
            if self._plan.rate is not None:
                await asyncio.sleep((last + 1 - had) / self._plan.rate - (now() - began))

    async def receive(self, callback: si.AllocationResponse | si.ApplicationResponse | si.NodeResponse) -> None:
        """Process a callback. Those that come while the books of a former life are being worked through wait."""
        await self._books_are_open.wait()
        if isinstance(callback, si.AllocationResponse):
            await self._allocations(callback)
        else:
            for refused in callback.rejected:
                self.books.fault(f"rejected: {refused}")
        if self.books.settled():
            self.settled.set()

    async def _allocations(self, told: si.AllocationResponse) -> None:
        self._releases(self.books.allocations([(a.UUID, a.allocationKey, a.nodeID) for a in told.new]))
        # Releases by the scheduler: the books keep the allocation as running until the release is confirmed.
        asked = [one for one in told.released if one.terminationType != si.STOPPED_BY_RM]
        if asked:
            await self._send(releases=si.AllocationReleasesRequest(allocationsToRelease=asked))
        by_reason = defaultdict(list)
        for release in told.released:
            by_operator = release.message.startswith(f"released by {OPERATOR}")
            by_reason[OPERATOR if by_operator else si.TerminationType.Name(release.terminationType)].append(
                release.UUID
            )
        for why, uuids in by_reason.items():
            self.books.ends(uuids, why)
        for refused in (*told.rejected, *told.rejectedAllocations, *told.releasedAsks):
            self.books.fault(f"refused or taken back: {refused}")

    def _releases(self, uuids: Iterable[str]) -> None:
        self._release.extend(uuids)
        if self._release:
            self._to_release.set()

    async def _send_releases(self) -> None:
        while True:
            await self._to_release.wait()
            self._to_release.clear()
            uuids, self._release = self._release, []
            releases = [self._release_of(uuid) for uuid in uuids if uuid in self.books.running]
            await self._send(releases=si.AllocationReleasesRequest(allocationsToRelease=releases))

    async def _send(self, **content: Any) -> None:
        await self._scheduler.update_allocation(si.AllocationRequest(rmID=self._rm_id, **content))

    def _release_of(self, uuid: str) -> si.AllocationRelease:
        application_id = self._plan.application(self.books.running[uuid].number)
        return si.AllocationRelease(applicationID=application_id, UUID=uuid, terminationType=si.STOPPED_BY_RM)

    def _allocation(self, uuid: str) -> si.Allocation:
        placed = self.books.running[uuid]
        return si.Allocation(
            UUID=uuid,
            allocationKey=placed.key,
            applicationID=self._plan.application(placed.number),
            nodeID=placed.node,
            resourcePerAlloc=si.Resource(
                resources={"vcore": si.Quantity(value=1), "memory": si.Quantity(value=MEMORY)}
            ),
        )

    def _message(self, number: int) -> si.AllocationAsk:
        lives_ms = self._plan.lives_ms if self._plan.fate(number) is Fate.TIMED else 0
        key = key_of(number, self.books.attempts[number])
        return ask(self._plan.application(number), key, timeout_ms=lives_ms, vcore=1, memory=MEMORY)

    def _withdrawal(self, number: int) -> si.AllocationAskRelease:
        key = key_of(number, self.books.attempts[number])
        return si.AllocationAskRelease(applicationID=self._plan.application(number), allocationKey=key)


class _Callbacks(ResourceManagerCallback):
    def __init__(self, rm: AccountingRm) -> None:
        self._rm = rm

    async def update_allocation(self, response: si.AllocationResponse) -> None:
        await self._rm.receive(response)

    async def update_application(self, response: si.ApplicationResponse) -> None:
        await self._rm.receive(response)

    async def update_node(self, response: si.NodeResponse) -> None:
        await self._rm.receive(response)

    def update_refused(self, letter: DeadLetter) -> None:
        self._rm.books.fault(f"not understood: {letter.reason}")


async def main(url: str, rm_id: str, journal: str, asks: str, rate: str) -> None:
    books = Books.open(Plan(asks=int(asks), rate=float(rate) or None), Path(journal))
    rm = AccountingRm(url, rm_id, books, queues="")
    working = asyncio.create_task(rm.run())
    while not working.done():
        at = {"placed": books.placed_asks(), "running": len(books.running), "settled": books.settled()}
        print(json.dumps(at), flush=True)
        await asyncio.wait([working], timeout=SAY_EVERY_S)
    working.result()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
