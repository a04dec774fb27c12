"""The chart on a real API server, by a real Helm: its objects are accepted, its job makes keys with which real services
work, and releases are upgraded, rolled back and removed.

There are no nodes. A kubelet of the test runs the job of the keys as a process with the rights of its service account,
and says of all other pods that they run.
"""

from __future__ import annotations

import asyncio
import base64
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from integrations.kubernetes.tests.control_plane.processes import NAMESPACE, ControlPlane, programs
from remuda.embedded import free_port
from remuda_kubernetes.api.client import Client, Conflict, NotFound
from tests.chart.helm import (
    CHART,
    MISSING,
    HelmFailed,
    Manifest,
    by_name,
    call,
    is_installed,
    manifests_in,
    rendered,
)
from tests.chart.system.test_rendered import VARIANTS
from tests.patience import PATIENCE

pytestmark = [
    pytest.mark.skipif(not is_installed(), reason=MISSING),
    pytest.mark.skipif(programs() is None, reason="no control plane: run `make kubernetes`"),
]
CONTROLLERS = "job,namespace,garbagecollector,deployment,replicaset,statefulset"
PLURALS = {
    "NetworkPolicy": "networkpolicies", "Ingress": "ingresses", "PodDisruptionBudget": "poddisruptionbudgets",
}  # fmt: skip
# This API server does not know them; the schemas of newer versions are those of test_rendered.
UNKNOWN = ("FlowSchema", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("plane"), controllers=CONTROLLERS) as running:
        yield running


# A dry run


def _path(one: Manifest) -> str:
    group, version = one["apiVersion"], one["apiVersion"]
    root = f"/api/{version}" if "/" not in version else f"/apis/{group}"
    plural = PLURALS.get(one["kind"], one["kind"].lower() + "s")
    namespace = one["metadata"].get("namespace")
    where = f"/namespaces/{namespace}" if namespace else ""
    return f"{root}{where}/{plural}/{one['metadata']['name']}"


def _for_this_version(one: Manifest) -> Manifest:
    """As the chart renders it for this API server, which Helm asks when it installs."""
    one = deepcopy(one)
    if one["kind"] == "PodDisruptionBudget":
        return one | {"apiVersion": "policy/v1beta1"}
    if one["kind"] == "StatefulSet":
        one["spec"].pop("minReadySeconds", None)
    return one


@pytest.mark.parametrize("name", VARIANTS)
async def test_the_api_server_accepts_each_object(plane: ControlPlane, name: str) -> None:
    file, values = VARIANTS[name]
    async with Client(plane.credentials()) as client:
        for one in await asyncio.to_thread(rendered, values, file=file, namespace=NAMESPACE):
            if one["kind"] not in UNKNOWN:
                query = {"dryRun": "All", "fieldManager": "test"}
                body = _for_this_version(one)
                await client.call("PATCH", _path(body), body, form="application/apply-patch+yaml", query=query)


# A release


class Release:
    def __init__(self, plane: ControlPlane, client: Client, name: str) -> None:
        self.client = client
        self.plane = plane
        self.name = name

    async def apply(
        self, verb: str, values: dict[str, Any] | None = None, *, file: str = "", chart: Path = CHART
    ) -> dict[str, Any]:
        files = [str(chart / file)] if file else []
        found: dict[str, Any] = await asyncio.to_thread(
            call, "apply", verb=verb, kubeconfig=str(self.plane.kubeconfig()), namespace=NAMESPACE, release=self.name,
            chart=str(chart), files=files, values=values or {}, timeout=120,
        )  # fmt: skip
        assert found["status"] == "deployed"
        return found

    async def end(self, verb: str, **options: Any) -> Any:
        return await asyncio.to_thread(
            call, "end", verb=verb, kubeconfig=str(self.plane.kubeconfig()), namespace=NAMESPACE, release=self.name,
            **options,
        )  # fmt: skip

    async def get(self, kind: str, name: str, group: str = "/api/v1") -> Manifest | None:
        try:
            content = await self.client.call("GET", f"{group}/namespaces/{NAMESPACE}/{kind}/{name}")
        except NotFound:
            return None
        return msgspec.json.decode(content, type=dict[str, Any])

    async def data(self, kind: str, name: str) -> dict[str, bytes]:
        found = await self.get(kind, name)
        assert found is not None, name
        return {
            key: base64.b64decode(value) if kind == "secrets" else value.encode()
            for key, value in (found.get("data") or {}).items()
        }

    async def listed(self, path: str) -> dict[str, Manifest]:
        content = await self.client.call("GET", path)
        return {one["metadata"]["name"]: one for one in msgspec.json.decode(content)["items"]}


