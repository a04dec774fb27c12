"""Requests that are too large for one message of the inbox."""

from __future__ import annotations

import pytest

from remuda_peloton.wire.divide import divided
from remuda_peloton.wire.rpcs import RpcError
from remuda_proto.peloton.api.v0.respool import respool_pb2
from remuda_proto.peloton.private.resmgr import resmgr_pb2
from remuda_proto.peloton.private.resmgrsvc import resmgrsvc_pb2
from remuda_proto.remuda.resmgr.v1 import hosts_pb2

LIMIT = 1_000


def test_parts_ask_together_for_the_same() -> None:
    whole = resmgrsvc_pb2.GetTasksByHostsRequest(hostnames=[f"host-{i}" for i in range(500)], type=resmgr_pb2.BATCH)
    parts = list(divided(whole, LIMIT))
    assert len(parts) > 1 and all(part.ByteSize() <= LIMIT and part.type == resmgr_pb2.BATCH for part in parts)
    assert [name for part in parts for name in part.hostnames] == whole.hostnames


def test_what_cannot_be_divided_is_refused() -> None:
    """The fact of a pool that fills the message of its request would not fit into the log, which would be halted."""
    pool = respool_pb2.CreateRequest()
    pool.config.description = "x" * LIMIT
    names = [f"host-{i}" for i in range(500)]
    for request in (
        pool,
        hosts_pb2.RankHostsRequest(hostnames=names),  # the last part would be the ranking
        resmgrsvc_pb2.GetTasksByHostsRequest(hostnames=["x" * LIMIT]),
    ):
        with pytest.raises(RpcError):
            list(divided(request, LIMIT))
