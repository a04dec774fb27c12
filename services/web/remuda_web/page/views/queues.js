// The tree of queues, and one queue with its history.
import { html, useMemo, useState } from "../html.js";
import { Actions, holdQueue } from "../actions.js";
import { now, paths, shownAt } from "../api.js";
import { Chart } from "../chart.js";
import { useRows, useTick } from "../data.js";
import { amount, amounts, constraint, duration, number, ordered, owes, pastShare, percent, plural, time } from "../format.js";
import { List } from "../list.js";
import { Badge, Bar, Bars, Choice, Facts, Search, State, matching } from "../parts.js";
import { link, useOption } from "../place.js";
import { useQueueHistory } from "../queue_history.js";
import { binding, owed, tree } from "../shares.js";
import { ApplicationList } from "./application_lists.js";
import { Waiting } from "./waiting.js";

export function Queues({ rm, item }) {
  const { rows = [], first, error } = useRows(paths.rm(rm, "queues"));
  if (!first) return html`<h2>Queues</h2><${State} ready=${first} error=${error} />`;
  const [partition, ...path] = item.split(" ");
  if (!item) return html`<${Tree} rm=${rm} rows=${rows} partitions=${first.partitions} error=${error} />`;
  const known = tree(rows, first.partitions);
  // Without a partition, as in an event record: the only queue of that path, or a choice.
  const found = known.filter(({ row }) => (path.length ? row.partition === partition && row.path === path.join(" ") : row.path === item));
  if (found.length === 1) return html`<${Queue} rm=${rm} atMs=${first.at_ms} ...${found[0]} />`;
  return html`<h2>${item}</h2>${found.length ? html`<ul>${found.map(({ row }) => html`<li><a href=${link("queues", rm, `${row.partition} ${row.path}`)}>partition ${row.partition}</a></li>`)}</ul>`
    : html`<p class="dim">There is no such queue now.</p>`}`;
}

function Tree({ rm, rows, partitions, error }) {
  const [closed, setClosed] = useState(new Set());
  const [text, search] = useOption("search");
  const [chosen, choose] = useOption("resource");
  const tick = useTick();
  const resources = ordered(new Set(partitions.flatMap((one) => Object.keys(one.total))));
  const isClosed = (key) => !text && closed.has(key);
  const turn = (key) => setClosed((before) => { const next = new Set(before); if (!next.delete(key)) next.add(key); return next; });
  const shown = useMemo(() => matching(tree(rows, partitions, isClosed), text, ({ row }) => `${row.partition} ${row.path} ${row.status}`), [rows, closed, text]);
  const roots = new Map(rows.filter((row) => row.path === "root").map((row) => [row.partition, row]));
  const nameOf = ({ row, depth }) => {
    const key = `${row.partition} ${row.path}`, open = !isClosed(key), name = row.path.split(".").pop();
    return html`<span class="node" style=${`padding-left:calc(${depth} * var(--indent))`}>
      ${row.leaf ? html`<span class="twist"></span>` : html`<button class="twist" aria-expanded=${open} aria-label=${`${open ? "Close" : "Open"} ${name}`} onClick=${() => turn(key)}>${open ? "▾" : "▸"}</button>`}
      <a href=${link("queues", rm, key)} title=${row.path}>${name}</a><${Marks} row=${row} /></span>`;
  };
  const amountsOf = (all, row) => (chosen ? (chosen in all ? amount(chosen, all[chosen]) : "-") : listed(all, binding(row, row.max_in_force)));
  const columns = useMemo(() => [
    { name: "queue", cell: nameOf, width: isNarrow() ? "50%" : "max(17rem, 20%)" },
    { name: "used", cell: ({ row, whole }) => { const name = chosen || binding(row, whole)[0]; return name ? html`<${Bar} name=${name} used=${row.allocated[name]} whole=${whole[name]} pending=${row.pending[name]} guaranteed=${row.guaranteed[name]} owed=${owed(row, now())[name]} />` : "-"; } },
    { name: "waiting", cell: ({ row }) => (row.waiting ? number(row.waiting) : "-"), by: ({ row }) => row.waiting, width: isNarrow() ? "4.2rem" : "5.2rem" },
    { name: "longest wait", cell: ({ row }) => since(row.waiting_since_ms), by: ({ row }) => (row.waiting_since_ms ? -row.waiting_since_ms : -Infinity), width: "7.5rem", extra: true },
    { name: "waits for", cell: ({ row }) => amountsOf(row.pending, row), width: "16rem", extra: "wide" },
    { name: "guaranteed", cell: ({ row }) => amountsOf(row.guaranteed, row), width: "15rem", extra: "wide" },
    { name: "fair share", cell: ({ share }) => html`<span title="The part that is used of what is due: the guaranteed amount, else the nearest maximum, else all there is">${percent(share)}</span>`, by: ({ share }) => share, width: "6rem", extra: true },
    { name: "running", cell: ({ row }) => number(row.running_applications), by: ({ row }) => row.running_applications, width: "5.5rem", extra: true },
  ], [rm, closed, text, chosen, tick]);
  return html`<h2>Queues</h2><${State} ready=${true} error=${error} />
    <div class="cards">${partitions.map((one) => { const root = roots.get(one.name) || {}; return html`<section class="card" key=${one.name} aria-label=${`Partition ${one.name}`}><h3>partition ${one.name}</h3>
      <${Bars} of=${{ allocated: one.allocated, pending: root.pending }} whole=${one.total} /><p class="dim">${plural(one.nodes, "node")}, ${plural(one.allocations, "allocation")}${root.waiting ? `, ${plural(root.waiting, "ask")} waiting for up to ${since(root.waiting_since_ms)}` : ""}</p></section>`; })}</div>
    <div class="controls"><${Search} label="Search queues" text=${text} onText=${search} found=${shown.length} of=${rows.length} />
      <${Choice} label="Resource" value=${chosen} options=${[["", "what binds first"], ...resources]} onChoice=${choose} /><${Legend} /></div>
    <${List} label="Queues" columns=${columns} rows=${shown} keyOf=${({ row }) => `${row.partition} ${row.path}`} rowHeight=${isNarrow() ? 54 : 38} />`;
}

