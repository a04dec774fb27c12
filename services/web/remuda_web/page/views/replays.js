// Replays that are kept: what would have been, with another configuration. Those that are chosen stand side by side.
import { html, useState } from "../html.js";
import { paths, post } from "../api.js";
import { useData } from "../data.js";
import { duration, number, percent, time } from "../format.js";
import { Badge, State } from "../parts.js";
import { usePast } from "../past.js";
import { link, useOption } from "../place.js";

const EVERY_MS = 5000;
const PERIODS = [["1d", "yesterday"], ["7d", "last week"], ["30d", "the last 30 days"]];
const KIND = { running: "warn", done: "good", failed: "bad" };

// Beside the editor: play the past with the text. `text`: of the editor.
export function AskWhatIf({ rm, text, disabled }) {
  const [since, choose] = useState(PERIODS[1][0]);
  const [said, say] = useState({});
  const past = usePast(rm);
  const ask = async () => {
    say({ busy: true });
    try { say({ begun: await post(paths.replays(rm), { text, since, title: `edited at ${time(Date.now())}` }) }); } catch (error) { say({ problem: error.message }); }
  };
  if (!past) return null;
  return html`<p class="actions"><label>What if this had been in force <select value=${since} onChange=${(event) => choose(event.target.value)}>
      ${PERIODS.map(([key, name]) => html`<option key=${key} value=${key} selected=${key === since}>${name}</option>`)}</select></label>
    <button type="button" disabled=${disabled || said.busy} onClick=${ask}>Play it</button>
    ${said.begun && html`<span role="status">It is being played: <a href=${link("configuration", rm, "replays", { chosen: said.begun.id })}>replays</a></span>`}
    ${said.problem && html`<span class="problem" role="alert">${said.problem}</span>`}</p>`;
}

export function Replays({ rm }) {
  const { data, error } = useData(rm ? paths.replays(rm) : null, EVERY_MS);
  const [text, choose] = useOption("chosen");
  const chosen = text.split(",").filter(Boolean), rows = data ? data.replays : [];
  const turn = (id) => choose((chosen.includes(id) ? chosen.filter((one) => one !== id) : [...chosen, id]).join(","));
  return html`<nav class="crumbs" aria-label="Above"><a href=${link("configuration", rm)}>configuration</a></nav><h2>What would have been</h2>
    <${State} ready=${data} error=${error} empty=${data && !rows.length && "Nothing was played yet. The editor of the configuration plays the past with its text."} />
    <ul class="versions">${rows.map((one) => html`<li key=${one.id} class="card"><label><input type="checkbox" checked=${chosen.includes(one.id)} disabled=${one.state !== "done"} onChange=${() => turn(one.id)} /> ${one.title}</label>${" "}<${Badge} kind=${KIND[one.state]}>${one.state}</${Badge}><span class="dim"> since ${one.since}, asked for at ${time(one.at_ms)}</span>${one.problem && html`<p class="problem">${one.problem}</p>`}</li>`)}</ul>
    ${chosen.filter((id) => rows.some((one) => one.id === id && one.state === "done")).map((id, index) => html`<${Report} key=${id} rm=${rm} id=${id} first=${!index} />`)}`;
}

const wait = (row, name) => (row ? duration(row[name]) : "-");

// `first`: what really happened stands there alone.
function Report({ rm, id, first }) {
  const { data, error } = useData(paths.replay(rm, id), EVERY_MS);
  if (!data || !data.report) return html`<${State} ready=${data} error=${error} />`;
  const { report } = data, [variant] = report.variants, { model, identity } = report;
  const runs = [...(first ? [["really", report.actual]] : []), ["unchanged", report.unchanged], ["with it", variant]];
  const queues = [...new Set(runs.flatMap(([, run]) => Object.keys(run.waits.queue)))].sort();
  return html`<section class="card" aria-label=${data.title}><h3>${data.title} <span class="dim">${time(report.since_ms)} to ${time(report.until_ms)}</span></h3>
    <p class="dim">Decided again exactly: ${number(identity.different)} of ${number(identity.commits)} commits differ. The error of the model: mean wait ${duration(model.error.mean_ms)}. Run times drawn: ${percent(model.censored)}${model.reliable ? "" : ", unreliable"}.</p>
    <div class="scrolled"><table class="compared"><thead><tr><th>queue</th><th></th><th>asks</th><th>p50</th><th>p95</th><th>p99</th><th>still wait</th></tr></thead><tbody>
      ${queues.flatMap((queue) => runs.map(([name, run], index) => { const row = run.waits.queue[queue]; return html`<tr key=${`${queue} ${name}`} class=${index ? "" : "first"}><th>${index ? "" : queue}</th><td>${name}</td><td>${row ? number(row.count) : "-"}</td>
        <td>${wait(row, "p50_ms")}</td><td>${wait(row, "p95_ms")}</td><td>${wait(row, "p99_ms")}</td><td>${row ? number(row.still_waiting) : "-"}</td></tr>`; }))}</tbody></table></div>
    ${runs.map(([name, run]) => html`<p key=${name}>${name}: ${Object.entries(run.use).map(([resource, use]) => `${resource} ${percent(use.share)}`).join(", ") || "nothing"} in use, ${number(run.preemptions.count)} preempted, fairness ${run.fairness.mean.toFixed(2)}</p>`)}
    ${["gained", "lost"].map((what) => variant.differences[what].length > 0 && html`<p>${what === "gained" ? "These wait less" : "These wait more"}: ${variant.differences[what].map((one) => `${one.application} ${duration(Math.abs(one.ms))}`).join(", ")}</p>`)}</section>`;
}
