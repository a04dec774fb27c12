"""The permissions and files of a container, and its ports."""

from __future__ import annotations

import json

import pytest

from tests.e2e.stack import IMAGES, SECRETS, SERVERS, SERVICES, Stack

pytestmark = pytest.mark.timeout(300)


def secrets() -> list[str]:
    seeds = [file.read_text().strip() for file in SECRETS.rglob("*.seed")]
    keys = [line for file in SECRETS.rglob("*.key") for line in file.read_text().splitlines() if "--" not in line]
    return [*seeds, *keys]


@pytest.mark.parametrize("name", [*SERVICES, *SERVERS])
def test_no_secret_shows_and_nothing_can_be_written(stack: Stack, name: str) -> None:
    container = stack.container(name)
    seen = json.dumps(container.attrs) + json.dumps(container.top()) + container.logs().decode(errors="replace")
    assert not [secret for secret in secrets() if secret in seen]
    host = container.attrs["HostConfig"]
    assert host["ReadonlyRootfs"] and not host["Privileged"] and host["CapDrop"] == ["ALL"]
    assert container.attrs["Config"]["User"].split(":")[0] not in ("", "0", "root")
    code, said = container.exec_run(["sh", "-c", "id -u; touch /opt/remuda/x"])
    assert code != 0 and b"Read-only" in said and not said.startswith(b"0")


@pytest.mark.parametrize("name", IMAGES)
def test_no_secret_is_in_an_image(stack: Stack, name: str) -> None:
    needles = [secret.encode() for secret in secrets()]
    rest = b""
    for piece in stack.files_of(name):
        searched = rest + piece
        assert not [needle for needle in needles if needle in searched]
        rest = searched[-200:]


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_says_how_it_is(stack: Stack, name: str) -> None:
    code, said = stack.container(name).exec_run(["/opt/remuda/healthy"])
    assert code == 0 and json.loads(said)["ready"]
