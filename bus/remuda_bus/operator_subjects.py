"""Subjects on which operators act: their name and groups are part of them. `subjects` exports them."""

from __future__ import annotations


def configuration_change(operator: str, groups: str, verb: str) -> str:
    """Changes of the configuration: update, rollback, confirm. `operator`, `groups`: as in `administration`."""
    return f"remuda.configuration.{operator}.{groups}.{verb}"


def own_configuration_change(verb: str) -> str:
    """The same requests in the account of an operator, as `own_administration`."""
    return f"remuda.configure.{verb}"


def operator_method(service: str, method: str) -> str:
    """Requests to a front end for a method of remuda.v1.Admin or Metrics (docs/api.md). In an operator's account, all
    methods; in the account of the services, those that read. `service`: admin or metrics."""
    return f"remuda.api.{service}.{method}"


def operator_change(operator: str, groups: str, method: str) -> str:
    """Requests to a front end for a method of remuda.v1.Admin that acts. `operator`, `groups`: as in
    `administration`. The NATS server maps `operator_method` of an operator's account to it."""
    return f"remuda.operate.{operator}.{groups}.{method}"


def administration(operator: str, groups: str, rm_id: str, action: str) -> str:
    """Requests of operators to rmproxy: kill an application, drain a node and so on. `operator`, `groups`: as
    `operators` encodes them. Without keys a client states both. With keys the server does (`own_administration`)."""
    return f"remuda.admin.{operator}.{groups}.{rm_id}.{action}"


def own_administration(rm_id: str, action: str) -> str:
    """The same requests in the account of an operator. The NATS server maps the subject to `administration` with the
    operator's name and groups."""
    return f"remuda.administer.{rm_id}.{action}"


def log_level(service: str) -> str:
    """Changes of the log level: all processes of the service answer. JSON. For administrators of the system, and for
    operators whom the owner of the keys names."""
    return f"remuda.process.{service}.log_level"


PELOTON_QUERIES = ("pools", "explain", "story", "preview")


def peloton_pools(cluster: str) -> str:
    """Changes of the pools of Peloton's resource manager. JSON. For administrators of the system."""
    return f"remuda.peloton.{cluster}.pools"


def peloton_change(operator: str, groups: str, cluster: str) -> str:
    """The same changes in the name of an operator. `operator`, `groups`: as in `administration`."""
    return f"remuda.pools.{operator}.{groups}.{cluster}"


def own_peloton_change(cluster: str) -> str:
    """The same requests in the account of an operator, as `own_administration`."""
    return f"remuda.pools.{cluster}"


def peloton_query(cluster: str, kind: str) -> str:
    """Queries of operators to Peloton's resource manager: one of PELOTON_QUERIES. Request and reply are JSON."""
    return f"remuda.api.peloton.{cluster}.{kind}"


GUEST_KINDS = ("application", "allocation")


def guest_request(cluster: str, rm_id: str, kind: str) -> str:
    """Requests of a cluster of Peloton whose tasks are guests in the RM's partitions: an ApplicationRequest or an
    AllocationRequest of si.v1. JSON answer."""
    return f"remuda.guest.{cluster}.{rm_id}.{kind}"
