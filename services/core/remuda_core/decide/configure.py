"""Register, Configure and CleanQueues: applies a configuration to the existing queues (001, Configuration updates;
semantics section 16), and removes queues and partitions that are no longer needed (semantics section 6).

A configuration is applied as a whole, one fact per change, or refused with all reasons. Running allocations stay; new
limits take effect as they end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from remuda_proto import fair
from remuda_proto.bounds import SETTINGS, VERSION_BYTES, joined, problem_of_map, shown, too_long, too_many
from remuda_proto.constants import CONFIG_REQUIRES, REQUIRES, REQUIRES_DEVICES, REQUIRES_TOPOLOGY, TOPOLOGY_HOST
from remuda_proto.patterns import BadPattern, compiled

from .. import facts
from ..commands import CleanQueues, Configure, Register
from ..facts import Fact
from ..index.scores import SCORES
from ..limits import DEVICE_RESOURCES, RESOURCE_NAMES_PER_PARTITION, TOPOLOGY_LEVELS, WINDOWS
from ..rules.connection import REPLAY, REPORT, RESYNC
from ..rules.devices import problem_of_node
from ..rules.placement_rules import RULES
from ..rules.prices import LARGEST_UNIT, PRICES
from ..rules.properties import FAIR_USERS, FIFO, SORT_POLICY, is_state_aware, sort_policy
from ..rules.windows import is_of_nodes
from ..settings import (
    APPLICATION,
    BACKFILL_ORDERS,
    BACKFILLS,
    EASY,
    PACKINGS,
    SHORTEST,
    TOPOLOGY,
    Configuration,
    PartitionSettings,
    PlacementRule,
    QueueInWindow,
    QueueSettings,
    Window,
)
from ..state import Partition, State
from . import names
from .devices import assign_devices
from .guests import has_guests, keep_guests, problems_of_queues
from .loans import loans_that_no_longer_fit, with_loans
from .quota import settle_quotas
from .windows import differences, forget_windows, in_force, plan_windows

YUNIKORN_1_4 = "yunikorn-1.4"
COMPATIBILITIES = ("none", YUNIKORN_1_4)


def register(state: State, command: Register, now_ms: int) -> Iterator[Fact]:
    """Register the RM. An RM that registers again with REPORT loses its state, and reports everything again (000,
    RegisterResourceManager), but for guests, which are not its own. With REPLAY the state stays, and the configuration
    is applied to it."""
    if command.rm_id != state.rm_id:
        yield facts.RegistrationRefused(
            names.identity(command.rm_id), f"rmID {shown(command.rm_id)}, expected {shown(state.rm_id)}"
        )
        return
    resync = command.extra_config.get(RESYNC, REPORT)
    problems = problems_of(command.configuration) + problems_of_texts(command)
    if resync not in (REPORT, REPLAY):
        problems.append(f"extraConfig {RESYNC} {shown(resync)}, expected {REPORT} or {REPLAY}")
    problems += problems_of_requires(command.extra_config, command.configuration)
    if resync == REPLAY:
        problems += conflicts(state, command.configuration)
    else:
        problems += conflicts_with_guests(state, command.configuration)
    if problems:
        yield facts.RegistrationRefused(names.identity(command.rm_id), joined(problems))
        return
    yield facts.RmRegistered(
        command.rm_id,
        command.version,
        command.policy_group,
        command.build_info,
        command.extra_config,
        max(command.registration, state.registration) + 1,
        resync,
        max(command.life, state.life),
        resync == REPORT and has_guests(state),
    )
    yield from apply(state, command.configuration, now_ms)


def configure(state: State, command: Configure, now_ms: int) -> Iterator[Fact]:
    configuration = command.configuration
    now = state.configuration
    asked = (configuration.checksum, configuration.compatibility, configuration.timing, configuration.revision)
    if now is not None and asked == (now.checksum, now.compatibility, now.timing, now.revision):
        return  # a duplicate
    problems = problems_of(configuration) + conflicts(state, configuration)
    if now is not None and 0 < configuration.revision < now.revision:
        problems.append(f"version {configuration.revision} of the file is late: version {now.revision} is in force")
    if state.registered is not None:
        problems += problems_of_requires(state.registered.extra_config, configuration)
    else:
        problems.append(f"rmID {shown(state.rm_id)} is not registered")
    if problems:
        yield facts.ConfigurationRefused(configuration.checksum, configuration.source, joined(problems))
        return
    yield from apply(state, configuration, now_ms)


def problems_of_texts(command: Register) -> list[str]:
    found = (
        too_long("version", command.version, VERSION_BYTES),
        too_long("policyGroup", command.policy_group, VERSION_BYTES),
        problem_of_map("buildInfo", command.build_info, SETTINGS),
        problem_of_map("extraConfig", command.extra_config, SETTINGS),
    )
    return [problem for problem in found if problem]


def problems_of(configuration: Configuration) -> list[str]:
    problems = [] if configuration.partitions else ["the configuration has no partitions"]
    if configuration.compatibility not in COMPATIBILITIES:
        problems.append(
            f"compatibility {shown(configuration.compatibility)}, expected one of {', '.join(COMPATIBILITIES)}"
        )
    for partition in configuration.partitions:
        resources = {name for _, _, queue in flatten(partition) for name in queue.max} | set(partition.resource_weights)
        if problem := too_many(f"partition {partition.name}: resources", len(resources), RESOURCE_NAMES_PER_PARTITION):
            problems.append(problem)
        if partition.node_sort not in SCORES:
            problems.append(
                f"partition {partition.name}: node sort policy {shown(partition.node_sort)}, expected one of"
                f" {', '.join(SCORES)}"
            )
        problems += problems_of_devices(partition, configuration.compatibility)
        problems += problems_of_topology(partition, configuration.compatibility)
        problems += problems_of_backfill(partition, configuration.compatibility)
        problems += problems_of_memory(partition, configuration.compatibility)
        problems += problems_of_calendar(partition, configuration.compatibility)
        if partition.pack not in PACKINGS:
            expected = f"{APPLICATION}, {TOPOLOGY} or none"
            problems.append(f"partition {partition.name}: pack {shown(partition.pack)}, expected {expected}")
        problems += [problem for rule in partition.placement_rules for problem in problems_of_rule(rule)]
    timing = configuration.timing
    problems += [f"timing: {name} is {ms}" for name in timing.__struct_fields__ if (ms := getattr(timing, name)) < 1]
    return problems


def problems_of_devices(partition: PartitionSettings, compatibility: str) -> Iterator[str]:
    where = f"partition {partition.name}: devices"
    if partition.devices and compatibility != "none":
        yield f"{where}: compatibility {compatibility} has none"
    if problem := too_many(where, len(partition.devices), DEVICE_RESOURCES):
        yield problem
    if partition.node_sort in PRICES:
        policy = f"with node sort policy {partition.node_sort}"
        if len(partition.devices) != 1:
            yield f"{where}: {len(partition.devices)} resources, expected one {policy}"
        elif (unit := next(iter(partition.devices.values()))) > LARGEST_UNIT:
            yield f"{where}: {unit}, expected at most {LARGEST_UNIT} {policy}"
    for name, unit in partition.devices.items():
        if unit < 1:
            yield f"{where}: {shown(name)}={unit}, expected the amount of one device, 1 or more"


def problems_of_topology(partition: PartitionSettings, compatibility: str) -> Iterator[str]:
    where, levels = f"partition {partition.name}: topology", partition.topology
    if levels and compatibility != "none":
        yield f"{where}: compatibility {compatibility} has none"
    if problem := too_many(where, len(levels), TOPOLOGY_LEVELS):
        yield problem
    for one in levels:
        if not one.level or one.level == TOPOLOGY_HOST or not one.attribute:
            yield f"{where}: level {shown(one.level)} by {shown(one.attribute)}, expected a name and an attribute"
    if len({one.level for one in levels}) < len(levels) or len({one.attribute for one in levels}) < len(levels):
        yield f"{where}: a level or an attribute is there twice"
    if partition.pack == TOPOLOGY and (not levels or partition.node_sort in PRICES):
        yield f"{where}: expected levels, and a node sort policy without prices, with pack {TOPOLOGY}"


def problems_of_backfill(partition: PartitionSettings, compatibility: str) -> Iterator[str]:
    where = f"partition {partition.name}: backfill"
    if partition.backfill and compatibility != "none":
        yield f"{where}: compatibility {compatibility} has none"
    if partition.backfill not in BACKFILLS:
        yield f"{where} {shown(partition.backfill)}, expected {EASY} or none"
    if partition.backfill_order not in BACKFILL_ORDERS:
        yield f"{where} order {shown(partition.backfill_order)}, expected {SHORTEST} or none"


def problems_of_memory(partition: PartitionSettings, compatibility: str) -> Iterator[str]:
    """Half-lives, weights and what belongs to them: values that are none, and a compatibility that has none."""
    for path, _, queue in flatten(partition):
        where = f"partition {partition.name}: queue {path}"
        for properties in (queue.properties, queue.child_template.properties if queue.child_template else {}):
            if not properties:
                continue
            if compatibility != "none":
                forgotten = [name for name in fair.NAMES if name in properties]
                forgotten += [SORT_POLICY] if sort_policy(properties) == FAIR_USERS else []
                yield from (f"{where}: {name}: compatibility {compatibility} has none" for name in forgotten)
            yield from (f"{where}: {name} {problem}" for name, problem in fair.problems(properties))


def problems_of_calendar(partition: PartitionSettings, compatibility: str) -> Iterator[str]:
    where, calendar = f"partition {partition.name}: calendar", partition.calendar
    if calendar and compatibility != "none":
        yield f"{where}: compatibility {compatibility} has none"
    if problem := too_many(where, len(calendar), WINDOWS):
        yield problem
    queues = {path: queue for path, _, queue in flatten(partition)} if calendar else {}
    for window in calendar:
        of_window = f"{where}: window {shown(window.name)}"
        if sum(one.name == window.name for one in calendar) > 1:
            yield f"{of_window} is there twice"
        if window.duration_ms < 1 or window.start_ms < 0 or not set(window.days) <= set(range(7)):
            yield f"{of_window}: expected a start or days of the week from 0 to 6, and a duration"
        if list(window.ids) != sorted(set(window.ids)):
            yield f"{of_window}: IDs of nodes, expected each once and in their order"
        if is_of_nodes(window) == bool(window.queues):
            yield f"{of_window}: expected either nodes or settings of queues"
        for path in (*filter(None, (window.queue,)), *(one.path for one in window.queues)):
            if path not in queues or path == "root":
                yield f"{of_window}: queue {shown(path)}, expected one of the configuration below root"


def problems_of_requires(extra_config: facts.Tags, configuration: Configuration) -> Iterator[str]:
    """Problems with the features that the RM requires: a feature that this core or the configuration does not have. An
    RM that names devices would otherwise learn of it from allocations without any."""
    partitions = configuration.partitions
    served = {
        REQUIRES_DEVICES: any(partition.devices for partition in partitions),
        REQUIRES_TOPOLOGY: any(partition.topology for partition in partitions),
    }
    for name in filter(None, (one.strip() for one in extra_config.get(CONFIG_REQUIRES, "").split(","))):
        if name not in served:
            yield f"extraConfig {CONFIG_REQUIRES} {shown(name)}, expected {' or '.join(REQUIRES)}"
        elif not served[name]:
            yield f"extraConfig {CONFIG_REQUIRES} {name}: no partition of the configuration has {name}"


def problems_of_rule(rule: PlacementRule) -> Iterator[str]:
    """The problems of a placement rule: unknown names of the rule and its parents, and filters of one entry that is not
    a regular expression."""
    if rule.name not in RULES:
        yield f"placement rule {shown(rule.name)}, expected one of {', '.join(RULES)}"
    for names_of in () if rule.filter is None else (rule.filter.users, rule.filter.groups):
        if len(names_of) == 1:
            try:
                compiled(names_of[0])
            except BadPattern as error:
                yield f"placement rule {shown(rule.name)}: filter {shown(names_of[0])}: {error}"
    if rule.parent is not None:
        yield from problems_of_rule(rule.parent)


def conflicts(state: State, configuration: Configuration) -> list[str]:
    """The changes that running applications forbid: a leaf with applications cannot become a parent, and a parent with
    used queues cannot become a leaf. And nodes cannot have the devices that the configuration wants."""
    found = conflicts_with_guests(state, configuration) if state.left_guests else []
    for settings in configuration.partitions:
        partition = state.partitions.get(state.partition_name(settings.name))
        if partition is None:
            continue
        for path, leaf, _ in flatten(settings):
            queue = partition.queues.get(path)
            if queue is not None and queue.leaf and not leaf and queue.applications:
                found.append(f"queue {path} has applications and cannot become a parent")
            elif queue is not None and not queue.leaf and leaf and any(child.applications for child in queue.below()):
                found.append(f"queue {path} has queues with applications and cannot become a leaf")
        if settings.devices != partition.settings.devices:
            for node in partition.nodes.values():
                if problem := problem_of_node(settings.devices, node.capacity, node.attributes):
                    found.append(f"partition {settings.name}: devices: node {node.id}: {problem}")
    return found


def conflicts_with_guests(state: State, configuration: Configuration) -> list[str]:
    paths = {
        state.partition_name(settings.name): {path: leaf for path, leaf, _ in flatten(settings)}
        for settings in configuration.partitions
    }
    return problems_of_queues(state, paths)


def apply(state: State, configuration: Configuration, now_ms: int) -> Iterator[Fact]:
    configured = set()
    for written in configuration.partitions:
        settings = written if configuration.compatibility == YUNIKORN_1_4 else as_newest(written)
        name = state.partition_name(settings.name)
        configured.add(name)
        bare = replace(settings, root=replace(settings.root, queues=()), outside=outside_of_windows(settings))
        partition = state.partitions.get(name)
        if state.loans:
            yield from loans_that_no_longer_fit(state, name, {p: one for p, _, one in flatten(settings)}, now_ms)
        if partition is None:
            yield facts.PartitionAdded(name, bare)
        elif partition.settings != bare or partition.draining:
            yield from forget_windows(partition, bare, now_ms)
            units = partition.settings.devices
            yield facts.PartitionChanged(name, bare)
            if units != bare.devices:
                yield from assign_devices(partition, partition.nodes.values())
        partition = state.partitions[name]
        yield from apply_queues(partition, settings)
        yield from settle_quotas(partition, partition.queues.values(), now_ms)
        yield from plan_windows(partition, now_ms)
    for partition in list(state.partitions.values()):
        if partition.name not in configured and not partition.draining:
            yield facts.PartitionDraining(partition.name)
    yield facts.ConfigurationApplied(
        configuration.checksum,
        configuration.source,
        configuration.compatibility,
        configuration.timing,
        configuration.revision,
    )
    yield from keep_guests(state, now_ms)


def as_newest(partition: PartitionSettings) -> PartitionSettings:
    """The partition as the newest versions of Apache YuniKorn read it (semantics section 18): where root has no limits,
    it has those of the partition, and `stateaware` is `fifo`."""
    root = _without_turns(partition.root)
    if partition.calendar:
        partition = replace(partition, calendar=tuple(map(_window_without_turns, partition.calendar)))
    if partition.limits and not root.limits:
        root = replace(root, limits=partition.limits)
    return partition if root is partition.root else replace(partition, root=root)


def _window_without_turns(window: Window) -> Window:
    if not window.queues:
        return window
    return replace(window, queues=tuple(replace(one, config=_without_turns(one.config)) for one in window.queues))


def _without_turns(queue: QueueSettings) -> QueueSettings:
    changed: dict[str, Any] = {}
    if is_state_aware(queue.properties):
        changed["properties"] = {**queue.properties, SORT_POLICY: FIFO}
    template = queue.child_template
    if template is not None and is_state_aware(template.properties):
        changed["child_template"] = replace(template, properties={**template.properties, SORT_POLICY: FIFO})
    queues = tuple(map(_without_turns, queue.queues))
    if any(new is not old for new, old in zip(queues, queue.queues, strict=True)):
        changed["queues"] = queues
    return replace(queue, **changed) if changed else queue


def outside_of_windows(settings: PartitionSettings) -> tuple[QueueInWindow, ...]:
    """The settings outside of all windows of the queues that windows change."""
    changed = {one.path for window in settings.calendar for one in window.queues}
    if not changed:
        return ()
    return tuple(QueueInWindow(path, queue) for path, _, queue in flatten(settings) if path in changed)


def apply_queues(partition: Partition, settings: PartitionSettings) -> Iterator[Fact]:
    configured, in_windows = set(), {one.path for one in partition.settings.outside}
    for path, leaf, queue_settings in flatten(settings):
        configured.add(path)
        if path == "root":
            continue
        if path in in_windows:
            queue_settings = in_force(partition, path)
        queue_settings = with_loans(partition, path, queue_settings)
        queue = partition.queues.get(path)
        if queue is None:
            yield facts.QueueAdded(partition.name, path, leaf, True, queue_settings)
            continue
        if changed := differences(queue, leaf, queue_settings):
            yield facts.QueueChanged(partition.name, path, leaf, True, queue_settings, changed)
        if queue.draining:
            yield facts.QueueRestored(partition.name, path)
    for path, queue in list(partition.queues.items()):
        if path not in configured and queue.managed and not queue.draining:
            yield facts.QueueDraining(partition.name, path)


def flatten(partition: PartitionSettings) -> Iterator[tuple[str, bool, QueueSettings]]:
    """The path of every configured queue, whether it is a leaf, and its own settings; parents first."""
    pending = [("root", partition.root)]
    for path, queue in pending:
        yield path, path != "root" and not queue.parent and not queue.queues, _without_queues(queue)
        pending.extend((f"{path}.{child.name}", child) for child in queue.queues)


def _without_queues(queue: QueueSettings) -> QueueSettings:
    return replace(queue, queues=()) if queue.queues else queue


def clean_queues(state: State, command: CleanQueues, now_ms: int) -> Iterator[Fact]:
    for partition in list(state.partitions.values()):
        yield from clean(partition)


def clean(partition: Partition) -> Iterator[Fact]:
    """Remove empty dynamic queues, empty draining queues, and the partition if it is draining and empty."""
    removable = [q for q in partition.queues.values() if q.parent is not None and (not q.managed or q.draining)]
    for queue in sorted(removable, key=lambda q: q.path, reverse=True):  # children before parents
        if not queue.children and not queue.applications:
            yield facts.QueueRemoved(partition.name, queue.path, queue.managed)
    if partition.draining and not partition.nodes and not any(not a.terminal for a in partition.applications.values()):
        yield facts.PartitionRemoved(partition.name)
