"""The default scheduler, which places the pods of plugin mode: it filters nodes, asks the extender, has volumes bound,
and binds late."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

import msgspec

from remuda_kubernetes.api.client import ApiError
from remuda_kubernetes.plugin.extender import answer_filter
from remuda_kubernetes.plugin.plugin import SCHEDULER_ERROR
from remuda_kubernetes.shell.extender import Extender

from ..story import Story
from .api_server import ApiServer, Json
from .scheduler_volumes import SchedulerVolumes
from .storage import Storage, claims_of, has_ended
from .world import OTHER, free, on_node, preferences, size, suits

TRIES_BEFORE_DELETION = 12  # of an approved pod that fits nowhere, by its user
FAILS = 0.1
SCORES_BETTER = 0.2  # how often another node does than the preferred one
VOLUMES_WITHIN_S = 20.0
LOOKS_AT_VOLUMES_S = 0.3


class DefaultScheduler:
    """`extenders`: those that answer. `is_extended`: it asks one about each pod, and without an answer the pod waits.
    `later`: has something done after a time."""

    def __init__(
        self,
        random: Random,
        story: Story,
        server: ApiServer,
        storage: Storage,
        is_extended: bool,
        later: Callable[..., None],
    ) -> None:
        self.extenders: dict[Extender, None] = {}
        self.resting = False
        self._random = random
        self._story = story
        self._server = server
        self._is_extended = is_extended
        self._later = later
        self._pace_s, self._binds_within_s = random.choice((0.1, 0.5)), random.choice((0.05, 1.0))
        self._is_up = True
        self._life = 0
        self._assumed: dict[str, tuple[str, Json]] = {}  # UID -> node, and the pod: about to be bound
        self._tries: dict[str, int] = {}
        self._volumes = SchedulerVolumes(server, storage)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._random.expovariate(1 / self._pace_s))
            waiting = [
                pod for pod in self._server.all("pods") if _is_its(pod) and pod["metadata"]["uid"] not in self._assumed
            ]
            if self._is_up and self._server.is_up and waiting:
                self._try(self._random.choice(waiting))

    def kill(self) -> None:
        """A binding that it has sent may still arrive."""
        self._story.tell("the default scheduler is killed")
        self._is_up = False
        self._life += 1
        self._assumed.clear()
        self._volumes.forget_all()
        self._later(self._random.uniform(0.1, 8.0), self._start)

    def _start(self) -> None:
        self._is_up = True

    def _try(self, pod: Json) -> None:
        fitting = [node for node in self._server.all("nodes") if self._fits(pod, node)]
        names = [node["metadata"]["name"] for node in fitting]
        if names and self._is_extended:
            names = self._allowed(pod, names)
        if not names:
            self._unplaced(pod)
            return
        uid, node = pod["metadata"]["uid"], self._chosen(pod, names)
        on = self._server.find("nodes", node, "")
        if on is None:
            return
        self._volumes.reserve(pod, on)
        self._assumed[uid] = node, pod
        work = self._write_volumes if claims_of(pod) else self._bind
        self._later(self._random.uniform(0.001, self._binds_within_s), work, pod, node, self._life)

    def _chosen(self, pod: Json, names: list[str]) -> str:
        """The nominated node, if it fits; a preferred one, unless others score better."""
        nominated = pod["status"].get("nominatedNodeName")
        if nominated in names:
            return str(nominated)
        preferred = [name for name in names if name in preferences(pod)]
        if preferred and self._random.random() >= SCORES_BETTER:
            return preferred[0]
        return self._random.choice(names)

    def _fits(self, pod: Json, node: Json) -> bool:
        return (
            suits(pod, node)
            and self._has_room(pod, node)
            and self._volumes.suit(pod, node, list(self._assumed.values()))
        )

    # Volumes. When it is killed, what it has written of them stays.

    def _write_volumes(self, pod: Json, node: str, life: int) -> None:
        if life != self._life:
            return
        if not self._server.is_up:
            self._not_bound(pod, "the API server is away")
        elif why := self._volumes.write(pod):
            self._not_bound(pod, why)
        else:
            self._look_at_volumes(pod, node, life, 0.0)

    def _look_at_volumes(self, pod: Json, node: str, life: int, waited_s: float) -> None:
        if life != self._life:
            return
        on = self._server.find("nodes", node, "")
        outcome = self._volumes.outcome(pod, on) if on is not None else "the node is gone"
        if outcome is None and waited_s >= VOLUMES_WITHIN_S:
            outcome = "its volumes were not bound in time"
        if outcome is None:
            self._later(LOOKS_AT_VOLUMES_S, self._look_at_volumes, pod, node, life, waited_s + LOOKS_AT_VOLUMES_S)
        elif outcome:
            self._not_bound(pod, outcome)
        else:
            self._bind(pod, node, life)

    def _not_bound(self, pod: Json, why: str) -> None:
        uid = pod["metadata"]["uid"]
        self._assumed.pop(uid, None)
        self._volumes.forget(uid)
        there = self._server.find("pods", pod["metadata"]["name"])
        if self._server.is_up and there is not None and there["metadata"]["uid"] == uid:
            self._say(there, SCHEDULER_ERROR, f"binding volumes: {why}")

    def _has_room(self, pod: Json, node: Json) -> bool:
        name = node["metadata"]["name"]
        there = [one for on, one in self._assumed.values() if on == name]
        if pod["spec"].get("affinity", {}).get("podAntiAffinity"):
            labels = [one["metadata"]["labels"] for one in [*on_node(self._server, name), *there]]
            if any(one.get("apart") for one in labels):
                return False
        left: int = free(self._server, node) - sum(size(one)["vcore"] for one in there)
        return left >= size(pod)["vcore"]

    def _allowed(self, pod: Json, names: list[str]) -> list[str]:
        for extender in self.extenders:
            request = msgspec.json.encode({"Pod": pod, "Nodes": None, "NodeNames": names})
            answer = answer_filter(extender._shim, request)
            extender._answered()
            return list(answer["NodeNames"])
        return []

    def _unplaced(self, pod: Json) -> None:
        """An approved pod keeps its quota: in the end its user deletes it, as the documentation says."""
        uid = pod["metadata"]["uid"]
        self._tries[uid] = tries = self._tries.get(uid, 0) + 1
        if self.resting and not self._is_extended and tries > TRIES_BEFORE_DELETION:
            self._server.delete(pod)
        elif tries == 1:
            self._say(pod, "Unschedulable", "no node fits")

    def _bind(self, pod: Json, node: str, life: int) -> None:
        uid = pod["metadata"]["uid"]
        if life == self._life:
            self._assumed.pop(uid, None)
            self._volumes.forget(uid)
        elif self._random.random() < 0.5:
            return
        path = f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}"
        there = self._server.find("pods", pod["metadata"]["name"])
        if not self._server.is_up or there is None:
            return
        body = {"metadata": {"uid": uid}, "target": {"name": node}}
        try:
            if not self.resting and self._random.random() < FAILS:
                self._say(there, SCHEDULER_ERROR, "binding rejected")
            elif self._server.find("nodes", node, "") is not None:
                self._server.call("POST", f"{path}/binding", body, None)
        except ApiError as error:
            self._story.tell(f"the default scheduler cannot bind {uid}: {error}")

    def _say(self, pod: Json, reason: str, message: str) -> None:
        condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
        path = f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}/status"
        body = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": {"conditions": [condition]}}
        self._server.call("PATCH", path, body, None)


def _is_its(pod: Json) -> bool:
    spec = pod["spec"]
    waits = not spec.get("nodeName") and not has_ended(pod) and not pod["metadata"].get("deletionTimestamp")
    return waits and spec["schedulerName"] == OTHER and not spec.get("schedulingGates")
