// Why asks wait: what blocks them, since when, who goes first, what blocked them before, and what would let them run.
import { html } from "/page/vendor/htm-preact.js";
import { paths } from "/page/api.js";
import { useData } from "/page/data.js";
import { amounts, duration, number, plural, time, withUnits } from "/page/format.js";
import { State } from "/page/parts.js";
import { link } from "/page/place.js";

const SHOWN = 50;

export function Waiting({ rm, application, queue }) {
  const { data, error } = useData(paths.rm(rm, "explain", { application, queue, limit: SHOWN }));
  const asks = data ? data.rows.filter((ask) => ask.pending) : [];
  return html`<${State} ready=${data} error=${error} empty=${!asks.length && "Nothing is pending."} />
    ${asks.map((ask) => html`<${Ask} key=${ask.application + ask.key} rm=${rm} ask=${ask} named=${!application} />`)}
    ${data && data.next && html`<p class="dim">The first ${asks.length} are shown.</p>`}`;
}

function Ask({ rm, ask, named }) {
  const now = Date.now();
  return html`<section class="card" aria-label=${`${ask.application} ${ask.key}`}>
    <h4>${named && html`<a href=${link("applications", rm, ask.application)}>${ask.application}</a> `}${ask.key}
      <span class="dim"> ${amounts(ask.resource)}${ask.pending > 1 ? `, ${number(ask.pending)} pending` : ""}, for ${duration(Math.max(0, now - ask.since_ms))}</span></h4>
    <ul class="reasons">${ask.constraints.map((by) => html`<li><strong>${by.constraint}</strong> ${withUnits(by.reason)}
      ${by.since_ms > 0 && html`<span class="dim"> for ${duration(Math.max(0, now - by.since_ms))}</span>`}</li>`)}
      ${!ask.constraints.length && html`<li>${withUnits(ask.reason || "not looked at yet")}</li>`}</ul>
    ${ask.position && html`<p class="dim">${place(ask.position)}</p>`}
  </section>`;
}

function place({ ahead, waiting, turns }) {
  const own = ahead ? `${plural(ahead, "piece")} of ${number(waiting)} in its queue ${ahead === 1 ? "goes" : "go"} first` : "first in its queue";
  const queues = (turns || []).filter((one) => one.place).map((one) => `${one.queue} is ${one.place} of ${one.among}`);
  return [own, ...queues].join("; ");
}
