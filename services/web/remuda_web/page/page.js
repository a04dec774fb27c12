// The web page: views of one resource manager, asked again every two seconds. Data comes from /api/v1.
import { html, render, useState, useEffect } from "/page/vendor/htm-preact.js";

const EVERY_MS = 2000;
const VIEWS = { queues: Queues, applications: Applications, nodes: Nodes, events: Events, configuration: Configuration };
const token = () => sessionStorage.getItem("token");

async function get(path) {
  const answer = await fetch(path, { headers: token() ? { Authorization: `Bearer ${token()}` } : {} });
  if (answer.status === 401) throw Object.assign(new Error("a token is needed"), { token: true });
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.detail || found.message || answer.statusText);
  return found;
}

// The data at a path, asked again and again; null: nothing to ask.
function useData(path) {
  const [state, set] = useState({});
  useEffect(() => {
    let over = false, timer;
    set({});
    const ask = async () => {
      try {
        const data = await get(path);
        if (!over) set({ data });
      } catch (error) {
        if (!over) set((before) => ({ ...before, error }));
      }
      if (!over) timer = setTimeout(ask, EVERY_MS);
    };
    if (path) ask();
    return () => { over = true; clearTimeout(timer); };
  }, [path]);
  return state;
}

const here = () => {
  const [view, rm, ...rest] = location.hash.slice(1).split("/").map(decodeURIComponent);
  return { view: view in VIEWS ? view : "queues", rm: rm || "", item: rest.join("/") };
};
const link = (view, rm, item = "") => `#${[view, rm, item].filter(Boolean).map(encodeURIComponent).join("/")}`;
const api = (rm, rest) => (rm ? `/api/v1/rms/${encodeURIComponent(rm)}/${rest}` : null);

// Amounts are in base units: vcore in thousandths, the rest as they are.
function amount(name, value) {
  if (name === "vcore") return `${value / 1000}`;
  if (name !== "memory" || value < 1024) return `${value}`;
  const step = Math.min(4, Math.floor(Math.log2(value) / 10));
  return `${Math.round((value / 1024 ** step) * 10) / 10} ${["", "Ki", "Mi", "Gi", "Ti"][step]}`;
}
const amounts = (of) => Object.entries(of || {}).map(([name, value]) => `${name} ${amount(name, value)}`).join(", ") || "-";
const time = (ms) => (ms ? new Date(ms).toLocaleString() : "-");

function Use({ used, most }) {
  return Object.entries(most || {}).map(([name, whole]) => {
    const now = (used || {})[name] || 0;
    const text = `${name} ${amount(name, now)} of ${amount(name, whole)}`;
    return html`<div><meter min="0" max=${whole || 1} value=${now} aria-label=${text}></meter> ${text}</div>`;
  });
}

function Table({ head, rows, label }) {
  return html`<div class="wide" tabindex="0" role="region" aria-label=${label}><table>
    <thead><tr>${head.map((one) => html`<th scope="col">${one}</th>`)}</tr></thead>
    <tbody>${rows}</tbody></table></div>`;
}

function State({ data, error, empty }) {
  if (error) return html`<p class="problem" role="alert">${error.message}</p>`;
  if (!data) return html`<p class="dim">asking …</p>`;
  return empty ? html`<p class="dim">${empty}</p>` : null;
}

function Queues({ rm }) {
  const { data, error } = useData(api(rm, "queues"));
  const rows = (data ? data.rows : []).map((one) => html`<tr key=${one.partition + one.path}>
    <td style=${`padding-left:${one.path.split(".").length - 0.4}rem`}>${one.path.split(".").pop()}
      ${one.status !== "Active" && html` <span class="problem">${one.status}</span>`}${one.held && html` <span class="problem">held</span>`}</td>
    <td>${one.partition}</td><td><${Use} used=${one.allocated} most=${Object.keys(one.max).length ? one.max : one.max_in_force} /></td>
    <td>${amounts(one.guaranteed)}</td><td>${amounts(one.pending)}</td>
    <td>${one.leaf ? html`<a href=${link("applications", rm, `queue:${one.path}`)}>${one.applications}</a>` : ""}</td></tr>`);
  return html`<h2>Queues</h2><${State} data=${data} error=${error} />
    <${Table} label="Queues" head=${["queue", "partition", "used of maximum", "guaranteed", "pending", "applications"]} rows=${rows} />`;
}

