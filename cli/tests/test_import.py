"""Translations of configurations of other schedulers: each folder of `imported` holds the files, and in `expected.yaml`
what is made of them, with the report in the comment at its top. Where there is a file `source`, it names the public
repository, file and commit whose configuration this is, with other names, and without comments, hosts and paths.

After a change of the translation: `python -m cli.tests.test_import` writes `expected.yaml` of every folder anew.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from cli.tests.test_mistakes import command
from remuda.drafts.amounts import kubernetes_amount, parse_list
from remuda.drafts.notes import Kind
from remuda.drafts.slurm_files import gres, hosts, seconds, tres
from remuda.drafts.sources import File, NotReadable
from remuda.drafts.translate import SOURCES, Translated, translate
from remuda_config import load
from remuda_proto.remuda.v1 import config_pb2

IMPORTED = Path(__file__).parent / "imported"
CASES = sorted(folder.name for folder in IMPORTED.iterdir() if folder.is_dir())
# Files of a folder that are no input.
EXPECTED, OPTIONS, SOURCE = "expected.yaml", "options", "source"
PUBLISHED = [name for name in CASES if (IMPORTED / name / SOURCE).exists()]

# Each line has ten times the values of the line before.
BOMB = (
    "a0: &a0 [x]\n"
    + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9))
    + "partitions: *a8\n"
)


def files(name: str) -> list[File]:
    inputs = sorted(file for file in (IMPORTED / name).iterdir() if file.name not in (EXPECTED, OPTIONS, SOURCE))
    return [File(file.name, file.read_text()) for file in inputs]


def translated(name: str) -> Translated:
    options = IMPORTED / name / OPTIONS
    capacity = options.read_text().split()[1] if options.exists() else ""
    return translate(files(name), None, parse_list(capacity) if capacity else None)


def queues(configuration: config_pb2.Configuration) -> dict[str, config_pb2.QueueConfig]:
    """The queues of the first partition by their paths."""
    found: dict[str, config_pb2.QueueConfig] = {}

    def walk(queue: config_pb2.QueueConfig, above: str) -> None:
        path = f"{above}.{queue.name}" if above else queue.name
        found[path] = queue
        for child in queue.queues:
            walk(child, path)

    walk(configuration.partitions[0].root, "")
    return found


def amounts(text: str, path: str, kind: str) -> dict[str, int]:
    resources = getattr(queues(load(text))[path], kind).resources
    return {name: quantity.value for name, quantity in resources.items()}


@pytest.mark.parametrize("name", CASES)
def test_what_is_made_of_it(name: str) -> None:
    made = translated(name)
    assert made.source == name.partition("-")[0]
    assert made.text == (IMPORTED / name / EXPECTED).read_text()
    load(made.text)


def test_there_are_published_files_of_each_scheduler() -> None:
    counts = {source: sum(name.startswith(source) for name in PUBLISHED) for source in SOURCES}
    assert sum(counts.values()) == len(PUBLISHED) >= 30
    assert min(counts.values()) >= 8
    origins = [line.split()[0] for name in PUBLISHED for line in (IMPORTED / name / SOURCE).read_text().splitlines()]
    assert all(re.fullmatch(r"[\w.-]+/[\w.-]+", one) for one in origins)


@pytest.mark.parametrize("name", CASES)
def test_a_note_names_a_place_that_is_there(name: str) -> None:
    lines = {file.name: file.text.count("\n") + 1 for file in files(name)}
    made = translated(name)
    paths = queues(load(made.text))
    for note in made.notes:
        file, _, line = note.where.rpartition(":")
        assert note.where in paths or 1 <= int(line) <= lines[file], note
        assert note.what and note.why and note.instead.endswith((".", "?")), note


def test_the_notes_are_those_of_the_lines_they_name() -> None:
    """Also inside of a text that another file holds."""
    texts = {file.name: file.text.splitlines() for file in files("yunikorn-07-mistakes")}
    for note in translated("yunikorn-07-mistakes").notes:
        file, _, line = note.where.rpartition(":")
        word = note.what.partition(":")[0].split()[-1] if "guaranteed memory" not in note.what else "guaranteed"
        assert word.removesuffix("512Gi").strip() in texts[file][int(line) - 1], note


def test_borrowing_is_bounded_as_in_kueue() -> None:
    text = translated("kueue-03-lending").text
    # It keeps 24 of 32, and borrows what it lends itself: the production queue lends nothing.
    assert amounts(text, "root.lab.research", "max") == {"nvidia.com/gpu": 32}
    # 16 of its own, and 8 that the research queue lends.
    assert amounts(text, "root.lab.production", "max") == {"nvidia.com/gpu": 24}
    assert amounts(text, "root.lab.best-effort", "max") == {"nvidia.com/gpu": 8}


def test_shares_of_slurm_are_parts_of_all_nodes() -> None:
    text = translated("slurm-04-conf-and-dump").text
    whole = 1000 * (40 * 64 + 4 * 64)
    vision, language = (amounts(text, f"root.{name}", "guaranteed")["vcore"] for name in ("vision", "language"))
    assert (vision, language) == (whole * 3 // 4, whole // 4)


def test_weights_of_volcano_need_to_know_what_there_is() -> None:
    [queues_yaml, scheduler] = files("volcano-01-weights")
    made = translate([queues_yaml, scheduler], None)
    assert not any(queue.guaranteed.resources for queue in queues(load(made.text)).values())
    assert [note.where for note in made.notes if note.what.startswith("weight")] == ["queues.yaml:13", "queues.yaml:25"]
    assert all("--capacity" in note.instead for note in made.notes if note.what.startswith("weight"))


def test_a_configuration_of_remuda_stays_what_it_is() -> None:
    name = "yunikorn-11-of-remuda"
    made = translated(name)
    [file] = files(name)
    assert not len(made.notes)
    assert made.text.endswith(file.text)


def test_a_flag_in_words_stays_what_it_is() -> None:
    text = "partitions:\n  - name: default\n    queues:\n      - name: on\n        parent: yes\n"
    made = translate([File("queues.yaml", text)], None)
    assert not len(made.notes)
    assert made.text.endswith(text)


def test_an_amount_without_a_name_is_left_out() -> None:
    text = "partitions: [{name: default, queues: [{name: a, resources: {max: {'': 4, vcore: 1}}}]}]\n"
    made = translate([File("queues.yaml", text)], None)
    assert [(note.kind, note.what) for note in made.notes] == [(Kind.NONE, ": 4")]
    assert amounts(made.text, "root.a", "max") == {"vcore": 1000}


@pytest.mark.parametrize("name", CASES)
def test_an_import_of_what_was_imported_changes_nothing(name: str) -> None:
    made = translated(name)
    again = translate([File("queues.yaml", made.text)], None)
    assert not len(again.notes)
    assert load(again.text).partitions[0] == load(made.text).partitions[0]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "nothing of Apache YuniKorn, Kueue, Slurm, Volcano is recognised"),
        ("a: 1", "nothing of"),
        ("partitions: 3", "partitions: expected a list"),
        ("partitions: []", "nothing that remuda accepts can be made of it"),
        ("partitions:\n  - name: x\n\tqueues: []\n", "x:3: not YAML: found character '\\t'"),
        ("partitions:\n{{- range .Values.queues }}\n  - {{ . }}\n{{- end }}\n", "this is a template of Helm"),
        (BOMB, "more than 200,000 values (aliases?)"),
        ("kind: ConfigMap\nmetadata: {name: yunikorn-configs}\ndata: {service.clusterId: a}", "no text of queues.yaml"),
        ("apiVersion: kueue.x-k8s.io/v1beta1\nkind: ResourceFlavor\nmetadata: {name: a}", "no ClusterQueue"),
        ("apiVersion: kueue.x-k8s.io/v1beta1\nkind: ClusterQueue\nspec: {}", "x:1: ClusterQueue without metadata.name"),
        ("apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\nmetadata: {name: a}", "no Queue inside"),
        (
            "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: a}\nspec:\n"
            "  capability: {cpu: many}",
            "x:5: cpu: 'many' is no quantity",
        ),
        ("ClusterName=a\n", "no partition and no association inside"),
        ("Account - 'a':GrpTRES=cpu=x\n", "x:1: cpu=x: expected a number"),
    ],
)  # fmt: skip
def test_what_cannot_be_translated_says_why(text: str, says: str) -> None:
    with pytest.raises(NotReadable, match="^x") as error:
        translate([File("x", text)], None)
    assert says in str(error.value)


def test_names_and_values_with_control_characters_stay_on_their_line() -> None:
    kueue = 'apiVersion: kueue.x-k8s.io/v1beta1\nkind: ClusterQueue\nmetadata: {name: "a\\a\\nb"}\n'
    made = translate([File("x", kueue)], None)
    assert "# ClusterQueue a  b\n" in made.text
    slurm = 'PartitionName=a Nodes=n1 MaxTime="1 2" Alternate=don\'t State=DOWN\n'
    assert "Alternate don't of partition a" in translate([File("x", slurm)], None).text


def test_a_tree_that_is_too_deep_is_refused() -> None:
    kind = "apiVersion: kueue.x-k8s.io/v1beta2\nkind: Cohort\n"
    cohorts = "".join(f"---\n{kind}metadata: {{name: c{n}}}\nspec: {{parentName: c{n + 1}}}\n" for n in range(1_000))
    with pytest.raises(NotReadable, match="x: nested too deeply"):
        translate([File("x", cohorts)], None)


def test_files_of_several_schedulers_are_not_one_configuration() -> None:
    with pytest.raises(NotReadable, match=r"a.conf \(Slurm\), b.yaml \(Apache YuniKorn\)"):
        translate([File("a.conf", "PartitionName=a Nodes=n1"), File("b.yaml", "partitions: []")], None)


def test_hosts_of_slurm() -> None:
    assert hosts("gpu[01-03,7],login") == ["gpu01", "gpu02", "gpu03", "gpu7", "login"]
    assert hosts("a[x],b[1-2]c[3-4]") == ["a[x]", "b1c3", "b1c4", "b2c3", "b2c4"]
    assert len(hosts("n[1-99999999999]")) == 1


def test_resources_of_slurm() -> None:
    amounts, others = tres("x", "cpu=2,mem=1.5G,gres/gpu:a100=3,node=4,billing=9,gres/gpu=-1")
    assert amounts == {"vcore": 2000, "memory": 3 * 2**29, "gpu_a100": 3}
    assert others == ["node=4", "billing=9"]
    assert gres("gpu:a100:4(S:0-1),gpu:2,shard:no_consume:8") == {"gpu": 6, "gpu_a100": 4, "shard": 8}


@pytest.mark.parametrize(
    ("resource", "text", "amount"),
    [
        ("vcore", "1.5", 1500), ("vcore", "250m", 250), ("vcore", "1u", 1), ("memory", "1.5Gi", 3 * 2**29),
        ("memory", "1e3", 1000), ("memory", "128974848000m", 128974848), ("gpu", "2", 2), ("gpu", "5k", 5000),
    ],
)  # fmt: skip
def test_quantities_of_kubernetes(resource: str, text: str, amount: int) -> None:
    assert kubernetes_amount(resource, text) == amount


@pytest.mark.parametrize(
    ("text", "time_s"),
    [
        ("90", 5400), ("30:00", 1800), ("2:00:00", 7200), ("5-12", 475200), ("10-00:00", 864000), ("1-1:1:1", 90061),
        ("INFINITE", None), ("0", None), ("", None),
    ],
)  # fmt: skip
def test_time_limits_of_slurm(text: str, time_s: int | None) -> None:
    assert seconds(text) == time_s


def test_an_included_file_is_read_where_it_is_included() -> None:
    """So it has the defaults that stand before."""
    found = queues(load(translated("slurm-28-included-partitions").text))
    assert {dict(found[f"root.{name}"].properties)["runtime.default"] for name in ("mem128", "debug")} == {"5m"}
    parts = [File("b/sub.conf", "include a.conf\nPartitionName=q"), File("a.conf", "ClusterName=x\ninclude b/sub.conf")]
    assert "root.q" in queues(load(translate(parts, None).text))


def test_weights_take_the_place_of_guarantees_where_slurm_remembers_use() -> None:
    [slurm_conf] = files("slurm-20-fair-share-without-accounts")
    dump = File(
        "d", "Cluster - 'x'\nParent - 'root'\nAccount - 'a':Fairshare=3\nAccount - 'b'\nAccount - 'c':Fairshare=0"
    )
    found = queues(load(translate([slurm_conf, dump], None).text))
    assert [found[f"root.{name}"].properties.get("fair.weight") for name in "abc"] == ["3", None, "0.001"]
    assert not found["root.a"].guaranteed.resources


# The command


def test_the_text_goes_to_stdout_and_the_report_to_stderr(monkeypatch, capsys) -> None:
    code, out, err = command(monkeypatch, capsys, "config", "import", str(IMPORTED / "kueue-01-one-queue/queues.yaml"))
    assert code == 0
    load(out)
    assert "LocalQueue default/user-queue: elsewhere" in err
    assert "notes: 1 elsewhere" in err


def test_a_file_is_written_once(monkeypatch, capsys, tmp_path: Path) -> None:
    output = tmp_path / "queues.yaml"
    arguments = ["config", "import", str(IMPORTED / "slurm-07-old-dump/old.cfg"), "--output", str(output)]
    code, out, err = command(monkeypatch, capsys, *arguments, "--capacity", "vcore=100")
    assert (code, err) == (0, "")
    assert "old.cfg:5: GrpCPUMins 1000000 of account g2: no counterpart" in out
    assert f"wrote {output}" in out
    assert amounts(output.read_text(), "root.g2", "guaranteed") == {"vcore": 75_000}
    code, _, err = command(monkeypatch, capsys, *arguments)
    assert code == 1 and "there already; --force replaces it" in err
    assert command(monkeypatch, capsys, *arguments, "--force")[0] == 0
    assert not amounts(output.read_text(), "root.g2", "guaranteed")


def test_the_report_alone_and_as_json(monkeypatch, capsys, tmp_path: Path) -> None:
    file, output = str(IMPORTED / "volcano-04-node-groups/queues.yaml"), tmp_path / "queues.yaml"
    code, out, _ = command(monkeypatch, capsys, "config", "import", file, "--report", "--output", str(output))
    assert code == 0 and "affinity of Queue gpu.batch" in out and "partitions:" not in out and not output.exists()
    _, out, _ = command(monkeypatch, capsys, "config", "import", file, "--json")
    document = json.loads(out)
    load(document["text"])
    assert document["source"] == "volcano"
    assert {note["kind"] for note in document["notes"]} == set(Kind)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--from", "yarn"], "expected one of yunikorn, kueue, slurm, volcano"),
        (["--from", "kueue"], "no ClusterQueue"),
        (["--capacity", "64"], "--capacity '64': expected NAME=AMOUNT"),
        (["--capacity", "vcore=x"], "is not a quantity"),
        (["--output", "/nowhere/queues.yaml"], "No such file or directory"),
    ],
)
def test_wrong_options(monkeypatch, capsys, arguments: list[str], says: str) -> None:
    file = str(IMPORTED / "yunikorn-11-of-remuda/queues.yaml")
    code, out, err = command(monkeypatch, capsys, "config", "import", file, *arguments)
    assert (code, out) == (1, "") and says in err


if __name__ == "__main__":
    for case in CASES:
        (IMPORTED / case / EXPECTED).write_text(translated(case).text)
