"""Limits of users and groups, in both modes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from integrations.kubernetes.tests.suite.modes import Mode
from remuda.embedded import NatsServer


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "queues.yaml"


def of_user(user: str, group: str) -> dict[str, Any]:
    info = json.dumps({"user": user, "groups": [group]})
    return {"annotations": {"yunikorn.apache.org/user.info": info}}


def configuration(limits: Mapping[str, str]) -> str:
    """A queue for each entry, with these limits, and `root.open` without."""
    leaves = ", ".join(f"{{name: {name}, limits: {of}}}" for name, of in limits.items())
    root = f"{{name: root, submitacl: '*', queues: [{{name: open}}, {leaves}]}}"
    return f"partitions: [{{name: default, queues: [{root}]}}]\n"


# queue: limits under which alice of group dev may have one vcore there, and others more.
LIMITS = {
    "user": "[{limit: '', users: [alice], maxresources: {vcore: 1}}]",
    "group": "[{limit: '', groups: [dev], maxresources: {vcore: 1}}]",
    "anyone": "[{limit: '', users: ['*'], maxresources: {vcore: 1}}]",
    "anygroup": (
        "[{limit: '', groups: [qa], maxresources: {vcore: 2}}, {limit: '', groups: ['*'], maxresources: {vcore: 1}}]"
    ),
    "named": (
        "[{limit: '', users: [alice], maxresources: {vcore: 1}}, {limit: '', users: ['*'], maxresources: {vcore: 2}}]"
    ),
    "namedgroup": (
        "[{limit: '', groups: [dev], maxresources: {vcore: 1}}, {limit: '', groups: ['*'], maxresources: {vcore: 2}}]"
    ),
    "below": (
        "[{limit: '', users: [alice], maxresources: {vcore: 1}}, {limit: '', groups: [dev], maxresources: {vcore: 2}}]"
    ),
    "above": (
        "[{limit: '', users: [alice], maxresources: {vcore: 2}}, {limit: '', groups: [dev], maxresources: {vcore: 1}}]"
    ),
}


async def test_limits_of_users_and_groups(mode: Mode, server: NatsServer, file: Path) -> None:
    """user_group_limit 1, 3, 5, 6, 7, 9, 15, 16: other users and other queues are unaffected."""
    file.write_text(configuration(LIMITS))
    alice, carol = of_user("alice", "dev"), of_user("carol", "qa")
    async with mode.cluster(server.url, file) as it:
        await it.add_nodes("n1", cpu="32")
        for name in LIMITS:
            await it.create(mode.pod(f"{name}-1", app=f"{name}-a", queue=f"root.{name}", cpu="1", **alice))
        await it.bound(*(f"{name}-1" for name in LIMITS))
        for name in LIMITS:
            await it.create(mode.pod(f"{name}-2", app=f"{name}-a", queue=f"root.{name}", cpu="1", **alice))
            await it.create(mode.pod(f"{name}-3", app=f"{name}-c", queue=f"root.{name}", cpu="1", **carol))
        await it.create(mode.pod("elsewhere", app="open", queue="root.open", cpu="2", **alice))
        await it.bound("elsewhere", *(f"{name}-3" for name in LIMITS))
        for name in LIMITS:
            await mode.why(it, f"{name}-2", "limit")


async def test_limits_of_applications(mode: Mode, server: NatsServer, file: Path) -> None:
    """user_group_limit 2, 4, 8, 10: other users and other queues are unaffected."""
    one = "maxapplications: 1"
    limits = {
        "user": f"[{{limit: '', users: [alice], {one}}}]",
        "group": f"[{{limit: '', groups: [dev], {one}}}]",
        "anyone": f"[{{limit: '', users: ['*'], {one}}}]",
        "anygroup": f"[{{limit: '', groups: [qa], maxapplications: 2}}, {{limit: '', groups: ['*'], {one}}}]",
    }
    file.write_text(configuration(limits))
    alice, carol = of_user("alice", "dev"), of_user("carol", "qa")
    async with mode.cluster(server.url, file) as it:
        await it.add_nodes("n1", cpu="32")
        for name in limits:
            await it.create(mode.pod(f"{name}-1", app=f"{name}-1", queue=f"root.{name}", cpu="1", **alice))
        await it.bound(*(f"{name}-1" for name in limits))
        for name in limits:
            await it.create(mode.pod(f"{name}-2", app=f"{name}-2", queue=f"root.{name}", cpu="1", **alice))
            await it.create(mode.pod(f"{name}-3", app=f"{name}-3", queue=f"root.{name}", cpu="1", **carol))
            await it.create(mode.pod(f"{name}-4", app=f"{name}-4", queue="root.open", cpu="1", **alice))
        await it.bound(*(f"{name}-{number}" for name in limits for number in (3, 4)))
        for name in limits:
            await mode.why(it, f"{name}-2")
            await it.end(f"{name}-1")
        await it.bound(*(f"{name}-2" for name in limits))


async def test_names_with_special_characters(mode: Mode, server: NatsServer, file: Path) -> None:
    """user_group_limit 11, 12, 13."""
    user, name, queue = "al.ice@corp:x-1_", "dev.ops:x-1_", "aZ-_09"
    limits = {
        queue: f"[{{limit: '', users: ['{user}'], maxresources: {{vcore: 1}}}}]",
        "group": f"[{{limit: '', groups: ['{name}'], maxresources: {{vcore: 1}}}}]",
    }
    file.write_text(configuration(limits))
    who = {queue: of_user(user, "any"), "group": of_user("any", name)}
    async with mode.cluster(server.url, file) as it:
        await it.add_nodes("n1")
        pods = {path: f"p{number}" for number, path in enumerate(limits)}
        for path, pod in pods.items():
            await it.create(mode.pod(f"{pod}-first", app=pod, queue=f"root.{path}", cpu="1", **who[path]))
        await it.bound(*(f"{pod}-first" for pod in pods.values()))
        for path, pod in pods.items():
            await it.create(mode.pod(f"{pod}-second", app=pod, queue=f"root.{path}", cpu="1", **who[path]))
        for pod, limited in zip(pods.values(), (user, name), strict=True):
            await mode.why(it, f"{pod}-second", limited)


async def test_wildcard_is_raised_later(mode: Mode, server: NatsServer, file: Path) -> None:
    """user_group_limit 15, 16: that counts for all but those who are named."""

    def with_wildcard(most: int) -> str:
        def limits(kind: str, name: str) -> str:
            amounts = {name: 1, "'*'": most}
            of = (f"{{limit: '', {kind}: [{who}], maxresources: {{vcore: {at}}}}}" for who, at in amounts.items())
            return f"[{', '.join(of)}]"

        return configuration({"user": limits("users", "alice"), "group": limits("groups", "dev")})

    file.write_text(with_wildcard(1))
    who = {"alice": of_user("alice", "dev"), "carol": of_user("carol", "qa")}
    async with mode.cluster(server.url, file) as it:
        await it.add_nodes("n1", cpu="32")
        of = [(queue, user) for queue in ("user", "group") for user in who]
        for number in (1, 2):
            for queue, user in of:
                name = f"{queue}-{user}-{number}"
                await it.create(mode.pod(name, app=f"{queue}-{user}", queue=f"root.{queue}", cpu="1", **who[user]))
            if number == 1:
                await it.bound(*(f"{queue}-{user}-1" for queue, user in of))
        for queue, user in of:
            await mode.why(it, f"{queue}-{user}-2", "limit")
        file.write_text(with_wildcard(2))
        await it.bound("user-carol-2", "group-carol-2")
        for queue in ("user", "group"):
            await mode.why(it, f"{queue}-alice-2", "limit")
