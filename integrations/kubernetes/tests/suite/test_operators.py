"""Pods as the operators of Spark, Ray and Flink make them for YuniKorn, on a real API server."""

from __future__ import annotations

from typing import Any

from integrations.kubernetes.tests.cluster import Cluster, cluster
from integrations.kubernetes.tests.control_plane.existing import Plane
from integrations.kubernetes.tests.operators import pods_of
from remuda.embedded import NatsServer

LINUX = {"kubernetes.io/os": "linux"}


async def create(it: Cluster, manifest: dict[str, Any]) -> str:
    """Creates the pod. Owners that do not exist here are left out; that of Spark's executors is their driver."""
    metadata = manifest["metadata"]
    owners = [one for one in metadata.pop("ownerReferences", ()) if one["kind"] == "Pod"]
    for owner in owners:
        owner["uid"] = (await it.pod(owner["name"])).uid
    await it.create({**manifest, "metadata": {**metadata, "ownerReferences": owners}})
    return str(metadata["name"])


async def test_pods_of_operators_run(plane: Plane, server: NatsServer) -> None:
    """spark_jobs_scheduling 1, by the pods of its operator."""
    async with cluster(plane, server.url) as it:
        for name in ("n1", "n2", "n3"):
            await it.add_nodes(name, **LINUX)
        names = []
        for operator in ("ray", "ray-autoscaled", "flink"):
            names += [await create(it, manifest) for manifest in pods_of(operator)]
        driver, *executors = pods_of("spark")
        names.append(await create(it, driver))
        await it.until(lambda pods: pods[names[-1]].status.phase == "Running")
        names += [await create(it, manifest) for manifest in executors]
        await it.until(lambda pods: set(pods) == set(names) and all(one.spec.node_name for one in pods.values()))
        rows = await it.rows("applications")
        assert {row["id"] for row in rows} >= {"default.train-rays", "default.elastic-rays", "default.wordcount-stream"}
        await it.told("TaskGroupsError")