function Applications({ rm, item }) {
  const queue = item.startsWith("queue:") ? item.slice(6) : "";
  const [text, search] = useState("");
  const { data, error } = useData(item && !queue ? null : api(rm, `applications${queue ? `?queue=${encodeURIComponent(queue)}` : ""}`));
  if (item && !queue) return html`<${Application} rm=${rm} id=${item} />`;
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = (data ? data.rows : []).filter((one) => {
    const shown = `${one.id} ${one.queue} ${one.user} ${one.state}`.toLowerCase();
    return words.every((word) => shown.includes(word));
  });
  const rows = found.slice(0, 300).map((one) => html`<tr key=${one.partition + one.id}>
    <td><a href=${link("applications", rm, one.id)}>${one.id}</a></td><td>${one.state}</td><td>${one.queue}</td><td>${one.user}</td>
    <td>${amounts(one.allocated)}</td><td>${one.asks ? amounts(one.pending) : "-"}</td></tr>`);
  return html`<h2>Applications${queue && ` of ${queue}`}</h2>
    <p><label>Search <input type="search" value=${text} onInput=${(event) => search(event.target.value)} /></label>
      <span class="dim"> ${found.length} found${data && data.next ? ", among the first 1,000" : ""}</span></p>
    <${State} data=${data} error=${error} empty=${data && !found.length && "none"} />
    <${Table} label="Applications" head=${["application", "state", "queue", "user", "used", "pending"]} rows=${rows} />`;
}

function Application({ rm, id }) {
  const which = `?application=${encodeURIComponent(id)}`;
  const { data, error } = useData(api(rm, `applications${which}`));
  const waiting = useData(api(rm, `explain${which}`)).data;
  const running = useData(api(rm, `allocations${which}`)).data;
  const one = data && data.rows[0];
  return html`<p><a href=${link("applications", rm)}>All applications</a></p><h2>${id}</h2><${State} data=${data} error=${error} />
    ${one && html`<p>${one.state} since ${time(one.since_ms)}, queue ${one.queue}, user ${one.user}; used ${amounts(one.allocated)}</p>
      <h3>States</h3><ol>${one.states.map((state) => html`<li>${state.state} <span class="dim">${time(state.at_ms)}</span></li>`)}</ol>`}
    <h3>Why it waits</h3>
    ${waiting && !waiting.rows.length && html`<p class="dim">nothing is pending</p>`}
    ${waiting && waiting.rows.map((ask) => html`<section aria-label=${ask.key}><h4>${ask.key}: ${amounts(ask.resource)}, ${ask.pending} pending since ${time(ask.since_ms)}</h4>
      <p>${ask.reason}</p><ul>${ask.constraints.map((by) => html`<li>${by.reason} <span class="dim">${by.where}${by.since_ms ? `, since ${time(by.since_ms)}` : ""}</span></li>`)}</ul>
      <p class="dim">${ask.position ? `${ask.position.ahead} of ${ask.position.waiting} in its queue go first` : ""}</p></section>`)}
    <h3>Allocations</h3><${Table} label="Allocations" head=${["key", "node", "resource", "since", "UUID"]} rows=${(running ? running.rows : []).map((held) => html`<tr key=${held.uuid}>
      <td>${held.key}${held.placeholder ? " (placeholder)" : ""}</td><td>${held.node}</td><td>${amounts(held.resource)}</td><td>${time(held.since_ms)}</td><td>${held.uuid}</td></tr>`)} />`;
}

