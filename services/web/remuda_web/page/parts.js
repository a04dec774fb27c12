// Small parts that several views use.
import { html, useState } from "./html.js";
import { amount, ordered } from "./format.js";

// What is shown in place of data: a problem, that it is being asked for, or that there is none.
export function State({ ready, error, empty }) {
  if (error) return html`<p class="problem" role="alert">${error.message}</p>`;
  if (!ready) return html`<p class="dim" role="status">asking …</p>`;
  return empty ? html`<p class="dim">${empty}</p>` : null;
}

// How much of `whole` is used, with a mark where guaranteed is. `limited`: more may be wanted, so a full bar is a warning.
export function Bar({ name, used = 0, whole = 0, guaranteed, limited = false }) {
  const share = whole ? Math.min(1, used / whole) : 0;
  const level = limited && share > 0.97 ? "full" : guaranteed !== undefined && used > guaranteed ? "borrowed" : "";
  const text = `${name} ${amount(name, used)} of ${amount(name, whole)}`;
  const more = guaranteed === undefined ? "" : `, ${amount(name, guaranteed)} guaranteed`;
  return html`<div class="bar" title=${text + more}>
    <span class="track" role="img" aria-label=${text + more}><span class=${`fill ${level}`} style=${`width:${share * 100}%`}></span>
      ${guaranteed !== undefined && whole > 0 && html`<span class="mark" style=${`left:${Math.min(100, (guaranteed / whole) * 100)}%`}></span>`}</span>
    <span class="figure">${text}</span></div>`;
}

export function Bars({ used = {}, whole = {}, guaranteed = {}, limited = false }) {
  return ordered(Object.keys(whole)).map((name) =>
    html`<${Bar} key=${name} name=${name} used=${used[name]} whole=${whole[name]} guaranteed=${guaranteed[name]} limited=${limited} />`);
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
    <span class="dim" role="status"> ${found === of ? found.toLocaleString("en") : `${found.toLocaleString("en")} of ${of.toLocaleString("en")}`}</span></p>`;
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

// Sections of a view of which one is shown.
export function Tabs({ label, tabs }) {
  const [at, go] = useState(0);
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

