// The editor of a queues.yaml: checked while one types, compared, previewed on a copy of the state, and applied.
import { html, useEffect, useRef, useState } from "./html.js";
import { paths, post } from "./api.js";
import { Changes } from "./changes.js";
import { number } from "./format.js";

const CHECK_AFTER_MS = 400;

export function Editor({ rm, text: first, base, onApplied }) {
  const [text, write] = useState(first);
  const [checked, setChecked] = useState(null);
  const [shown, show] = useState(null); // {title, body} below the editor
  const [problem, setProblem] = useState("");
  const area = useRef(null);
  useEffect(() => {
    const timer = setTimeout(() => post(paths.check, { text }).then(setChecked, (error) => setProblem(error.message)), CHECK_AFTER_MS);
    return () => clearTimeout(timer);
  }, [text]);
  const problems = checked ? checked.problems : [];
  const isValid = checked && !problems.length;

  const attempt = (work) => async (event) => {
    event.preventDefault();
    setProblem("");
    show({ title: "asking …", body: "" });
    try { show(await work(event)); } catch (error) { show(null); setProblem(error.message); }
  };
  const compare = attempt(async () => ({ title: "Changes", body: html`<${Changes} found=${await post(paths.diff, { before: base, text })} />` }));
  const preview = attempt(async () => ({ title: `Effects on ${rm}`, body: html`<${Preview} found=${await post(paths.preview(rm), { text })} />` }));
  const apply = attempt(async (event) => {
    const given = new FormData(event.target);
    if (!confirm("Put this text in force?")) return null;
    const minutes = Number(given.get("minutes"));
    await post(paths.configuration, { text, message: given.get("message"), base, ...(minutes ? { for_ms: minutes * 60000 } : {}) });
    onApplied();
    return null;
  });
  const jump = (line) => {
    const start = text.split("\n").slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
    area.current.focus();
    area.current.setSelectionRange(start, start + (text.split("\n")[line - 1] || "").length);
  };
  return html`<form onSubmit=${apply}><label for="editor" class="dim">queues.yaml</label>
    <div class="editor"><pre class="lines" aria-hidden="true">${text.split("\n").map((_, index) => `${index + 1}\n`).join("")}</pre>
      <textarea id="editor" ref=${area} spellcheck="false" wrap="off" rows=${Math.max(12, text.split("\n").length + 1)} value=${text} onInput=${(event) => write(event.target.value)}></textarea></div>
    <div role="status">${isValid ? html`<p class="good">valid</p>` : html`<ul class="reasons">${problems.map((one) => html`<li class="problem">
      ${one.line ? html`<button type="button" class="link" onClick=${() => jump(one.line)}>line ${one.line}</button> ` : ""}${one.path}: ${one.message}</li>`)}</ul>`}</div>
    <p class="controls"><label>Message <input name="message" maxlength="500" /></label>
      <label>Roll back unless confirmed in <input name="minutes" type="number" min="0" max="1440" placeholder="never" size="6" /> minutes</label></p>
    <p class="actions"><button type="button" disabled=${!base} onClick=${compare}>Compare</button><button type="button" disabled=${!isValid} onClick=${preview}>Preview</button>
      <button class="primary" disabled=${!isValid}>Apply</button></p>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    ${shown && html`<section class="card" aria-label=${shown.title}><h3>${shown.title}</h3>${shown.body}</section>`}</form>`;
}

function Preview({ found }) {
  if (found.refused) return html`<p class="problem">It would be refused: ${found.refused}</p>`;
  const lists = [
    ["queues", found.queues, (one) => `${one.queue} ${one.change}${Object.entries(one.fields || {}).map(([name, { before, after }]) => `, ${name} ${before} → ${after}`).join("")}`],
    ["over quota", found.over_quota, (one) => `${one.queue} ${one.kind} ${one.name} ${one.resource}: ${number(one.over)} over (${number(one.over_before)} before)`],
    ["placed elsewhere", found.placements, (one) => `${one.application} of ${one.user}: ${one.before} → ${one.after || `refused, ${one.reason}`}`],
    ["allocations", found.allocations, (one) => `${one.application}/${one.key} on ${one.node}`],
    ["preempted", found.preemptions, (one) => `${one.application}/${one.key} on ${one.node} for ${one.for_application}/${one.for_key}`],
  ].filter(([, list]) => list);
  return html`<p>The next ${found.passes || ""} ${found.passes === 1 ? "pass" : "passes"}, on a copy of the state. Nothing was changed.</p>
    ${lists.map(([name, list, text]) => html`<details open=${list.total > 0 && list.total < 20}><summary>${name}: ${number(list.total)}${list.without === undefined ? "" : ` (${number(list.without)} without the change)`}</summary>
      <ul>${list.rows.map((row) => html`<li>${text(row)}</li>`)}</ul></details>`)}`;
}
