"""Queries of operators, and the commands that ask them, on a real bus."""

from __future__ import annotations

import json
import subprocess
import sys

from services.resmgr.tests.test_server import JOB, create_pool, message, server, set_capacity, task, url

__all__ = ["url"]


def remuda(url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "remuda", *arguments, "--nats", url]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_commands_show_pools_and_why_a_task_waits(url: str) -> None:
    with server(url) as call:
        set_capacity(call, 10.0)
        pool, task_id = create_pool(call), f"{JOB}-0"
        assert not call("EnqueueGangs", f1=pool, f2=message(f1=[task(number, 1) for number in range(6)]))
        pools = json.loads(remuda(url, "pools", "--json").stdout)
        assert [one["path"] for one in pools] == ["/", "/pool"] and pools[1]["tasks"] == 6
        found = remuda(url, "pools", "/pool", "-o", "wide")
        assert "/pool" in found.stdout and found.returncode == 0, found.stderr
        explained = remuda(url, "explain", "peloton.default", task_id)
        assert "is PENDING" in explained.stdout and "rule " in explained.stdout, explained
        assert "entitlement of /pool" in explained.stdout
        story = remuda(url, "story", task_id, "--rm", "peloton.default", "--json")
        assert "is PENDING in pool" in json.loads(story.stdout.splitlines()[0])["text"]
        unknown = remuda(url, "explain", "peloton.default", "nothing")
        assert unknown.returncode == 1 and "there is no task, run or gang 'nothing'" in unknown.stderr
        missing = remuda(url, "pools", "/nowhere")
        assert missing.returncode == 1 and "/nowhere" in missing.stderr
    absent = remuda(url, "pools", "--cluster", "other")
    assert "no resource manager of Peloton answers" in absent.stderr
