// The time line of an application, from its story: a band for each state, and for each ask how long it waited, why, and
// how long its allocations ran. Below it, all facts.
import { html, useState } from "../html.js";
import { now, paths } from "../api.js";
import { useStory } from "../data.js";
import { clock, duration, number, plural, withUnits } from "../format.js";
import { State } from "../parts.js";
import { bandsOf } from "../story.js";

const TRACKS = 60;
const FACTS = 200;
const LINES = 10000;
const KINDS = [["waiting", "waits"], ["running", "allocated"], ["ending", "being released"]];

// `submittedMs`: the story begins then; 0: not known, so the whole log is read.
export function TimeLine({ rm, id, submittedMs = 0 }) {
  const { lines = [], first, more, error } = useStory(paths.story(rm, id, submittedMs || ""), LINES);
  const [chosen, choose] = useState(null);
  if (!first) return html`<${State} ready=${first} error=${error} />`;
  if (!lines.length) return html`<p class="dim">The log has no fact about it.</p>`;
  const { tracks, from, until } = bandsOf(id, lines, now());
  const span = Math.max(1, until - from);
  const at = (ms) => `${((ms - from) / span) * 100}%`;
  return html`<div class="waterfall" role="group" aria-label="Waterfall">
      <div class="scale"><span>${clock(from)}</span><span>${duration(span)}</span><span>${clock(until)}</span></div>
      ${tracks.slice(0, TRACKS).map((track) => html`<div class="track-row" key=${track.name}><span class="track-name" title=${track.name}>${track.name}</span>
        <div class="bands">${track.bands.map((band) => html`<button class=${`band ${band.kind}`} style=${`left:${at(band.from)};width:max(3px,${((band.until - band.from) / span) * 100}%)`}
          title=${label(band)} aria-label=${`${track.name}: ${label(band)}`} onClick=${() => choose({ ...band, track: track.name })}>${band.kind === "state" ? band.text : ""}</button>`)}</div></div>`)}
    </div>
    <p class="legend">${KINDS.map(([kind, text]) => html`<span><span class=${`key ${kind}`}></span>${text}</span>`)}</p>
    ${tracks.length > TRACKS && html`<p class="dim">The first ${TRACKS} of ${number(tracks.length)} asks.</p>`}
    <p role="status">${chosen && html`<strong>${chosen.track}</strong> ${label(chosen)}`}</p>
    <details><summary>${plural(lines.length, "fact")}${more ? ", there are more" : ""}${first.complete || submittedMs > first.kept_since_ms ? "" : ", older ones are deleted"}</summary>
      <ol class="facts-list" tabindex="0">${lines.slice(-FACTS).map((line) => html`<li><time>${clock(line.at_ms)}</time> ${withUnits(line.text)}
        <span class="dim"> ${line.cause}${line.trace_id ? `, trace ${line.trace_id}` : ""}</span></li>`)}</ol></details>`;
}

const label = (band) => `${withUnits(band.text)}, ${clock(band.from)} for ${duration(band.until - band.from)}${band.open ? " until now" : ""}`;
