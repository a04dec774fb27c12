"""Pods with our scheduler's name are scheduled by queues and quotas."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from integrations.kubernetes.tests.suite.modes import Mode
from remuda.embedded import NatsServer


async def test_pod_is_bound_runs_and_ends(mode: Mode, server: NatsServer) -> None:
    async with mode.cluster(server.url) as it:
        await it.add_nodes("n1")
        await it.create(mode.pod("one", cpu="1", memory="1Gi"))
        assert await it.bound("one") == {"one": "n1"}
        await it.until(lambda pods: pods["one"].status.phase == "Running")
        await it.end("one")
        await it.create(mode.pod("two", cpu="4"))  # as much as the node has
        assert await it.bound("two") == {"two": "n1"}


async def test_allocation_is_what_its_pod_requests(mode: Mode, server: NatsServer) -> None:
    """basic_scheduling 1, 2, 3, 4, 5: in the queue of its namespace."""
    requests = {"sized": {"cpu": "250m", "memory": "64Mi"}, "unsized": {}}
    async with mode.cluster(server.url) as it:
        await it.add_nodes("n1")
        await it.create_namespace("basic")
        it.namespace = "basic"
        for name, of in requests.items():
            await it.create(mode.pod(name, app="app", **of))
        pods = await it.until(lambda pods: all(pods[name].status.phase == "Running" for name in requests))
        (application,) = await it.rows("applications")
        assert (application["id"], application["queue"]) == ("basic.app", "root.basic")
        assert application["state"] in ("Starting", "Running")
        found = {row["key"]: row for row in await it.rows("allocations")}
        resources = {"sized": {"vcore": 250, "memory": 64 * 2**20, "pods": 1}, "unsized": {"pods": 1}}
        for name, resource in resources.items():
            row = found.pop(pods[name].uid)
            assert (row["application"], row["node"], row["resource"]) == ("basic.app", "n1", resource)
        assert not found
        classes = {name: await it.quality_of_service(name) for name in requests}
        assert classes == {"sized": "Burstable", "unsized": "BestEffort"}


async def test_quota_holds_a_pod_back(mode: Mode, server: NatsServer, tmp_path: Path) -> None:
    queues = tmp_path / "queues.yaml"
    queues.write_text(
        "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: "
        "[{name: a, resources: {max: {vcore: 1}}}]}]}]"
    )
    async with mode.cluster(server.url, queues) as it:
        await it.add_nodes("n1")
        await it.create(mode.pod("first", app="app", queue="root.a", cpu="1"))
        await it.bound("first")
        await it.create(mode.pod("second", app="app", queue="root.a", cpu="1"))
        await mode.why(it, "second", "root.a")
        await it.end("first")
        await it.bound("second")


async def test_spark_applications_run_and_complete(
    mode: Mode, server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """spark_jobs_scheduling 1, by its two kinds of pods: a driver, which creates executors and owns them."""
    monkeypatch.setenv("REMUDA_TIMING_COMPLETING", "1s")
    async with mode.cluster(server.url) as it:
        await it.add_nodes("n1", "n2")
        applications = [f"spark-{number}" for number in range(3)]

        def spark(name: str, application: str, role: str) -> dict[str, Any]:
            labels = {"spark-app-selector": application, "spark-role": role}
            return mode.pod(name, app="", labels=labels, cpu="500m", memory="256Mi", restartPolicy="Never")

        for application in applications:
            await it.create(spark(f"{application}-driver", application, "driver"))
        drivers = [f"{application}-driver" for application in applications]
        pods = await it.until(lambda pods: all(pods[name].status.phase == "Running" for name in drivers))
        executors = [f"{application}-exec-{number}" for application in applications for number in (1, 2)]
        for name in executors:
            application = name.rpartition("-exec-")[0]
            driver = pods[f"{application}-driver"].metadata
            manifest = spark(name, application, "executor")
            manifest["metadata"]["ownerReferences"] = [
                {"apiVersion": "v1", "kind": "Pod", "name": driver.name, "uid": driver.uid, "controller": True}
            ]
            await it.create(manifest)
        await it.until(lambda pods: all(pods[name].status.phase == "Running" for name in executors))
        rows = await it.rows("allocations")
        held = Counter(row["application"] for row in rows)
        assert held == {f"default.{application}": 3 for application in applications}
        originators = {row["key"] for row in rows if row["originator"]}
        assert originators == {pods[name].uid for name in drivers}
        for name in executors + drivers:
            await it.end(name)
        await it.until_rows("applications", lambda rows: [row["state"] for row in rows] == ["Completed"] * 3)
