"""Subjects of Peloton's resource manager, and the roles that may publish to them (`test_access`)."""

from __future__ import annotations

PELOTON = {
    "remuda.guest.default.rm-1.application": {"placement"},
    "remuda.guest.default.rm-1.allocation": {"placement"},
    "remuda.guest.default.rm-1.node": set(),
    "$KV.remuda_leases.engine.rm-1": {"placement"},
    "remuda.api.lease.engine.rm-1": {"placement", "operator"},
    "remuda.api.core.rm-1.guests": {"placement", "operator", "alice@example.com", "grpc", "web"},  # no RM
    "remuda.api.core.rm-1.allocations": {"placement", "operator", "alice@example.com", "rm-1", "grpc", "web"},
    "$JS.API.STREAM.MSG.GET.INBOX": {"core", "archive", "shadow"},
    "remuda.api.resmgr.resmgr-1": {"placement", "operator"},
    "remuda.api.peloton.default.explain": {"web", "operator", "alice@example.com"},
    "peloton.default.jobs.EnqueueGangs": {"peloton-jobs"},
    "peloton.default.placement.DequeueGangs": {"placement"},
    "peloton.default.hosts.PutHosts": {"peloton-hosts"},
    "peloton.default.pools.CreateResourcePool": {"peloton-pools"},
    "peloton.default.read.Query": {"placement", "peloton-jobs", "peloton-hosts", "peloton-pools", "operator"},
    "peloton.default.jobs.EnqueueGangs.jobs-dev": set(),  # the server puts the name of a client there
    "remuda.peloton.default.pools": set(),  # the role admin alone
    "remuda.pools.default": {"alice@example.com"},
    "remuda.pools.alice=40example=2Ecom.ops.default": {"grpc", "web"},
    "remuda.pools.bob.-.default": {"web"},
    "remuda.log.peloton.default": {"resmgr"},
    "remuda.inbox.peloton.default": {"resmgr"},
    "remuda.api.lease.peloton.default.resmgr-1": {"resmgr", "operator"},
    "$KV.remuda_leases.peloton.default.a": {"resmgr"},
    "$KV.remuda_leaders.peloton.default": {"resmgr"},
    "$KV.remuda_halts.peloton.default": {"resmgr"},
    "$KV.remuda_faults.peloton.default.PELOTON_INBOX": {"resmgr"},
    "$O.remuda_peloton_snapshots.C.x.y": {"resmgr"},
    "$JS.API.STREAM.PURGE.PELOTON_LOG": {"resmgr"},
    "$JS.API.STREAM.PURGE.PELOTON_INBOX": {"resmgr"},
    "$JS.API.CONSUMER.CREATE.PELOTON_LOG": {"resmgr"},
}
