"""The requests of the family's own web interface, of its versions 1.4.0 and newest, and the fields without which its
pages break."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.system.test_web_methods import web

__all__ = ["web"]
pytestmark = pytest.mark.asyncio(loop_scope="module")
# As a browser sends them from the web interface's own port.
BROWSER = {
    "Accept": "application/json, text/plain, */*", "Origin": "http://localhost:9889",
    "Referer": "http://localhost:9889/", "Sec-Fetch-Site": "same-site", "Accept-Encoding": "gzip, deflate",
}  # fmt: skip


async def shown(web: httpx.AsyncClient, path: str) -> Any:
    url = f"{web.base_url.scheme}://{web.base_url.netloc.decode()}/ws/v1/{path}"
    answer = await web.get(url, headers=BROWSER)
    # 400 or more shows the error page of the interface, and without the header the browser keeps the answer back.
    assert answer.status_code == 200, (path, answer.text)
    assert answer.headers["Access-Control-Allow-Origin"] in ("*", BROWSER["Origin"])
    assert answer.headers["Content-Type"].startswith("application/json")
    return answer.json()


def tree(queue: Any) -> Iterator[Any]:
    yield queue
    for one in queue.get("children") or ():
        yield from tree(one)


async def test_the_dashboard(web: httpx.AsyncClient) -> None:
    (cluster, *_) = await shown(web, "clusters")
    assert cluster["clusterName"] and cluster["rmBuildInformation"][0]["rmId"]
    for partition in await shown(web, "partitions"):
        assert partition["name"] and partition["applications"]["total"] == 2 and partition["totalNodes"] == 2
        assert partition["nodeSortingPolicy"]["type"] and partition["totalContainers"] >= 1
    for path, field in (("history/apps", "totalApplications"), ("history/containers", "totalContainers")):
        for sample in await shown(web, path) or ():
            assert sample["timestamp"] > 10**18 and field in sample
    old = await shown(web, "scheduler/node-utilization")
    assert [one["bucketName"] for one in old["utilization"]][0] == "0-10%" and old["type"]
    new = await shown(web, "scheduler/node-utilizations")
    for partition in new:
        for kind in partition["utilizations"]:
            assert kind["type"] and len(kind["utilization"]) == 10
            assert sum(one.get("numOfNodes", 0) for one in kind["utilization"]) >= 1
            assert all(one["bucketName"] for one in kind["utilization"])


async def test_the_queues_and_their_applications(web: httpx.AsyncClient) -> None:
    for partition in await shown(web, "partitions"):
        root = await shown(web, f"partition/{partition['name']}/queues")
        for queue in tree(root):
            assert queue["queuename"] and queue["isManaged"] is True and queue["isLeaf"] in (True, False)
            assert queue["status"] and (queue["isLeaf"] or queue["children"])
        leaves = [one["queuename"] for one in tree(root) if one["isLeaf"]]
        assert leaves == ["root.a", "root.b"]
        for leaf in leaves:
            for app in await shown(web, f"partition/{partition['name']}/queue/{leaf}/applications"):
                assert app["applicationID"] and isinstance(app["stateLog"], list) and app["submissionTime"]
                assert app["applicationState"]
                for held in app.get("allocations") or ():
                    fields = ("allocationKey", "resource", "priority", "nodeId", "applicationId", "partition", "uuid")
                    assert all(field in held for field in fields)


async def test_the_nodes_and_the_status(web: httpx.AsyncClient) -> None:
    nodes = await shown(web, "partition/default/nodes")
    assert [one["nodeID"] for one in nodes] == ["n1", "n2"]
    for node in nodes:
        assert all(field in node for field in ("capacity", "available", "attributes"))
        assert isinstance(node.get("allocations", []), list)
    status = await shown(web, "scheduler/healthcheck")
    assert status["Healthy"] is True
    for check in status["HealthChecks"]:
        assert check["Name"] and check["Description"] and check["DiagnosisMessage"] and check["Succeeded"] is True


async def test_a_browser_may_ask_first(web: httpx.AsyncClient) -> None:
    """Requests with other headers than the simple ones are preceded by OPTIONS."""
    url = f"{web.base_url.scheme}://{web.base_url.netloc.decode()}/ws/v1/partitions"
    asked = await web.options(url, headers={**BROWSER, "Access-Control-Request-Method": "GET"})
    assert asked.status_code == 200