class Kubelet:
    """`ran`: the jobs whose pods have run, in order."""

    def __init__(self, plane: ControlPlane, client: Client) -> None:
        self._plane = plane
        self._client = client
        self.ran: list[str] = []

    async def run(self) -> None:
        while True:
            content = await self._client.call("GET", f"/api/v1/namespaces/{NAMESPACE}/pods")
            for pod in msgspec.json.decode(content)["items"]:
                with suppress(NotFound, Conflict):
                    await self._handle(pod)
            await asyncio.sleep(0.1)

    async def _handle(self, pod: Manifest) -> None:
        name = pod["metadata"]["name"]
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}"
        if "deletionTimestamp" in pod["metadata"]:
            await self._client.delete_pod(NAMESPACE, name, pod["metadata"]["uid"], grace_s=0)
        elif pod["status"]["phase"] == "Pending":
            owners = pod["metadata"].get("ownerReferences", [{"kind": "Pod", "name": name}])
            is_done = owners[0]["kind"] in ("Job", "Pod")
            if is_done:
                self.ran.append(owners[0]["name"])
            if pod["metadata"]["labels"]["app"] == "remuda-keys":
                await self._make_keys(pod)
            ready = [{"type": "Ready", "status": "False" if is_done else "True"}]
            phase = "Succeeded" if is_done else "Running"
            await self._client.patch(f"{path}/status", {"status": {"phase": phase, "conditions": ready}})

    async def _make_keys(self, pod: Manifest) -> None:
        assert pod["spec"]["serviceAccountName"] == "remuda-keys"
        (container,) = pod["spec"]["containers"]
        arguments = [*container["args"], "--kubeconfig", str(self._plane.kubeconfig("keys")), "--namespace", NAMESPACE]
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "remuda", *arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        printed, _ = await process.communicate()
        assert process.returncode == 0, printed.decode()


@asynccontextmanager
async def release(plane: ControlPlane, name: str) -> AsyncIterator[tuple[Release, Kubelet]]:
    """A release in an empty namespace, which is empty again in the end."""
    async with Client(plane.credentials()) as client:
        kubelet = Kubelet(plane, client)
        task = asyncio.create_task(kubelet.run())
        under_test = Release(plane, client, name)
        try:
            yield under_test, kubelet
            assert not task.done() or task.result()
        finally:
            with suppress(HelmFailed):
                await under_test.end("uninstall", ignore_not_found=True)
            for kind in ("secrets", "configmaps", "pods", "serviceaccounts", "persistentvolumeclaims"):
                await client.call("DELETE", f"/api/v1/namespaces/{NAMESPACE}/{kind}")
            await client.call(
                "DELETE", f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs", {"propagationPolicy": "Background"}
            )
            task.cancel()
            await asyncio.wait([task])


