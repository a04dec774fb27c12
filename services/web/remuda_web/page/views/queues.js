// The tree of queues, and one queue with its history.
import { html, useMemo, useState } from "../html.js";
import { Actions, holdQueue } from "../actions.js";
import { paths } from "../api.js";
import { Chart } from "../chart.js";
import { useRows } from "../data.js";
import { amount, amounts, number, ordered, percent, plural } from "../format.js";
import { List } from "../list.js";
import { Badge, Bar, Bars, Choice, Facts, Search, State, matching } from "../parts.js";
import { link } from "../place.js";
import { useQueueHistory } from "../queue_history.js";
import { fullest, tree } from "../shares.js";
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
  const [text, search] = useState("");
  const [chosen, choose] = useState("");
  const resources = ordered(new Set(partitions.flatMap((one) => Object.keys(one.total))));
  const isClosed = (key) => !text && closed.has(key);
  const turn = (key) => setClosed((before) => { const next = new Set(before); if (!next.delete(key)) next.add(key); return next; });
  const shown = useMemo(() => matching(tree(rows, partitions, isClosed), text, ({ row }) => `${row.partition} ${row.path} ${row.status}`), [rows, closed, text]);
  const nameOf = ({ row, depth }) => {
    const key = `${row.partition} ${row.path}`, open = !isClosed(key), name = row.path.split(".").pop();
    return html`<span class="node" style=${`padding-left:${depth * 0.9}rem`}>
      ${row.leaf ? html`<span class="twist"></span>` : html`<button class="twist" aria-expanded=${open} aria-label=${`${open ? "Close" : "Open"} ${name}`} onClick=${() => turn(key)}>${open ? "▾" : "▸"}</button>`}
      <a href=${link("queues", rm, key)}>${name}</a><${Marks} row=${row} /></span>`;
  };
  const amountsOf = (all) => (chosen ? (chosen in all ? amount(chosen, all[chosen]) : "-") : amounts(all));
  const columns = useMemo(() => [
    { name: "queue", cell: nameOf, width: "min(17rem, 38vw)" },
    { name: "used of maximum", cell: ({ row, whole }) => { const name = chosen || fullest(row.allocated, whole).name; return html`<${Bar} name=${name} used=${row.allocated[name]} whole=${whole[name]} guaranteed=${row.guaranteed[name]} limited=${true} />`; } },
    { name: "fair share", cell: ({ share }) => percent(share), width: "6.5rem", extra: true },
    { name: "guaranteed", cell: ({ row }) => amountsOf(row.guaranteed), width: "15rem", extra: "wide" },
    { name: "pending", cell: ({ row }) => amountsOf(row.pending), width: "15rem", extra: true },
    { name: "running", cell: ({ row }) => number(row.running_applications), width: "5.5rem" },
  ], [rm, closed, text, chosen]);
  return html`<h2>Queues</h2><${State} ready=${true} error=${error} />
    <div class="cards">${partitions.map((one) => html`<section class="card" key=${one.name} aria-label=${`Partition ${one.name}`}><h3>partition ${one.name}</h3>
      <${Bars} used=${one.allocated} whole=${one.total} /><p class="dim">${plural(one.nodes, "node")}, ${plural(one.allocations, "allocation")}</p></section>`)}</div>
    <div class="controls"><${Search} label="Search queues" text=${text} onText=${search} found=${shown.length} of=${rows.length} />
      <${Choice} label="Resource" value=${chosen} options=${[["", "the fullest"], ...resources]} onChoice=${choose} /></div>
    <${List} label="Queues" columns=${columns} rows=${shown} keyOf=${({ row }) => `${row.partition} ${row.path}`} rowHeight=${38} />`;
}

function Marks({ row }) {
  return html`${row.status !== "Active" && html`<${Badge} kind="warn">${row.status}</${Badge}>`}${row.held && html`<${Badge} kind="warn">held</${Badge}>`}${row.excess && html`<${Badge} kind="warn">above maximum</${Badge}>`}`;
}

function Queue({ rm, atMs, row, share, whole }) {
  const above = row.path.split(".").slice(0, -1);
  return html`<nav class="crumbs" aria-label="Queues above"><a href=${link("queues", rm)}>queues</a>
      ${above.map((name, index) => html` / <a href=${link("queues", rm, `${row.partition} ${above.slice(0, index + 1).join(".")}`)}>${name}</a>`)}</nav>
    <h2>${row.path} <${Marks} row=${row} /></h2>
    <${Actions} rm=${rm} actions=${holdQueue(row)} />
    <${Bars} used=${row.allocated} whole=${whole} guaranteed=${row.guaranteed} limited=${true} />
    <${Facts} of=${[
      ["fair share", percent(share)], ["guaranteed", amounts(row.guaranteed)], ["own maximum", amounts(row.max)], ["pending", amounts(row.pending)],
      ["being preempted", amounts(row.preempting)], ["running applications", `${number(row.running_applications)}${row.max_applications ? ` of ${number(row.max_applications)}` : ""}`],
      ["may submit", row.submit_acl], ["may administer", row.admin_acl],
      ...Object.entries(row.properties).map(([name, value]) => [name, value]),
    ]} />
    <${History} rm=${rm} row=${row} atMs=${atMs} />
    ${row.leaf && html`<h3>Applications</h3><${ApplicationList} rm=${rm} queue=${row.path} partition=${row.partition} tall=${false} />
      <h3>Why asks wait here</h3><${Waiting} rm=${rm} queue=${row.path} />`}`;
}

const SPANS = [["900000", "15 minutes"], ["3600000", "an hour"], ["86400000", "a day"]];
const LINES = [
  { amount: "allocated", name: "used", color: "--used", fill: true, none: 0 }, { amount: "pending", name: "pending", color: "--warn", none: 0 },
  { amount: "guaranteed", name: "guaranteed", color: "--mark", dash: [6, 4] }, { amount: "max", name: "maximum", color: "--dim", dash: [2, 3] },
];

function History({ rm, row, atMs }) {
  const { times, values, resources, error } = useQueueHistory(rm, row, atMs);
  const names = ordered(resources);
  const [chosen, choose] = useState("");
  const [span, setSpan] = useState(SPANS[1][0]);
  const name = names.includes(chosen) ? chosen : names[0];
  const from = Math.max(0, times.findIndex((time) => time >= atMs - span));
  const series = LINES.map((line) => ({ ...line, values: values(name, line.amount).slice(from).map((value) => value ?? line.none ?? null) })).filter((one) => one.values.some((value) => value !== null));
  return html`<h3>History <${Choice} label="of" value=${name} options=${names} onChoice=${choose} /> <${Choice} label="for" value=${span} options=${SPANS} onChoice=${setSpan} /></h3>
    <${State} ready=${true} error=${error} empty=${!name && "It has used nothing, and nothing limits it."} />
    ${name && html`<${Chart} label=${`${name} of ${row.path}`} times=${times.slice(from).map((ms) => ms / 1000)} series=${series} text=${(value) => amount(name, value)} />`}`;
}
