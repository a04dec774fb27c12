// The configuration: versions with their texts and differences, and an editor that checks, previews and applies.
import { html, useState } from "../html.js";
import { paths, post } from "../api.js";
import { Changes } from "../changes.js";
import { draft, keep } from "../drafts.js";
import { Editor } from "../editor.js";
import { useData } from "../data.js";
import { number, time } from "../format.js";
import { Badge, State, Tabs } from "../parts.js";
import { usePast } from "../past.js";
import { go, link } from "../place.js";
import { Replays } from "./replays.js";

// `item`: "replays"; "file:NUMBER" or "rm:NUMBER", a version; "edit" or "edit:NUMBER", the editor with the text of a version.
export function Configuration({ rm, item }) {
  const shared = useData(paths.versions()), own = useData(rm ? paths.versions(rm) : null);
  const [kind, version] = item.split(":"), past = usePast(rm);
  const active = shared.data ? shared.data.active : 0;
  if (kind === "replays") return html`<${Replays} rm=${rm} />`;
  if (kind === "edit" && !shared.data) return html`<${State} ready=${false} error=${shared.error} />`;
  if (kind === "edit") return html`<${EditorOf} rm=${rm} active=${active} version=${Number(version) || 0} key=${item} />`;
  if (item) return html`<${Version} rm=${rm} kind=${kind} version=${Number(version)} active=${active} />`;
  const tables = [
    ["file", () => html`<${Versions} rm=${rm} kind="file" found=${shared} />`],
    [`of ${rm}`, () => html`<${Versions} rm=${rm} kind="rm" found=${own} />`],
  ];
  const staged = shared.data && shared.data.versions.find((one) => one.number === active && one.until_ms > 0 && !one.confirmed_at_ms);
  const hasOwn = own.data && own.data.versions.length;
  return html`<h2>Configuration</h2>${shared.data && html`<p class="actions"><a class="button" href=${link("configuration", rm, "edit")}>Edit the file</a>${past && html` <a href=${link("configuration", rm, "replays")}>What would have been</a>`}</p>`}
    ${staged && html`<${Staged} version=${staged} />`}
    <${Tabs} label="Texts" tabs=${hasOwn ? tables : tables.slice(0, 1)} />`;
}

// A change that is rolled back by itself, unless an operator confirms it.
function Staged({ version }) {
  const [said, say] = useState({});
  const confirmIt = async () => {
    try {
      await post(paths.confirm, { version: version.number });
      say({ done: true });
    } catch (error) { say({ problem: error.message }); }
  };
  return html`<p class="card" role="status"><strong>Version ${number(version.number)} is staged</strong>: at ${time(version.until_ms)} the version before is put in force again.
    <span class="actions">${said.done ? html`<span class="good">confirmed</span>` : html`<button class="primary" onClick=${confirmIt}>Keep version ${number(version.number)}</button>`}
      ${said.problem && html`<span class="problem" role="alert">${said.problem}</span>`}</span></p>`;
}

function Versions({ rm, kind, found: { data, error } }) {
  const rows = data ? [...data.versions].sort((a, b) => b.number - a.number) : [];
  return html`<${State} ready=${data} error=${error} empty=${data && !rows.length && "No version is stored."} />
    <ol class="versions">${rows.map((one) => html`<li key=${one.number} class="card"><a href=${link("configuration", rm, `${kind}:${one.number}`)}>version ${number(one.number)}</a>
      ${data.active === one.number && html` <${Badge} kind="good">in force</${Badge}>`}${one.until_ms > 0 && !one.confirmed_at_ms && data.active === one.number && html` <${Badge} kind="warn">staged until ${time(one.until_ms)}</${Badge}>`}
      <span class="dim"> ${time(one.at_ms)}, ${one.origin}${one.by ? ` by ${one.by}` : ""}${one.restores ? `, restores ${one.restores}` : ""}</span>${one.message && html`<br />${one.message}`}</li>`)}</ol>`;
}

function Version({ rm, kind, version, active }) {
  const of = kind === "rm" ? rm : undefined;
  const { data, error } = useData(paths.version(version, of));
  const isOld = kind === "file" && active && version !== active;
  return html`<nav class="crumbs" aria-label="Above"><a href=${link("configuration", rm)}>configuration</a></nav>
    <h2>Version ${number(version)} ${kind === "rm" ? `of ${rm}` : ""}</h2><${State} ready=${data} error=${error} />
    ${isOld && html`<p class="actions"><a class="button" href=${link("configuration", rm, `edit:${version}`)}>Edit from here</a> <${RollBack} rm=${rm} version=${version} active=${active} /></p>`}
    ${data && html`<${Tabs} label="Shown" tabs=${[
      ["text", () => html`<pre tabindex="0">${data.text}</pre>`],
      ...(version > 1 ? [["what it changed", () => html`<${Difference} before=${version - 1} after=${version} rm=${of} />`]] : []),
      ...(isOld ? [["against the version in force", () => html`<${Difference} before=${version} after=${active} rm=${of} />`]] : []),
    ]} />`}`;
}

function Difference({ before, after, rm }) {
  const { data, error } = useData(`${paths.diff}?${new URLSearchParams({ before, after, ...(rm ? { rm } : {}) })}`);
  return html`<${State} ready=${data} error=${error} />${data && html`<${Changes} found=${data} />`}`;
}

function RollBack({ rm, version, active }) {
  const [problem, setProblem] = useState("");
  const roll = async () => {
    if (!confirm(`Put the text of version ${version} in force again, as a new version?`)) return;
    try {
      await post(paths.rollback(version), { base: active });
      go("configuration", rm);
    } catch (error) { setProblem(error.message); }
  };
  return html`<button class="danger" onClick=${roll}>Roll back to it</button>${problem && html`<span class="problem" role="alert"> ${problem}</span>`}`;
}

// `version`: the one to begin with; 0: the one in force. A version that comes into force meanwhile does not replace what is
// typed: applying it is refused then, as `base` says from which one it was made.
function EditorOf({ rm, active, version }) {
  const name = `queues.yaml ${version || ""}`;
  const [began, begin] = useState(() => ({ base: active, round: 0, ...draft(name) }));
  const { data, error } = useData(version || began.base ? paths.version(version || began.base) : null);
  const first = version || began.base ? data && data.text : "";
  const text = began.text === undefined ? first : began.text;
  const onText = (typed) => keep(name, typed === first ? null : { base: began.base, text: typed });
  const again = () => { keep(name); begin({ base: active, round: began.round + 1 }); };
  return html`<nav class="crumbs" aria-label="Above"><a href=${link("configuration", rm)}>configuration</a></nav><h2>Edit the file</h2>
    ${began.text !== undefined && html`<p role="status">What you typed before is here again. <button onClick=${again}>Begin anew</button></p>`}
    <${State} ready=${text !== undefined} error=${text === undefined && error} />
    ${text !== undefined && html`<${Editor} key=${began.round} rm=${rm} text=${text} base=${began.base} onText=${onText}
      onApplied=${() => { keep(name); go("configuration", rm); }} />`}`;
}
