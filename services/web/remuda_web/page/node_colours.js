// How nodes are coloured: by use, by kind (status, size, each attribute), by queue. Pure.
import { amounts, ordered } from "./format.js";

const MOST_VALUES = 12;
// Told apart by people who see few colours (Okabe and Ito), and from each other in light and dark.
export const PALETTE = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c6bb1", "#b8a500", "#7f7f7f", "#a6761d", "#66a61e", "#e7298a"];

// What allocations and others use of a node.
export function used(node) {
  const found = { ...node.allocated };
  for (const [name, value] of Object.entries(node.occupied)) found[name] = (found[name] || 0) + value;
  return found;
}

// The used share of a resource; null: the node has none of it.
export const shareOf = (node, name) => (node.capacity[name] ? Math.max(0, (node.allocated[name] || 0) + (node.occupied[name] || 0)) / node.capacity[name] : null);

// The resources that some node has.
export const resourcesOf = (nodes) => ordered(new Set(nodes.flatMap((node) => Object.keys(node.capacity).filter((name) => node.capacity[name]))));

// A colouring: {key, name, of(node), resource}. `of` gives a share from 0 to 1 or null, or the name of a group.
export function colourings(nodes) {
  const names = resourcesOf(nodes);
  const most = (node) => Math.max(0, ...names.map((name) => shareOf(node, name) || 0));
  const shares = names.map((name) => ({ key: `use ${name}`, name: `use of ${name}`, of: (node) => shareOf(node, name), isShare: true, resource: name }));
  const kinds = [
    { key: "status", name: "state", of: (node) => node.status },
    { key: "size", name: "size", of: (node) => amounts(node.capacity) },
    ...attributesOf(nodes).map((name) => ({ key: `attribute ${name}`, name, of: (node) => node.attributes[name] || "(none)" })),
  ];
  return [{ key: "use", name: "use of the fullest", of: most, isShare: true }, ...shares, ...kinds, { key: "queue", name: "queue", of: () => "" }];
}

// Attributes that divide the nodes into some groups.
function attributesOf(nodes) {
  const values = new Map();
  for (const node of nodes) {
    for (const [name, value] of Object.entries(node.attributes)) {
      if (!values.has(name)) values.set(name, new Set());
      if (values.get(name).size <= MOST_VALUES) values.get(name).add(value);
    }
  }
  return [...values].filter(([, found]) => found.size > 1 && found.size <= MOST_VALUES).map(([name]) => name).sort();
}

// Each node in the colour of the queue with the most allocations on it.
export function queuesOfNodes(allocations, applications) {
  const queueOf = new Map(applications.map((one) => [`${one.partition} ${one.id}`, one.queue]));
  const counts = new Map();
  for (const one of allocations) {
    const queue = queueOf.get(`${one.partition} ${one.application}`);
    if (!queue) continue;
    const key = `${one.partition} ${one.node}`;
    if (!counts.has(key)) counts.set(key, new Map());
    counts.get(key).set(queue, (counts.get(key).get(queue) || 0) + 1);
  }
  const most = (of) => [...of].reduce((best, one) => (one[1] > best[1] ? one : best))[0];
  return { key: "queue", name: "queue", of: (node) => { const found = counts.get(`${node.partition} ${node.id}`); return found ? most(found) : "(nothing)"; } };
}

// The groups in the order of their size: Map of name -> {count, colour}.
export function groupsOf(nodes, colouring) {
  const counts = new Map();
  for (const node of nodes) counts.set(colouring.of(node), (counts.get(colouring.of(node)) || 0) + 1);
  const groups = [...counts].sort(([a, m], [b, n]) => n - m || a.localeCompare(b));
  return new Map(groups.map(([name, count], index) => [name, { count, colour: name.startsWith("(") ? "#9aa3ab" : PALETTE[index % PALETTE.length] }]));
}
