"""The one table of names: what it allows, and that no other file has a second one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from remuda_proto import names

ROOT = Path(__file__).parents[2]

ALLOWED = {
    "QUEUE": (["a", "A-1_z", "x" * 64], ["", "a.b", "a b", "x" * 65, "a$", "é", "a\n"]),
    "USER": (["_", "a:b.c@d-e", "svc$", "x" * 1_000], ["", "1a", "$", "a$b", "a b", "é", "a\n"]),
    "GROUP": (["_", "a:b.c-e"], ["", "1a", "a@b", "a$", "a\n"]),
    "PARTITION": (["a", "a b", "é", "x" * 64], ["", " a", "a ", "[a", "a\n", "a\x00", "x" * 65]),
    "RM_ID": (["a", "1", "a:b_c-d", "x" * 64], ["", "a.b", "*", ">", "a b", "x" * 65, "a\n"]),
}


@pytest.mark.parametrize(("name", "allowed", "refused"), [(name, *texts) for name, texts in ALLOWED.items()])
def test_patterns(name, allowed, refused):
    pattern = getattr(names, name)
    assert [text for text in allowed if not pattern.matches(text)] == []
    assert [text for text in refused if pattern.matches(text)] == []


def test_no_second_table():
    """A class of characters with letters of both cases is the pattern of a name."""
    ranges = re.compile(r"""re\.compile\(\s*r?f?["'].*\[[^\]]*(a-zA-Z|A-Za-z)""")
    allowed = {
        "proto/remuda_proto/names.py",
        "bus/remuda_bus/subjects.py",  # keys of buckets and names of processes, not names from requests
        "operations/remuda_operations/operators.py",  # which characters of a name are encoded
        "cli/remuda/terminal/arguments.py",  # names of processes
        "services/config/remuda_config/problems.py",  # which keys a path quotes
        "proto/remuda_proto/quantities.py",  # the suffix of a quantity
        "cli/remuda/drafts/amounts.py",  # the suffix of a quantity of Kubernetes
        "services/config/remuda_config/calendars.py",  # names of time zones
        "services/config/remuda_config/edits.py",  # which texts YAML takes without quotes
        "services/grpc/remuda_grpc/status.py",  # the field that a reason begins with
        "integrations/kubernetes/remuda_kubernetes/shim/devices.py",  # attributes in selectors of device classes
        "integrations/kubernetes/remuda_kubernetes/shim/task_groups.py",  # what a label of Kubernetes holds
    }
    found = {
        str(path.relative_to(ROOT))
        for folder in (
            "proto/remuda_proto",
            "bus/remuda_bus",
            "replication",
            "operations",
            "sdk/remuda_sdk",
            "cli/remuda",
            "services",
            "integrations",
        )
        for path in (ROOT / folder).rglob("*.py")
        if "tests" not in path.parts and not path.name.endswith("_pb2.py") and ranges.search(path.read_text())
    }
    assert found - allowed == set()
