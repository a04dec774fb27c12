"""`kill -9` of front ends, API server, cores, rmproxies and NATS while pods come and go; then the books have to agree.

Real processes and a real API server. The simulation tries more orders of events (`python -m tests.sim --kubernetes`).
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from integrations.kubernetes.tests.cluster import Cluster
from integrations.kubernetes.tests.control_plane.existing import chosen
from integrations.kubernetes.tests.control_plane.processes import ControlPlane, programs
from integrations.kubernetes.tests.manifests import node, pod
from remuda.local.supervisor import Program, Supervisor
from remuda.local.system import Layout, System
from remuda_bus.bus import BusError
from remuda_kubernetes.api.client import PODS, ApiError, Client
from remuda_kubernetes.api.objects import Pod
from remuda_kubernetes.shim.quantities import request_of, total
from tests.chaos import BUG

KILLS = 16
PAUSE_S = (1.0, 3.5)  # between two of them
USER_S = 0.15
KUBELET_S = 0.3
SETTLED_WITHIN_S = 120.0
NODES = 4
QUOTA = 6_000  # of root.a, in thousandths of a core
QUEUES = """
partitions:
- name: default
  queues:
  - {name: a, submitacl: "*", resources: {max: {vcore: 6}}}
  - {name: b, submitacl: "*"}
