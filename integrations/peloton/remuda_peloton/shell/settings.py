"""Settings of Peloton's resource manager and of its placement engines, beyond those of every service."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Self

from pydantic import AfterValidator, model_validator

from remuda_bus import subjects
from remuda_bus.settings import ReadableFile, SchedulerAclSettings, Seconds, Settings, Texts, is_loopback, setting
from remuda_bus.subjects import peloton_log
from remuda_replication.settings import REPLAY_HORIZON_S, SNAPSHOT_APART_S, SNAPSHOT_FACTS, SNAPSHOT_S, STANDBYS

from .. import limits
from .. import settings as rules
from ..rules.access import read_grants
from ..settings import Periods

_RULES: Final = rules.DEFAULT
_PERIODS: Final = Periods()


def _cluster(name: str) -> str:
    peloton_log(name)
    return name


def _clients(entries: tuple[str, ...]) -> tuple[str, ...]:
    read_grants(entries)
    return entries


class ResmgrSettings(SchedulerAclSettings):
    """Times as Peloton's, in seconds. Any process that reaches the port may act for any job manager, unless client
    certificates are required."""

    keeps_logs: ClassVar[bool] = True
    host: str = setting("resmgr.host", "127.0.0.1", "address to listen on")
    port: int = setting("resmgr.port", limits.PORT, "gRPC port", ge=0, le=65535)
    advertise: str = setting(
        "resmgr.advertise", "",
        "address for engines and people; empty: `resmgr.host`, or the host name",
    )  # fmt: skip
    certificate: ReadableFile = setting("resmgr.certificate", None, "file: certificate chain")
    key: ReadableFile = setting("resmgr.key", None, "file: private key")
    client_ca: ReadableFile = setting(
        "resmgr.client_ca", None, "file: CA of client certificates, which clients then need"
    )
    clients: Annotated[Texts, AfterValidator(_clients)] = setting(
        "resmgr.clients", (),
        "roles of client certificates and keys (docs/peloton.md), as `NAME=ROLE` or "
        "`NAME=ROLE:/PATH` of a pool; empty: every certificate may call everything",
    )  # fmt: skip
    open: bool = setting("resmgr.open", False, "listen beyond loopback without client certificates")
    cluster: Annotated[str, AfterValidator(_cluster)] = setting(
        "resmgr.cluster", "default", "cluster, which has pools, tasks and a log of its own"
    )
    hosts_file: ReadableFile = setting(
        "resmgr.hosts_file", None, "file: the hosts, where no host manager describes them; watched"
    )
    pools_file: ReadableFile = setting("resmgr.pools_file", None, "file: all pools; watched. Other pools are deleted")
    standbys: int = setting("resmgr.standbys", STANDBYS, "processes that follow the log", ge=0)

    admission_s: Seconds = setting(
        "resmgr.admission.period", _PERIODS.admission_s, "between two admission passes without news", gt=0
    )
    entitlement_s: Seconds = setting(
        "resmgr.entitlement.period", _PERIODS.entitlement_s, "between two calculations of entitlements", gt=0
    )
    preemption_s: Seconds = setting(
        "resmgr.preemption.period", _PERIODS.preemption_s, "between two preemption cycles", gt=0
    )
    preemption_enabled: bool = setting(
        "resmgr.preemption.enabled", True, "preempt tasks above the entitlement of a pool"
    )
    sustained_over_allocation_count: int = setting(
        "resmgr.preemption.cycles", _RULES.sustained_over_allocation_count,
        "cycles above its entitlement before a pool gives tasks back", ge=1,
    )  # fmt: skip
    placing_timeout_s: Seconds = setting(
        "resmgr.timeouts.placing", _RULES.placing_timeout_s, "limit of a placement by an engine; 0: none", ge=0
    )
    placed_timeout_s: Seconds = setting(
        "resmgr.timeouts.placed",
        _RULES.placed_timeout_s,
        "limit of a placement's wait for a job manager; 0: none",
        ge=0,
    )
    launching_timeout_s: Seconds = setting(
        "resmgr.timeouts.launching", _RULES.launching_timeout_s, "limit of a launch; 0: none", ge=0
    )
    reserving_timeout_s: Seconds = setting(
        "resmgr.timeouts.reserving",
        _RULES.reserving_timeout_s,
        "limit of an engine's reservation; 0: none",
        ge=0,
    )
    preempting_timeout_s: Seconds = setting(
        "resmgr.timeouts.preempting", _RULES.preempting_timeout_s,
        "limit of a preemption by a job manager; 0: none", ge=0,
    )  # fmt: skip
    enable_placement_backoff: bool = setting(
        "resmgr.backoff.enabled", True, "each attempt of a placing cycle has more time"
    )
    retry_backoff_s: Seconds = setting("resmgr.backoff.step", _RULES.retry_backoff_s, "how much more", ge=0)
    retry_cycles: int = setting(
        "resmgr.backoff.cycles", _RULES.retry_cycles, "placing cycles before a host is reserved", ge=0
    )
    attempts_per_cycle: int = setting(
        "resmgr.backoff.attempts", _RULES.attempts_per_cycle, "placing attempts of a cycle", ge=0
    )
    enable_host_reservation: bool = setting(
        "resmgr.host_reservation", False, "reserve a host for a task that no cycle has placed"
    )
    reconciliation_age_s: Seconds = setting(
        "resmgr.reconciliation.age", _RULES.reconciliation_age_s,
        "age at which a report ends runs that only the resource manager knows", ge=0,
    )  # fmt: skip
    scale_reservations: bool = setting(
        "resmgr.corrections.scale_reservations", False, "scale reservations down where their parent has less"
    )
    spread_leftovers: bool = setting(
        "resmgr.corrections.spread_leftovers", False, "give what limits cut off to the other children"
    )
    fewest_victims: bool = setting(
        "resmgr.corrections.fewest_victims", False, "pass over victims that free only what is free by now"
    )
    survivors_keep_their_place: bool = setting(
        "resmgr.corrections.survivors_keep_their_place", False, "a gang that lost a member keeps its place"
    )
    count_admitted_only: bool = setting(
        "resmgr.corrections.count_admitted_only", False, "a pass admits 1,000 gangs of a leaf, and looks at more"
    )
    whole_gangs: bool = setting(
        "resmgr.corrections.whole_gangs", False, "gangs that wait for hosts are placed, and go back, whole"
    )
    reserve_after_failures: bool = setting(
        "resmgr.corrections.reserve_after_failures", False,
        "reserve hosts also when engines report the failures of all cycles",
    )  # fmt: skip
    preempt_all_states: bool = setting(
        "resmgr.corrections.preempt_all_states", False,
        "preempt reserved, placed, launching and launched tasks, too",
    )  # fmt: skip

    snapshot_facts: int = setting(
        "resmgr.snapshots.facts", SNAPSHOT_FACTS, "facts after which a snapshot is written", ge=1
    )
    snapshot_s: Seconds = setting(
        "resmgr.snapshots.interval", SNAPSHOT_S, "time after which new facts cause a snapshot", ge=0
    )
    snapshot_apart_s: Seconds = setting(
        "resmgr.snapshots.apart", SNAPSHOT_APART_S, "least time between two snapshots", ge=0
    )
    snapshot_in_child: bool = setting("resmgr.snapshots.in_child", True, "`false`: the process pauses to write it")
    replay_horizon_s: Seconds = setting(
        "resmgr.replay_horizon", REPLAY_HORIZON_S, "log and inbox keep messages that are younger", ge=0
    )

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("resmgr.certificate and resmgr.key: expected both or neither")
        if self.client_ca is not None and self.certificate is None:
            raise ValueError("resmgr.client_ca: expected resmgr.certificate and resmgr.key, too")
        if self.clients and self.client_ca is None:
            raise ValueError("resmgr.clients: expected resmgr.client_ca, too, whose certificates name the clients")
        if self.client_ca is None and not self.open and not is_loopback(self.host):
            raise ValueError(
                f"resmgr.host={self.host!r}: expected a loopback address, or client certificates (resmgr.client_ca), "
                "or resmgr.open=true where something else protects the port"
            )
        return self

    def rules(self) -> rules.Settings:
        return rules.Settings(**{name: getattr(self, name) for name in rules.Settings.__struct_fields__})

    def periods(self) -> Periods:
        return Periods(self.admission_s, self.entitlement_s, self.preemption_s)

    @property
    def address(self) -> str:
        host = self.host.strip("[]")
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"


class PlacementSettings(Settings):
    """Several engines share the work: each takes what the others have not taken."""

    address: str = setting("placement.resmgr", "", "HOST:PORT of a resource manager; empty: one on the same bus")
    ca: ReadableFile = setting("placement.ca", None, "file: CA certificates of the resource manager")
    certificate: ReadableFile = setting("placement.certificate", None, "file: client certificate")
    key: ReadableFile = setting("placement.key", None, "file: private key")
    rm: str = setting(
        "placement.rm",
        "",
        "RM of si.v1 on whose nodes to place; empty: hosts are not shared",
    )
    partition: str = setting("placement.partition", "default", "partition of that RM", min_length=1)
    queue: str = setting("placement.queue", "root.peloton", "queue of that RM for Peloton's pools")
    cluster: str = setting(
        "placement.cluster", "default", "cluster of Peloton, as in `resmgr.cluster`",
        pattern="^[A-Za-z0-9_-]{1,64}$",
    )  # fmt: skip
    ports: str = setting(
        "placement.ports", "", "ports of shared hosts that tasks may have, as FIRST-LAST",
        pattern=r"^([0-9]{1,5}-[0-9]{1,5})?$",
    )  # fmt: skip
    task_type: str = setting(
        "placement.task_type", "any", "any, batch, stateless, stateful or daemon",
        pattern="^(any|batch|stateless|stateful|daemon)$",
    )  # fmt: skip
    refresh_s: Seconds = setting("placement.refresh", 0.2, "how old the engine's hosts may be", ge=0)
    hold_s: Seconds = setting("placement.hold", 10.0, "how long a gang without room is tried", ge=0)

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("placement.certificate and placement.key: expected both or neither")
        if self.certificate is not None and self.ca is None:
            raise ValueError("placement.certificate: expected placement.ca, too")
        first, last = self.port_range
        if not first <= last < limits.PORTS_END or (self.ports and not first):
            raise ValueError(f"placement.ports={self.ports}: expected FIRST-LAST, from 1 to {limits.PORTS_END - 1}")
        if self.rm:
            subjects.check_rm_id(self.rm)
        return self

    @property
    def port_range(self) -> tuple[int, int]:
        """(0, 0): none."""
        first, _, last = self.ports.partition("-")
        return (int(first), int(last)) if last else (0, 0)
