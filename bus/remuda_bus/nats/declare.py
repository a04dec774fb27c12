"""Makes streams and buckets what `subjects` says. Several processes may do it at once: the second finds it done."""

from __future__ import annotations

import time
from typing import Any

import structlog

from remuda_bus import limits, subjects
from remuda_bus.bus import Refused, Unreadable
from remuda_bus.nats.connection import FORBIDDEN
from remuda_bus.nats.feed import NANOSECOND
from remuda_bus.nats.jetstream import STREAM_NAME_IN_USE, JetStream, JetStreamError

log = structlog.get_logger()


async def declare(jetstream: JetStream, replicas: int) -> None:
    """Raises Refused when a stream has settings that cannot be changed, Full when the server lacks the storage."""
    for stream in subjects.STREAMS:
        await _ensure(jetstream, {**_stream(stream), "num_replicas": replicas})
    for bucket in subjects.BUCKETS:
        await _ensure(jetstream, {**_bucket(bucket), "num_replicas": replicas})
    for objects in subjects.OBJECT_BUCKETS:
        await _ensure(jetstream, {**_objects(objects), "num_replicas": replicas})


async def _first_requests(jetstream: JetStream) -> dict[str, Any]:
    """Positions in REQUESTS are in the log: whoever makes this stream again, where there is a log already, must not
    begin at 1, or the core would take the next requests for repetitions. Nobody has asked a million times a second."""
    try:
        has_log = (await jetstream.api(f"STREAM.INFO.{subjects.LOG.name}"))["state"]["last_seq"] > 0
    except Unreadable:
        has_log = False
    if not has_log:
        return {}
    first = time.time_ns() // 1_000
    log.warning("the stream of requests was lost, and those with it that were not forwarded", first_seq=first)
    return {"first_seq": first}


async def _ensure(jetstream: JetStream, wanted: dict[str, Any]) -> None:
    name = wanted["name"]
    try:
        found = await jetstream.api(f"STREAM.INFO.{name}")
    except Unreadable:
        if name == subjects.REQUESTS.name:
            wanted |= await _first_requests(jetstream)
        try:
            await jetstream.api(f"STREAM.CREATE.{name}", wanted)
        except JetStreamError as error:
            if error.err_code != STREAM_NAME_IN_USE:
                raise
            found = await jetstream.api(f"STREAM.INFO.{name}")
        else:
            log.debug("stream made", stream=name)
            return
    config: dict[str, Any] = found["config"]
    changed = {key: value for key, value in wanted.items() if config.get(key, _absent(value)) != value}
    if changed:
        try:
            await jetstream.api(f"STREAM.UPDATE.{name}", {**config, **changed})
        except Refused as refusal:
            if refusal.code != FORBIDDEN:
                raise
            # In the middle of an upgrade; either version can do with the other's.
            log.warning("stream is that of another version, see `remuda declare`", stream=name, differs=sorted(changed))
        else:
            log.info("stream changed", stream=name, changed=sorted(changed))


def _absent(value: object) -> object:
    """What a setting is that the server leaves out of its answer."""
    return type(value)()


def _stream(stream: subjects.Stream) -> dict[str, Any]:
    return {
        "name": stream.name,
        "description": stream.why,
        "subjects": list(stream.subjects),
        "retention": "limits",
        "discard": stream.discard,
        "storage": "file",
        "max_bytes": stream.max_bytes,
        "max_age": int(stream.max_age_s * NANOSECOND),
        "max_msgs_per_subject": stream.max_msgs_per_subject,
        "duplicate_window": int(stream.duplicate_window_s * NANOSECOND),
        "allow_direct": True,
        "allow_atomic": stream.allow_atomic_batch,
    }


def _bucket(bucket: subjects.Bucket) -> dict[str, Any]:
    config: dict[str, Any] = {
        "name": f"KV_{bucket.name}",
        "description": bucket.why,
        "subjects": [f"$KV.{bucket.name}.>"],
        "retention": "limits",
        "discard": "new",
        "storage": "file",
        "max_age": int(bucket.ttl_s * NANOSECOND),
        "max_msgs_per_subject": bucket.history,
        "duplicate_window": int(min(bucket.ttl_s or 120.0, 120.0) * NANOSECOND),
        "allow_direct": True,
        "allow_rollup_hdrs": True,
        "deny_delete": True,
    }
    if bucket.ttl_s:
        config |= {"allow_msg_ttl": True, "subject_delete_marker_ttl": int(limits.MARKER_TTL_S * NANOSECOND)}
    return config


def _objects(bucket: subjects.ObjectBucket) -> dict[str, Any]:
    return {
        "name": f"OBJ_{bucket.name}",
        "description": bucket.why,
        "subjects": [f"$O.{bucket.name}.C.>", f"$O.{bucket.name}.M.>"],
        "retention": "limits",
        "discard": "new",
        "storage": "file",
        "max_bytes": bucket.max_bytes,
        "allow_direct": True,
        "allow_rollup_hdrs": True,
    }
