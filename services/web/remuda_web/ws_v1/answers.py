"""The answers of `/ws/v1`: which rows each needs. The other modules of the room say how they look."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from remuda_proto import names
from remuda_web import limits
from remuda_web.source import Row, Source, Unreadable
from remuda_web.ws_v1 import applications, configuration, events, health, metrics, nodes, partitions, queues, usage
from remuda_web.ws_v1.go_json import Json
from remuda_web.ws_v1.health import Checked
from remuda_web.ws_v1.history import History
from remuda_web.ws_v1.partitions import Place


class Failure(Exception):
    """An answer that is an error: its HTTP status and message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Answers:
    def __init__(self, source: Source, history: History, started_ms: int) -> None:
        self._source = source
        self._history = history
        self._started_ms = started_ms
        self._checked: Json | None = None

    def from_source(self, source: Source) -> Answers:
        """The same answers from another source. The health check is that of the whole system, which it has not."""
        return Answers(source, self._history, self._started_ms)

    async def _places(self) -> list[Place]:
        """The partitions of all RMs that answer."""
        turn = asyncio.Semaphore(limits.RMS_ASKED_AT_ONCE)

        async def rows(rm: str) -> list[Row]:
            async with turn:
                try:
                    return await self._source.partitions(rm)
                except Unreadable:
                    return []

        rms = self._source.rms()
        return partitions.places(dict(zip(rms, await asyncio.gather(*map(rows, rms)), strict=True)))

    async def _place(self, name: str) -> Place:
        found = partitions.place_of(name, await self._places())
        if found is None:
            raise Failure(400, "Partition not found")
        return found

    async def _rows(self, place: Place, kind: str, **filters: str) -> list[Row]:
        """The rows of the partition."""
        return [row for row in await self._source.rows(place.rm, kind, **filters) if row["partition"] == place.name]

    # Clusters and partitions

    async def clusters(self) -> list[Json]:
        found = await self._places()
        info = {rm: (await self._source.stats(rm))["build_info"] for rm in {place.rm for place in found}}
        return [partitions.cluster(place, info[place.rm], self._started_ms) for place in found]

    async def partitions(self) -> list[Json]:
        return [
            partitions.partition(
                place,
                applications.states(await self._rows(place, "applications"), await self._rows(place, "rejections")),
            )
            for place in await self._places()
        ]

    async def placement_rules(self, partition: str) -> list[Json]:
        return [configuration.rule(row) for row in (await self._place(partition)).row["placement_rules"]]

    # Queues and nodes

    async def queues(self, partition: str) -> Json:
        """The web interface of the family has a page that asks for the default partition whatever there is: several
        RMs may have one, or no RM may be registered."""
        known = await self._places()
        place = partitions.place_of(partition, known)
        if place is None and partition == partitions.DEFAULT:
            place = next((one for one in known if one.name == partitions.DEFAULT), None)
            if not self._source.rms():
                return queues.ROOT_ALONE
        if place is None:
            raise Failure(400, "Partition not found")
        return await self._queues(place)

    async def _queues(self, place: Place) -> Json:
        return queues.tree(place, await self._rows(place, "queues"))

    async def queue(self, partition: str, path: str, subtree: bool = False) -> Json:
        """`subtree`: with the queues below it."""
        place = await self._place(partition)
        row = await self._queue(place, path)
        if not subtree and not place.newest:
            return queues.queue(place, row, row["allocating_accepted_applications"])
        shown = queues.tree(place, await self._rows(place, "queues"), row["path"])
        return shown if subtree else {name: value for name, value in shown.items() if name != "children"}

    async def _queue(self, place: Place, path: str) -> Row:
        for name in path.split("."):
            if not names.QUEUE.matches(name) and name.lower() != names.RECOVERY_NAME:
                raise Failure(
                    400,
                    f"problem in queue query parameter parsing as queue param {path} contains invalid queue name "
                    f"{name}. Queue name must only have alphanumeric characters, - or _, and be no longer than 64 "
                    "characters",
                )
        found = [row for row in await self._rows(place, "queues") if row["path"] == path.lower()]
        if not found:
            raise Failure(400, "Queue not found")
        return found[0]

    async def nodes(self, partition: str) -> list[Json]:
        return await self._nodes(await self._place(partition))

    async def _nodes(self, place: Place) -> list[Json]:
        return nodes.nodes(place, await self._rows(place, "nodes"), await self._rows(place, "allocations"))

    async def node(self, partition: str, node_id: str) -> Json:
        place = await self._place(partition)
        found = [row for row in await self._rows(place, "nodes") if row["id"] == node_id]
        if not found:
            raise Failure(400, "Node not found")
        return nodes.node(place, found[0], await self._rows(place, "allocations", node=node_id))

    async def utilization(self) -> Json:
        """The utilization of the default partition, as in the reference; of the first one if several RMs have one."""
        for place in await self._places():
            if place.name == partitions.DEFAULT:
                return nodes.utilization(place, await self._rows(place, "nodes"))
        return nodes.NOTHING_USED

    async def utilizations(self) -> list[Json]:
        return [nodes.utilizations(place, await self._rows(place, "nodes")) for place in await self._places()]

    # Applications

    async def applications(self, partition: str, queue: str) -> list[Json]:
        """The applications of a leaf queue; a parent has none."""
        place = await self._place(partition)
        path = (await self._queue(place, queue))["path"]
        every = await self._rows(place, "applications", queue=path)
        rows = [row for row in every if row["state"] not in applications.ENDED]
        return await self._shown(place, rows, queue=path)

    async def applications_of_queue(self, partition: str, queue: str, state: str, status: str | None) -> list[Json]:
        """The applications of one queue, in the form of `applications_by_state`."""
        place = await self._place(partition)
        path = (await self._queue(place, queue))["path"]
        return await self._in_state(place, state, status, queue=path)

    async def _shown(self, place: Place, rows: Sequence[Row], **filters: str) -> list[Json]:
        asks = await self._rows(place, "asks", **filters)
        return applications.applications(place, rows, asks, await self._rows(place, "allocations"))

    async def applications_by_state(self, partition: str, state: str, status: str | None) -> list[Json]:
        """`state`: active, completed or rejected; `status`: one of the states of active applications."""
        return await self._in_state(await self._place(partition), state, status)

    async def _in_state(self, place: Place, state: str, status: str | None, **filters: str) -> list[Json]:
        if state.lower() == "rejected":
            rejections = await self._rows(place, "rejections")
            return [
                applications.rejected(place, row)
                for row in rejections
                if row["queue"] == filters.get("queue", row["queue"])
            ]
        if state.lower() not in ("active", "completed"):
            raise Failure(400, "Only following application states are allowed: active, rejected, completed")
        over = state.lower() == "completed"
        rows = [
            row
            for row in await self._rows(place, "applications", **filters)
            if (row["state"] in applications.ENDED) == over and status in (None, row["state"], row["state"].lower())
        ]
        return await self._shown(place, rows, **filters)

    async def application(self, partition: str, application_id: str, queue: str | None = None) -> Json:
        place = await self._place(partition)
        path = None if queue is None else (await self._queue(place, queue))["path"]
        for row in await self._rows(place, "applications", application=application_id):
            if path in (None, row["queue"]) and (path is None or row["state"] not in applications.ENDED):
                asks = await self._rows(place, "asks", application=application_id)
                held = await self._rows(place, "allocations", application=application_id)
                return applications.application(place, row, asks, held)
        raise Failure(400, "Application not found")

    # Usage. The reference has one tree for all partitions, and looks at no partition name.

    async def usage(self, partition: str, kind: str) -> list[Json] | None:
        known = await self._places()
        named = partitions.place_of(partition, known)
        rms = sorted({place.rm for place in known}) if named is None else [named.rm]
        found: list[Json] = []
        for rm in rms:
            rows = await self._source.rows(rm, "applications")
            found += usage.trees(kind, rows, await self._source.rows(rm, "queues"))
        return found or None

    async def usage_of(self, partition: str, kind: str, name: str) -> Json:
        for one in await self.usage(partition, kind) or ():
            if one[f"{kind}Name"] == name:
                return one
        raise Failure(400, f"{kind.capitalize()} not found")

    # The scheduler

    async def metrics(self) -> bytes:
        families = metrics.Families()
        known = await self._places()
        for place in known:
            shown = metrics.add_queues(families, place.row["total"], await self._rows(place, "queues"))
            rejections = await self._rows(place, "rejections")
            metrics.add_applications(families, await self._rows(place, "applications"), rejections, shown)
            metrics.add_nodes(families, await self._rows(place, "nodes"))
        for rm in sorted({place.rm for place in known}):
            stats = await self._source.stats(rm)
            metrics.add_allocations(families, stats["allocations_ever"], stats["allocations"])
        return families.text()

    async def configuration_text(self, rm: str | None = None) -> str:
        """The configuration of this RM, or of the first one by name: the reference has one. Without an RM: the text of
        the file."""
        rms = self._source.rms()
        if rm is not None and rm not in rms:
            raise Failure(400, "RM not found")
        return await self._source.configuration(rm or next(iter(rms), None))

    async def validate(self, text: str) -> Json:
        problem = await self._source.problem(text) if text.strip() else ""
        return {"allowed": False, "reason": problem} if problem else {"allowed": True}

    async def check_health(self) -> Json:
        """Check now, a second time if the first one finds a fault. `health` shows the result until the next check."""
        first = await self._read_all()
        found = health.check(first)
        self._checked = found if found["Healthy"] else health.check(await self._read_all(), first)
        return self._checked

    async def health(self) -> Json:
        found = self._checked or await self.check_health()
        if not found["Healthy"]:
            raise Failure(503, health.UNHEALTHY)
        return found

    async def _read_all(self) -> list[Checked]:
        return [await self._to_check(place) for place in await self._places()]

    async def _to_check(self, place: Place) -> Checked:
        return Checked(
            place,
            await self._rows(place, "nodes"),
            await self._rows(place, "applications"),
            await self._rows(place, "allocations"),
        )

    async def events(self, count: str | None, start: str | None) -> Json:
        try:
            most, first = events.asked_for(count, start)
        except events.IllegalNumber as error:
            raise Failure(400, str(error)) from None
        return events.page(await self._source.events(first, most))

    async def sample(self, at_ns: int) -> None:
        """Add what there is now to the history."""
        running = containers = 0
        for place in await self._places():
            containers += place.row["allocations"]
            rows = await self._rows(place, "applications")
            running += sum(row["state"] in applications.RUNNING for row in rows)
        self._history.add(at_ns, running, containers)

    async def full_state(self, now_ns: int, log_level: str, rm: str | None = None) -> Json:
        """The state of all RMs. `rm`: the RM whose configuration it has, as `configuration_text`."""
        found = await self._places()
        shown: Json = {
            "timestamp": now_ns,
            "partitions": await self.partitions(),
            "applications": [one for place in found for one in await self._all(place)],
            "appHistory": self._history.applications(),
            "nodes": [await self._dumped_nodes(place) for place in found],
            "clusterInfo": await self.clusters(),
            "containerHistory": self._history.containers(),
            "queues": [await self._queues(place) for place in found],
            "config": configuration.as_json(await self.configuration_text(rm)),
            "logLevel": log_level,
        }
        return {name: value for name, value in shown.items() if value}

    async def _dumped_nodes(self, place: Place) -> Json:
        rows = await self._nodes(place)
        return {"partitionName": place.shown, "nodesInfo": rows} if rows else {"partitionName": place.shown}

    async def _all(self, place: Place) -> list[Json]:
        rejected = [applications.rejected(place, row) for row in await self._rows(place, "rejections")]
        return [*await self._shown(place, await self._rows(place, "applications")), *rejected]
