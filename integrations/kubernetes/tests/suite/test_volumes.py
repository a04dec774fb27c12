"""Claims of pods, with the controller of volumes, and a provisioner."""

from __future__ import annotations

from typing import Any

import pytest

from integrations.kubernetes.tests.cluster import cluster
from integrations.kubernetes.tests.control_plane.existing import Plane
from integrations.kubernetes.tests.control_plane.provisioner import Provisioner
from integrations.kubernetes.tests.manifests import claim_spec, pod
from integrations.kubernetes.tests.storage import late_class, with_claims
from integrations.kubernetes.tests.suite.modes import Mode, reason
from integrations.kubernetes.tests.suite.test_restarts import allocations
from remuda.embedded import NatsServer
from remuda_kubernetes import limits
from remuda_kubernetes.api.client import MERGE_PATCH, Client

STORAGE = "/apis/storage.k8s.io/v1"
DRIVER = "disk.example"
EPHEMERAL_SINCE = 21  # without a gate

# Volumes that are there


async def test_local_volume_is_bound_when_its_pod_was_placed(mode: Mode, server: NatsServer) -> None:
    """persistent_volume 1: late."""
    async with mode.cluster(server.url) as it, late_class(it, "local") as local:
        await it.add_nodes("n1", "n2")
        await it.create(mode.pod("p", cpu="1", **with_claims("data")))
        await mode.why(it, "p", "claim data does not exist")
        await local.add_claims("data")
        await mode.why(it, "p", "no volume" if not mode.is_plugin else "")
        await local.add_volume("here", "n2")
        assert await it.bound("p") == {"p": "n2"}
        assert await local.volumes() == {"here": ("Bound", "data")}


async def test_pods_that_come_at_once_get_a_volume_each(mode: Mode, server: NatsServer) -> None:
    """The smallest ones of their nodes, which have room for three each."""
    async with mode.cluster(server.url) as it, late_class(it, "local") as local:
        await it.add_nodes("n1", "n2", cpu="3")
        names = [f"p{number}" for number in range(6)]
        for number, name in enumerate(names):
            await local.add_volume(f"v{number}", f"n{1 + number % 2}", "1Gi")
            await local.add_volume(f"too-large-{number}", f"n{1 + number % 2}", "9Gi")
            await local.add_claims(f"c-{name}")
        for name in names:
            await it.create(mode.pod(name, app="app", cpu="1", **with_claims(f"c-{name}")))
        nodes = await it.bound(*names)
        found = {of: name for name, (_, of) in (await local.volumes()).items() if of}
        assert sorted(found) == sorted(f"c-{name}" for name in names)
        assert sorted(found.values()) == [f"v{number}" for number in range(6)]
        assert {name: f"n{1 + int(found[f'c-{name}'][1:]) % 2}" for name in names} == nodes


async def test_pods_of_one_late_claim_are_where_its_volume_is(mode: Mode, server: NatsServer) -> None:
    async with mode.cluster(server.url) as it, late_class(it, "local") as local:
        await it.add_nodes("n1", "n2")
        await local.add_volume("v1", "n1")
        await local.add_volume("v2", "n2")
        await local.add_claims("shared")
        for name in "pq":
            await it.create(mode.pod(name, app="app", cpu="1", **with_claims("shared")))
        nodes = await it.bound("p", "q")
        assert nodes["p"] == nodes["q"]
        of = {name: claim for name, (_, claim) in (await local.volumes()).items()}
        assert of[f"v{nodes['p'][1:]}"] == "shared" and "" in of.values()


async def test_volume_that_changes_while_it_is_reserved_is_tried_anew(plane: Plane, server: NatsServer) -> None:
    """The API server answers with a conflict."""
    patch = Client.patch
    changed: list[str] = []

    async def first_changed(self: Client, path: str, body: Any, *form: str) -> bytes:
        if "claimRef" in body.get("spec", {}) and not changed:
            changed.append(path)
            await patch(it.client, path, {"metadata": {"labels": {"changed": "meanwhile"}}}, MERGE_PATCH)
        return await patch(self, path, body, *form)

    async with cluster(plane, server.url) as it, late_class(it, "local") as local:
        await it.add_nodes("n1")
        await local.add_volume("v1", "n1")
        await local.add_claims("data")
        with pytest.MonkeyPatch.context() as patching:
            patching.setattr(Client, "patch", first_changed)
            await it.create(pod("p", app="app", cpu="1", **with_claims("data")))
            assert await it.bound("p") == {"p": "n1"}
        assert changed == ["/api/v1/persistentvolumes/v1"]
        assert await it.reported("PodVolumesBindFailure", "p")


async def test_volume_that_is_not_detached_yet_counts_towards_the_limit_of_its_node(
    plane: Plane, server: NatsServer
) -> None:
    """With the rights of the front end. Kubernetes 1.20 itself does not count it."""
    attachment = {
        "metadata": {"name": "left"},
        "spec": {"attacher": DRIVER, "nodeName": "n1", "source": {"persistentVolumeName": "v1"}},
    }
    limit = {"name": DRIVER, "nodeID": "n1", "topologyKeys": [], "allocatable": {"count": 1}}
    async with cluster(plane, server.url) as it, late_class(it, "local") as local:
        await it.add_nodes("n1")
        await it.client.create(f"{STORAGE}/csinodes", {"metadata": {"name": "n1"}, "spec": {"drivers": [limit]}})
        for name in ("v1", "v2"):
            await local.add_volume(name, "n1", driver=DRIVER)
        await local.add_claims("data", volume="v2")
        await it.client.create(f"{STORAGE}/volumeattachments", attachment)
        await it.create(pod("p", app="app", cpu="1", **with_claims("data")))
        await it.until(lambda pods: f"at most 1 volumes of {DRIVER}" in reason(pods["p"]))
        await it.client.call("DELETE", f"{STORAGE}/volumeattachments/left")
        assert await it.bound("p") == {"p": "n1"}
        await it.client.call("DELETE", f"{STORAGE}/csinodes/n1")


