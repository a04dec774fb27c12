"""The contract does not change by accident: the table and the generated code agree, and the specification, where it is
at hand, agrees with both."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import grpc_tools
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from proto.tests.contract_table import table
from remuda_proto import constants
from remuda_proto.si.v1 import si_pb2

PROTO = Path(__file__).resolve().parents[1]
SPECIFICATION = Path(os.environ.get("REMUDA_SPEC", PROTO.parents[1] / "shared" / "spec"))

# Additions of later versions of the interface, which this one has, too, and from 100 on our own.
ADDITIONS = {
    "message AllocationRequest": {"4 allocations repeated Allocation"},
    "message AllocationResponse": {"5 rejectedAllocations repeated RejectedAllocation"},
    "message Allocation": {"13 allocationID string", "14 originator bool", "15 preemptionPolicy PreemptionPolicy"},
    "message AllocationRelease": {"7 allocationID string"},
    "message PreemptionPredicatesResponse": {"100 sparedAllocationKeys repeated string"},
    "message RejectedAllocation": {"1 allocationKey string", "2 applicationID string", "3 reason string"},
    "enum NodeInfo.ActionFromRM": {"6 CREATE_DRAIN"},
    "enum EventRecord.ChangeDetail": {"211 APP_RESUMING", "212 APP_EXPIRED", "306 NODE_RESERVATION"},
}

Sections = dict[str, list[str]]


def sections(lines: list[str]) -> Sections:
    """Heading -> entries, white space evened out. A heading stands at the margin."""
    found: Sections = {}
    entries: list[str] = []
    for line in lines:
        if line and not line.startswith((" ", "#")):
            found[line] = entries = []
        elif line.startswith(" "):
            entries.append(" ".join(line.split()))
    return found


@pytest.fixture(scope="module")
def expected() -> Sections:
    return sections((Path(__file__).parent / "si_v1_table.txt").read_text().splitlines())


@pytest.fixture(scope="module")
def specification() -> str:
    """The text of 000, without the frame its lines may stand in."""
    files = sorted(SPECIFICATION.glob("000_*.txt"))
    if not files:
        pytest.skip(
            f"no specification (000_*.txt) in {SPECIFICATION}; set REMUDA_SPEC to its directory to compare with it"
        )
    return re.sub(r"^\| ?(.*?) ?\|$", r"\1", files[0].read_text(), flags=re.MULTILINE)


def blocks(text: str, language: str) -> str:
    return "\n".join(re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL))


def test_generated_code_has_exactly_the_table(expected: Sections) -> None:
    file = FileDescriptorProto()
    si_pb2.DESCRIPTOR.CopyToProto(file)
    wire = {heading: entries for heading, entries in expected.items() if heading != "constants"}
    assert sections(table(file)) == wire


def test_constants_have_exactly_the_values_of_the_table(expected: Sections) -> None:
    for entry in expected["constants"]:
        _, name, value = entry.split()
        assert getattr(constants, name) == value.strip('"'), name


def test_specification_is_the_table_without_our_additions(
    expected: Sections, specification: str, tmp_path: Path
) -> None:
    (tmp_path / "spec.proto").write_text(blocks(specification, "protobuf"))
    compile_proto(tmp_path, "spec.proto", f"--descriptor_set_out={tmp_path / 'spec.bin'}")
    (file,) = FileDescriptorSet.FromString((tmp_path / "spec.bin").read_bytes()).file
    theirs = {
        heading: [entry for entry in entries if entry not in ADDITIONS.get(heading, ())]
        for heading, entries in expected.items()
        if heading not in ("constants", "message RejectedAllocation")
    }
    assert sections(table(file)) == theirs


def test_every_addition_is_in_the_table(expected: Sections) -> None:
    for heading, entries in ADDITIONS.items():
        assert entries <= set(expected[heading]), heading


def test_constants_of_the_specification_are_those_of_the_table(expected: Sections, specification: str) -> None:
    theirs = dict(re.findall(r'^\s*(\w+)\s*=\s*"([^"]*)"', blocks(specification, "constants"), flags=re.MULTILINE))
    ours = {name: value.strip('"') for name, _, value in (entry.split() for entry in expected["constants"])}
    assert theirs == ours


def test_generated_code_is_up_to_date(tmp_path: Path) -> None:
    subprocess.run([sys.executable, PROTO / "generate.py", tmp_path], check=True, timeout=60)
    assert contents(tmp_path / "remuda_proto") == contents(PROTO / "remuda_proto"), (
        "run `make proto` and commit the result"
    )


def contents(package: Path) -> dict[str, str]:
    return {
        p.relative_to(package).as_posix(): p.read_text()
        for p in sorted(package.rglob("*_pb2*.py*"))
        if p.suffix != ".pyc"
    }


def compile_proto(directory: Path, name: str, *arguments: str) -> None:
    bundled = Path(grpc_tools.__file__).parent / "_proto"
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{directory}", f"-I{bundled}", *arguments, name]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