// As in the style sheet: names of queues are whole there, on several lines.
const isNarrow = () => matchMedia("(max-width: 46rem)").matches;

const since = (ms) => (ms ? duration(now() - ms) : "-");
const listed = (of, order) => order.filter((name) => of[name]).map((name) => `${name} ${amount(name, of[name])}`).join(", ") || "-";

function Legend() {
  return html`<p class="legend"><span><span class="key used"></span>used</span><span><span class="key striped"></span>waiting</span><span><span class="key owed"></span>owed</span><span><span class="key line"></span>guaranteed</span></p>`;
}

function Marks({ row }) {
  const missing = owed(row, now());
  return html`${Object.keys(missing).length > 0 && html`<${Badge} kind="bad">owed</${Badge}>`}${row.status !== "Active" && html`<${Badge} kind="warn">${row.status}</${Badge}>`}${row.held && html`<${Badge} kind="warn">held</${Badge}>`}${row.excess && html`<${Badge} kind="warn">above maximum</${Badge}>`}`;
}

function Queue({ rm, atMs, row, share, whole }) {
  useTick();
  const above = row.path.split(".").slice(0, -1), due = owed(row, now());
  return html`<nav class="crumbs" aria-label="Queues above"><a href=${link("queues", rm)}>queues</a>
      ${above.map((name, index) => html` / <a href=${link("queues", rm, `${row.partition} ${above.slice(0, index + 1).join(".")}`)}>${name}</a>`)}</nav>
    <h2>${row.path} <${Marks} row=${row} /></h2>
    <${Actions} rm=${rm} actions=${holdQueue(row)} />
    <${Bars} of=${row} whole=${whole} due=${due} /><${Legend} />
    ${Object.keys(due).length > 0 && html`<p class="owed">It has less than is guaranteed to it and waits for it: ${listed(due, binding(row, whole))}.</p>`}
    <${Facts} of=${[
      ["waiting", row.waiting ? `${plural(row.waiting, "ask")}, the longest for ${since(row.waiting_since_ms)}` : ""], ["they want", listed(row.pending, binding(row, whole))],
      ["guaranteed", amounts(row.guaranteed)], ["own maximum", amounts(row.max)], ["fair share", `${percent(share)} of what is due to it`],
      ...(row.fair_share ? [["used in the past", `${pastShare(row.fair_share)} of the ${row.fair_share.resource} of its siblings`], ["mean use", amounts(row.fair_share.mean)], ["owes", owes(row.fair_share)]] : []),
      ...(row.loans || []).map((one) => [one.lends ? "lends" : "borrows", `${amounts(one.amounts)} of the ${one.guaranteed ? "guarantee" : "maximum"} ${one.lends ? "to" : "of"} ${one.queue}, until ${time(one.until_ms)}, by ${one.operator}${one.reason ? `: ${one.reason}` : ""}`]),
      ...(row.budget ? budgetFacts(row.budget) : []),
      ["being preempted", amounts(row.preempting)], ["running applications", `${number(row.running_applications)}${row.max_applications ? ` of ${number(row.max_applications)}` : ""}`],
      ["held", row.held ? `since ${time(row.held.since_ms)} by ${row.held.operator}${row.held.reason ? `: ${row.held.reason}` : ""}` : ""],
      ["may submit", row.submit_acl], ["may administer", row.admin_acl],
      ...Object.entries(row.properties).map(([name, value]) => [name, value]),
    ]} />
    ${!shownAt() && html`<${History} rm=${rm} row=${row} atMs=${atMs} />`}
    ${row.leaf && html`<h3>Applications</h3><${ApplicationList} rm=${rm} queue=${row.path} partition=${row.partition} tall=${false} />
      <h3>Why asks wait here</h3><${WaitCounts} row=${row} /><${Waiting} rm=${rm} queue=${row.path} total=${row.waiting} />`}`;
}

