// The map of nodes with a list, and one node with its allocations.
import { html, useEffect, useMemo, useState } from "../html.js";
import { Actions, drainNode } from "../actions.js";
import { paths } from "../api.js";
import { useRows } from "../data.js";
import { amount, amounts, number, plural, time } from "../format.js";
import { List } from "../list.js";
import { NodeMap } from "../node_map.js";
import { colourings, queuesOfNodes, resourcesOf, shareOf, used } from "../node_colours.js";
import { Bar, Bars, Choice, Facts, Search, State, StateBadge, matching } from "../parts.js";
import { go, link, useOption } from "../place.js";

// Allocations that are read to colour nodes by queue.
const ALLOCATIONS = 50000;
const BARS = 4; // of a node
const FREE = 8; // resources whose sums are shown

export function Nodes({ rm, item }) {
  const { rows = [], first, more, error } = useRows(paths.rm(rm, "nodes"));
  if (item) return html`<${Node} rm=${rm} id=${item} rows=${rows} ready=${first && !more} error=${error} />`;
  return html`<h2>Nodes</h2><${State} ready=${first} error=${error} empty=${first && !rows.length && "None."} />
    ${rows.length > 0 && html`<${Overview} rm=${rm} rows=${rows} />`}${first && !more && html`<${Windows} rm=${rm} />`}`;
}

const ofWindow = { maintenance: () => "maintenance", kept: (one) => `kept for ${one.queue}`, settings: (one) => `settings of ${one.queues.join(", ")}` };
const WINDOW_COLUMNS = [
  { name: "window", cell: (one) => one.name, by: (one) => one.name },
  { name: "what", cell: (one) => ofWindow[one.kind](one), by: (one) => one.kind },
  { name: "state", cell: (one) => `${one.open ? "open" : one.until_ms ? "ahead" : "over"}${one.weekly ? ", weekly" : ""}`, by: (one) => one.open, width: "8.2rem" },
  { name: "from", cell: (one) => (one.until_ms ? time(one.from_ms) : ""), by: (one) => one.from_ms },
  { name: "until", cell: (one) => (one.until_ms ? time(one.until_ms) : ""), by: (one) => one.until_ms, extra: true },
  { name: "nodes", cell: (one) => (one.kind === "settings" ? "" : number(one.nodes)), by: (one) => one.nodes, width: "5rem", extra: true },
  { name: "running there", cell: (one) => (one.kind === "settings" ? "" : number(one.running)), by: (one) => one.running, width: "7rem", extra: true },
];

// The windows of the calendar, where there is one.
function Windows({ rm }) {
  const { rows = [] } = useRows(paths.rm(rm, "windows"));
  return rows.length > 0 && html`<h3>Windows</h3><${List} label="Windows" columns=${WINDOW_COLUMNS} rows=${rows} keyOf=${(one) => `${one.partition} ${one.name}`} tall=${false} />`;
}

function Overview({ rm, rows }) {
  const [by, choose] = useOption("colour");
  const [text, search] = useOption("search");
  const [as, show] = useOption("show", "map");
  const found = useMemo(() => matching(rows, text, (one) => `${one.id} ${one.status} ${Object.entries(one.attributes).flat().join(" ")}`), [rows, text]);
  const known = useMemo(() => colourings(rows), [rows]);
  const colouring = known.find((one) => one.key === by) || known[0];
  const open = (node) => go("nodes", rm, node.id);
  // The resource that colours the map has the first bar, then the one of which most is used: narrow screens show few.
  const resources = useMemo(() => {
    const usedOf = Object.fromEntries(resourcesOf(rows).map((name) => [name, shareOfAll(rows, name)]));
    return Object.keys(usedOf).sort((a, b) => (b === colouring.resource) - (a === colouring.resource) || usedOf[b] - usedOf[a]);
  }, [rows.length, colouring.key]);
  const columns = useMemo(() => [
    { name: "node", cell: (one) => html`<a href=${link("nodes", rm, one.id)}>${one.id}</a>`, by: (one) => one.id, width: "min(18rem, 40%)" },
    { name: "state", cell: (one) => html`<${StateBadge} state=${one.status} />`, by: (one) => one.status, width: "8.2rem" },
    ...resources.slice(0, BARS).map((name, index) => ({
      name, extra: index ? (index > 1 ? "wide" : true) : undefined, by: (one) => shareOf(one, name) ?? -1,
      cell: (one) => (one.capacity[name] ? html`<${Bar} name=${name} used=${used(one)[name]} whole=${one.capacity[name]} />` : html`<span class="dim">none</span>`),
    })),
    { name: "allocations", cell: (one) => number(one.allocations), by: (one) => one.allocations, width: "6.8rem", extra: true },
    { name: "reserved for", cell: (one) => (one.reserved_for ? `${one.reserved_for.application}/${one.reserved_for.key}` : ""), extra: "wide" },
  ], [rm, resources]);
  const hasRacks = rows.some((one) => one.domain || one.devices), isMap = as === "map" || !hasRacks;
  return html`<div class="controls">${hasRacks && html`<${Choice} label="Show" value=${as} options=${[["map", "map"], ["racks", "racks"]]} onChoice=${show} />`}
      ${isMap && html`<${Choice} label="Colour by" value=${colouring.key} options=${known.map((one) => [one.key, one.name])} onChoice=${choose} />`}
      <${Search} label="Search nodes" text=${text} onText=${search} found=${found.length} of=${rows.length} /></div>
    ${!isMap ? html`<${Racks} rm=${rm} nodes=${found} />` : html`<${Free} nodes=${found} resources=${resources} />
    ${colouring.key === "queue" ? html`<${MapByQueue} rm=${rm} nodes=${found} onOpen=${open} />` : html`<${NodeMap} nodes=${found} colouring=${colouring} onOpen=${open} />`}
    <${List} label="Nodes" columns=${columns} rows=${found} keyOf=${(one) => `${one.partition} ${one.id}`} rowHeight=${38} />`}`;
}

