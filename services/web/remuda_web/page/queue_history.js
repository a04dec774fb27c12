// The history of a queue: what the web service keeps, and behind it what came while the page was open.
import { useEffect, useState } from "./html.js";
import { paths } from "./api.js";
import { useData } from "./data.js";

const NEW_SAMPLES = 1800; // an hour, if the queue changes all the time
const FIELDS = { allocated: "allocated", pending: "pending", guaranteed: "guaranteed", max: "max_in_force" };

// {times, values(resource, amount), resources, error} of the queue of a row. Times in ms, oldest first; a value is null
// where there was none.
export function useQueueHistory(rm, row, atMs) {
  const [recent, add] = useState([]);
  useEffect(() => add((before) => (before.length && before.at(-1).atMs >= atMs ? before : [...before, { atMs, row }].slice(-NEW_SAMPLES))), [atMs]);
  const { data, error } = useData(paths.queueHistory(rm, row.partition, row.path));
  const times = data ? data.times : [], resources = data ? data.resources : {};
  const later = recent.filter((one) => !times.length || one.atMs > times.at(-1));
  const kept = (resource, amount) => (resources[resource] || {})[amount] || times.map(() => null);
  const fresh = (resource, amount) => later.map((one) => one.row[FIELDS[amount]][resource] ?? null);
  return {
    error, resources: [...new Set([...Object.keys(resources), ...Object.values(FIELDS).flatMap((field) => Object.keys(row[field]))])],
    times: [...times, ...later.map((one) => one.atMs)], values: (resource, amount) => [...kept(resource, amount), ...fresh(resource, amount)],
  };
}
