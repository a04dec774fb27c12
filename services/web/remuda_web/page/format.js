// Text for people. Amounts are in base units: vcore in thousandths, memory in bytes, the rest as they are.

const FIRST = ["vcore", "memory", "gpu"];
const BYTES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

const rank = (name) => (FIRST.includes(name) ? FIRST.indexOf(name) : FIRST.length);

export const ordered = (names) => [...names].sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));

const short = (value) => (value >= 1000 ? Math.round(value).toLocaleString("en") : `${Number(value.toPrecision(3))}`);

export function amount(name, value) {
  if (name === "vcore") return short(value / 1000);
  if (name !== "memory") return short(value);
  if (value < 1024) return value ? `${short(value)} B` : "0";
  const step = Math.min(BYTES.length - 1, Math.floor(Math.log2(value) / 10));
  return `${short(value / 1024 ** step)} ${BYTES[step]}`;
}

export const amounts = (of, none = "-") =>
  ordered(Object.keys(of || {})).map((name) => `${name} ${amount(name, of[name])}`).join(", ") || none;

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
  if (ms < 0) return "0 ms";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${Number(seconds.toPrecision(2))} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
}

// Reasons name amounts in base units: `memory needs 34359738368, 0 of 687194767360 are left`.
export function withUnits(text) {
  return text
    .replace(/\{([^{}]*)\}/g, (_, inner) => inner.split(" ").join(", "))
    .replace(/\b(vcore|memory)=(\d+)/g, (_, name, value) => `${name} ${amount(name, +value)}`)
    .replace(/\b(vcore|memory) needs (\d+), (\d+)( of (\d+))?/g, (_, name, need, left, of, all) =>
      `${name} needs ${amount(name, +need)}, ${amount(name, +left)}${of ? ` of ${amount(name, +all)}` : ""}`);
}
