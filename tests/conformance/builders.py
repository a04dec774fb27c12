"""Small scenarios in a few words, for the runner's own tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from . import in_process
from .recording import Json, Scenario, read_scenario

GOLDEN: Final = Path(__file__).parents[1] / "golden" / "scenarios"
CONFIG: Final = "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: q}]}]}]"


def scenario(*steps: Json, config: str = CONFIG, mode: str = "manual", **options: Any) -> Scenario:
    return read_scenario({"name": "own", "mode": mode, "config": config, "options": options, "steps": list(steps)})


def trace_of(played: Scenario) -> Json:
    return in_process.play(played).as_trace()


def amount(vcore: int) -> Json:
    return {"resources": {"vcore": {"value": vcore}}}


def node(node_id: str, vcore: int | None = None, action: str = "CREATE", **attributes: str) -> Json:
    written: Json = {"nodeID": node_id, "action": action, "attributes": attributes}
    if vcore is not None:
        written["schedulableResource"] = amount(vcore)
    return {"node": {"nodes": [written]}}


def app(name: str, queue: str = "root.q", user: str = "alice", **more: Any) -> Json:
    ugi = {"user": user, "groups": ["dev"]}
    new = {"applicationID": name, "queueName": queue, "partitionName": "default", "ugi": ugi, **more}
    return {"application": {"new": [new]}}


def remove(name: str) -> Json:
    return {"application": {"remove": [{"applicationID": name, "partitionName": "default"}]}}


def ask(application: str, key: str, vcore: int, count: int = 1, **more: Any) -> Json:
    return {"applicationID": application, "allocationKey": key, "partitionName": "default",
            "resourceAsk": amount(vcore), "maxAllocations": count, **more}  # fmt: skip


def asks(*each: Json) -> Json:
    return {"allocation": {"asks": list(each)}}


def release(application: str, uuid: str) -> Json:
    released = {
        "applicationID": application,
        "UUID": uuid,
        "partitionName": "default",
        "terminationType": "STOPPED_BY_RM",
    }
    return {"allocation": {"releases": {"allocationsToRelease": [released]}}}


def withdraw(application: str, key: str = "") -> Json:
    released = {"applicationID": application, "allocationKey": key, "partitionName": "default"}
    return {"allocation": {"releases": {"allocationAsksToRelease": [released]}}}
