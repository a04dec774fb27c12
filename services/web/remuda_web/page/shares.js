// What queues and nodes use, want and may use. Pure. `remuda queues` and `remuda top` go by the same rules.
import { ordered } from "./format.js";

// With every ask, something waits for a moment: nobody is owed anything for so short a wait.
const OWED_AFTER_MS = 10_000;

// The largest of used / whole over all resources, with its resource.
export function fullest(used, whole) {
  let found = { name: ordered(Object.keys(whole || {}))[0] || "", share: 0 };
  for (const [name, most] of Object.entries(whole || {})) {
    const share = most ? ((used || {})[name] || 0) / most : 0;
    if (share > found.share) found = { name, share };
  }
  return found;
}

// Resources in the order in which they bind: first the one of which the largest part is used or waited for.
export function binding({ allocated = {}, occupied = {}, pending = {} }, whole = {}) {
  const pressure = (name) => {
    const wanted = (allocated[name] || 0) + (occupied[name] || 0) + (pending[name] || 0);
    return whole[name] ? wanted / whole[name] : wanted ? Infinity : 0;
  };
  const names = ordered(new Set([...Object.keys(whole), ...Object.keys(pending).filter((name) => pending[name])]));
  return names.map((name) => [pressure(name), name]).sort(([a], [b]) => (a === b ? 0 : b - a)).map(([, name]) => name);
}

// What a queue is owed: of all that asks in it wait for, it uses less than is guaranteed to it. With all of its
// guaranteed cores it is not owed the memory that goes with more of them.
export function owed({ guaranteed, allocated, pending, waiting_since_ms: since }, nowMs) {
  const wanted = Object.keys(guaranteed).filter((name) => pending[name] > 0);
  const missing = wanted.map((name) => [name, Math.min(guaranteed[name] - (allocated[name] || 0), pending[name])]);
  if (!since || nowMs - since < OWED_AFTER_MS || missing.some(([, value]) => value <= 0)) return {};
  return Object.fromEntries(missing);
}

const parent = (path) => path.slice(0, Math.max(0, path.lastIndexOf(".")));

// The share of a queue, by which queues are served in fair order: the highest of usage / entitlement. The entitlement is
// the guaranteed amount; without one the nearest maximum up to root; without one the partition's total.
export function fairShare(queue, byPath, total) {
  let highest = 0;
  for (const [name, used] of Object.entries(queue.allocated)) {
    if (!used) continue;
    let entitled = queue.guaranteed[name];
    for (let at = queue; entitled === undefined && at; at = byPath.get(parent(at.path))) entitled = at.max[name];
    if (entitled === undefined) entitled = total[name];
    highest = Math.max(highest, entitled ? used / entitled : 1);
  }
  return highest;
}

// Rows of queues as a tree, parents first: [{row, depth, share, whole}], without what is below a closed queue.
export function tree(rows, partitions, isClosed = () => false) {
  const totals = new Map(partitions.map((one) => [one.name, one.total]));
  const byPartition = new Map();
  for (const row of rows) {
    if (!byPartition.has(row.partition)) byPartition.set(row.partition, new Map());
    byPartition.get(row.partition).set(row.path, row);
  }
  const found = [];
  for (const [partition, byPath] of byPartition) {
    const hidden = new Set();
    for (const path of [...byPath.keys()].sort((a, b) => (a.split(".") < b.split(".") ? -1 : 1))) {
      const row = byPath.get(path), total = totals.get(partition) || {};
      if (hidden.has(parent(path)) || isClosed(`${partition} ${parent(path)}`)) {
        hidden.add(path);
        continue;
      }
      found.push({ row, depth: path.split(".").length - 1, share: fairShare(row, byPath, total), whole: row.max_in_force });
    }
  }
  return found;
}
