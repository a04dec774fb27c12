"""Reads the two tables of an "openb" cluster trace: nodes, and pods with the times at which they came and went.

The pure part of a replay's input: no scheduler here. Errors name file, line and column. Pods of the trace share GPUs,
and amounts are whole numbers: GPUs are the resource `gpu_milli`, in thousandths of one.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ...errors import UserError

MIB = 1024 * 1024
MILLI = 1000


class BadTrace(UserError):
    """The file is invalid. The message has the line."""


@dataclass(frozen=True, slots=True)
class Node:
    """`gpus` is a count of whole GPUs; `memory` in bytes, `cpu_milli` in thousandths of a core."""

    id: str
    cpu_milli: int
    memory: int
    gpus: int
    model: str

    @property
    def capacity(self) -> dict[str, int]:
        return _without_zeros(vcore=self.cpu_milli, memory=self.memory, gpu_milli=self.gpus * MILLI)


@dataclass(frozen=True, slots=True)
class Pod:
    """`gpu_milli`: over all its GPUs, thousandths of one. Times in seconds of the trace; `deleted` None: it stayed.
    `gpu_spec`: the models it may run on, empty for any."""

    name: str
    cpu_milli: int
    memory: int
    gpu_milli: int
    gpu_spec: tuple[str, ...]
    qos: str
    created: float
    deleted: float | None

    @property
    def resource(self) -> dict[str, int]:
        """The resources that the pod asks for, without those of which it needs nothing."""
        return _without_zeros(vcore=self.cpu_milli, memory=self.memory, gpu_milli=self.gpu_milli)


def read_nodes(path: Path) -> list[Node]:
    """Reads the nodes, in the order of the file. Columns: sn, cpu_milli, memory_mib, gpu, model."""
    nodes = []
    seen: set[str] = set()
    for row in _rows(path, ("sn", "cpu_milli", "memory_mib", "gpu", "model")):
        node = Node(
            row.name("sn"), row.whole("cpu_milli"), row.whole("memory_mib") * MIB, row.whole("gpu"), row.text("model")
        )
        if node.id in seen:
            raise row.wrong("sn", "a node of its own", node.id + " again")
        seen.add(node.id)
        nodes.append(node)
    if not nodes:
        raise BadTrace(f"{path}: no nodes in it")
    return nodes


POD_COLUMNS = (
    "name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos", "creation_time", "deletion_time",
)  # fmt: skip


def read_pods(path: Path) -> list[Pod]:
    """Reads the pods, in the order of the file. `pod_phase` and `scheduled_time` describe the recorded run, and are
    not read.
    """
    pods = []
    seen: set[str] = set()
    for row in _rows(path, POD_COLUMNS):
        pod = _pod(row)
        if pod.name in seen:
            raise row.wrong("name", "a pod of its own", pod.name + " again")
        seen.add(pod.name)
        pods.append(pod)
    if not pods:
        raise BadTrace(f"{path}: no pods in it")
    return pods


def _pod(row: Row) -> Pod:
    gpus = row.whole("num_gpu")
    share = row.whole("gpu_milli")
    if gpus == 1 and not 0 < share <= MILLI:
        raise row.wrong("gpu_milli", "1 to 1000, the share of its one GPU")
    created = row.seconds("creation_time")
    deleted = row.seconds("deletion_time") if row.text("deletion_time") else None
    if deleted is not None and deleted < created:
        raise row.wrong("deletion_time", f"nothing before its creation_time {created:g}")
    pod = Pod(
        name=row.name("name"),
        cpu_milli=row.whole("cpu_milli"),
        memory=row.whole("memory_mib") * MIB,
        gpu_milli=share if gpus == 1 else gpus * MILLI,
        gpu_spec=tuple(model for model in row.text("gpu_spec").split("|") if model),
        qos=row.text("qos") or "none",
        created=created,
        deleted=deleted,
    )
    if not pod.resource:
        raise row.wrong("cpu_milli", "a pod that needs something: cpu_milli, memory_mib or num_gpu above 0")
    return pod


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table, and where it stands."""

    path: Path
    line: int
    values: dict[str, str]

    def text(self, column: str) -> str:
        return self.values[column].strip()

    def name(self, column: str) -> str:
        if not self.text(column):
            raise self.wrong(column, "a name")
        return self.text(column)

    def whole(self, column: str) -> int:
        text = self.text(column)
        if not (text.isascii() and text.isdigit()):
            raise self.wrong(column, "a whole number, 0 or more")
        return int(text)

    def seconds(self, column: str) -> float:
        try:
            value = float(self.text(column))
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and value >= 0):
            raise self.wrong(column, "seconds, 0 or more")
        return value

    def wrong(self, column: str, expected: str, got: str | None = None) -> BadTrace:
        return BadTrace(
            f"{self.path}:{self.line}: column {column}: expected {expected}, got {got or repr(self.text(column))}"
        )


def _rows(path: Path, columns: tuple[str, ...]) -> Iterator[Row]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, strict=True)
            missing = [column for column in columns if column not in (reader.fieldnames or ())]
            if missing:
                raise BadTrace(f"{path}:1: no column {', '.join(missing)}: expected the columns {', '.join(columns)}")
            for values in reader:
                if None in values or None in values.values():
                    raise BadTrace(
                        f"{path}:{reader.line_num}: expected {len(reader.fieldnames or ())} columns, as in line 1"
                    )
                yield Row(path, reader.line_num, values)
    except FileNotFoundError:
        raise BadTrace(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadTrace(f"{path}: cannot be read as CSV: {error}") from None


def _without_zeros(**amounts: int) -> dict[str, int]:
    return {name: amount for name, amount in amounts.items() if amount}
