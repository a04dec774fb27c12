"""`remuda kubernetes check`, by an HTTP server that answers as the API server does."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
from aiohttp import web
from ruamel.yaml import YAML

from remuda_kubernetes.api.client import Client
from remuda_kubernetes.api.credentials import Credentials, FixedToken
from remuda_kubernetes.shell import check as checks
from remuda_kubernetes.shell.check import Finding, check

DEPLOY: Final = Path(__file__).parents[3] / "deploy/kubernetes"
ACCOUNT: Final = "/api/v1/namespaces/remuda/serviceaccounts/remuda"
WEBHOOK: Final = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/remuda"
CONTROLLER: Final = "/api/v1/namespaces/kube-system/serviceaccounts/replicaset-controller"
POLICY: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/remuda-gates"
PODGROUPS: Final = "/apis/scheduling.volcano.sh/v1beta1/podgroups"


class Server:
    """`there`: the paths of the objects that exist. `denied`: verb and resource that the account has no right to."""

    def __init__(self, there: set[str], denied: set[tuple[str, str]], minor: str) -> None:
        self._there, self._denied, self._minor = there, denied, minor

    async def answer(self, request: web.Request) -> web.Response:
        if request.path == "/version":
            return web.json_response({"major": "1", "minor": self._minor, "gitVersion": f"v1.{self._minor}.0"})
        if request.path.endswith("/subjectaccessreviews"):
            spec = (await request.json())["spec"]
            assert spec["user"] == "system:serviceaccount:remuda:remuda"
            of = spec["resourceAttributes"]
            asked = of["verb"], "/".join(filter(None, (of["resource"], of["subresource"])))
            return web.json_response({"status": {"allowed": asked not in self._denied}}, status=201)
        status = 200 if request.path in self._there else 404
        return web.json_response({"code": status, "message": "", "items": []}, status=status)


async def found(
    *there: str, denied: tuple[tuple[str, str], ...] = (), minor: str = "36", mode: Any = "shim"
) -> list[Finding]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", Server(set(there), set(denied), minor).answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        async with Client(Credentials(url, None, FixedToken(""))) as client:
            return [one async for one in check(client, mode, "remuda", "remuda")]
    finally:
        await runner.cleanup()


async def test_an_installation_that_lacks_nothing() -> None:
    findings = await found(ACCOUNT, WEBHOOK, CONTROLLER, POLICY, PODGROUPS, mode="plugin")
    assert {one.level for one in findings} == {"good"}
    assert findings[0].what == "Kubernetes 1.36"
    assert findings[-1].what == "gangs of others: podgroups.scheduling.volcano.sh"


@pytest.mark.parametrize(
    ("lacks", "denied", "minor", "level", "says"),
    [
        (ACCOUNT, (), "36", "problem", "there is no service account remuda/remuda"),
        ("", (("create", "pods/eviction"),), "36", "problem", "has no right to create pods/eviction"),
        ("", (("watch", "jobsets"),), "36", "warning", "has no right to watch jobsets.jobset.x-k8s.io"),
        ("", (("patch", "pods"),), "36", "problem", "has no right to patch pods"),
        (WEBHOOK, (), "36", "warning", "the admission webhook is not registered: pods may name any user"),
        (CONTROLLER, (), "36", "warning", "the controller manager has one user for all its controllers"),
        (POLICY, (), "36", "warning", "no policy keeps the scheduling gate"),
        ("", (), "19", "problem", "Kubernetes 1.19"),
    ],
)
async def test_what_is_lacking_is_named_with_what_helps(
    lacks: str, denied: Any, minor: str, level: str, says: str
) -> None:
    there = {ACCOUNT, WEBHOOK, CONTROLLER, POLICY} - {lacks}
    (one,) = [one for one in await found(*there, denied=denied, minor=minor, mode="plugin") if one.level != "good"]
    assert (one.level, says in one.what, bool(one.remedy)) == (level, True, True)


def test_the_rights_are_those_that_are_deployed() -> None:
    rules = [
        rule
        for file in ("scheduler/rights.yaml", "plugin/rights.yaml")
        for one in YAML(typ="safe").load_all(DEPLOY / file)
        if one["kind"] == "ClusterRole"
        for rule in one["rules"]
    ]
    deployed = {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    rights = (*checks.NEEDED, *checks.OPTIONAL, *checks.OF_PLUGIN)
    assert {(group, resource, verb) for group, resource, verbs in rights for verb in verbs} == deployed