async def test_a_release_is_installed_upgraded_rolled_back_and_removed(plane: ControlPlane) -> None:
    async with release(plane, "remuda") as (one, kubelet):
        installed = await one.apply("install", {"keys": {"operators": {"alice@example.com": ["ops"]}}})
        assert "helm test remuda" in installed["notes"]
        async with asyncio.timeout(30 * PATIENCE):
            while len(kubelet.ran) < 2:  # noqa: ASYNC110 - of another task
                await asyncio.sleep(0.05)
        assert kubelet.ran[0] == "remuda-keys" and kubelet.ran[1].startswith("declare-")
        keys = await one.data("secrets", "key-core")
        assert (await one.data("secrets", "operators")).keys() == {"alice_example.com.seed"}
        assert await one.get("roles", "remuda-keys", "/apis/rbac.authorization.k8s.io/v1") is None  # only while it runs
        servers = await one.get("statefulsets", "nats", "/apis/apps/v1")
        assert servers is not None

        # An upgrade: first the keys, then the streams, then everything else. Keys stay, and a new RM has one.
        kubelet.ran.clear()
        await one.apply("upgrade", {"keys": {"resourceManagers": ["cluster-1"]}, "image": {"tag": "1.1"}})
        assert kubelet.ran[:2] == ["remuda-keys", "declare-before-upgrade"]
        assert await one.data("secrets", "key-core") == keys
        assert b"RM-cluster-1" in (await one.data("configmaps", "nats-accounts"))["accounts.conf"]
        assert (await one.data("secrets", "key-rm-cluster-1"))["seed"].startswith(b"SU")
        assert not (await one.data("secrets", "operators"))  # alice is not wanted any more
        changed = await one.get("statefulsets", "nats", "/apis/apps/v1")
        assert changed is not None and changed["metadata"]["uid"] == servers["metadata"]["uid"]
        pods, former = (it["spec"]["template"]["metadata"] for it in (changed, servers))
        assert pods["annotations"] != former["annotations"]  # so the servers are replaced, and read who has access

        await one.end("rollback", version=1)
        again = await one.get("statefulsets", "nats", "/apis/apps/v1")
        assert again is not None and again["spec"]["template"]["spec"] == servers["spec"]["template"]["spec"]

        await one.end("uninstall")
        left = await one.listed(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments")
        assert not left
        assert await one.data("secrets", "key-core") == keys  # with the volumes, a new installation goes on


async def test_test_of_helm_passes(plane: ControlPlane) -> None:
    async with release(plane, "remuda") as (one, kubelet):
        await one.apply("install", file="minimal.yaml")
        await one.end("test", timeout=60)
        assert kubelet.ran[-1] == "remuda-test"


async def test_the_former_chart_is_upgraded_in_place(plane: ControlPlane, tmp_path: Path) -> None:
    """To the front end alone: the same objects, not new ones, so that pods go on being scheduled."""
    former = tmp_path / "former"
    for file in (CHART.parents[2] / "tests/chart/former").rglob("*.yaml"):
        copy = former / file.relative_to(CHART.parents[2] / "tests/chart/former")
        copy.parent.mkdir(parents=True, exist_ok=True)
        text = file.read_text().replace("policy/v1\n", "policy/v1beta1\n").replace(">=1.21.0", ">=1.20.0")
        # This Helm applies at the server, and one of version 1.20 wants to know the protocol of ports.
        copy.write_text(re.sub(r"((?:containerPort|targetPort): \w+)}", r"\1, protocol: TCP}", text))
    async with release(plane, "remuda-kubernetes") as (one, kubelet):
        await one.apply("install", {"flowSchema": False}, chart=former)
        before = await _uids(one)
        assert {"kubernetes", "remuda-webhook"} <= {name for _, name in before}
        upgraded = await one.apply("upgrade", file="front-only.yaml")
        assert await _uids(one) == before
        assert upgraded["revision"] == 2
        assert by_name(manifests_in(upgraded["manifest"])).keys() == {
            key for key in by_name(rendered(file="front-only.yaml")) if key[0] not in UNKNOWN
        }
        assert not kubelet.ran

        # And the scheduler beside it: nothing runs whose streams a job could declare before the upgrade.
        await one.apply("upgrade", file="minimal.yaml")
        assert kubelet.ran[0] == "remuda-keys" and "declare-before-upgrade" not in kubelet.ran
        after = await _uids(one)
        assert before.items() <= after.items() and ("deployments", "core") in after


async def _uids(one: Release) -> dict[tuple[str, str], str]:
    kinds = (
        "/apis/apps/v1|deployments", "/api/v1|services", "/api/v1|serviceaccounts",
        "/apis/networking.k8s.io/v1|networkpolicies",
        "/apis/policy/v1beta1|poddisruptionbudgets", "/apis/rbac.authorization.k8s.io/v1|roles",
        "/apis/rbac.authorization.k8s.io/v1|rolebindings",
    )  # fmt: skip
    found = {}
    for kind in kinds:
        root, plural = kind.split("|")
        for name, item in (await one.listed(f"{root}/namespaces/{NAMESPACE}/{plural}")).items():
            found[plural, name] = item["metadata"]["uid"]
    return found


async def test_keys_of_others_are_left_alone(plane: ControlPlane) -> None:
    async with release(plane, "remuda") as (one, _):
        body = {"metadata": {"name": "key-core"}, "stringData": {"seed": "SUsomebody's"}}
        await one.client.create(f"/api/v1/namespaces/{NAMESPACE}/secrets", body)
        arguments = ["cluster-keys", "--kubeconfig", str(plane.kubeconfig()), "--namespace", NAMESPACE]
        done = await asyncio.to_thread(_remuda, *arguments)
        assert done.returncode == 1
        assert "found key-core" in done.stderr and "keys.create=false" in done.stderr
        assert (await one.data("secrets", "key-core"))["seed"] == b"SUsomebody's"
        assert await one.get("secrets", "keys") is None


def _remuda(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "remuda", *arguments], capture_output=True, text=True, check=False, timeout=120,
        env=os.environ | environment,
    )  # fmt: skip


# Keys, certificates and settings in use


SERVICES = ("core", "rmproxy", "config", "events", "web")


