// Events of all resource managers, as they come.
import { html, useState } from "../html.js";
import { paths } from "../api.js";
import { useEvents } from "../data.js";
import { clock } from "../format.js";
import { List } from "../list.js";
import { Choice, Search, State, matching } from "../parts.js";

const KINDS = ["", "request", "application", "node", "queue", "user and group"];
const CHANGES = ["", "set", "added", "removed"];
const FIRST = 500;

export function Events() {
  const { events, error } = useEvents(paths.events(FIRST));
  const [text, search] = useState("");
  const [kind, choose] = useState("");
  const [held, hold] = useState(null);
  const all = held || events;
  const found = matching(kind ? all.filter((one) => KINDS[one.type] === kind) : all, text, (one) => `${one.objectID} ${one.referenceID || ""} ${one.message || ""}`);
  const columns = [
    { name: "time", cell: (one) => clock(one.timestampNano / 1e6), width: "6.2rem" },
    { name: "of", cell: (one) => KINDS[one.type] || one.type, width: "7.5rem", extra: true },
    { name: "object", cell: (one) => one.objectID },
    { name: "change", cell: (one) => CHANGES[one.eventChangeType] || "", width: "6rem" },
    { name: "reference", cell: (one) => one.referenceID || "", width: "24rem", extra: true },
    { name: "message", cell: (one) => one.message || "", extra: true },
  ];
  return html`<h2>Events <span class="dim small">of all resource managers</span></h2>
    <div class="controls"><${Search} label="Search events" text=${text} onText=${search} found=${found.length} of=${all.length} />
      <${Choice} label="of" value=${kind} options=${[["", "all"], ...KINDS.filter(Boolean).map((one) => [one, one])]} onChoice=${choose} />
      <button aria-pressed=${held !== null} onClick=${() => hold(held ? null : events)}>${held ? "Go on" : "Pause"}</button></div>
    <${State} ready=${true} error=${error} empty=${!all.length && "None yet."} />
    <${List} label="Events" columns=${columns} rows=${found} keyOf=${(one) => one.order} />`;
}
