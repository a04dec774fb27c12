// What was used in the past, from the ledger: a heat map by hour, shares over time, and what was wasted.
import { html, useMemo, useState } from "./html.js";
import { Chart, useDark } from "./chart.js";
import { paths } from "./api.js";
import { useData } from "./data.js";
import { amount, number, ordered, percent, time } from "./format.js";
import { List } from "./list.js";
import { PALETTE } from "./node_colours.js";
import { shade } from "./node_map.js";
import { Choice, State } from "./parts.js";
import { useOption } from "./place.js";

const EVERY_MS = 60000; // an hour is closed once an hour
const HOUR_MS = 3600000;
const LINES = 8; // of the chart
const SINCE = [["24h", "the last day"], ["7d", "the last week"], ["30d", "the last month"]];
const BY = ["queue", "user"];
const USE = ["used", "gang"], WASTE = ["lost", "failed", "kept"];

// The sum of some kinds of a resource in a row, in base units times hours.
const hours = (row, kinds, name) => kinds.reduce((sum, kind) => sum + (row[kind][name] || 0), 0) / HOUR_MS;
const text = (name, value) => `${amount(name, value)} h`;

export function Past({ rm }) {
  const [since, goBack] = useOption("since", "7d");
  const [by, choose] = useOption("by", "queue");
  const [wanted, look] = useOption("resource");
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
  const all = useData(paths.rm(rm, "ledger", { since, by: "partition", per: "hour" }), EVERY_MS);
  const parts = useData(paths.rm(rm, "ledger", { since, by, per: since === "30d" ? "day" : "hour", zone }), EVERY_MS);
  const names = useMemo(() => ordered(new Set((all.data ? all.data.rows : []).flatMap((row) => USE.flatMap((kind) => Object.keys(row[kind]))))), [all.data]);
  const name = names.includes(wanted) ? wanted : names[0];
  const controls = html`<div class="controls"><${Choice} label="Since" value=${since} options=${SINCE} onChoice=${goBack} />
    <${Choice} label="By" value=${by} options=${BY} onChoice=${choose} />${names.length > 1 && html`<${Choice} label="Resource" value=${name} options=${names} onChoice=${look} />`}</div>`;
  const { data } = all;
  if (!data || !names.length) {
    const none = data && (data.begun_ms ? "Nothing was used in closed hours of that time." : "No ledger is kept. With events.ledger, event services keep one.");
    return html`${data && data.begun_ms ? controls : null}<${State} ready=${data} error=${all.error} empty=${none} />`;
  }
  return html`${controls}<h3>Use by hour</h3><${HeatMap} rows=${data.rows} name=${name} />
    <h3>Shares</h3><${State} ready=${parts.data} error=${parts.error} />${parts.data && html`<${Shares} rows=${parts.data.rows} by=${by} name=${name} />
    <h3>Waste</h3><${Wasted} rows=${parts.data.rows} by=${by} name=${name} currency=${parts.data.currency} />`}
    <p class="dim">Kept since ${time(data.begun_ms)}, closed up to ${time(data.closed_ms)}. Exact, from the log.</p>`;
}

