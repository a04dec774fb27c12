// Forms for the pools of Peloton's resource manager: one pool, and all of them from a text.
import { html, useEffect, useRef, useState } from "./html.js";
import { paths, post } from "./api.js";
import { draft, keep } from "./drafts.js";

const figure = (value) => Number(value.toPrecision(10)).toLocaleString("en");

const KINDS = { cpu: "cores", gpu: "devices", memory: "MB", disk: "MB" };
const AMOUNTS = ["reservation", "limit", "share"];
const PERCENTS = [["controller_limit", "Limit of controllers, percent of the reservation"], ["slack_limit", "Slack limit, percent of the reservation"]];
const NO_PERCENT = { controller_limit: "no limit", slack_limit: "20" };
const TEXTS = [["owning_team", "Owning team"], ["description", "Description"]];
const NEW = { share: "1" }; // of a new pool; amounts are 0

// What the form shows at first, by key, as the resource manager knows keys. A percent that is not configured is empty.
function valuesOf(pool) {
  const of = (kind, field) => (pool ? String(pool.resources[kind] ? pool.resources[kind][field] : 0) : NEW[field] || "0");
  return Object.fromEntries([
    ...Object.keys(KINDS).flatMap((kind) => [...AMOUNTS.map((field) => [`${kind}.${field}`, of(kind, field)]),
      [`${kind}.type`, pool && pool.resources[kind] && pool.resources[kind].type === "STATIC" ? "STATIC" : "ELASTIC"]]),
    ...PERCENTS.map(([key]) => [key, pool && pool[`${key}_percent`] !== null ? String(pool[`${key}_percent`]) : ""]), ...TEXTS.map(([key]) => [key, pool ? pool[key] : ""]),
  ]);
}

// The field that a problem is about, as it begins with its key; none: it is about the pool.
const fieldOf = (problem, keys) => keys.find((key) => problem.startsWith(`${key} `)) || "";

// A dialog for the pool. Its values are judged by the resource manager alone, whose answer is shown at the field. `above`: for a new one below this path.
export function PoolForm({ cluster, pool, above, onClose }) {
  const box = useRef(null);
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const before = valuesOf(pool);
  const wrong = fieldOf(problem, ["name", ...Object.keys(before)]);
  const check = (key) => (key === wrong ? { "aria-invalid": "true", "aria-describedby": "pool-problem" } : {});
  useEffect(() => { box.current.showModal(); }, []);
  const send = async (body, done) => {
    setBusy(true);
    try {
      await post(paths.pelotonPools(cluster), body);
      onClose(done);
    } catch (error) { setProblem(error.message); setBusy(false); }
  };
  const save = (event) => {
    event.preventDefault();
    const given = new FormData(event.target);
    const path = pool ? pool.path : `${above}/${given.get("name")}`;
    const set = Object.fromEntries(Object.keys(before).map((key) => [key, given.get(key) || (key.endsWith(".type") ? "ELASTIC" : "")])
      .filter(([key, value]) => value !== before[key] || (!pool && /\.(limit|share)$/.test(key))));
    send({ path, set }, `${path}: ${pool ? "changed" : "created"}`);
  };
  const remove = () => {
    if (confirm(`Delete ${pool.path}? It must have no pools below it and no tasks.`)) send({ path: pool.path, delete: true }, `${pool.path}: deleted`);
  };
  return html`<dialog ref=${box} class="wide-dialog" aria-labelledby="pool-form" onClose=${() => onClose()}><form onSubmit=${save}>
    <h3 id="pool-form">${pool ? `Change ${pool.path}` : `New pool below ${above || "/"}`}</h3>
    ${!pool && html`<label>Name <input name="name" required maxlength="256" ...${check("name")} /></label>`}
    <table class="amounts"><thead><tr><th scope="col">kind</th>${AMOUNTS.map((one) => html`<th scope="col">${one}</th>`)}<th scope="col">static</th></tr></thead>
      <tbody>${Object.entries(KINDS).map(([kind, unit]) => html`<tr><th scope="row">${kind} <span class="dim">${unit}</span></th>
        ${AMOUNTS.map((field) => html`<td><input name=${`${kind}.${field}`} type="number" step="any" required ...${check(`${kind}.${field}`)} aria-label=${`${field} of ${kind}`} defaultValue=${before[`${kind}.${field}`]} /></td>`)}
        <td><input name=${`${kind}.type`} type="checkbox" value="STATIC" aria-label=${`reservation of ${kind} is static`} defaultChecked=${before[`${kind}.type`] === "STATIC"} /></td></tr>`)}</tbody></table>
    ${PERCENTS.map(([key, label]) => html`<label>${label} <input name=${key} type="number" step="any" ...${check(key)} placeholder=${NO_PERCENT[key]} defaultValue=${before[key]} /></label>`)}
    ${TEXTS.map(([key, label]) => html`<label>${label} <input name=${key} maxlength="1000" ...${check(key)} defaultValue=${before[key]} /></label>`)}
    ${problem && html`<p class="problem" role="alert" id="pool-problem">${problem}</p>`}
    <p class="buttons">${pool && html`<button type="button" class="danger first" disabled=${busy} onClick=${remove}>Delete</button>`}
      <button type="button" onClick=${() => box.current.close()}>Cancel</button><button class="primary" disabled=${busy}>${pool ? "Change" : "Create"}</button></p>
  </form></dialog>`;
}

