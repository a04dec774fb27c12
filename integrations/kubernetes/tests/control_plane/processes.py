"""A real control plane for tests: etcd, API server, controller manager and default scheduler, without nodes.

    with ControlPlane(folder) as plane: ...

The programs come from `build.sh`, or from the directory in REMUDA_CONTROL_PLANE. Tests that need them are skipped
without.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import ssl
import subprocess
import time
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

from ruamel.yaml import YAML

from remuda_kubernetes.api.credentials import Credentials, FixedToken, tls_context

VERSION = "1.20.2"
NAMESPACE = "remuda"  # of the front end
PR_SET_PDEATHSIG = 1
CACHE = Path(os.environ.get("REMUDA_CONTROL_PLANES", Path.home() / ".cache/remuda/kubernetes"))
GATES = "--feature-gates=GenericEphemeralVolume=true"  # what later versions have without a gate
START_WITHIN_S = 60.0
STOP_WITHIN_S = 30.0
# Name, user and groups of each token.
TOKENS = {
    "admin": ("admin", "system:masters"),
    "scheduler": ("system:kube-scheduler", ""),
    "remuda": ("system:serviceaccount:remuda:remuda", "system:serviceaccounts,system:authenticated"),
    "webhook": ("system:serviceaccount:remuda:remuda-webhook", "system:serviceaccounts,system:authenticated"),
    "keys": ("system:serviceaccount:remuda:remuda-keys", "system:serviceaccounts,system:authenticated"),
    "alice": ("alice", "dev,system:authenticated"),
    "bot": ("system:serviceaccount:remuda:bot", "system:serviceaccounts,system:authenticated"),
}


_libc = ctypes.CDLL(None)  # loaded before the fork, where nothing may be allocated


def _die_with_parent() -> None:
    """A test run that is killed leaves no control plane behind."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def programs() -> Path | None:
    """The folder of the programs; None: they are not built."""
    chosen = os.environ.get("REMUDA_CONTROL_PLANE")
    if chosen:
        return Path(chosen)
    built = CACHE / VERSION
    return built / "bin" if (built / "complete").exists() else None


DEPLOY = Path(__file__).parents[4] / "deploy"
SCHEDULER = "default-scheduler"  # as its certificate says


