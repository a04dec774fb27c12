"""Subjects of Peloton's resource manager, and the roles that may publish to them (`test_access`)."""

from __future__ import annotations

PELOTON = {
    "remuda.api.resmgr.resmgr-1": {"placement", "operator"},
    "remuda.api.peloton.default.explain": {"web", "operator", "alice@example.com"},
    "peloton.default.jobs.EnqueueGangs": {"peloton-jobs"},
    "peloton.default.placement.DequeueGangs": {"placement"},
    "peloton.default.hosts.PutHosts": {"peloton-hosts"},
    "peloton.default.pools.CreateResourcePool": {"peloton-pools"},
    "peloton.default.read.Query": {"placement", "peloton-jobs", "peloton-hosts", "peloton-pools", "operator"},
    "remuda.peloton.default.pools": set(),  # the role admin alone
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
