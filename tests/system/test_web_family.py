"""What the family's own web interface reads, of its versions 1.4.0 and newest, with an RM and without one.

`READS` is the record: the fields that its services, models and pages take from each answer, and of which kind each has
to be so that no page throws. Taken from `apache/yunikorn-web`: `src/app/services/scheduler/scheduler.service.ts`,
`src/app/models` and `src/app/components`, at 1.4.0 and at commit 13112065 and later (1.6 and newer).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
import pytest_asyncio

from remuda.embedded import NatsServer
from tests.system.running import around_the_core
from tests.system.test_web_methods import QUEUES, web
from tests.system.web_client import web_service

__all__ = ["web"]
pytestmark = pytest.mark.asyncio(loop_scope="module")
# As a browser sends them from the web interface's own port.
BROWSER = {
    "Accept": "application/json, text/plain, */*", "Origin": "http://localhost:9889",
    "Referer": "http://localhost:9889/", "Sec-Fetch-Site": "same-site", "Accept-Encoding": "gzip, deflate",
}  # fmt: skip


def _text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _list(value: Any) -> bool:
    return isinstance(value, list)


def _amounts(value: Any) -> bool:
    """Each is shown as a number with a unit."""
    return isinstance(value, dict) and all(map(_number, value.values()))


def _texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(one, str) for one in value.values())


def _absent_or(kind: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """The interface shows `n/a` for what is missing."""
    return lambda value: value is None or kind(value)


class Read(NamedTuple):
    """`path`: below /ws/v1, with the partition and the leaf queue. `fields`: of each object of the answer, and those
    of objects inside: `allocations[].priority`."""

    path: str
    fields: dict[str, Callable[[Any], bool]]


ALLOCATION = {
    "allocationKey": _text, "allocationTags": _absent_or(_texts), "resource": _amounts, "priority": _text,
    "nodeId": _text, "applicationId": _text, "partition": _text, "uuid": _text, "allocationID": _text,
}  # fmt: skip
# 1.4.0 names an allocation by uuid, 1.5 by allocationID, 1.6 by its key.
READS = [
    Read("clusters", {"clusterName": _text, "partition": _text, "startTime": _number, "rmBuildInformation": _list}),
    Read("partitions", {
        "name": _text, "clusterId": _text, "state": _text, "nodeSortingPolicy.type": _text, "totalNodes": _number,
        "totalContainers": _number, "applications.total": _number, "applications.Running": _absent_or(_number),
        "applications.Accepted": _absent_or(_number), "capacity": _absent_or(lambda value: isinstance(value, dict)),
    }),
    Read("history/apps", {"timestamp": _number, "totalApplications": _text}),
    Read("history/containers", {"timestamp": _number, "totalContainers": _text}),
    Read("partition/{partition}/queues", {
        "queuename": _text, "status": _text, "isLeaf": _flag, "isManaged": _flag,
        "children": _absent_or(_list), "properties": _absent_or(_texts),
        "template": _absent_or(lambda value: isinstance(value, dict)), "maxResource": _absent_or(_amounts),
        "guaranteedResource": _absent_or(_amounts), "allocatedResource": _absent_or(_amounts),
        "pendingResource": _absent_or(_amounts), "absUsedCapacity": _absent_or(_amounts),
    }),
    Read("partition/{partition}/queue/{queue}/applications", {
        "applicationID": _text, "applicationState": _text, "submissionTime": _number, "stateLog": _list,
        "stateLog[].time": _number, "stateLog[].applicationState": _text, "lastStateChangeTime": _absent_or(_number),
        "finishedTime": _absent_or(_number), "usedResource": _absent_or(_amounts),
        "pendingResource": _absent_or(_amounts), "maxUsedResource": _absent_or(_amounts),
        "allocations": _absent_or(_list), **{f"allocations[].{name}": kind for name, kind in ALLOCATION.items()},
    }),
    Read("partition/{partition}/nodes", {
        "nodeID": _text, "hostName": _absent_or(_text), "rackName": _absent_or(_text), "attributes": _texts,
        "capacity": _amounts, "available": _absent_or(_amounts), "allocated": _absent_or(_amounts),
        "occupied": _absent_or(_amounts), "utilized": _absent_or(_amounts), "allocations": _absent_or(_list),
        **{f"allocations[].{name}": kind for name, kind in ALLOCATION.items()},
        "foreignAllocations[].allocationKey": _text,
    }),
    Read("scheduler/node-utilization", {
        "type": lambda value: isinstance(value, str), "utilization": _list, "utilization[].bucketName": _text,
        "utilization[].numOfNodes": _absent_or(_number), "utilization[].nodeNames": _absent_or(_list),
    }),
    Read("scheduler/node-utilizations", {
        "partition": _text, "clusterId": _text, "utilizations": _list, "utilizations[].type": _text,
        "utilizations[].utilization": lambda value: _list(value) and len(value) == 10,
        "utilizations[].utilization[].bucketName": _text,
        "utilizations[].utilization[].numOfNodes": _absent_or(_number),
        "utilizations[].utilization[].nodeNames": _absent_or(_list),
    }),
    Read("scheduler/healthcheck", {
        "Healthy": _flag, "HealthChecks": _list, "HealthChecks[].Name": _text, "HealthChecks[].Succeeded": _flag,
        "HealthChecks[].Description": _text, "HealthChecks[].DiagnosisMessage": _text,
    }),
]  # fmt: skip


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def nobody(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[httpx.AsyncClient]:
    """The web service of a system without an RM."""
    directory: Path = tmp_path_factory.mktemp("nobody")
    file = directory / "queues.yaml"
    file.write_text(QUEUES)
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(NatsServer(directory / "nats"))
        bus = await stack.enter_async_context(around_the_core(server.url, file))
        yield await stack.enter_async_context(web_service(server.url, bus))


async def shown(web: httpx.AsyncClient, path: str) -> Any:
    url = f"{web.base_url.scheme}://{web.base_url.netloc.decode()}/ws/v1/{path}"
    answer = await web.get(url, headers=BROWSER)
    # 400 or more shows the error page of the interface, and without the header the browser keeps the answer back.
    assert answer.status_code == 200, (path, answer.text)
    assert answer.headers["Access-Control-Allow-Origin"] in ("*", BROWSER["Origin"])
    assert answer.headers["Content-Type"].startswith("application/json")
    return answer.json()


def objects(answer: Any) -> Iterator[Any]:
    """Those of a list, or the one object with its children."""
    for one in answer if isinstance(answer, list) else [answer] if answer else []:
        yield one
        yield from (below for child in one.get("children") or () for below in objects(child))


def values(one: Any, steps: list[str]) -> Iterator[Any]:
    """`a.b` and `a[].b`; nothing of a list that is absent."""
    name, *rest = steps
    value = one.get(name.removesuffix("[]")) if isinstance(one, dict) else None
    for found in (value or ()) if name.endswith("[]") else (value,):
        if rest:
            yield from values(found, rest)
        else:
            yield found


def wrong(read: Read, answer: Any) -> list[str]:
    return [
        f"{read.path}: {field}: {value!r}"
        for one in objects(answer)
        for field, kind in read.fields.items()
        for value in values(one, field.split("."))
        if not kind(value)
    ]


@pytest.mark.parametrize("read", READS, ids=lambda read: read.path)
async def test_the_fields_that_its_pages_read(web: httpx.AsyncClient, read: Read) -> None:
    (partition,) = await shown(web, "partitions")
    for queue in ("root.a", "root.b") if "{queue}" in read.path else ("",):
        answer = await shown(web, read.path.format(partition=partition["name"], queue=queue))
        assert not wrong(read, answer)
        # An answer that is empty would show nothing; the history has samples after a minute.
        assert read.path.startswith("history") or list(objects(answer))


async def test_the_figures_of_its_pages(web: httpx.AsyncClient) -> None:
    (partition,) = await shown(web, "partitions")
    assert (partition["name"], partition["totalNodes"]) == ("default", 2)
    assert (partition["applications"]["total"], partition["totalContainers"]) == (2, 1)
    root = await shown(web, "partition/default/queues")
    assert [one["queuename"] for one in objects(root) if one["isLeaf"]] == ["root.a", "root.b"]
    assert all(one["isManaged"] for one in objects(root))
    assert [one["nodeID"] for one in await shown(web, "partition/default/nodes")] == ["n1", "n2"]
    (app,) = await shown(web, "partition/default/queue/root.a/applications")
    assert [one["allocationKey"] for one in app["allocations"]] == ["k1"]
    old = await shown(web, "scheduler/node-utilization")
    assert [one["bucketName"] for one in old["utilization"]][0] == "0-10%" and old["type"]
    status = await shown(web, "scheduler/healthcheck")
    assert status["Healthy"] is True and all(one["Succeeded"] for one in status["HealthChecks"])


# With no partition to choose, its pages ask for no nodes and no applications. One asks for the queues of the default
# partition all the same.
OF_NO_RM = [read for read in READS if "{partition}" not in read.path or read.path.endswith("/queues")]


@pytest.mark.parametrize("read", OF_NO_RM, ids=lambda read: read.path)
async def test_without_a_resource_manager_no_page_fails(nobody: httpx.AsyncClient, read: Read) -> None:
    answer = await shown(nobody, read.path.format(partition="default"))
    assert not wrong(read, answer)
    # Pages take the length of these lists; of the history `null` is none.
    assert answer is not None or read.path.startswith("history")


async def test_a_browser_may_ask_first(web: httpx.AsyncClient) -> None:
    """Requests with other headers than the simple ones are preceded by OPTIONS."""
    url = f"{web.base_url.scheme}://{web.base_url.netloc.decode()}/ws/v1/partitions"
    asked = await web.options(url, headers={**BROWSER, "Access-Control-Request-Method": "GET"})
    assert asked.status_code == 200
