"""Pods on a real control plane, as ratios within one run: bare bindings, the default scheduler, remuda.

    bench/kubernetes.py [--nodes 1000] [--pods 5000] [--default-pods 1000] [--json]
    bench/kubernetes.py --kubeconfig FILE                     on a control plane that runs, without nodes
    bench/kubernetes.py --start --nodes 5000 --pods 20000     from the start of the front end to its first binding

Without a kubeconfig, it needs the control plane that `make kubernetes` builds. From Kubernetes 1.27, plugin mode is
measured too, with soft and hard pins. Every pod has a node selector and a toleration, in ten templates.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from integrations.kubernetes.tests.control_plane.existing import ExistingPlane, Plane
from integrations.kubernetes.tests.control_plane.processes import ControlPlane
from integrations.kubernetes.tests.manifests import node, pod
from remuda_kubernetes import limits
from remuda_kubernetes.api.client import MERGE_PATCH, NODES, PODS, Client, NotFound
from remuda_kubernetes.api.objects import Pod
from remuda_kubernetes.api.reflector import Reflector
from remuda_kubernetes.shim import names

AT_ONCE = 40
TEMPLATES = 10
REMUDA = Path(sys.executable).with_name("remuda")
IN_DEFAULT = "/api/v1/namespaces/default/pods"
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


async def each(items: list[Any], call: Any) -> None:
    """Call for each, AT_ONCE at a time."""
    left = iter(items)

    async def work() -> None:
        for item in left:
            await call(item)

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))


class Bound:
    """Watches pods. `wait(count)`: seconds from the first binding until so many are bound. `close()` ends it."""

    def __init__(self, client: Client, prefix: str) -> None:
        self.prefix = prefix
        self.first = self.last = 0.0
        self._names: set[str] = set()
        self._more = asyncio.Event()
        self._reflector = Reflector(client, PODS, self._changed, lambda _: None)
        self._task = asyncio.create_task(self._reflector.run())

    def _changed(self, of: Pod) -> None:
        name = of.metadata.name
        if name.startswith(self.prefix) and of.spec.node_name and name not in self._names:
            self._names.add(name)
            self.last = time.monotonic()
            self.first = self.first or self.last
            self._more.set()

    async def wait(self, count: int) -> float:
        while len(self._names) < count:
            self._more.clear()
            await asyncio.wait_for(self._more.wait(), 300)
        return self.last - self.first

    def close(self) -> None:
        self._task.cancel()


def manifest(name: str, number: int, scheduler: str, **spec: Any) -> dict[str, Any]:
    return pod(
        name, app=f"app-{number % TEMPLATES}", cpu="100m", memory="100Mi", scheduler=scheduler,
        nodeSelector={"group": str(number % TEMPLATES)}, tolerations=[{"key": "keep", "operator": "Exists"}], **spec,
    )  # fmt: skip


async def create(client: Client, prefix: str, count: int, scheduler: str, **spec: Any) -> float:
    began = time.monotonic()

    async def one(number: int) -> None:
        await client.create(IN_DEFAULT, manifest(f"{prefix}-{number}", number, scheduler, **spec))

    await each(list(range(count)), one)
    return time.monotonic() - began


async def delete_all(client: Client) -> None:
    async def gone(of: Pod) -> None:
        try:
            await client.delete_pod("default", of.metadata.name, of.uid, grace_s=0)
        except NotFound:
            pass

    await each((await client.list(PODS))[0], gone)


async def bare(client: Client, pods: int) -> float:
    """Pods per second of bindings alone."""
    await create(client, "bare", pods, "nobody")
    there = [one for one in (await client.list(PODS))[0] if one.metadata.name.startswith("bare")]
    nodes = [one.metadata.name for one in (await client.list(NODES))[0]]
    bound = Bound(client, "bare")
    await bound._reflector.synced.wait()

    async def bind(item: tuple[int, Pod]) -> None:
        number, of = item
        await client.bind("default", of.metadata.name, of.uid, nodes[number % len(nodes)])

    await each(list(enumerate(there)), bind)
    rate = pods / await bound.wait(pods)
    bound.close()
    await delete_all(client)
    return rate


async def by_default_scheduler(client: Client, pods: int) -> float:
    bound = Bound(client, "default")
    await create(client, "default", pods, "default-scheduler")
    rate = pods / await bound.wait(pods)
    bound.close()
    await delete_all(client)
    return rate


@asynccontextmanager
async def process(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    started = await asyncio.create_subprocess_exec(
        str(REMUDA), *arguments, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        yield started
    finally:
        started.terminate()
        await started.wait()


@asynccontextmanager
async def scheduler(folder: Path, port: int) -> AsyncIterator[None]:
    up = ("up", "--data", str(folder / "data"), "--port", str(port), "--grpc-port", "0", "--web-port", "0", "--plain")
    async with process(*up):
        for _ in range(300):
            await asyncio.sleep(0.2)
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                continue
            writer.close()
            break
        await asyncio.sleep(8)  # until its services are there
        yield


@asynccontextmanager
async def front(plane: Plane, port: int, *settings: str) -> AsyncIterator[asyncio.subprocess.Process]:
    of_front = (f"kubernetes.kubeconfig={plane.kubeconfig('admin')}", *settings)
    given = [part for setting in of_front for part in ("--set", setting)]
    async with process("run", "kubernetes", "--nats", f"nats://127.0.0.1:{port}", *given) as started:
        yield started


async def by_remuda(
    client: Client, plane: Plane, folder: Path, pods: int, port: int, pin: str = ""
) -> dict[str, float]:
    """The pods are there before the front end starts. Its CPU is that from the first binding's second on. `pin`: in
    plugin mode; empty: shim mode."""
    if pin:
        await create(client, "remuda", pods, "default-scheduler", schedulingGates=[{"name": names.GATE}])
    else:
        await create(client, "remuda", pods, "remuda")
    settings = ("kubernetes.mode=plugin", "kubernetes.hold=gates", f"kubernetes.pin={pin}") if pin else ()
    async with scheduler(folder, port):
        bound = Bound(client, "remuda")
        await bound._reflector.synced.wait()
        async with front(plane, port, *settings) as running:
            await bound.wait(1)
            at_first = cpu_s(running.pid)
            took = await bound.wait(pods)
            spent = cpu_s(running.pid) - at_first
            found = {"pods/s": pods / took, "CPU ms/pod": spent / pods * 1_000, "MB": memory_mb(running.pid)}
    bound.close()
    await delete_all(client)
    return found


async def start(client: Client, plane: Plane, folder: Path, pods: int, port: int) -> dict[str, float]:
    """`pods` run on the nodes, and one waits."""
    nodes = [one.metadata.name for one in (await client.list(NODES))[0]]

    async def running(number: int) -> None:
        made = manifest(f"runs-{number}", number, "remuda", nodeName=nodes[number % len(nodes)])
        await client.create(IN_DEFAULT, made)

    await each(list(range(pods)), running)
    found: dict[str, float] = {}
    async with scheduler(folder, port):
        for case in ("first start", "restart"):
            await client.create(IN_DEFAULT, manifest(f"waits-{case[:5].strip()}", 0, "remuda"))
            bound = Bound(client, f"waits-{case[:5].strip()}")
            await bound._reflector.synced.wait()
            began = time.monotonic()
            async with front(plane, port) as process_of_front:
                await bound.wait(1)
                bound.close()
                found[f"{case}, s"] = bound.last - began
                found[f"{case}, MB"] = memory_mb(process_of_front.pid)
    return found


def plane_of(options: argparse.Namespace, folder: Path) -> Plane:
    folder.mkdir()
    if options.kubeconfig is not None:
        return ExistingPlane(options.kubeconfig, folder)
    return ControlPlane(folder, scheduler=not options.start, controllers="namespace")


async def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    with plane_of(options, folder / "plane") as plane:
        async with Client(plane.credentials()) as client:

            async def add(number: int) -> None:
                labels = {"group": str(number % TEMPLATES)}
                await client.create("/api/v1/nodes", node(f"n{number}", **labels))
                if plane.is_existing:  # its API server may add taints to new nodes
                    await client.patch(f"/api/v1/nodes/n{number}", {"spec": {"taints": None}}, MERGE_PATCH)

            async def remove(number: int) -> None:
                await client.call("DELETE", f"/api/v1/nodes/n{number}")

            await each(list(range(options.nodes)), add)
            try:
                return await (started if options.start else rates)(client, plane, options, folder)
            finally:
                if plane.is_existing:
                    await delete_all(client)
                    await each(list(range(options.nodes)), remove)


async def started(client: Client, plane: Plane, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    return await start(client, plane, folder, options.pods, options.port)


async def rates(client: Client, plane: Plane, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """The best of the rounds; each round has all of it, so that the machine is as busy for one as for the other."""
    pins = {"shim": ""} | ({"soft": "soft", "hard": "hard"} if plane.minor >= limits.GATES_SINCE else {})
    bindings: list[float] = []
    placed: list[float] = []
    by_pin: dict[str, list[dict[str, float]]] = {name: [] for name in pins}
    for number in range(options.rounds):
        bindings.append(await bare(client, options.pods))
        placed.append(await by_default_scheduler(client, options.default_pods))
        for name, pin in pins.items():
            pods = options.default_pods if pin else options.pods
            within = folder / f"{number}-{name}"
            by_pin[name].append(await by_remuda(client, plane, within, pods, options.port, pin))
    best = {name: max(some, key=lambda one: one["pods/s"]) for name, some in by_pin.items()}
    found: dict[str, Any] = {"bare bindings/s": max(bindings), "remuda": best.pop("shim")}
    found["default scheduler, pods/s"] = alone = max(placed)
    found["of bare"] = found["remuda"]["pods/s"] / found["bare bindings/s"]
    found["of the default scheduler's"] = found["remuda"]["pods/s"] / alone
    for name, one in best.items():
        found[f"plugin mode, {name}"] = one
        found[f"{name}, of the default scheduler's"] = one["pods/s"] / alone
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--pods", type=int, default=5_000)
    parser.add_argument("--default-pods", type=int, default=1_000)
    parser.add_argument(
        "--rounds", type=int, default=2, help="of each: the best counts, because others use the machine"
    )
    parser.add_argument("--port", type=int, default=14_222)
    parser.add_argument("--start", action="store_true")
    parser.add_argument("--kubeconfig", type=Path, help="of a control plane without nodes, as its administrator")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(measure(options, Path(folder)))
    if options.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name:30} {value if isinstance(value, dict) else round(value, 2)}")


if __name__ == "__main__":
    main()
