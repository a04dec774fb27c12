// Why asks wait: what blocks them, since when, who goes first, what blocked them before, and what would let them run.
import { html, useState } from "../html.js";
import { Actions, changePriority } from "../actions.js";
import { get, now as timeNow, paths, shownAt } from "../api.js";
import { useData, useTick } from "../data.js";
import { amount, amounts, duration, number, plural, starts, withUnits } from "../format.js";
import { Badge, State } from "../parts.js";
import { link } from "../place.js";
import { ReasonBands, Step, alike } from "../wait_bands.js";

const SHOWN = 50;

// `total`: how many asks wait in all, as the core has counted.
export function Waiting({ rm, application, queue, total = 0 }) {
  const { data, error } = useData(paths.rm(rm, "explain", { application, queue, limit: SHOWN }));
  const asks = data ? data.rows.filter((ask) => ask.pending) : [];
  return html`<${State} ready=${data} error=${error} empty=${!asks.length && "Nothing is pending."} />
    ${alike(asks).map((group) => html`<${Ask} key=${group[0].application + group[0].key} rm=${rm} ask=${group[0]} others=${group.slice(1)} named=${!application} />`)}
    ${data && data.next && html`<p class="dim">These are the first ${plural(asks.length, "ask")}${total ? `, ${number(total)} allocations wait in all` : ""}.</p>`}`;
}

function Ask({ rm, ask, others, named }) {
  useTick();
  const now = timeNow();
  return html`<section class="card" aria-label=${`${ask.application} ${ask.key}`}>
    <h4>${named && html`<a href=${link("applications", rm, ask.application)}>${ask.application}</a> `}${ask.key}
      <span class="dim"> ${amounts(ask.resource)}${ask.pending > 1 ? `, ${number(ask.pending)} pending` : ""}, priority ${ask.priority}, for ${duration(now - ask.since_ms)}</span></h4>
    ${others.length > 0 && html`<details><summary>${plural(others.length, "other ask")} of it ${others.length === 1 ? "waits" : "wait"} alike</summary><p class="dim">${others.map((one) => one.key).join(", ")}</p></details>`}
    <ul class="reasons">${ask.constraints.map((by) => html`<li><${Badge} kind="warn">${by.constraint.replaceAll("_", " ")}</${Badge}> ${withUnits(by.reason)}
      ${by.since_ms > 0 && html`<span class="dim"> for ${duration(now - by.since_ms)}</span>`}<${Holders} rm=${rm} by=${by} /></li>`)}
      ${!ask.constraints.length && html`<li>${withUnits(ask.reason || "not looked at yet")}</li>`}</ul>
    ${ask.position && html`<p class="dim">${place(ask.position)}</p>`}
    ${ask.forecast && html`<p class="dim forecast">${starts(ask.forecast, now)}</p>`}
    <${ReasonBands} ask=${ask} nowMs=${now} />
    ${!shownAt() && html`<${WhatIf} rm=${rm} ask=${ask} />`}</section>`;
}

function Holders({ rm, by: { holders, resource } }) {
  if (!holders || !holders.rows.length) return null;
  return html`<br /><span class="dim">held by ${holders.rows.slice(0, 5).map((one, index) => html`${index ? ", " : ""}<a href=${link("applications", rm, one.application)}>${one.application}</a>${one.amount ? ` (${amount(resource, one.amount)})` : ""}`)}
    ${holders.total > 5 ? ` and ${number(holders.total - 5)} more` : ""}</span>`;
}

// The smallest changes that would let the ask run. They are tried on a copy of the state, which takes seconds.
function WhatIf({ rm, ask }) {
  const [found, set] = useState(null);
  const look = async () => {
    set({ busy: true });
    try { set((await get(paths.whatIf(rm, ask.application, ask.key, ask.partition))).data); } catch (error) { set({ error: error.message }); }
  };
  if (!found) return html`<div class="actions"><button onClick=${look}>What would let it run?</button><${Actions} rm=${rm} actions=${[changePriority(ask)]} /></div>`;
  if (found.busy) return html`<p class="dim" role="status">trying on a copy of the state …</p>`;
  if (found.error) return html`<p class="problem" role="alert">${found.error}</p>`;
  if (found.runs) return html`<p class="good" role="status">It runs within the next ${found.passes === 1 ? "pass" : `${found.passes} passes`}, without a change.</p>`;
  return html`<div role="status"><strong>Any of these would let it run</strong>
    <ol class="changes">${found.changes.map((change) => html`<li>${change.steps.map((step) => html`<${Step} step=${step} />`)}</li>`)}</ol>
    ${!found.changes.length && html`<p>No single change that was tried suffices.</p>`}<p class="dim">${plural(found.trials, "trial")} on a copy of the state${found.complete ? "" : "; not everything was tried"}.</p></div>`;
}

function place({ ahead, waiting, turns }) {
  const own = ahead ? `${number(ahead)} of ${plural(waiting, "waiting allocation")} in its queue ${ahead === 1 ? "goes" : "go"} first` : "first in its queue";
  const queues = (turns || []).filter((one) => one.place && one.among > 1).map((one) => `${one.queue} is ${one.place === 1 ? "next" : `number ${number(one.place)}`} of ${number(one.among)} queues`);
  return [own, ...queues].join("; ");
}
