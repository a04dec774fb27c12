// What queues used while the page was open: a sample whenever their rows change.

const SAMPLES = 1800; // an hour, if they change all the time
const QUEUES = 2000;
const histories = new Map();

const name = (rm, row) => `${rm} ${row.partition} ${row.path}`;

export function addSamples(rm, rows, atMs) {
  for (const row of rows.slice(0, QUEUES)) {
    const key = name(rm, row);
    if (!histories.has(key)) histories.set(key, []);
    const kept = histories.get(key);
    if (kept.length && kept.at(-1).atMs >= atMs) continue;
    kept.push({ atMs, allocated: row.allocated, pending: row.pending, applications: row.running_applications });
    if (kept.length > SAMPLES) kept.shift();
  }
}

export const samplesOf = (rm, row) => histories.get(name(rm, row)) || [];