# Volumes that are made


async def test_volume_is_made_where_its_pod_was_placed(mode: Mode, server: NatsServer) -> None:
    """persistent_volume 2."""
    async with mode.cluster(server.url) as it:
        maker = Provisioner(it.client)
        async with late_class(it, "made", maker) as made:
            await it.add_nodes("n1", "n2")
            await made.add_claims("data")
            await it.create(mode.pod("p", app="app", cpu="1", **with_claims("data")))
            node = (await it.bound("p"))["p"]
            assert maker.asked == [node]
            claim = await made.claim("data")
            assert claim.selected_node == node
            assert await made.volumes() == {claim.spec.volume_name: ("Bound", "data")}


async def test_pod_goes_elsewhere_when_no_volume_can_be_made_for_its_node(mode: Mode, server: NatsServer) -> None:
    """Its provisioner takes the selection away. Whichever node is tried first, it is full. A gate cannot come back:
    with gates, the pod keeps its node until the provisioner makes a volume there."""
    async with mode.cluster(server.url) as it:
        maker = Provisioner(it.client, "n1", "n2")
        async with late_class(it, "made", maker) as made:
            await it.add_nodes("n1", "n2")
            await made.add_claims("data")
            await it.create(mode.pod("p", app="app", cpu="1", **with_claims("data")))
            if mode.has_gates:
                # The pod is the default scheduler's by now, which tries the node again, with or without this scheduler.
                await it.until(lambda _: bool(maker.asked))
                maker.full = ()
                assert await it.bound("p") == {"p": maker.asked[-1]}
                return
            await it.add_nodes("n3")
            assert await it.bound("p") == {"p": "n3"}
            assert maker.asked[-1] == "n3" and (await made.claim("data")).selected_node == "n3"


async def test_volume_that_is_made_during_a_restart(mode: Mode, server: NatsServer) -> None:
    """The next front end waits for it, with the same allocation."""
    async with mode.cluster(server.url) as it:
        maker = Provisioner(it.client)
        maker.may_make.clear()
        async with late_class(it, "made", maker) as made:
            await it.add_nodes("n1", "n2")
            await made.add_claims("data")
            await it.create(mode.pod("p", app="app", cpu="1", **with_claims("data")))
            await it.until_rows("allocations", lambda rows: len(rows) == 1)
            await it.until(lambda _: bool(maker.asked))
            before = await allocations(it)
            await it.stop_front()
            await it.start_front()
            maker.may_make.set()
            await it.bound("p")
            assert await allocations(it) == before
            assert maker.asked == [before["p"][1]]


async def test_volume_that_is_not_made_in_time_gives_the_allocation_back(
    plane: Plane, server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another pod gets the room. As with the default scheduler, only its provisioner may end the selection."""
    monkeypatch.setattr(limits, "VOLUME_BIND_TIMEOUT_S", 3.0)
    async with cluster(plane, server.url) as it:
        maker = Provisioner(it.client)
        maker.may_make.clear()
        async with late_class(it, "made", maker) as made:
            await it.add_nodes("n1", cpu="1")
            await made.add_claims("data")
            await it.create(pod("p", app="app", cpu="1", **with_claims("data")))
            await it.until_rows("allocations", lambda rows: len(rows) == 1)
            await it.create(pod("urgent", app="app", cpu="1"))
            await it.told("PodVolumesBindFailure", "p")
            assert await it.bound("urgent") == {"urgent": "n1"}
            assert (await made.claim("data")).selected_node == "n1"
            maker.may_make.set()
            await it.waits("p", "Unschedulable")
            await it.end("urgent")
            assert await it.bound("p") == {"p": "n1"}


# Ephemeral volumes


def skip_without_ephemeral_volumes(mode: Mode) -> None:
    if mode.plane.is_existing and mode.plane.minor < EPHEMERAL_SINCE:
        pytest.skip("this Kubernetes has no ephemeral volumes")


async def test_claim_of_an_ephemeral_volume(mode: Mode, server: NatsServer) -> None:
    """A controller makes it, of the pod's name and the volume's."""
    skip_without_ephemeral_volumes(mode)
    async with mode.cluster(server.url) as it:
        maker = Provisioner(it.client)
        async with late_class(it, "made", maker) as made:
            await it.add_nodes("n1", "n2")
            template = {"spec": claim_spec("made")}
            volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]
            await it.create(mode.pod("p", app="app", cpu="1", volumes=volumes))
            node = (await it.bound("p"))["p"]
            assert maker.asked == [node]
            assert (await made.claim("p-scratch")).is_controlled_by(await it.pod("p"))


async def test_pod_does_not_get_the_claim_of_another_one(mode: Mode, server: NatsServer) -> None:
    """That has the name of its ephemeral volume."""
    skip_without_ephemeral_volumes(mode)
    async with mode.cluster(server.url) as it, late_class(it, "local") as local:
        await it.add_nodes("n1")
        await local.add_volume("v1", "n1")
        await local.add_claims("p-scratch")
        volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": claim_spec("local")}}}]
        await it.create(mode.pod("p", app="app", cpu="1", volumes=volumes))
        await mode.why(it, "p", "" if mode.is_plugin else "was not created for the pod")
