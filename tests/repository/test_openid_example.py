"""deploy/openid: what the stack becomes with it, by compose and by kustomize, and that its parts agree with each other
and with the settings of the web service. Logins at a real provider are in `test_web_access` and
`test_web_page_login`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from ruamel.yaml import YAML

from remuda.local.services import check_settings
from remuda_bus.settings import declared
from remuda_web.settings import WebSettings
from tests.repository.test_manifests import DEPLOY, KUBERNETES

URL, ISSUER = "https://remuda.example:9443", "https://login.example/realms/people"
GIVEN = {"REMUDA_WEB_URL": URL, "REMUDA_WEB_OPENID_ISSUER": ISSUER}
EXAMPLE = DEPLOY / "openid"


def settings_in(environment: dict[str, str], directory: Path) -> dict[str, str]:
    """The settings of the web service by key, from variables; the web service takes them. Secrets are files there."""
    keys = {f"REMUDA_{one.key.upper().replace('.', '_')}": one.key for one in declared(WebSettings.model_fields)}
    found = {keys[name]: value for name, value in environment.items() if name.startswith("REMUDA_WEB_")}
    given = {}
    for key, value in found.items():
        if value.startswith("/run/secrets/"):
            file = directory / value.rpartition("/")[2]
            file.write_text("a secret of thirty-two characters")
            value = str(file)
        given[key] = value
    file = directory / "remuda.yaml"
    file.write_text("web: {host: 0.0.0.0, open: true}\n")
    check_settings(["web"], file, [f"{key}={value}" for key, value in given.items()])
    return found


@pytest.mark.skipif(shutil.which("docker-compose") is None, reason="there is no docker-compose")
@pytest.mark.parametrize(("profile", "service"), [("minimal", "web"), ("full", "web-1")])
def test_compose_adds_the_provider_to_the_stack(profile: str, service: str, tmp_path: Path) -> None:
    files = ("-f", DEPLOY / "compose.yaml", "-f", EXAMPLE / "compose.yaml")
    done = subprocess.run(
        ["docker-compose", *files, "--profile", profile, "config"],
        env={**os.environ, **GIVEN}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    stack = YAML(typ="safe").load(done.stdout)
    web = stack["services"][service]
    settings = settings_in(web["environment"], tmp_path)
    assert (settings["web.url"], settings["web.openid_issuer"]) == (URL, ISSUER)
    assert web["environment"]["REMUDA_NATS_SEED"] == "/run/secrets/web", "the rest of the service is as before"
    mounted = {one["source"] for one in web["secrets"]}
    used = {value.rpartition("/")[2] for value in web["environment"].values() if "/run/secrets/" in str(value)}
    assert used <= mounted <= stack["secrets"].keys()
    root = EXAMPLE.parents[1]
    named = {Path(stack["secrets"][name]["file"]) for name in ("web.pem", "web.key", "openid-secret", "session-key")}
    readme = (EXAMPLE / "README.md").read_text()
    assert [one for one in named if str(one.relative_to(root)) not in readme] == []


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl")
def test_kustomize_adds_the_provider_to_the_stack(tmp_path: Path) -> None:
    """With the overlay of the README."""
    (tmp_path / "remuda").symlink_to(DEPLOY.parent)
    (tmp_path / "overlay").mkdir()
    overlay = (EXAMPLE / "README.md").read_text().partition("```yaml\n")[2].partition("```")[0]
    deploy = os.path.relpath(DEPLOY, tmp_path / "overlay")
    (tmp_path / "overlay" / "kustomization.yaml").write_text(overlay.replace("../remuda/deploy", deploy))
    done = subprocess.run(["kubectl", "kustomize", tmp_path / "overlay"], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    manifests = list(YAML(typ="safe").load_all(done.stdout))
    (web,) = [one for one in manifests if one["kind"] == "Deployment" and one["metadata"]["name"] == "web"]
    kubernetes_validate.validate(web, KUBERNETES, strict=True)
    provider = next(one for one in manifests if one["metadata"]["name"] == "web-to-provider")
    kubernetes_validate.validate(provider, KUBERNETES, strict=True)
    assert provider["metadata"]["namespace"] == "remuda" and provider["spec"]["policyTypes"] == ["Egress"]
    labels = web["spec"]["template"]["metadata"]["labels"]
    assert provider["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
    outside, inside = provider["spec"]["egress"]
    assert {one["ipBlock"]["cidr"] for one in outside["to"]} == {"0.0.0.0/0", "::/0"} and outside["ports"] == [
        {"port": 443}
    ]
    assert "ports" not in inside and inside["to"][0]["namespaceSelector"]["matchLabels"] == {"remuda": "openid"}
    (maps,) = [one for one in manifests if one["kind"] == "ConfigMap" and one["metadata"]["name"].startswith("openid")]
    spec: dict[str, Any] = web["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    environment = {}
    for one in container["env"]:
        if "value" in one:
            environment[one["name"]] = one["value"]
        elif reference := one["valueFrom"].get("configMapKeyRef"):
            assert reference["name"] == maps["metadata"]["name"]
            environment[one["name"]] = maps["data"][reference["key"]]
    settings = settings_in(environment, tmp_path)
    assert (settings["web.url"], settings["web.openid_issuer"]) == (URL, ISSUER)
    mounts = {one["mountPath"] for one in container["volumeMounts"]}
    for value in environment.values():
        assert not value.startswith("/run/secrets/") or str(Path(value).parent) in mounts
    assert {one["name"] for one in container["volumeMounts"]} == {one["name"] for one in spec["volumes"]}


def test_the_realm_is_what_the_settings_expect() -> None:
    (client,) = json.loads((EXAMPLE / "realm.json").read_text())["clients"]
    patch = YAML(typ="safe").load(EXAMPLE / "web.yaml")
    (container,) = patch["spec"]["template"]["spec"]["containers"]
    settings = {one["name"]: one.get("value") for one in container["env"]}
    assert client["clientId"] == settings["REMUDA_WEB_OPENID_CLIENT"]
    assert client["redirectUris"] == [f"{URL}/login/callback"]
    mappers = {one["name"]: one["config"] for one in client["protocolMappers"]}
    assert mappers["groups"]["claim.name"] == settings["REMUDA_WEB_OPENID_GROUPS"]
    assert mappers["audience"]["included.client.audience"] == client["clientId"]
