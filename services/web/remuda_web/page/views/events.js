// Events of all resource managers, as they come.
import { html, useMemo, useState } from "../html.js";
import { paths } from "../api.js";
import { useData, useEvents } from "../data.js";
import { KINDS, allocationsOnce, objectOf, referenceOf } from "../event_objects.js";
import { amounts, clock, withUnits } from "../format.js";
import { List } from "../list.js";
import { Choice, Search, State, matching } from "../parts.js";
import { link, useOption } from "../place.js";

const CHANGES = ["", "set", "added", "removed"];
const FIRST = 500;

const linked = (rm, place, text) => (place && text ? html`<a href=${link(place[0], rm, place[1])}>${text}</a>` : text || "");

const COLUMNS = [
  { name: "time", cell: (one) => clock(one.timestampNano / 1e6), width: "6.2rem" },
  { name: "RM", cell: (one) => linked(one.rmID, ["system", ""], one.rmID), width: "7rem", extra: true },
  { name: "of", cell: (one) => KINDS[one.type] || one.type, width: "7.5rem", extra: true },
  { name: "object", cell: (one) => linked(one.rmID, objectOf(one), one.objectID), width: "max(min(14rem, 18vw), min(9rem, 38vw))" },
  { name: "change", cell: (one) => CHANGES[one.eventChangeType] || "", width: "6rem" },
  { name: "reference", cell: (one) => (one.node ? html`<span class="inline">${one.key} on ${linked(one.rmID, ["nodes", one.node], one.node)}</span>` : linked(one.rmID, referenceOf(one), one.referenceID)), width: "18rem", extra: "wide" },
  { name: "message", cell: (one) => [amounts(one.amounts, ""), withUnits(one.message || "")].filter(Boolean).join("; "), extra: true },
];

export function Events() {
  const { events, error } = useEvents(paths.events(FIRST));
  const { data } = useData(paths.rms);
  const [rm, chooseRm] = useOption("from");
  const [text, search] = useOption("search");
  const [kind, choose] = useOption("kind");
  const [held, hold] = useState(null);
  const all = held || events;
  const chosen = useMemo(() => allocationsOnce(all.filter((one) => (!kind || KINDS[one.type] === kind) && (!rm || one.rmID === rm))), [all, kind, rm]);
  const found = useMemo(() => matching(chosen, text, (one) => `${one.objectID} ${one.key || ""} ${one.node || ""} ${one.referenceID || ""} ${one.message || ""}`), [chosen, text]);
  return html`<h2>Events <span class="dim small">of all resource managers</span></h2>
    <div class="controls"><${Search} label="Search events" text=${text} onText=${search} found=${found.length} of=${chosen.length} />
      <${Choice} label="from" value=${rm} options=${[["", "all RMs"], ...(data ? data.rms : [])]} onChoice=${chooseRm} />
      <${Choice} label="kind" value=${kind} options=${[["", "all"], ...KINDS.filter(Boolean).map((one) => [one, one])]} onChoice=${choose} />
      <button aria-pressed=${held !== null} onClick=${() => hold(held ? null : events)}>${held ? "Go on" : "Pause"}</button></div>
    <${State} ready=${true} error=${error} empty=${!all.length && "None yet."} />
    <${List} label="Events" columns=${COLUMNS} rows=${found} keyOf=${(one) => one.order} />`;
}
