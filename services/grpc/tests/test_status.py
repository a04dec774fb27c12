"""Errors as gRPC status."""

from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from remuda_bus.bus import Full, NoResponders, Refused, Unanswered
from remuda_grpc.status import DETAILS, Failure, failure_of, invalid


def details(failure: Failure) -> dict[str, Any]:
    ((name, packed),) = failure.trailing_metadata()
    assert name == DETAILS
    status = status_pb2.Status.FromString(packed)
    assert (status.code, status.message) == (failure.code.value[0], failure.message)
    found = {}
    for detail in status.details:
        kind = getattr(error_details_pb2, detail.type_url.rsplit(".", 1)[1])
        found[kind.__name__] = unpacked = kind()
        assert detail.Unpack(unpacked)
    return found


@pytest.mark.parametrize(
    ("error", "code", "name"),
    [
        (Refused("rmID 'a b': expected", 400), grpc.StatusCode.INVALID_ARGUMENT, "INVALID"),
        (Refused("rmID 'a' is not registered", 404), grpc.StatusCode.NOT_FOUND, "NOT_REGISTERED"),
        (Refused("registration 1", 409), grpc.StatusCode.ABORTED, "SUPERSEDED"),
        (Refused("partitions[0].name: expected", 422), grpc.StatusCode.INVALID_ARGUMENT, "REFUSED"),
        (Refused("too many", 429), grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_REQUESTS"),
        (Refused("halted", 503), grpc.StatusCode.UNAVAILABLE, "OUTAGE"),
        (Refused("KeyError: 'x'", 500), grpc.StatusCode.INTERNAL, "INTERNAL"),
        (Full("maximum messages"), grpc.StatusCode.RESOURCE_EXHAUSTED, "FULL"),
        (Unanswered("no answer"), grpc.StatusCode.UNAVAILABLE, "OUTAGE"),
        (NoResponders("nobody"), grpc.StatusCode.UNAVAILABLE, "OUTAGE"),
    ],
)
def test_every_error_of_the_bus_has_a_status(error, code, name):
    failure = failure_of(error)
    found = details(failure)
    assert (failure.code, failure.name) == (code, name)
    assert (found["ErrorInfo"].reason, found["ErrorInfo"].domain) == (name, "remuda")
    retries = code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED)
    assert ("RetryInfo" in found) == retries


@pytest.mark.parametrize(
    ("reason", "field"),
    [
        ("rmID 'a b': expected", "rmID"),
        ("extraConfig resync 'maybe': expected", "extraConfig.resync"),
        ("extraConfig heartbeat.interval '1x': expected", "extraConfig.heartbeat.interval"),
        ("partitions[0].queues[1].name: expected", "partitions[0].queues[1].name"),
        ("(nothing is named)", ""),
    ],
)
def test_field_is_the_one_that_the_reason_begins_with(reason, field):
    failure = failure_of(Refused(reason, 400))
    assert failure.field == field
    found = details(failure)
    assert (
        [one.field for one in found["BadRequest"].field_violations] == [field] if field else "BadRequest" not in found
    )


def test_long_reason_is_cut():
    assert len(invalid("config", "x" * 100_000).message) < 5_000
