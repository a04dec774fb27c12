// Nodes by their racks or other finest domains, and what each of their devices shows. Pure.
import { PALETTE, resourcesOf, shareOf } from "./node_colours.js";

const MOST_COLOURS = 12;
export const OTHERS = "others", OTHERS_COLOUR = "#9aa3ab";

// Domains with nodes of their own, in the order of their paths: [{key, partition, path, name, nodes}]. `above`: the name
// of the domain around it.
export function racksOf(nodes) {
  const found = new Map();
  for (const node of nodes) {
    const path = node.domain || [], key = [node.partition, ...path].join("/");
    if (!found.has(key)) found.set(key, { key, partition: node.partition, path, name: path[path.length - 1] || "all nodes", above: path.slice(0, -1).join("/"), nodes: [] });
    found.get(key).nodes.push(node);
  }
  const names = new Intl.Collator("en", { numeric: true });
  return [...found.values()].sort((a, b) => names.compare(a.key, b.key));
}

// The cells of a node: one for each device, or one for the node: [{name, unit, free, unfit, resource}].
export function cellsOf(node) {
  const cells = (node.devices || []).flatMap(({ resource, unit, names, free, unfit }) => names.map((name, at) => ({ resource, name, unit, used: Math.min(1, Math.max(0, (unit - free[at]) / unit)), unfit: unfit.includes(name) })));
  if (cells.length) return cells;
  return [{ resource: "", name: "", unit: 1, used: Math.min(1, Math.max(0, ...resourcesOf([node]).map((name) => shareOf(node, name) || 0))), unfit: node.status !== "Schedulable" }];
}

const keyOf = (partition, node, resource, name) => [partition, node, resource, name].join("\n");

// Who is on each device: Map of a cell -> [{name, share}]. `nameOf(allocation)`: an application, or its queue.
export function holdersOf(nodes, allocations, nameOf) {
  const units = new Map(), found = new Map();
  for (const node of nodes) for (const one of node.devices || []) units.set(keyOf(node.partition, node.id, one.resource, ""), one.unit);
  const put = (key, name, share) => {
    const there = found.get(key) || [], same = there.find((one) => one.name === name);
    if (same) same.share += share;
    else there.push({ name, share });
    found.set(key, there);
  };
  for (const one of allocations) {
    for (const [resource, names] of Object.entries(one.devices || {})) {
      const unit = units.get(keyOf(one.partition, one.node, resource, "")), devices = names.split(",");
      for (const name of unit ? devices : []) put(keyOf(one.partition, one.node, resource, name), nameOf(one), (one.resource[resource] || 0) / devices.length / unit);
    }
    if (!units.has(keyOf(one.partition, one.node, Object.keys(one.devices || {})[0] || "", ""))) put(keyOf(one.partition, one.node, "", ""), nameOf(one), 0);
  }
  return (node, cell) => found.get(keyOf(node.partition, node.id, cell.resource, cell.name)) || [];
}

// Colours of those who hold most devices: Map of name -> {colour, devices}; the others share one.
export function coloursOf(nodes, holders) {
  const counts = new Map();
  for (const node of nodes) for (const cell of cellsOf(node)) for (const { name, share } of holders(node, cell)) counts.set(name, (counts.get(name) || 0) + (share || cell.used));
  const most = [...counts].sort(([a, m], [b, n]) => n - m || a.localeCompare(b));
  const found = new Map(most.slice(0, MOST_COLOURS).map(([name, devices], at) => [name, { colour: PALETTE[at], devices }]));
  const rest = most.slice(MOST_COLOURS);
  if (rest.length) found.set(OTHERS, { colour: OTHERS_COLOUR, devices: rest.reduce((sum, [, one]) => sum + one, 0) });
  return found;
}
