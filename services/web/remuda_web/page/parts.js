// Small parts that several views use.
import { html } from "./html.js";
import { amount, number } from "./format.js";
import { useOption } from "./place.js";
import { binding } from "./shares.js";

// What is shown in place of data: a problem, that it is being asked for, or that there is none.
export function State({ ready, error, empty }) {
  if (error) return html`<p class="problem" role="alert">${error.message}</p>`;
  if (!ready) return html`<p class="dim" role="status">asking …</p>`;
  return empty ? html`<p class="dim">${empty}</p>` : null;
}

// How much of `whole` is used (plain) and waited for (striped), with a mark where guaranteed is. Red is what a queue is
// owed, and nothing else.
export function Bar({ name, used = 0, whole = 0, pending = 0, guaranteed, owed = 0 }) {
  const part = (value) => (whole ? Math.min(100, (Math.max(0, value) / whole) * 100) : value > 0 ? 100 : 0);
  const left = part(used), text = `${name} ${amount(name, used)} of ${amount(name, whole)}`;
  const more = [[pending, "waiting"], [guaranteed, "guaranteed"], [owed, "owed"]].filter(([value]) => value).map(([value, what]) => `, ${amount(name, value)} ${what}`).join("");
  const segment = (kind, value) => value > 0 && html`<span class=${`fill ${kind}`} style=${`left:${left}%;width:${Math.min(100 - left, part(value))}%`}></span>`;
  return html`<div class="bar" title=${text + more}>
    <span class="track" role="img" aria-label=${text + more}><span class="fill" style=${`width:${left}%`}></span>${segment("waiting", pending)}${segment("owed", owed)}
      ${guaranteed > 0 && whole > 0 && html`<span class="mark" style=${`left:${part(guaranteed)}%`}></span>`}</span>
    <span class="figure">${text}</span></div>`;
}

// A bar for each resource, the one that binds first at the top. `of`: {allocated, occupied, pending, guaranteed}.
export function Bars({ of, whole = {}, due = {}, most = Infinity }) {
  return binding(of, whole).slice(0, most).map((name) => html`<${Bar} key=${name} name=${name} used=${((of.allocated || {})[name] || 0) + ((of.occupied || {})[name] || 0)} whole=${whole[name]}
    pending=${(of.pending || {})[name]} guaranteed=${(of.guaranteed || {})[name]} owed=${due[name]} />`);
}

export function Badge({ kind = "", children }) {
  return html`<span class=${`badge ${kind}`}>${children}</span>`;
}

const KINDS = { Running: "good", Schedulable: "good", Active: "good", Completed: "dim", Rejected: "bad", Failed: "bad", Failing: "bad", Stopped: "bad" };
export const StateBadge = ({ state }) => html`<${Badge} kind=${KINDS[state] || "warn"}>${state}</${Badge}>`;

// Facts about one thing: [[name, value]], without those that have no value.
export function Facts({ of }) {
  return html`<dl class="facts">${of.filter(([, value]) => value !== "" && value !== null && value !== undefined && value !== "-")
    .map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

export function Search({ label, text, onText, found, of }) {
  return html`<p class="search"><label>${label} <input type="search" value=${text} placeholder="words" onInput=${(event) => onText(event.target.value)} /></label>
    <span class="dim" role="status"> ${found === of ? number(found) : `${number(found)} of ${number(of)}`}</span></p>`;
}

// Rows in whose `text` every word occurs.
export function matching(rows, words, text) {
  const sought = words.toLowerCase().split(/\s+/).filter(Boolean);
  return sought.length ? rows.filter((row) => { const shown = text(row).toLowerCase(); return sought.every((word) => shown.includes(word)); }) : rows;
}

export function Choice({ label, value, options, onChoice }) {
  return html`<label class="choice">${label} <select value=${value} onChange=${(event) => onChoice(event.target.value)}>
    ${options.map((one) => { const [key, text] = Array.isArray(one) ? one : [one, one]; return html`<option key=${key} value=${key} selected=${key === value}>${text}</option>`; })}</select></label>`;
}

// Sections of a view of which one is shown: the one in the address.
export function Tabs({ label, tabs }) {
  const [name, choose] = useOption(label.toLowerCase(), tabs[0][0]);
  const at = Math.max(0, tabs.findIndex(([one]) => one === name));
  const go = (index) => choose(tabs[index][0]);
  const keys = { ArrowRight: 1, ArrowLeft: -1 };
  const pressed = (event) => {
    if (!(event.key in keys)) return;
    const next = (at + keys[event.key] + tabs.length) % tabs.length;
    go(next);
    event.currentTarget.children[next].focus();
  };
  return html`<div class="tabs" role="tablist" aria-label=${label} onKeyDown=${pressed}>${tabs.map(([name], index) =>
    html`<button role="tab" id=${`tab-${name}`} aria-selected=${index === at} aria-controls="panel" tabindex=${index === at ? 0 : -1} onClick=${() => go(index)}>${name}</button>`)}</div>
    <div role="tabpanel" id="panel" aria-labelledby=${`tab-${tabs[at][0]}`}>${tabs[at][1]()}</div>`;
}

