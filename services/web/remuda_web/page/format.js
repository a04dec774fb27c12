// Text for people. Amounts are in base units: vcore in thousandths, memory in bytes, the rest as they are. Resources on
// devices are shown in devices, such as 0.25.

const FIRST = ["vcore", "memory", "gpu"];
const BYTES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

const rank = (name) => (FIRST.includes(name) ? FIRST.indexOf(name) : FIRST.length);

export const ordered = (names) => [...names].sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));

const short = (value) => (value >= 1000 ? Math.round(value).toLocaleString("en") : `${Number(value.toPrecision(3))}`);

// The amount of one device, by resource: of the resource manager that is shown. Where its partitions differ, none.
let units = {};
export function showUnits(partitions) {
  const all = partitions.flatMap((one) => Object.entries(one.devices));
  units = Object.fromEntries(all.filter(([name, unit]) => all.every(([other, its]) => other !== name || its === unit)));
}

export function amount(name, value) {
  if (units[name]) return short(value / units[name]);
  if (name === "vcore") return short(value / 1000);
  if (name !== "memory") return short(value);
  if (value < 1024) return value ? `${short(value)} B` : "0";
  const step = Math.min(BYTES.length - 1, Math.floor(Math.log2(value) / 10));
  return `${short(value / 1024 ** step)} ${BYTES[step]}`;
}

export const amounts = (of, none = "-") =>
  ordered(Object.keys(of || {})).map((name) => `${name} ${amount(name, of[name])}`).join(", ") || none;

// Kinds of what asks wait for, as the core names them.
const CONSTRAINTS = {
  rm: "wait for the RM", held: "wait because a queue is held", allocations: "wait: the RM has its maximum of allocations", placeholder: "wait for a placeholder",
  stateaware: "wait for another application to start", maxapplications: "wait: too many applications run", user: "wait at the limit of their user", group: "wait at the limit of their group",
  queue: "wait because a queue is at its maximum", too_large: "are too large for every node", node: "wait for room on a node", unknown_node: "want a node that is not there",
  unschedulable_node: "want a node that takes nothing", full_node: "wait: nodes have their maximum of allocations", predicate: "are refused by the RM on all nodes with room",
  device: "wait for room on a device", domain: "wait for room in a rack or another domain", slice: "wait for racks for their slices", avoided: "avoid a domain that another group waits for", level: "name a level that is not configured",
  reserved: "wait: nodes with room are reserved", question: "wait for an answer of the RM", preemption: "wait for a preemption", leaving: "wait: nodes with room leave before they would end", window: "wait: a window of the calendar has the nodes", unreported: "were not looked at yet, or wait for their turn",
};
export const constraint = (kind) => CONSTRAINTS[kind] || kind;

// Of events a second: small rates have digits behind the point.
export const rate = (value) => (value >= 100 ? number(Math.round(value)) : `${Number(value.toPrecision(2))}`);

export const number = (value) => (value || 0).toLocaleString("en");
export const percent = (share) => `${Math.round(share * 100)} %`;
export const plural = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;

export function time(ms) {
  if (!ms) return "-";
  const at = new Date(ms);
  return at.toDateString() === new Date().toDateString() ? clock(ms) : `${at.toLocaleDateString()} ${clock(ms)}`;
}

export const clock = (ms) => new Date(ms).toLocaleTimeString("en-GB");

export function duration(ms) {
  if (!Number.isFinite(ms)) return "-";
  if (ms < 0) return "0 ms";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${Number(seconds.toPrecision(2))} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
}

// What has been used in the past beside what was due, as the command line writes it: `31 of 25 %`, `gpu 2, less: vcore 4`.
export const pastShare = (one) => (one && one.resource ? `${Math.round(100 * one.share)} of ${Math.round(100 * one.target)} %` : "-");
export function owes(one) {
  const part = (sign) => amounts(Object.fromEntries(Object.entries((one && one.owes) || {}).filter(([, value]) => sign * value > 0).map(([name, value]) => [name, sign * value])));
  const [more, less] = [part(1), part(-1)];
  return [more === "-" ? "" : more, less === "-" ? "" : `less: ${less}`].filter(Boolean).join(", ") || "-";
}

// When a waiting ask starts, by a forecast: in the middle, between which times in four of five cases, and how often that held.
export function starts(forecast, nowMs) {
  if (forecast.unknown) return `start unknown: ${forecast.unknown}`;
  if (!forecast.median_ms) return "starts later than was played";
  const until = forecast.until_ms ? span(forecast.until_ms - nowMs) : "later than was played";
  const held = forecast.of ? `${Math.round((100 * forecast.held) / forecast.of)} % of the last ${forecast.of} such intervals have held` : "how often such intervals hold is not known yet";
  return `starts in ${span(forecast.median_ms - nowMs)} (four of five times in ${span(forecast.from_ms - nowMs)} to ${until}; ${held})`;
}

// A time to come, in its two largest units: 40 min, 1 h 10 min. The command line writes the same (remuda_operations.queries.forecasts).
export function span(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  for (const [size, unit, part, smaller] of [[86400, "d", 3600, "h"], [3600, "h", 60, "min"]]) {
    if (seconds < size) continue;
    const rest = Math.floor((seconds % size) / part);
    return `${Math.floor(seconds / size)} ${unit}${rest ? ` ${rest} ${smaller}` : ""}`;
  }
  return `${Math.floor(seconds / 60)} min`;
}

// Reasons name amounts in base units: `memory needs 34359738368, 0 of 687194767360 are left, 5 are kept`,
// `{memory=10 vcore=1000}`, `memory=10, its maximum is 5`. A list outside of braces is written anew only where it has a
// resource with units: others may be somebody's own words.
const NAME = "[\\w./-]+";
const BOUND = new RegExp(`(?<![\\w./-])(${NAME})=(\\d+), its (\\w+) is (\\d+)`, "g");
const NEEDS = new RegExp(`(?<![\\w./-])(${NAME}) needs (\\d+), (\\d+)(?: of (\\d+))? (?:is|are) (left|there)(?: less (\\d+ [a-z ]+?(?: and \\d+ [a-z ]+?)?)(?=$|[,;.]))?(?:, (\\d+) (?:is|are) kept)?`, "g");
const LIST = `${NAME}=\\d+(?: ${NAME}=\\d+)*`;
const AMOUNTS = new RegExp(`\\{(${LIST})\\}|(?<![\\w./-])(${LIST})`, "g");

export function withUnits(text) {
  const listed = (list) => list.split(" ").map((one) => one.split("=")).map(([name, value]) => `${name} ${amount(name, +value)}`).join(", ");
  return text
    .replace(BOUND, (_, name, used, what, bound) => `${name} ${amount(name, +used)}, its ${what} is ${amount(name, +bound)}`)
    .replace(NEEDS, (_, name, need, left, of, where, less, kept) => `${name} needs ${amount(name, +need)}, ${amount(name, +left)}${of ? ` of ${amount(name, +of)}` : ""} are ${where}${less ? ` less ${less.replace(/\d+/g, (value) => amount(name, +value))}` : ""}${kept ? `, ${amount(name, +kept)} are kept` : ""}`)
    .replace(AMOUNTS, (whole, all, some) => (all ? listed(all) : /(^| )(vcore|memory)=/.test(some) ? listed(some) : whole));
}
