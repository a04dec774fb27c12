// Reasons to wait as bands of time, changes that would end the wait as bars, and asks that wait alike. Pure but for the
// markup.
import { html } from "./html.js";
import { amount, amounts, clock, duration, withUnits } from "./format.js";

// Asks of one application that want the same and wait for the same, in their order: [[ask, ...], ...].
export function alike(asks) {
  const groups = new Map();
  for (const ask of asks) {
    const key = JSON.stringify([ask.application, ask.partition, ask.resource, ask.priority, ask.constraints.map((by) => by.reason), ask.reason]);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(ask);
  }
  return [...groups.values()];
}

// A track for each reason that an ask has or had: [{name, bands: [{from, until, open}]}]. The longest ago first.
export function reasonTracks(ask, nowMs) {
  const tracks = new Map();
  const add = (by, from, until) => {
    const name = [by.constraint.replaceAll("_", " "), by.where, by.resource].filter(Boolean).join(" ");
    if (!tracks.has(name)) tracks.set(name, { name, bands: [] });
    tracks.get(name).bands.push({ from, until: until || nowMs, open: !until });
  };
  const isCurrent = (by) => ask.constraints.some((one) => one.since_ms > 0 && one.constraint === by.constraint && one.where === by.where && one.resource === by.resource);
  for (const by of ask.history || []) if (by.ended_ms || !isCurrent(by)) add(by, by.since_ms, by.ended_ms);
  for (const by of ask.constraints) if (by.since_ms > 0) add(by, by.since_ms, 0);
  return [...tracks.values()].sort((a, b) => a.bands[0].from - b.bands[0].from);
}

// When an ask waited for what, from when it came until now.
export function ReasonBands({ ask, nowMs }) {
  const tracks = reasonTracks(ask, nowMs);
  if (!tracks.length) return null;
  const from = Math.min(ask.since_ms, ...tracks.flatMap((track) => track.bands.map((band) => band.from))), span = Math.max(1, nowMs - from);
  const percentOf = (ms) => `${(ms / span) * 100}%`;
  const said = (track, band) => `${track.name}: from ${clock(band.from)} for ${duration(band.until - band.from)}${band.open ? ", until now" : ""}`;
  return html`<div class="reason-bands" role="list" aria-label="What it waited for">
    <div class="scale" aria-hidden="true"><span>${clock(from)}</span><span>now</span></div>
    ${tracks.map((track) => html`<div class="track-row" role="listitem" key=${track.name}><span class="track-name" title=${track.name}>${track.name}</span>
      <div class="bands" role="img" aria-label=${track.bands.map((band) => said(track, band)).join("; ")}>${track.bands.map((band) =>
        html`<span class=${`band ${band.open ? "waiting" : "past"}`} title=${said(track, band)} style=${`left:${percentOf(band.from - from)};width:max(3px,${percentOf(band.until - band.from)})`}></span>`)}</div></div>`)}</div>`;
}

// A step of a change: of an amount, how much there is and how much more it takes.
export function Step({ step }) {
  if (!(step.resource && step.after)) return html`<p class="step">${step.capacity && Object.keys(step.capacity).length ? `one more node with ${amounts(step.capacity)}` : withUnits(step.text)}</p>`;
  const what = step.text.split(":")[0];
  const more = amount(step.resource, step.after - step.before), text = `${what}: ${step.resource} ${amount(step.resource, step.before)} → ${amount(step.resource, step.after)}, ${more} more`;
  const kept = Math.min(1, step.before / step.after);
  return html`<p class="step">${text}<span class="track" role="img" aria-label=${`${more} more than ${amount(step.resource, step.before)}`}>
    <span class="fill" style=${`width:${kept * 100}%`}></span><span class="fill more" style=${`left:${kept * 100}%;width:max(3px,${(1 - kept) * 100}%)`}></span></span></p>`;
}
