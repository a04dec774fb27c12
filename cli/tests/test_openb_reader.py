"""The reader of openb traces: what it makes of good rows, and how it speaks of bad ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from remuda.simulated_rm.load.openb import MIB, BadTrace, read_nodes, read_pods

NODE_HEAD = "sn,cpu_milli,memory_mib,gpu,model\n"
POD_HEAD = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
)


def file(directory: Path, text: str) -> Path:
    path = directory / "table.csv"
    path.write_text(text)
    return path


def test_a_node_has_its_gpus_in_thousandths_and_nothing_it_has_none_of(tmp_path: Path) -> None:
    nodes = read_nodes(file(tmp_path, NODE_HEAD + "n1,32000,1024,2,T4\nn2,8000,512,0,\n"))
    assert nodes[0].capacity == {"vcore": 32000, "memory": 1024 * MIB, "gpu_milli": 2000}
    assert nodes[1].capacity == {"vcore": 8000, "memory": 512 * MIB}


@pytest.mark.parametrize(
    ("row", "resource"),
    [
        ("p,1000,64,1,460,,LS,Running,0,9,0", {"vcore": 1000, "memory": 64 * MIB, "gpu_milli": 460}),
        ("p,1000,64,8,1000,A|B,LS,Running,0,9,0", {"vcore": 1000, "memory": 64 * MIB, "gpu_milli": 8000}),
        ("p,1000,0,0,0,,BE,Pending,0,9,", {"vcore": 1000}),
    ],
)
def test_a_pod_asks_for_a_share_of_one_gpu_or_for_whole_ones(
    tmp_path: Path, row: str, resource: dict[str, int]
) -> None:
    assert read_pods(file(tmp_path, POD_HEAD + row + "\n"))[0].resource == resource


def test_a_pod_without_deletion_time_stays(tmp_path: Path) -> None:
    pod = read_pods(file(tmp_path, POD_HEAD + "p,1000,64,0,0,T4|G2,LS,Running,7.5,,8\n"))[0]
    assert (pod.created, pod.deleted, pod.gpu_spec) == (7.5, None, ("T4", "G2"))


@pytest.mark.parametrize(
    ("row", "where", "what"),
    [
        ("p,x,64,0,0,,LS,Running,0,9,0", "cpu_milli", "a whole number, 0 or more, got 'x'"),
        ("p,1000,-4,0,0,,LS,Running,0,9,0", "memory_mib", "got '-4'"),
        ("p,1000,64,1,0,,LS,Running,0,9,0", "gpu_milli", "1 to 1000"),
        ("p,1000,64,0,0,,LS,Running,nan,9,0", "creation_time", "seconds, 0 or more, got 'nan'"),
        ("p,1000,64,0,0,,LS,Running,10,9,0", "deletion_time", "nothing before its creation_time 10, got '9'"),
        (",1000,64,0,0,,LS,Running,0,9,0", "name", "a name"),
        ("p,0,0,0,0,,LS,Running,0,9,0", "cpu_milli", "a pod that needs something"),
    ],
)
def test_what_is_wrong_is_named_with_file_line_and_column(tmp_path: Path, row: str, where: str, what: str) -> None:
    path = file(tmp_path, POD_HEAD + "ok,1000,64,0,0,,LS,Running,0,9,0\n" + row + "\n")
    with pytest.raises(BadTrace) as error:
        read_pods(path)
    assert str(error.value).startswith(f"{path}:3: column {where}: expected ")
    assert what in str(error.value)


def test_the_same_name_twice(tmp_path: Path) -> None:
    with pytest.raises(BadTrace, match=":3: column sn: expected a node of its own, got n1 again"):
        read_nodes(file(tmp_path, NODE_HEAD + "n1,1,1,0,\nn1,1,1,0,\n"))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("sn,cpu_milli,gpu,model\n", ":1: no column memory_mib"),
        ("", ":1: no column sn"),
        (NODE_HEAD, "no nodes in it"),
        (NODE_HEAD + "n1,1,1\n", ":2: expected 5 columns"),
        (NODE_HEAD + "n1,1,1,1,T4,more\n", ":2: expected 5 columns"),
    ],
)
def test_a_table_that_is_none(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(BadTrace, match=what):
        read_nodes(file(tmp_path, text))


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(BadTrace, match="no such file"):
        read_pods(tmp_path / "none.csv")