// In hours of the units in which amounts are shown.
function budgetFacts(one) {
  const period = one.period ? `${one.period} until ${time(one.until_ms)}` : `until ${time(one.until_ms)}`;
  const hours = (found) => (Object.keys(found || {}).length ? `${amounts(found)} · h` : "");
  const reached = one.reached_ms ? `${one.reached} ${one.reached_ms <= now() ? "is used up" : `is used up on ${time(one.reached_ms)} at this rate`}` : "lasts for the period at this rate";
  return [["budget", `${hours(one.amounts)}, ${period}`], ["used of it", hours(one.used)], ["running work may use", hours(one.committed)], ["left of it", `${hours(one.left)}: ${reached}`]];
}

// All asks of the queue, by what they wait for first; the core has counted them.
function WaitCounts({ row }) {
  const found = Object.entries(row.waiting_for || {}).sort(([, a], [, b]) => b - a);
  return found.length > 0 && html`<p class="counts">${found.map(([kind, count]) => html`<span><strong>${number(count)}</strong> ${constraint(kind)}</span>`)}</p>`;
}

const SPANS = [["900000", "15 minutes"], ["3600000", "an hour"], ["86400000", "a day"]];
const LINES = [
  { amount: "allocated", name: "used", color: "--used", fill: true, none: 0 }, { amount: "pending", name: "waiting", color: "--waiting-line", none: 0 },
  { amount: "guaranteed", name: "guaranteed", color: "--mark", dash: [6, 4] }, { amount: "max", name: "maximum", color: "--dim", dash: [2, 3] },
];

function History({ rm, row, atMs }) {
  const { times, values, resources, error } = useQueueHistory(rm, row, atMs);
  const names = ordered(resources);
  const [chosen, choose] = useOption("history");
  const [span, setSpan] = useOption("for", SPANS[1][0]);
  const name = names.includes(chosen) ? chosen : binding(row, row.max_in_force).find((one) => names.includes(one)) || names[0];
  const from = Math.max(0, times.findIndex((time) => time >= atMs - span));
  const series = LINES.map((line) => ({ ...line, values: values(name, line.amount).slice(from).map((value) => value ?? line.none ?? null) })).filter((one) => one.values.some((value) => value !== null));
  return html`<h3>History <${Choice} label="of" value=${name} options=${names} onChoice=${choose} /> <${Choice} label="for" value=${span} options=${SPANS} onChoice=${setSpan} /></h3>
    <${State} ready=${true} error=${error} empty=${!name && "It has used nothing, and nothing limits it."} />
    ${name && html`<${Chart} label=${`${name} of ${row.path}`} times=${times.slice(from).map((ms) => ms / 1000)} series=${series} text=${(value) => amount(name, value)} />`}`;
}
