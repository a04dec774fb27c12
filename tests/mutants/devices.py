"""Rules of devices and of prices, each broken on purpose."""

from __future__ import annotations

from typing import Final

from .mutate import mutants_of

DEVICES: Final = (
    *mutants_of(
        "rules.devices",
        ("devices_of_any_capacity", "20: a node's capacity is a number of devices", "        if rest:\n", "        if False:\n"),
        ("devices_with_one_name", "20: names of devices are not repeated", "    if len(set(given)) < len(given):\n        return f\"attribute", "    if False:\n        return f\"attribute"),
        ("devices_with_few_names", "20: there is a name for each device", "    if given and len(given) != count:", "    if False:"),
        ("devices_in_parts", "20: an ask above the unit is for whole devices", "        elif amount > unit and amount % unit:", "        elif False:"),
        ("devices_of_unequal_shares", "20: shares on several devices are equal", "    return count > 0 and amount % count == 0 and amount // count <= unit", "    return count > 0 and amount // count <= unit"),
        ("devices_chosen_by_asks", "20: an ask cannot choose devices", "        if key in tags:\n            return f\"tag {key}: an ask", "        if False:\n            return f\"tag {key}: an ask"),
        ("devices_widest_first", "20: a share goes to the device with least free", "(best < 0 or amount < least)", "(best < 0 or amount > least)"),
        ("devices_last_first", "20: of equal devices the first is chosen", "(best < 0 or amount < least)", "(best < 0 or amount <= least)"),
        ("devices_just_full", "20: a share fits a device with exactly so much free", "            if amount >= share and (best", "            if amount > share and (best"),
        ("devices_count_ignored", "20: `count` divides an ask", "            count = _count(name, tags) or max(1, amount // unit)", "            count = max(1, amount // unit)"),
        ("devices_unknown_to_the_node", "20: a tag that names an unknown device rejects the allocation", "            if device not in known:\n                return f\"tag", "            if False:\n                return f\"tag"),
        ("devices_with_least_free", "20: what fits no device is on those with most free", "sorted((-amount, at) for", "sorted((amount, at) for"),
    ),
    *mutants_of(
        "state.application",
        ("devices_unfit_take_asks", "20: nothing new goes to an unfit device", "        if self.unfit:\n            free = [0 if", "        if False:\n            free = [0 if"),
        ("devices_occupied_first", "20: what others occupy is on the last devices", "        for name in reversed(names):\n", "        for name in names:\n"),
        ("devices_occupied_anywhere", "20: what others occupy is on the devices that the attribute names", "        for name, amount in (*occupied_of(resource, attributes), *on_devices):", "        for name, amount in on_devices:"),
        ("devices_on_one_of_them", "20: an allocation is on all of its devices", "        devices = names.split(\",\")\n", "        devices = names.split(\",\")[:1]\n"),
    ),
    *mutants_of(
        "evolve.allocations",
        ("devices_kept_after_release", "20: a release frees the devices", "        book_devices(node, fact, -1)\n", "        pass\n"),
    ),
    *mutants_of(
        "evolve.devices",
        ("devices_rejected_are_free", "20: a rejected allocation occupies the devices that its tag names", "        if names:\n            found +=", "        if False:\n            found +="),
    ),
    *mutants_of(
        "decide.predicate",
        ("devices_unfit_after_an_answer", "20: a question whose device has become unfit is withdrawn", "            if name not in devices.room or name in devices.unfit:", "            if False:"),
    ),
    *mutants_of(
        "decide.devices",
        ("devices_never_assigned", "20: allocations without devices get them by a configuration", "            if devices != allocation.fact.devices:", "            if False:"),
    ),
    *mutants_of(
        "decide.configure",
        ("devices_that_no_node_has", "20: a configuration with devices that a node does not have is refused", "        if settings.devices != partition.settings.devices:", "        if False:"),
        ("devices_not_required", "20: an RM that requires devices is refused where there are none", "        REQUIRES_DEVICES: any(partition.devices for partition in partitions),", "        REQUIRES_DEVICES: True,"),
    ),
    *mutants_of(
        "cycle.replace",
        ("devices_of_any_placeholder", "20: a real ask takes over devices that serve it", "    return same and wanted ==", "    return True or wanted =="),
        ("devices_of_placeholders_left", "20: a real ask takes over the devices of its placeholder", "    held = same_devices(placeholder, pending) and node is placeholder.node\n", "    held = False\n"),
    ),
    *mutants_of(
        "cycle.victims",
        ("devices_of_victims_ignored", "20: victims free devices for the ask", "    on_devices = device_shortfall(pending, node, ()) if node.devices else NOTHING", "    on_devices = NOTHING"),
    ),
    *mutants_of(
        "rules.prices",
        ("prices_of_devices_alone", "20: where CPU is short, a place costs at least the CPU's worth", "    return max(loss, worth) if slack < worth - loss else loss", "    return loss"),
        ("prices_of_slack_reversed", "20: CPU is short where it could not serve what devices can take", "    return max(loss, worth) if slack < worth - loss else loss", "    return max(loss, worth) if slack > worth - loss else loss"),
        ("prices_of_any_share", "20: only common shares count", "if 100 * count >= least)), (", "if count)), ("),
        ("prices_by_what_is_free", "20: a share goes to the device of lowest price", "steps < best or (steps == best and level < least)", "level < least"),
    ),
    *mutants_of(
        "index.priced_nodes",
        ("prices_ignore_order", "20: of equal prices the first node is chosen", "        return place.rank < best.rank", "        return place.rank > best.rank"),
        ("prices_without_devices_last", "20: of equal prices nodes without devices come first", "        return (node.node.capacity.get(self.prices.resource, 0) > 0) +", "        return (node.node.capacity.get(self.prices.resource, 0) <= 0) +"),
    ),
)  # fmt: skip
