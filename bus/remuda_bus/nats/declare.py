"""Creates and updates streams and buckets as `subjects` declares them. Several processes may do so at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

import structlog

from remuda_bus import limits, subjects
from remuda_bus.bus import BusError, Full, Refused, Unreadable
from remuda_bus.nats.connection import FORBIDDEN
from remuda_bus.nats.jetstream import STREAM_NAME_IN_USE, JetStream, JetStreamError
from remuda_bus.nats.ordered_consumer import NANOSECOND
from remuda_bus.retry import retry

log = structlog.get_logger()

PER_SUBJECT = "max_msgs_per_subject"
UNLIMITED = {"max_msgs": -1, "max_msg_size": -1}
FIXED = ("discard", "max_age", "retention", *UNLIMITED)


async def declare(jetstream: JetStream, replicas: int) -> None:
    """Create or update all streams and buckets. Raises Refused when a setting cannot be changed, Full when the server
    lacks the storage."""
    for wanted in _declared():
        await _ensure(jetstream, {**wanted, "num_replicas": replicas})


async def changed_settings(jetstream: JetStream) -> dict[str, dict[str, Any]]:
    """The settings of streams that differ from the declared ones: by stream, the declared values. Only settings are
    compared by which a stream would lose acknowledged messages, or refuse other messages than declared; all versions
    agree about them. Raises BusError; Unreadable when a stream is missing."""
    found: dict[str, dict[str, Any]] = {}
    # Streams that discard old messages are histories, whose oldest messages may go.
    kept = [wanted for wanted in _declared() if wanted["discard"] != "old"]
    answers = await asyncio.gather(*(jetstream.api(f"STREAM.INFO.{wanted['name']}") for wanted in kept))
    for wanted, config in zip(kept, (answer["config"] for answer in answers), strict=True):
        values = ((key, wanted[key]) for key in FIXED if key != "max_age" or not wanted[key])
        changed = {key: value for key, value in values if config.get(key, _absent(value)) != value}
        if changed:
            found[wanted["name"]] = changed
    return found


async def restore_settings(jetstream: JetStream, name: str, changed: dict[str, Any]) -> None:
    """Restore the changed settings of a stream. Raises BusError; Refused where this client may not change the
    stream."""
    config = (await jetstream.api(f"STREAM.INFO.{name}"))["config"]
    await jetstream.api(f"STREAM.UPDATE.{name}", {**config, **changed})


def _declared() -> list[dict[str, Any]]:
    made = [
        *map(_stream, subjects.STREAMS), *map(_bucket, subjects.BUCKETS), *map(_objects, subjects.OBJECT_BUCKETS),
    ]  # fmt: skip
    return [{"max_age": 0, **UNLIMITED, **wanted} for wanted in made]


async def _first_requests(jetstream: JetStream) -> dict[str, Any]:
    """Settings of a REQUESTS stream that is created anew although there is a log. Commits hold positions in REQUESTS,
    so a stream that started at 1 again would make the core ignore requests as repetitions. It starts at the time in
    microseconds, beyond any former sequence: no system has received a million requests a second."""
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
        except (JetStreamError, Full) as error:
            # Another process creates it at the same time; meanwhile the server counts the storage of both.
            if isinstance(error, JetStreamError) and error.err_code != STREAM_NAME_IN_USE:
                raise
            found = await _created_by_another(jetstream, name, error)
        else:
            log.debug("stream made", stream=name)
            return
    config: dict[str, Any] = found["config"]
    changed = {key: value for key, value in wanted.items() if config.get(key, _absent(value)) != value}
    most = changed.get(PER_SUBJECT, -1)
    if wanted["discard"] == "new" and await _would_lose(jetstream, name, most):
        log.warning("the limit per subject waits: some hold more than it allows", stream=name, limit=most)
        del changed[PER_SUBJECT]
        changed.pop("discard_new_per_subject", None)
    if changed:
        try:
            await jetstream.api(f"STREAM.UPDATE.{name}", {**config, **changed})
        except Refused as refusal:
            if refusal.code != FORBIDDEN:
                raise
            # An upgrade is under way. Either version works with the other's settings.
            log.warning("stream is that of another version, see `remuda declare`", stream=name, differs=sorted(changed))
        else:
            log.info("stream changed", stream=name, changed=sorted(changed))


async def _created_by_another(jetstream: JetStream, name: str, failed: BusError) -> dict[str, Any]:
    info = partial(jetstream.api, f"STREAM.INFO.{name}")
    try:
        return await retry(info, limits.STREAM_CREATED_RETRY, on=Unreadable)
    except Unreadable:
        raise failed from None


async def _would_lose(jetstream: JetStream, name: str, most: int) -> bool:
    """Whether the server might delete messages beyond a new limit, as it does even where the stream refuses new ones.
    The factor of two allows for messages that are appended meanwhile."""
    return most > 0 and 2 * max((await jetstream.per_subject(name, ">")).values(), default=0) > most


def _absent(value: object) -> object:
    """The value that a setting has where the server omits it from its answer."""
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
        "discard_new_per_subject": stream.discard == "new" and stream.max_msgs_per_subject > 0,
        **({"max_consumers": stream.max_consumers} if stream.max_consumers else {}),
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


def described(settings: Mapping[str, Any]) -> str:
    """Settings of a stream in words."""
    return ", ".join(f"{key} {value}" for key, value in settings.items())