function Nodes({ rm }) {
  const { data, error } = useData(api(rm, "nodes"));
  const rows = data ? data.rows : [];
  return html`<h2>Nodes</h2><${State} data=${data} error=${error} empty=${data && !rows.length && "none"} />
    ${data && data.next && html`<p class="dim">the first ${rows.length}</p>`}
    <ul class="nodes">${rows.map((one) => html`<li key=${one.partition + one.id}><strong>${one.id}</strong>
      ${one.status !== "Schedulable" && html` <span class="problem">${one.status}</span>`}<${Use} used=${one.allocated} most=${one.capacity} />
      <span class="dim">${one.allocations} allocations${one.reserved_for ? `, reserved for ${one.reserved_for.application}` : ""}</span></li>`)}</ul>`;
}

function Events() {
  const head = useData("/ws/v1/events/batch?count=1").data;
  const { data, error } = useData(head ? `/ws/v1/events/batch?count=200&start=${Math.max(0, head.HighestID - 199)}` : null);
  const kinds = ["", "request", "application", "node", "queue", "user"];
  const rows = ((data && data.EventRecords) || []).reverse().map((one) => html`<tr><td>${time(one.timestampNano / 1e6)}</td>
    <td>${kinds[one.type] || one.type}</td><td>${one.objectID}</td><td>${one.referenceID || ""}</td><td>${one.message || ""}</td></tr>`);
  return html`<h2>Events of all resource managers</h2><${State} data=${data} error=${error} />
    <${Table} label="Events" head=${["time", "of", "object", "reference", "message"]} rows=${rows} />`;
}

function Configuration({ rm, item }) {
  const of = `?rm=${encodeURIComponent(rm)}`;
  const own = useData(rm ? `/api/v1/configuration/versions${of}` : null);
  const shared = useData(rm ? "/api/v1/configuration/versions" : null);
  const [, number] = item.split(":");
  const text = useData(item ? `/api/v1/configuration/versions/${number}${item.startsWith("rm:") ? of : ""}` : null);
  const rows = [["rm", own], ["file", shared]].flatMap(([kind, { data }]) => (data ? data.versions : []).map((one) => html`<tr key=${kind + one.number}>
    <td><a href=${link("configuration", rm, `${kind}:${one.number}`)}>${one.number}</a></td><td>${kind === "rm" ? rm : "file"}</td>
    <td>${time(one.at_ms)}</td><td>${one.by || one.origin || ""}</td><td>${one.message || ""}</td></tr>`));
  return html`<h2>Configuration</h2><${State} data=${own.data || shared.data} error=${!own.data && !shared.data && own.error} empty=${!rows.length && "no version is stored"} />
    <${Table} label="Versions" head=${["version", "of", "since", "by", "message"]} rows=${rows} />
    ${text.data && html`<h3>Version ${text.data.version.number}</h3><pre tabindex="0">${text.data.text}</pre>`}`;
}

function Page() {
  const [place, go] = useState(here());
  useEffect(() => { const changed = () => go(here()); addEventListener("hashchange", changed); return () => removeEventListener("hashchange", changed); }, []);
  const { data, error } = useData("/api/v1/rms");
  const rms = data ? data.rms : [];
  const rm = place.rm || rms[0] || "";
  const View = VIEWS[place.view];
  if (error && error.token) {
    const enter = (event) => { event.preventDefault(); sessionStorage.setItem("token", new FormData(event.target).get("token")); };
    return html`<main><h1>remuda</h1><form onSubmit=${enter}><label>Token <input name="token" type="password" /></label> <button>Enter</button></form></main>`;
  }
  return html`<header><h1>remuda</h1>
    <label>RM <select onChange=${(event) => { location.hash = link(place.view, event.target.value); }}>
      ${rms.map((one) => html`<option value=${one} selected=${one === rm}>${one}</option>`)}</select></label>
    <nav aria-label="Views">${Object.keys(VIEWS).map((one) => html`<a href=${link(one, rm)} aria-current=${one === place.view ? "page" : null}>${one}</a>`)}</nav></header>
    <main><${State} data=${data} error=${error} empty=${data && !rms.length && "No resource manager is registered."} />
      ${rm && html`<${View} key=${place.view + rm} rm=${rm} item=${place.item} />`}</main>`;
}

render(html`<${Page} />`, document.body);