"""


class Users:
    """They create, end and delete pods; kubelets and the observer, too, are here. `wrong`: what must never be."""

    def __init__(self, client: Client, random: Random) -> None:
        self.wrong: list[str] = []
        self.resting = False
        self._client = client
        self._random = random
        self._made = 0
        self._nodes: dict[str, str] = {}  # UID -> node

    async def work(self) -> None:
        while not self.resting:
            await asyncio.sleep(USER_S)
            with suppress(ApiError):
                await self._act()

    async def _act(self) -> None:
        running = [one for one in await self.pods() if one.spec.node_name]
        drawn = self._random.random()
        if drawn < 0.55 or not running:
            self._made += 1
            app = self._random.choice("ab")
            of = pod(f"p-{self._made}", app=f"app-{app}", queue=f"root.{app}", cpu=self._random.choice(("500m", "1")))
            await self._client.create("/api/v1/namespaces/default/pods", of)
        elif drawn < 0.75:
            chosen = self._random.choice(running)
            await self._client.delete_pod("default", chosen.metadata.name, chosen.uid, grace_s=30)
        elif begun := [one for one in running if one.status.phase == "Running"]:
            # A pod that is not running yet may be said to run by `keep` meanwhile, after its end.
            await self._status(self._random.choice(begun), "Succeeded")

    async def keep(self) -> None:
        """As kubelets do."""
        while True:
            await asyncio.sleep(KUBELET_S)
            with suppress(ApiError):
                live = await self.pods()
                self._observe(live)
                for one in live:
                    with suppress(ApiError):
                        if one.metadata.deletion_timestamp is not None:
                            await self._client.delete_pod("default", one.metadata.name, one.uid, grace_s=0)
                        elif one.spec.node_name and one.status.phase == "Pending":
                            await self._status(one, "Running")

    async def pods(self) -> list[Pod]:
        """Those that have not ended."""
        return [one for one in (await self._client.list(PODS))[0] if not one.has_ended]

    async def _status(self, of: Pod, phase: str) -> None:
        path = f"/api/v1/namespaces/default/pods/{of.metadata.name}/status"
        await self._client.patch(path, {"status": {"phase": phase}})

    def _observe(self, live: list[Pod]) -> None:
        bound = [one for one in live if one.spec.node_name]
        for one in bound:
            if self._nodes.setdefault(one.uid, one.spec.node_name) != one.spec.node_name:
                self.wrong.append(f"{one.key} was on {self._nodes[one.uid]}, and is on {one.spec.node_name}")
        if (used := in_queue_a(bound)) > QUOTA:
            self.wrong.append(f"root.a has {used}, its maximum is {QUOTA}")


def in_queue_a(pods: list[Pod]) -> int:
    return sum(request_of(one)["vcore"] for one in pods if one.metadata.label("queue") == "root.a")


async def differences(it: Cluster, live: list[Pod]) -> list[str]:
    """Between the API server's pods and the scheduler's books."""
    found = []
    bound = {one.uid: one.spec.node_name for one in live if one.spec.node_name}
    allocations = Counter((row["key"], row["node"]) for row in await it.rows("allocations"))
    if allocations != Counter(bound.items()):
        found.append(f"allocations {sorted(allocations.items() ^ Counter(bound.items()).items())}")
    waiting = [one for one in live if not one.spec.node_name]
    asks = {row["key"] for row in await it.rows("asks")}
    if asks != {one.uid for one in waiting}:
        found.append(f"asks {sorted(asks ^ {one.uid for one in waiting})}")
    for row in await it.rows("nodes"):
        here = total(request_of(one) for one in live if one.spec.node_name == row["id"])
        if (known := {name: value for name, value in row["allocated"].items() if value}) != here:
            found.append(f"node {row['id']} has {here}, the scheduler {known}")
    used = in_queue_a([one for one in live if one.spec.node_name])
    fits = (one.metadata.label("queue") != "root.a" or used + request_of(one)["vcore"] <= QUOTA for one in waiting)
    return found + [f"{one.key} waits, and fits" for one, does in zip(waiting, fits, strict=True) if does]


def front(number: int, plane: ControlPlane, url: str, folder: Path) -> Program:
    of = {"kubeconfig": str(plane.kubeconfig("admin")), "lease": "remuda"}
    settings = [part for name, value in of.items() for part in ("--set", f"kubernetes.{name}={value}")]
    command = (sys.executable, "-m", "remuda", "run", "kubernetes", "--nats", url, *settings)
    return Program(f"front-{number}", command, folder / f"front-{number}.log")


@pytest.mark.timeout(400)
@pytest.mark.skipif(programs() is None or chosen() is not None, reason="no control plane: run `make kubernetes`")
async def test_books_agree_after_kills(tmp_path: Path) -> None:
    random, kills = Random(os.urandom(8).hex()), Counter[str]()
    (tmp_path / "queues.yaml").write_text(QUEUES)
    layout = Layout(tmp_path / "system", cores=2, rmproxies=2, config=tmp_path / "queues.yaml")
    with ControlPlane(tmp_path / "plane") as plane:
        async with Client(plane.credentials()) as client, System(layout) as system:
            for number in range(NODES):
                await client.create("/api/v1/nodes", node(f"n{number}", cpu="64", memory="64Gi"))
            await system.ready(60.0)
            fronts, users = Supervisor(), Users(client, random)
            for number in (1, 2):
                fronts.start(front(number, plane, system.url, tmp_path))
            working = [asyncio.create_task(users.work()), asyncio.create_task(users.keep())]
            try:
                await asyncio.sleep(4.0)
                turns: list[str] = []
                for _ in range(KILLS):
                    everyone = {one.name: one for one in (*system.processes, *fronts.processes.values())}
                    turns = turns or random.sample(names := [*everyone, "API server"], len(names))
                    name = turns.pop()
                    kills[name] += 1
                    if name == "API server":
                        await asyncio.to_thread(plane.kill_api_server)
                    elif (pid := everyone[name].pid) is not None:
                        os.kill(pid, signal.SIGKILL)
                    await asyncio.sleep(random.uniform(*PAUSE_S))
                users.resting = True
                found = ["nothing was compared"]
                with suppress(TimeoutError):
                    async with asyncio.timeout(SETTLED_WITHIN_S):
                        while found:
                            await asyncio.sleep(1.0)
                            with suppress(ApiError, BusError):  # it comes back
                                found = await differences(Cluster(client, plane, system.url, {}), await users.pods())
                made = len(users._nodes)
            finally:
                for task in working:
                    task.cancel()
                await asyncio.wait(working)
                await fronts.stop(fronts.processes)
    logs = [*system.log_dir.glob("*.log"), *tmp_path.glob("front-*.log")]
    bugs = [line for log in logs for line in log.read_text(errors="replace").splitlines() if BUG.search(line)]
    assert not (found or users.wrong or bugs), f"killed {dict(kills)}\n" + "\n".join([*found, *users.wrong, *bugs])
    assert made > KILLS, "pods were bound"
