// The past: the slider that chooses the moment that views show, where a service answers from an archive.
import { html, useState } from "./html.js";
import { paths, showAt, shownAt } from "./api.js";
import { useData } from "./data.js";
import { time } from "./format.js";
import { here, link } from "./place.js";

// A step of the slider is a minute, of a short past less. Both ends are steps.
const STEP_MS = 60000;
const LEAST_STEPS = 100;
const SPAN_EVERY_MS = 60000;

function goTo(ms) {
  const { view, rm, item, options } = here();
  showAt(ms);
  location.hash = link(view, rm, item, { ...options, at: ms ? new Date(ms).toISOString() : "" });
}

// {since_ms, until_ms} of what can be shown; null: nothing, because there is no archive.
export function usePast(rm) {
  const { data } = useData(rm ? paths.past(rm) : null, SPAN_EVERY_MS);
  return data && data.last_seq ? data : null;
}

export function Past({ rm }) {
  const data = usePast(rm);
  const [open, turn] = useState(false);
  const [moved, move] = useState(0);
  const at = shownAt();
  if (!at && (!data || !open)) return data ? html`<p class="past"><button onClick=${() => turn(true)}>Look back</button></p>` : null;
  const since = data ? data.since_ms : at, until = data ? data.until_ms : at;
  const step = (until - since) / Math.max(LEAST_STEPS, Math.round((until - since) / STEP_MS)) || 1;
  const shown = Math.min(until, Math.max(since, moved || at || until));
  const choose = (event) => { move(0); goTo(Math.max(data.since_ms, Math.min(Number(event.target.value), data.until_ms))); };
  const close = () => { turn(false); move(0); goTo(0); };
  return html`<section class=${`past ${at ? "then" : ""}`} aria-label="The past"><label for="moment">${at ? html`<strong>As it was at ${time(moved || at)}</strong>` : `Show ${time(shown)}`}</label>
    ${data && html`<span class="dim small">${time(since)}</span><input id="moment" type="range" min=${since} max=${until} step=${step} value=${shown} aria-valuetext=${time(shown)}
      onInput=${(event) => move(Number(event.target.value))} onChange=${choose} /><span class="dim small">${time(until)}</span>`}
    <button onClick=${close}>Now</button></section>`;
}
