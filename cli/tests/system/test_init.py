"""What `remuda init` proposes works as it stands."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from cli.tests.running import Lines, finished, remuda, stopped
from remuda.admin.init import next_commands
from remuda.drafts.fresh import Cluster

pytestmark = pytest.mark.timeout(120)


async def test_its_proposals_work(tmp_path: Path) -> None:
    files = (tmp_path / "queues.yaml", tmp_path / "remuda.yaml")
    code, text = await finished("init", str(tmp_path), "--yes", "--kind", "batch", "--gpus", "8", "--team", "research")
    assert code == 0, text
    proposals = next_commands(Cluster.BATCH, *files, "research")
    check, start, load, queues = ((shlex.split(one)[1:]) for one, _ in proposals)
    code, text = await finished(*check)
    assert code == 0 and "valid: partition default with 3 queues" in text
    process = await remuda(*start, "--data", str(tmp_path / "data"), "--port", "0", "--plain")
    try:
        await Lines(process).until(r" remuda +ready: ")
        url = json.loads((tmp_path / "data" / "remuda.json").read_text())["nats"]
        code, text = await finished(*load, "--nats", url, "--plain")  # as the port is another one than the usual
        assert code == 0, text
        code, text = await finished(*queues, "--nats", url)
        row = next(line for line in text.splitlines() if line.lstrip().startswith("research"))
        assert code == 0 and int(row.split()[-2]) > 0, text
        code, text = await finished("explain", "--nats", url)
        assert code == 0 and "root.research" in text, text
        code, text = await finished("config", "get", "--nats", url)
        assert text.strip() == files[0].read_text().strip()
    finally:
        await stopped(process)
