"""A resource manager with the SDK: python with_sdk.py nats://127.0.0.1:4222 STATE_FILE

The state file holds the tasks, so that a second run continues where the first one ended.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Literal

from remuda_proto.si.v1 import si_pb2 as si
from remuda_sdk import ResourceManager, application, ask, node, release_of

QUEUES = Path(__file__).parents[1].joinpath("queues.yaml").read_text()


async def main(url: str, file: Path) -> None:
    restarted = file.exists()
    tasks: dict[str, str] = json.loads(file.read_text()) if restarted else {}  # by UUID; "" once they have ended
    resync: Literal["replay", "report"] = "replay" if restarted else "report"
    async with ResourceManager.connect(url, "example-sdk", config=QUEUES, resync=resync) as rm:
        if not restarted:
            await rm.report_nodes([node("node-1", vcore=4000)])
            await rm.submit(
                application("batch", queue="root.batch", user="alice"),
                application("urgent", queue="root.urgent", user="bob"),
            )
            await rm.ask([ask("batch", f"batch-{number}", vcore=1000) for number in range(1, 5)])

        async for callback in rm.callbacks():
            if not isinstance(callback, si.AllocationResponse):
                continue
            started = [one for one in callback.new if one.UUID not in tasks]  # repeated ones are known
            for one in started:
                print(f"start {one.allocationKey} on {one.nodeID}", flush=True)
                tasks[one.UUID] = one.allocationKey
            for release in callback.released:  # the SDK confirms those that the scheduler has requested
                if task := tasks.get(release.UUID):
                    print(f"stop {task}: {si.TerminationType.Name(release.terminationType)}", flush=True)
                    tasks[release.UUID] = ""
            file.write_text(json.dumps(tasks))  # before the callback is acknowledged, at the next turn of the loop

            if "batch-4" in (one.allocationKey for one in started):  # the node is full
                urgent = ask("urgent", "urgent-1", vcore=1000)
                urgent.preemptionPolicy.allowPreemptOther = True
                await rm.ask([urgent])
            for one in started:
                if one.allocationKey == "urgent-1":  # it is done; the next task starts when this program runs again
                    await rm.release([release_of(one)])
                    await rm.ask([ask("batch", "late-1", vcore=1000)])
                if one.allocationKey in ("urgent-1", "late-1"):
                    return


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(f"usage: python {sys.argv[0]} nats://127.0.0.1:4222 STATE_FILE")
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
