// All resource managers: what needs attention, what each uses and who waits there, and what has changed lately.
import { html, useState } from "../html.js";
import { now, paths } from "../api.js";
import { attention, change } from "../attention.js";
import { useData, useTick } from "../data.js";
import { duration, number, plural, rate, time } from "../format.js";
import { Badge, Bars, State } from "../parts.js";
import { link } from "../place.js";

const RESOURCES = 4; // bars of an RM: those that bind first
const ALIKE = 3; // items of one kind and RM that are shown at once
const ITEMS = 12;
const MANAGERS = 100; // that are shown at once

export function Overview() {
  const { data, error } = useData(paths.overview);
  useTick();
  if (!data) return html`<h2>Overview</h2><${State} ready=${data} error=${error} />`;
  const waiting = data.rms.reduce((sum, one) => sum + one.waiting, 0);
  return html`<h2>Overview <span class="dim small">${plural(data.rms.length, "resource manager")}, ${waiting ? `${plural(waiting, "ask")} waiting` : "nothing waits"}</span></h2><${State} ready=${true} error=${error} />
    <${Attention} items=${data.attention} />
    <h3>Resource managers</h3><${Managers} rms=${data.rms} />
    <h3>Changed lately</h3>${data.changes.length ? html`<ul class="feed">${data.changes.map((one) => html`<li><time datetime=${new Date(one.at_ms).toISOString()} title=${time(one.at_ms)}>${time(one.at_ms)}</time><span>${one.rm && html`<strong>${one.rm}</strong> `}${change(one)}</span></li>`)}</ul>`
      : html`<p class="dim">No version of the configuration and no action of an operator is on record.</p>`}`;
}

// Items of the same kind and RM beyond the first few are one line that opens.
function grouped(items) {
  const groups = new Map();
  for (const one of items) {
    const key = `${one.kind} ${one.rm}`;
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(one);
  }
  return [...groups.values()].flatMap((group) => (group.length > ALIKE + 1 ? [...group.slice(0, ALIKE).map((one) => [one]), group.slice(ALIKE)] : group.map((one) => [one])));
}

function Attention({ items }) {
  const [all, showAll] = useState(false);
  const groups = grouped(items), shown = all ? groups : groups.slice(0, ITEMS);
  if (!items.length) return html`<p class="card calm" role="status"><span class="good">Nothing needs attention.</span> <span class="dim">Nobody is owed anything, nothing is held, drained or staged.</span></p>`;
  return html`<section aria-label="Needs attention"><h3>Needs attention</h3>
    <ul class="feed attention">${shown.map((group) => html`<li class=${group[0].level} key=${JSON.stringify([group[0].kind, group[0].rm, group[0].queue, group[0].node, group[0].application, group[0].key, group[0].resource, group.length > 1])}>
      ${group.length === 1 ? html`<${Item} one=${group[0]} />` : html`<details><summary>${group[0].rm && html`<strong>${group[0].rm}</strong> `}${number(countOf(group))} more like these</summary><ul class="feed">${group.map((one) => html`<li><${Item} one=${one} /></li>`)}</ul></details>`}</li>`)}</ul>
    ${groups.length > ITEMS && html`<p><button onClick=${() => showAll(!all)}>${all ? "Show fewer" : `Show all ${number(groups.length)}`}</button></p>`}</section>`;
}

const countOf = (group) => group.reduce((sum, one) => sum + (one.more || 1), 0);

function Item({ one }) {
  return html`<span class="sign" role="img" aria-label=${one.level === "owed" ? "owed" : "notice"}></span><span>${one.rm && html`<strong>${one.rm}</strong> `}${attention(one)}${one.since_ms > 0 && html` <span class="dim">for ${duration(now() - one.since_ms)}</span>`}</span>`;
}

function Managers({ rms }) {
  const [all, showAll] = useState(false);
  const of = { Running: "good", halted: "bad" };
  return html`<div class="rms" role="table" aria-label="Resource managers">
    <div role="row" class="head">${["RM", "use", "waiting", "longest wait", "allocations/s", "running", "nodes"].map((name) => html`<span role="columnheader">${name}</span>`)}</div>
    ${rms.slice(0, all ? rms.length : MANAGERS).map((one) => html`<div role="row" key=${one.rm}>
      <span role="cell"><a href=${link("queues", one.rm)}>${one.rm}</a> <${Badge} kind=${of[one.state] || (one.error ? "bad" : "warn")}>${one.state || "no answer"}</${Badge}></span>
      <span role="cell" class="use">${one.error ? html`<span class="dim">${one.error}</span>` : one.nodes ? html`<${Bars} of=${one} whole=${one.total} most=${RESOURCES} />` : html`<span class="dim">${one.state === "halted" ? "" : "no nodes"}</span>`}</span>
      <${Figure} name="waiting">${one.waiting ? number(one.waiting) : "-"}</${Figure}><${Figure} name="longest wait">${one.waiting_since_ms ? duration(now() - one.waiting_since_ms) : "-"}</${Figure}>
      <${Figure} name="allocations/s">${one.allocations_per_s === null ? "-" : rate(one.allocations_per_s)}</${Figure}><${Figure} name="running">${number(one.allocations)}</${Figure}>
      <${Figure} name="nodes">${number(one.nodes)}${one.unschedulable > 0 && html` <span class="dim">(${number(one.unschedulable)} not)</span>`}</${Figure}></div>`)}</div>
    ${rms.length > MANAGERS && !all && html`<p><button onClick=${() => showAll(true)}>Show all ${number(rms.length)}</button></p>`}`;
}

const Figure = ({ name, children }) => html`<span role="cell" class="number" data-name=${name}>${children}</span>`;
