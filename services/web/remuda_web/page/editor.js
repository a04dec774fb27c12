// The editor of a queues.yaml: checked while one types, compared, previewed on a copy of the state, and applied.
import { html, useEffect, useLayoutEffect, useRef, useState } from "./html.js";
import { paths, post } from "./api.js";
import { Changes } from "./changes.js";
import { Preview } from "./preview.js";
import { AskWhatIf } from "./views/replays.js";

const CHECK_AFTER_MS = 400;
const BREAK = /\r\n?/g; // what a text area makes a line feed of

// `onText`: told each text that is typed.
export function Editor({ rm, text: first, base, onText, onApplied }) {
  const [text, write] = useState(first.replace(BREAK, "\n"));
  const [checked, setChecked] = useState(null);
  const [shown, show] = useState(null); // {title, body} below the editor
  const [problem, setProblem] = useState("");
  const area = useRef(null), lines = useRef(null);
  const align = () => { lines.current.scrollTop = area.current.scrollTop; };
  useLayoutEffect(align, [text]);
  useEffect(() => {
    const timer = setTimeout(() => post(paths.check, { text }).then(setChecked, (error) => setProblem(error.message)), CHECK_AFTER_MS);
    return () => clearTimeout(timer);
  }, [text]);
  const problems = checked ? checked.problems : [];
  const isValid = checked && !problems.length;
  const advice = isValid ? [...(checked.warnings || []), ...(checked.versions || [])] : [];

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
    const all = text.split("\n"), start = all.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
    area.current.focus();
    area.current.setSelectionRange(start, start + (all[line - 1] || "").length);
    area.current.scrollTop = (line - 1) * parseFloat(getComputedStyle(area.current).lineHeight) - area.current.clientHeight / 2;
  };
  return html`<form onSubmit=${apply}><label for="editor" class="dim">queues.yaml</label>
    <div class="editor"><pre class="lines" ref=${lines} aria-hidden="true">${text.split("\n").map((_, index) => `${index + 1}\n`).join("")}</pre>
      <textarea id="editor" ref=${area} spellcheck="false" wrap="off" rows=${Math.max(12, text.split("\n").length + 1)} value=${text} onScroll=${align}
        onInput=${(event) => { write(event.target.value); onText(event.target.value); }}></textarea></div>
    <div role="status">${isValid && html`<p class="good">valid</p>`}<ul class="reasons">${[...problems, ...advice].map((one) => html`<li class=${isValid ? "dim" : "problem"}>
      ${one.line ? html`<button type="button" class="link" onClick=${() => jump(one.line)}>line ${one.line}</button> ` : ""}${one.path}: ${one.message}</li>`)}</ul></div>
    <p class="controls"><label>Message <input name="message" maxlength="500" /></label>
      <label>Roll back unless confirmed in <input name="minutes" type="number" min="0" max="1440" placeholder="never" size="6" /> minutes</label></p>
    <p class="actions"><button type="button" disabled=${!base} onClick=${compare}>Compare</button><button type="button" disabled=${!isValid || !rm} onClick=${preview}>Preview</button>
      <button class="primary" disabled=${!isValid}>Apply</button></p>
    ${rm && html`<${AskWhatIf} rm=${rm} text=${text} disabled=${!isValid} />`}
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    ${shown && html`<section class="card" aria-label=${shown.title}><h3>${shown.title}</h3>${shown.body}</section>`}</form>`;
}