async def test_what_pods_mount_makes_a_system_that_helm_test_passes(plane: ControlPlane, tmp_path: Path) -> None:
    """Three servers and services as processes, with the files of the pods; then what the pod of `helm test` runs."""
    async with release(plane, "remuda") as (one, _):
        await one.apply("install", {"tempo": {"enabled": False}})
        mounted = {
            "nats": ("configmaps", "nats"), "nats/keys": ("configmaps", "nats-accounts"),
            "tls": ("secrets", "nats-tls"), "ca": ("configmaps", "ca"),
            "settings": ("configmaps", "settings"), "queues": ("configmaps", "queues"),
        } | {name: ("secrets", f"key-{name}") for name in ("admin", "rm-helm-test", *SERVICES)}  # fmt: skip
        for folder, (kind, name) in mounted.items():
            (tmp_path / folder).mkdir()
            for key, content in (await one.data(kind, name)).items():
                (tmp_path / folder / key).write_bytes(content)
        (test,) = (it for it in rendered() if it["metadata"]["name"] == "remuda-test")
    servers = _servers(tmp_path)
    url = ",".join(server.url for server in servers)
    settings = tmp_path / "settings/remuda.yaml"
    text = re.sub(r"url: tls://\S+", f"url: {url}", settings.read_text())
    settings.write_text(text.replace("/run/secrets/tls", str(tmp_path / "ca")).replace("/etc/remuda", str(tmp_path)))
    access = {"REMUDA_NATS_URL": url, "REMUDA_NATS_CA": str(tmp_path / "ca/ca.pem")}
    with Processes(tmp_path) as processes:
        for server in servers:
            command = (Path(sysconfig.get_path("scripts")) / "nats-server", "--config", server.file)
            processes.start(server.name, *command, **server.environment)
        declare = ("declare", "--settings", str(settings))
        declared = await asyncio.to_thread(_remuda, *declare, REMUDA_NATS_SEED=str(tmp_path / "admin/seed"))
        assert declared.returncode == 0, (declared, processes.log("nats-0"))
        for name in SERVICES:
            processes.start(
                name, sys.executable, "-m", "remuda", "run", name, "--settings", settings,
                REMUDA_INSTANCE=name, REMUDA_NATS_SEED=str(tmp_path / name / "seed"),
                REMUDA_WEB_PORT=str(free_port("127.0.0.1")),
            )  # fmt: skip
        for container in test["spec"]["containers"]:
            (key,) = (it["name"] for it in container["volumeMounts"] if it["mountPath"] == "/run/secrets/key")
            seed = tmp_path / {"admin": "admin", "rm": "rm-helm-test"}[key] / "seed"
            domain = {it["name"]: it["value"] for it in container["env"] if it["name"] == "REMUDA_NATS_DOMAIN"}
            async with asyncio.timeout(60 * PATIENCE):
                while True:  # as `helm test` is run once pods are ready
                    done = await asyncio.to_thread(
                        _remuda, *container["args"], **access, **domain, REMUDA_NATS_SEED=str(seed)
                    )
                    if done.returncode == 0 or "not running" not in done.stderr:
                        break
            assert done.returncode == 0, (container["name"], done, *map(processes.log, SERVICES))
        without_key = await asyncio.to_thread(_remuda, "status", **access)
        assert without_key.returncode == 1 and "uthorization" in without_key.stderr, without_key


class Processes:
    """Killed in the end. `log`: what one has printed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.wait()

    def start(self, name: str, *command: str | Path, **environment: str) -> None:
        given = os.environ | environment
        with (self._folder / f"{name}.log").open("wb") as log:
            self._processes.append(subprocess.Popen(command, env=given, stdout=log, stderr=log))

    def log(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text()[-2000:]


@dataclass(frozen=True)
class Server:
    name: str
    file: Path  # its configuration
    url: str
    environment: dict[str, str]


def _servers(folder: Path) -> list[Server]:
    """The configuration of the pods, with ports and folders of this test."""
    ports = [[free_port("127.0.0.1") for _ in range(3)] for _ in range(3)]
    routes = ", ".join(f"nats://localhost:{cluster}" for _, cluster, _ in ports)
    servers = []
    for number, (client, cluster, monitor) in enumerate(ports):
        name = f"nats-{number}"
        shutil.copytree(folder / "nats", folder / name)
        replaced = {
            "/run/secrets": str(folder / "tls"), "/data": str(folder / name / "data"),
            "0.0.0.0:4222": f"127.0.0.1:{client}", "0.0.0.0:6222": f"127.0.0.1:{cluster}", ":8222": f":{monitor}",
        }  # fmt: skip
        for file in (folder / name).glob("*.conf"):
            text = file.read_text()
            for former, latter in replaced.items():
                text = text.replace(former, latter)
            file.write_text(text)
        environment = {"NATS_NAME": name, "NATS_MAX_STORE": "126GB", "NATS_ROUTES": f"[{routes}]"}
        servers.append(Server(name, folder / name / "cluster.conf", f"tls://127.0.0.1:{client}", environment))
    return servers
