"""The cluster of `remuda demo --gpu`, and the openb trace on devices, as a core takes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from remuda.errors import UserError
from remuda.simulated_rm.demo.scene import ServiceApp, Tenant, gpu_sites
from remuda.simulated_rm.load.replay import CONFIG, DEVICES_CONFIG
from remuda.simulated_rm.load.workload import workload
from remuda_config.load import load
from remuda_core.rules.devices import problem_of_ask, problem_of_node
from remuda_core.rules.topology import path_of
from remuda_core.rules.topology import problem_of_ask as topology_problem
from remuda_core.wire.configuration import read_configuration


def test_the_demo_s_nodes_and_asks_are_accepted() -> None:
    (site,) = gpu_sites()
    assert site.attributes is not None
    (settings,) = read_configuration(load(site.config)).partitions
    racks = [path_of(settings.topology, site.attributes[name]) for name in site.nodes]
    assert len(set(racks)) == 6 and len({path[:1] for path in racks}) == 2 and len(racks) == 48
    for name, capacity in site.nodes.items():
        assert problem_of_node(settings.devices, capacity, site.attributes[name]) is None
    work: list[Tenant | ServiceApp] = [*site.tenants, *site.services]
    for one in work:
        tags = dict(one.tags or {})
        assert problem_of_ask(settings.devices, one.task, tags) is None, one.name
        assert topology_problem(settings.topology, tags, {}, "", 1) is None, one.name


def test_gpus_of_a_trace_are_devices_if_that_is_wanted(tmp_path: Path) -> None:
    nodes, pods = tmp_path / "nodes.csv", tmp_path / "pods.csv"
    nodes.write_text("sn,cpu_milli,memory_mib,gpu,model\nn1,32000,1024,2,T4\nn2,8000,512,0,\n")
    pods.write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
        "p,1000,64,1,460,,LS,Running,0,9,0\n"
    )
    trace = ("openb", nodes, pods)
    on_devices, plain = (
        workload(1, 1, 1, None, None, trace, None, devices=True),
        workload(1, 1, 1, None, None, trace, None),
    )
    assert (on_devices.config, plain.config) == (DEVICES_CONFIG, CONFIG)
    assert on_devices.title == f"{plain.title}, 2 GPUs as devices"
    (settings,) = read_configuration(load(DEVICES_CONFIG)).partitions
    assert (settings.devices, settings.node_sort) == ({"gpu_milli": 1_000}, "fragmentation")


@pytest.mark.parametrize(
    ("trace", "queue", "expected"),
    [
        (None, "", "--devices belongs to --trace"),
        (("openb", Path("n"), Path("p")), "root.a", "--devices is for the load"),
    ],
)
def test_devices_without_a_trace_or_with_another_configuration(
    trace: tuple[str, Path, Path] | None, queue: str, expected: str
) -> None:
    with pytest.raises(UserError, match=expected):
        workload(1, 1, 1, None, None, trace, None, queue, devices=True)