// A component that is loaded when somebody looks at it.
const later = (load) => (properties) => {
  const [{ View, error }, set] = useState({});
  useEffect(() => { load().then((View) => set({ View }), (error) => set({ error })); }, []);
  return View ? html`<${View} ...${properties} />` : html`<${State} ready=${false} error=${error} />`;
};
const Racks = later(() => import("../racks.js").then((module) => module.Racks));
const AllocationList = later(() => import("./application_lists.js").then((module) => module.AllocationList));

// What is free on each device, such as `GPU-a 0.5, GPU-b unfit`.
const devicesText = ({ unit, names, free, unfit }) => names.map((name, at) => `${name} ${unfit.includes(name) ? "unfit" : free[at] >= unit ? "free" : free[at] <= 0 ? "full" : `${Math.round((100 * free[at]) / unit)} % free`}`).join(", ");

function shareOfAll(nodes, name) {
  const [taken, whole] = nodes.reduce(([taken, whole], one) => [taken + (used(one)[name] || 0), whole + (one.capacity[name] || 0)], [0, 0]);
  return whole ? taken / whole : 0;
}

// What the nodes in sight have free together, of each resource.
function Free({ nodes, resources }) {
  const sums = useMemo(() => resources.slice(0, FREE).map((name) => nodes.reduce(([free, whole], one) => [free + Math.max(0, one.available[name] || 0), whole + (one.capacity[name] || 0)], [0, 0])), [nodes, resources]);
  return html`<p class="counts">${resources.slice(0, FREE).map((name, index) => html`<span><strong>${amount(name, sums[index][0])}</strong> <span class="dim">of ${amount(name, sums[index][1])}</span> ${name} free</span>`)}</p>`;
}

function MapByQueue({ rm, nodes, onOpen }) {
  const allocations = useRows(paths.rm(rm, "allocations"), ALLOCATIONS), applications = useRows(paths.rm(rm, "applications"));
  const colouring = useMemo(() => queuesOfNodes(allocations.rows || [], applications.rows || []), [allocations.rows, applications.rows]);
  return html`<${State} ready=${allocations.first && applications.first} error=${allocations.error || applications.error} />
    <${NodeMap} nodes=${nodes} colouring=${colouring} onOpen=${onOpen} />
    ${allocations.more && html`<p class="dim">From ${plural(allocations.rows.length, "allocation")}; there are more.</p>`}`;
}

function Node({ rm, id, rows, ready, error }) {
  const one = rows.find((row) => row.id === id);
  return html`<nav class="crumbs" aria-label="Above"><a href=${link("nodes", rm)}>nodes</a></nav><h2>${id} ${one && html`<${StateBadge} state=${one.status} />`}</h2>
    <${State} ready=${ready || one} error=${error} empty=${ready && !one && "There is no such node now."} />
    ${one && html`<${Actions} rm=${rm} actions=${[drainNode(one)]} /><${Bars} of=${one} whole=${one.capacity} />
      <${Facts} of=${[
        ["domain", (one.domain || []).join("/")], ...(one.devices || []).map((it) => [`devices of ${it.resource}`, devicesText(it)]),
        ["allocated", amounts(one.allocated)], ["occupied", amounts(one.occupied)], ["available", amounts(one.available)],
        ["in windows", (one.windows || []).join(", ")],
        ["drained from", one.leaving ? `${time(one.leaving.at_ms)} on${one.leaving.operator && `, by ${one.leaving.operator}`}${one.leaving.window && `, by window ${one.leaving.window}`}${one.leaving.reason && `: ${one.leaving.reason}`}` : ""],
        ["reserved for", one.reserved_for ? `${one.reserved_for.application}/${one.reserved_for.key}` : ""],
        ...(one.rejected || []).map((it) => ["occupied by", `${it.application_id}/${it.allocation_key}: ${it.reason}`]), ...Object.entries(one.attributes),
      ]} />
      <h3>Allocations</h3><${AllocationList} rm=${rm} filter=${{ node: id }} />`}`;
}
