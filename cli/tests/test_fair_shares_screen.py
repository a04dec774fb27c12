"""What queues and users have used in the past: in `remuda queues`, `remuda usage` and on the page."""

from __future__ import annotations

import json
import shutil
import subprocess

import msgspec
import pytest

from remuda.show import listings, queues
from remuda.show.fair_shares import owes, past_share
from remuda_operations.queries.rows import FairShare, QueueTree
from remuda_web.web_page import FOLDER

HEAVY = FairShare(
    half_life_ms=604_800_000, mean={"vcore": 31_000, "gpu": 2}, resource="vcore", share=0.314, target=0.25,
    owes={"vcore": 6_000, "gpu": -3, "memory": 0},
)  # fmt: skip
NEW = FairShare(half_life_ms=604_800_000, target=0.5)


@pytest.mark.parametrize(
    ("share", "past", "debt"),
    [
        (HEAVY, "31 of 25 %", "vcore 6, less: gpu 3"),
        (NEW, "-", "-"),
        (msgspec.structs.replace(HEAVY, owes={"gpu": -3}), "31 of 25 %", "less: gpu 3"),
    ],
)
def test_in_short(share: FairShare, past: str, debt: str) -> None:
    assert (past_share(share), owes(share)) == (past, debt)
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node (apt-get install nodejs)")
    row = msgspec.json.encode(share).decode()
    written = f"[pastShare({row}), owes({row})]"
    script = f"import {{ owes, pastShare }} from '{FOLDER / 'format.js'}'; console.log(JSON.stringify({written}));"
    run = [node, "--input-type=module", "-e", script]
    assert json.loads(subprocess.run(run, check=True, capture_output=True).stdout) == [past, debt], "the page as well"


def test_queues_that_remember_are_named_below_the_tree() -> None:
    root = QueueTree(path="root", children=[QueueTree(path="root.a", fair_share=HEAVY), QueueTree(path="root.b")])
    assert list(queues._notes(root)) == [
        "root.a has used 31 of 25 % of vcore by a half-life of 7 d; owes vcore 6, less: gpu 3"
    ]


def test_rows_of_usage_have_the_past_of_users() -> None:
    row = {"user": "ann", "queue": "root.a", "fair_share": msgspec.to_builtins(HEAVY)}
    assert listings._usage(row)[-2:] == ["31 of 25 %", "vcore 6, less: gpu 3"]
    assert listings._usage({"user": "ann", "queue": "root"})[-2:] == ["", ""], "a column without content is left out"
    assert listings._more_of_usage(row) == ["vcore 31, gpu 2"]