def _extended(port: int, certificates: Path) -> str:
    """The part about the extender in the configuration of the default scheduler, as the manifests have it."""
    of = YAML(typ="safe").load(DEPLOY / "kubernetes/extender/scheduler-configuration.yaml")
    (extender,) = of["extenders"]
    extender["urlPrefix"] = f"https://127.0.0.1:{port}"
    for name in ("caFile", "certFile", "keyFile"):
        extender["tlsConfig"][name] = str(certificates / Path(extender["tlsConfig"][name]).name)
    backoff = {"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 2}
    given = {**backoff, "profiles": of["profiles"], "extenders": [extender]}
    return "".join(f"{name}: {json.dumps(value)}\n" for name, value in given.items())


class ControlPlane:
    """`folder`: for data and logs. `scheduler`: whether the default scheduler runs. `extender_port`: it asks an
    extender there, over TLS, and does not preempt. `controllers`: those that run."""

    is_existing = False
    minor = 20  # version of Kubernetes 1

    def __init__(
        self,
        folder: Path,
        *,
        scheduler: bool = False,
        extender_port: int = 0,
        controllers: str = (
            "job,namespace,garbagecollector,deployment,replicaset,persistentvolume-binder,ephemeral-volume,disruption"
        ),
    ) -> None:
        found = programs()
        if found is None:
            raise FileNotFoundError("no control plane: run `make kubernetes`")
        self._programs = found
        self._folder = folder
        self._with_scheduler = scheduler
        self._extender_port = extender_port
        self._certificates = folder / "tls"
        self._controllers = controllers
        self._processes: list[subprocess.Popen[bytes]] = []
        etcd, peer, self.port = _free_ports(3)
        self._etcd, self._peer = f"http://127.0.0.1:{etcd}", f"http://127.0.0.1:{peer}"
        self.server = f"https://127.0.0.1:{self.port}"

    def user(self, name: str) -> str:
        """As the API server knows the user of this token."""
        return TOKENS[name][0]

    def credentials(self, name: str = "admin") -> Credentials:
        return Credentials(self.server, tls_context(None, verify=False), FixedToken(f"{name}-token"))

    def kubeconfig(self, name: str = "admin") -> Path:
        file = self._folder / f"{name}.conf"
        file.write_text(
            f"apiVersion: v1\nkind: Config\ncurrent-context: it\n"
            f"clusters: [{{name: it, cluster: {{server: '{self.server}', insecure-skip-tls-verify: true}}}}]\n"
            f"users: [{{name: it, user: {{token: {name}-token}}}}]\n"
            f"contexts: [{{name: it, context: {{cluster: it, user: it, namespace: {NAMESPACE}}}}}]\n"
        )
        return file

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def apply(self, manifest: dict[str, Any]) -> None:
        """Create an object of RBAC. Others are skipped: service accounts do not run here."""
        if manifest["apiVersion"].startswith("rbac."):
            namespace = manifest["metadata"].get("namespace", "")
            within = f"namespaces/{namespace}/" if namespace else ""
            path = f"/apis/{manifest['apiVersion']}/{within}{manifest['kind'].lower()}s"
            self._call(path, json.dumps(manifest).encode())

    def _call(self, path: str, data: bytes | None = None) -> None:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        headers = {"Authorization": "Bearer admin-token", "Content-Type": "application/json"}
        call = urllib.request.Request(self.server + path, data=data, headers=headers)
        urllib.request.urlopen(call, context=context, timeout=5).close()

    def compact(self) -> None:
        """Drop old versions of all objects. Watches of config maps, which the API server does not cache, notice it."""
        self._etcd_call("compaction", {"revision": self._etcd_call("range", {"key": "AA=="})["header"]["revision"]})

    def _etcd_call(self, verb: str, body: dict[str, Any]) -> Any:
        call = urllib.request.Request(f"{self._etcd}/v3/kv/{verb}", data=json.dumps(body).encode())
        with urllib.request.urlopen(call, timeout=5) as answer:
            return json.load(answer)

    def _start(self) -> None:
        folder, address = self._folder, "127.0.0.1"
        tokens = [f'{name}-token,{user},{name},"{groups}"' for name, (user, groups) in TOKENS.items()]
        (folder / "tokens.csv").write_text("\n".join(tokens) + "\n")
        for command in ("genrsa -out sa.key 2048", "rsa -in sa.key -pubout -out sa.pub"):
            subprocess.run(["openssl", *command.split()], cwd=folder, check=True, capture_output=True)
        self._run(
            "etcd", f"--data-dir=etcd --listen-client-urls={self._etcd} --advertise-client-urls={self._etcd} "
            f"--listen-peer-urls={self._peer} --initial-advertise-peer-urls={self._peer} "
            f"--initial-cluster=default={self._peer} --log-level=warn --unsafe-no-fsync",
        )  # fmt: skip
        # Service accounts need secrets and taints by condition a node controller: neither runs here.
        self._run(
            "kube-apiserver", f"--etcd-servers={self._etcd} --bind-address={address} --secure-port={self.port} "
            "--cert-dir=certs --service-cluster-ip-range=10.0.0.0/24 --token-auth-file=tokens.csv "
            "--watch-cache-sizes=configmaps#0 --authorization-mode=RBAC --service-account-issuer=https://api "
            "--service-account-key-file=sa.pub "
            "--service-account-signing-key-file=sa.key --allow-privileged=true --max-requests-inflight=2000 "
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition --max-mutating-requests-inflight=1000 "
            + GATES,
        )  # fmt: skip
        self._ready()
        self._call("/api/v1/namespaces", json.dumps({"metadata": {"name": NAMESPACE}}).encode())
        (manager, scheduler, plain), admin = _free_ports(3), self.kubeconfig()
        secure = f"--bind-address={address} --authentication-skip-lookup=true {GATES}"
        self._run(
            "kube-controller-manager", f"--kubeconfig={admin} --service-account-private-key-file=sa.key "
            f"--leader-elect=false --secure-port={manager} --port=0 --controllers={self._controllers} {secure}",
        )  # fmt: skip
        if self._with_scheduler:
            # A second scheduler on this machine ends where the first has the plain port by default.
            (folder / "scheduler.yaml").write_text(
                "apiVersion: kubescheduler.config.k8s.io/v1beta1\nkind: KubeSchedulerConfiguration\n"
                f"healthzBindAddress: {address}:{plain}\nmetricsBindAddress: {address}:{plain}\n"
                "leaderElection: {leaderElect: false}\npercentageOfNodesToScore: 100\n"
                f"clientConnection: {{kubeconfig: {self.kubeconfig('scheduler')}, qps: 5000, burst: 5000}}\n"
                + (self._extend() if self._extender_port else "")
            )
            self._run(
                "kube-scheduler", f"--config=scheduler.yaml --secure-port={scheduler} --port=0 {secure} "
                f"--authentication-kubeconfig={admin} --authorization-kubeconfig={admin}",
            )  # fmt: skip

    def _extend(self) -> str:
        make: list[str | Path] = [DEPLOY / "tls/make-ca.sh", self._certificates, "2", SCHEDULER]
        subprocess.run(make, check=True, capture_output=True)
        return _extended(self._extender_port, self._certificates)

    @property
    def of_extender(self) -> dict[str, Any]:
        """Settings of a front end that is this extender."""
        served, port = self._certificates / "extender", self._extender_port
        return {
            "extender_port": port,
            "extender_cert": served.with_suffix(".pem"),
            "extender_key": served.with_suffix(".key"),
            "extender_client_ca": self._certificates / "ca.pem",
            "extender_clients": SCHEDULER,
        }

    def kill_api_server(self) -> None:
        """With SIGKILL. It is started again at once; what it has stored is there."""
        commands = [cast(list[str], one.args) for one in self._processes]
        number = next(n for n, command in enumerate(commands) if command[0].endswith("kube-apiserver"))
        self._processes[number].kill()
        self._processes[number].wait()
        self._processes[number] = self._spawned(commands[number])

    def _run(self, program: str, arguments: str) -> None:
        self._processes.append(self._spawned([str(self._programs / program), *arguments.split()]))

    def _spawned(self, command: list[str]) -> subprocess.Popen[bytes]:
        with (self._folder / f"{Path(command[0]).name}.log").open("ab") as log:
            return subprocess.Popen(
                command,
                cwd=self._folder,
                stdout=log,
                stderr=log,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - it calls one function that is loaded
            )

    def _ready(self) -> None:
        deadline = time.monotonic() + START_WITHIN_S
        for path in ("/readyz", "/api/v1/namespaces/default"):
            while True:
                try:
                    self._call(path)
                    break
                except OSError:
                    self._check_processes(deadline)
                    time.sleep(0.1)

    def _check_processes(self, deadline: float) -> None:
        ended = [process.args for process in self._processes if process.poll() is not None]
        if ended or time.monotonic() > deadline:
            raise RuntimeError(f"the control plane did not start; ended: {ended}; see the logs in {self._folder}")

    def _stop(self) -> None:
        """In the reverse order: an API server without its etcd takes 20 s to end, and keeps the port."""
        while self._processes:
            process = self._processes.pop()
            process.terminate()
            try:
                process.wait(STOP_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _free_ports(count: int) -> list[int]:
    """Ports that are free together."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