const EXAMPLE = "pools:\n  - name: batch\n    cpu: {reservation: 10, limit: 40}";

const shownValue = (value) => (value === null || value === "" || value.length === 0 ? "none" : String(value));
const more = (count) => (count ? html`<li class="dim">and ${count} more</li>` : "");

// What a text would do: {changes, effects}.
function Preview({ found: { changes, effects, more_changes, more_effects } }) {
  if (!changes.length) return html`<p class="dim">Nothing would change.</p>`;
  const fields = ({ change, fields: all }) => all.map(({ field, before, after }) => `${field} ${change === "created" ? "" : `${shownValue(before)} → `}${shownValue(after)}`).join(", ");
  const amounts = ({ before, after, over }) => Object.keys(after).filter((kind) => before[kind] !== after[kind] || over[kind])
    .map((kind) => `${kind} ${figure(before[kind])} → ${figure(after[kind])}${over[kind] ? `, ${figure(over[kind])} less than tasks hold` : ""}`).join("; ");
  return html`<h3>Would change</h3><ul>${changes.map((one) => html`<li>${one.path} ${one.change}${one.fields.length ? ": " : ""}${fields(one)}</li>`)}${more(more_changes)}</ul>
    ${effects.length > 0 && html`<h3>Entitlements</h3><ul>${effects.map((one) => html`<li class=${one.tasks ? "problem" : ""}>${one.path}: ${amounts(one)}${one.tasks ? `; ${one.tasks} tasks would be preempted` : ""}</li>`)}${more(more_effects)}</ul>`}`;
}

// A text that describes all pools, applied as a whole or not at all.
export function PoolsText({ cluster }) {
  const [said, say] = useState({});
  const name = `pools ${cluster}`;
  const [before] = useState(() => draft(name));
  const apply = async (event) => {
    event.preventDefault();
    const text = new FormData(event.target).get("text");
    if (!confirm("Apply this text? Pools that it does not describe are deleted.")) return;
    say({ busy: true });
    try {
      say({ changes: (await post(paths.pelotonPools(cluster), { text })).changes });
      keep(name);
    } catch (error) { say({ problem: error.message }); }
  };
  const preview = async (event) => {
    const text = event.target.form.elements.text.value;
    say({ busy: true });
    try {
      say({ preview: await post(paths.pelotonPreview(cluster), { text }) });
    } catch (error) { say({ problem: error.message }); }
  };
  return html`<details class="card" open=${Boolean(before)}><summary>Apply a file</summary><form onSubmit=${apply}>
    <label for="pools-text" class="dim">All pools, in YAML</label>
    <div class="editor"><textarea id="pools-text" name="text" required spellcheck="false" wrap="off" rows="12" placeholder=${EXAMPLE} defaultValue=${before} onInput=${(event) => keep(name, event.target.value)}></textarea></div>
    <p class="actions"><button type="button" disabled=${said.busy} onClick=${preview}>Preview</button><button class="primary" disabled=${said.busy}>Apply</button></p>
    <div role="status">${said.changes && (said.changes.length ? html`<ul>${said.changes.map((one) => html`<li>${one}</li>`)}</ul>` : html`<p class="dim">Nothing has changed.</p>`)}
      ${said.preview && html`<${Preview} found=${said.preview} />`}</div>
    ${said.problem && html`<p class="problem" role="alert">${said.problem}</p>`}</form></details>`;
}