// A row for each day, a cell for each hour, as this browser counts them.
function HeatMap({ rows, name }) {
  const dark = useDark();
  const [pointed, point] = useState("");
  const { days, most } = useMemo(() => {
    const days = new Map();
    for (const row of rows) {
      const at = new Date(row.from_ms), day = at.toDateString();
      if (!days.has(day)) days.set(day, { at, cells: Array(24).fill(0) });
      days.get(day).cells[at.getHours()] += hours(row, USE, name);
    }
    return { days: [...days.values()], most: Math.max(...[...days.values()].flatMap((one) => one.cells)) };
  }, [rows, name]);
  const dayOf = (at) => at.toLocaleDateString("en-GB", { weekday: "short", day: "2-digit", month: "2-digit" });
  const cell = (at, value, hour) => `${dayOf(at)} ${hour}:00: ${name} ${text(name, value)}`;
  const label = `Use of ${name} by hour, ${number(days.length)} days, at most ${text(name, most)} in an hour`;
  return html`<div class="heat" role="img" aria-label=${label} onMouseLeave=${() => point("")}>${days.map(({ at, cells }) => html`<span class="dim">${dayOf(at)}</span>${cells.map((value, hour) =>
      html`<span class="cell" style=${`background:${shade(most ? value / most : 0, dark)}`} onMouseEnter=${() => point(cell(at, value, hour))}></span>`)}`)}
    <span></span>${Array.from({ length: 24 }, (_, hour) => html`<span class="dim hour">${hour % 6 ? "" : hour}</span>`)}</div>
    <p class="legend"><span class="ramp" style=${`background:linear-gradient(to right, ${[0, 0.5, 1].map((share) => shade(share, dark)).join(", ")})`}></span> 0 to ${text(name, most)} in an hour</p><p class="pointed" role="status">${pointed}</p>`;
}

// The sums of each queue or user: [{name, used, lost, failed, kept, cost}], the largest first.
function sumsOf(rows, by, name) {
  const sums = new Map();
  for (const row of rows) {
    if (!sums.has(row[by])) sums.set(row[by], { name: row[by], used: 0, cost: 0, ...Object.fromEntries(WASTE.map((kind) => [kind, 0])) });
    const sum = sums.get(row[by]);
    sum.used += hours(row, USE, name);
    sum.cost += Number((row.cost || {})[name] || 0);
    for (const kind of WASTE) sum[kind] += hours(row, [kind], name);
  }
  return [...sums.values()].sort((a, b) => b.used - a.used);
}

function Shares({ rows, by, name }) {
  const { times, series } = useMemo(() => {
    const times = [...new Set(rows.map((row) => row.from_ms))].sort((a, b) => a - b), at = new Map(times.map((one, index) => [one, index]));
    const totals = times.map(() => 0), largest = sumsOf(rows, by, name).slice(0, LINES).map((one) => one.name);
    const values = new Map(largest.map((one) => [one, times.map(() => 0)]));
    for (const row of rows) {
      const value = hours(row, USE, name), index = at.get(row.from_ms);
      totals[index] += value;
      if (values.has(row[by])) values.get(row[by])[index] += value;
    }
    const series = largest.map((one, index) => ({ name: one, color: PALETTE[index], values: values.get(one).map((value, index) => (totals[index] ? value / totals[index] : null)) }));
    return { times: times.map((one) => one / 1000), series };
  }, [rows, by, name]);
  return html`<${Chart} label=${`Shares of ${name} by ${by}`} times=${times} series=${series} text=${percent} most=${1} />`;
}

function Wasted({ rows, by, name, currency }) {
  const found = useMemo(() => sumsOf(rows, by, name), [rows, by, name]);
  const columns = useMemo(() => [
    { name: by, cell: (one) => one.name, by: (one) => one.name, width: "min(16rem, 40vw)" },
    { name: "used", cell: (one) => text(name, one.used), by: (one) => one.used },
    { name: "lost", cell: (one) => html`<span title="preempted">${text(name, one.lost)}</span>`, by: (one) => one.lost },
    { name: "failed", cell: (one) => html`<span title="of groups that failed">${text(name, one.failed)}</span>`, by: (one) => one.failed, extra: true },
    { name: "kept", cell: (one) => html`<span title="reserved and idle">${text(name, one.kept)}</span>`, by: (one) => one.kept, extra: true },
    { name: "in vain", cell: (one) => (one.used ? percent((one.lost + one.failed) / one.used) : "-"), by: (one) => (one.used ? (one.lost + one.failed) / one.used : 0), width: "6rem" },
    ...(currency ? [{ name: currency, cell: (one) => one.cost.toFixed(2), by: (one) => one.cost, width: "7rem" }] : []),
  ], [by, name, currency]);
  return html`<${List} label="Use and waste" columns=${columns} rows=${found} keyOf=${(one) => one.name} tall=${false} />`;
}
