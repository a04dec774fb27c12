// Racks with their nodes and devices, a canvas each, drawn while it is in sight; a rack that is chosen as a table.
import { html, useEffect, useMemo, useRef, useState } from "./html.js";
import { Chart, useDark } from "./chart.js";
import { paths, shownAt } from "./api.js";
import { useData, useRows } from "./data.js";
import { amount, constraint, number, percent, plural, time } from "./format.js";
import { List } from "./list.js";
import { shade } from "./node_map.js";
import { Choice, State } from "./parts.js";
import { link, useOption } from "./place.js";
import { OTHERS, OTHERS_COLOUR, cellsOf, coloursOf, holdersOf, racksOf } from "./rack_layout.js";

const ALLOCATIONS = 50000; // that are read to tell who is on devices
const TALLEST = 24, ROW = 10; // nodes in a column; pixels of a node
const WAYS = [["use", "use"], ["application", "application"], ["queue", "queue"]];

export function Racks({ rm, nodes }) {
  const [by, choose] = useOption("racks", "use");
  const [chosen, pick] = useOption("rack");
  const [pointed, point] = useState("");
  const { data: told, error } = useData(paths.rm(rm, "topology"));
  const allocations = useRows(by === "use" && !chosen ? null : paths.rm(rm, "allocations"), ALLOCATIONS);
  const applications = useRows(by === "queue" ? paths.rm(rm, "applications") : null);
  const racks = useMemo(() => racksOf(nodes), [nodes]);
  const holders = useMemo(() => {
    const queueOf = new Map((applications.rows || []).map((one) => [`${one.partition} ${one.id}`, one.queue]));
    return holdersOf(nodes, allocations.rows || [], by === "queue" ? (one) => queueOf.get(`${one.partition} ${one.application}`) || "(unknown)" : (one) => one.application);
  }, [nodes, allocations.rows, applications.rows, by]);
  const colours = useMemo(() => (by === "use" ? null : coloursOf(nodes, holders)), [nodes, holders, by]);
  const one = racks.find((rack) => rack.key === chosen);
  return html`<div class="controls"><${Choice} label="Colour devices by" value=${by} options=${WAYS} onChoice=${choose} /></div>
    <${State} ready=${told} error=${error || allocations.error || applications.error} />
    ${told && told.partitions.map((partition) => html`<${Devices} rm=${rm} partition=${partition} all=${told.rows.find((row) => row.partition === partition.name && !row.path.length)} />`)}
    <${Legend} colours=${colours} /><p class="pointed" role="status">${pointed}</p>
    <div class="racks">${racks.map((rack) => html`<${Rack} key=${rack.key} rack=${rack} holders=${holders} colours=${colours} isChosen=${rack === one} onChoice=${() => pick(rack === one ? "" : rack.key)} onPoint=${point} rm=${rm} />`)}</div>
    ${one && html`<h3>${one.path.join("/") || one.name}</h3><${NodesOfRack} rm=${rm} rack=${one} holders=${holders} />`}
    ${allocations.more && html`<p class="dim">From ${plural(allocations.rows.length, "allocation")}; there are more.</p>`}
    ${told && html`<${Waiting} rm=${rm} partitions=${told.partitions} />`}`;
}

// What is free on devices, and what of it nobody can use.
function Devices({ rm, partition, all }) {
  if (!all) return null;
  const counts = partition.levels.map(({ level }) => level).join(" › ");
  return html`${all.devices.map((one) => {
    const unit = one.devices ? one.capacity / one.devices : 1;
    return html`<p class="counts"><span><strong>${number(one.used)}</strong> <span class="dim">of ${plural(one.devices, `${one.resource} device`)}</span> in use</span>
      <span><strong>${amount("", one.free / unit)}</strong> free, ${number(one.whole)} whole</span>
      <span><strong>${amount("", one.fragments / unit)}</strong> that no waiting or common ask can use</span>
      ${one.unfit > 0 && html`<span><strong>${number(one.unfit)}</strong> unfit</span>`}</p>
      ${!shownAt() && html`<${History} rm=${rm} partition=${partition.name} resource=${one.resource} unit=${unit} />`}`;
  })}<p class="counts"><span><strong>${number(all.empty)}</strong> <span class="dim">of ${plural(all.nodes, "node")}</span> empty</span>${counts && html`<span class="dim">${counts}</span>`}</p>`;
}

const HISTORY_EVERY_MS = 10000; // as samples are taken
const LINES = [
  { amount: "free", name: "free", color: "--used" }, { amount: "whole", name: "whole", color: "--mark", dash: [6, 4] },
  { amount: "fragments", name: "useless", color: "--waiting-line", fill: true },
];

// In devices, over the last day.
function History({ rm, partition, resource, unit }) {
  const [shown, show] = useOption("history");
  const isOpen = shown === "open";
  const { data, error } = useData(isOpen ? paths.deviceHistory(rm, partition) : null, HISTORY_EVERY_MS);
  const kept = (data && data.resources[resource]) || {};
  const series = LINES.map((line) => ({ ...line, values: (kept[line.amount] || []).map((value) => (value === null ? null : value / unit)) })).filter((one) => one.values.length);
  return html`<details open=${isOpen} onToggle=${(event) => show(event.target.open ? "open" : "")}><summary>History of ${resource}</summary>
    <${State} ready=${data} error=${error} empty=${data && !series.length && "No samples yet."} />
    ${isOpen && series.length > 0 && html`<${Chart} label=${`${resource} devices of ${partition}`} times=${data.times.map((ms) => ms / 1000)} series=${series} text=${(value) => amount("", value)} />`}</details>`;
}

function Legend({ colours }) {
  const dark = useDark();
  return html`<p class="legend">${colours ? [...colours].map(([name, { colour, devices }]) => html`<span><span class="key" style=${`background:${colour}`}></span>${name} <span class="dim">${amount("", devices)}</span></span>`)
    : html`<span class="ramp" style=${`background:linear-gradient(to right, ${[0, 0.5, 1].map((share) => shade(share, dark)).join(", ")})`}></span> 0 to 100 % used`}<span><span class="key crossed"></span>takes nothing new</span></p>`;
}

function Rack({ rack, holders, colours, isChosen, onChoice, onPoint, rm }) {
  const canvas = useRef(null), dark = useDark();
  const [width, setWidth] = useState(0), [inSight, see] = useState(false);
  const layout = useMemo(() => rack.nodes.map((node) => ({ node, cells: cellsOf(node) })), [rack.nodes]);
  const columns = Math.ceil(layout.length / TALLEST), rows = Math.ceil(layout.length / columns);
  const cells = layout.flatMap((one) => one.cells), inUse = cells.filter((one) => one.used > 0).length;
  const most = Math.max(...layout.map((one) => one.cells.length));

  useEffect(() => {
    const around = canvas.current.parentElement; // the reference may be gone before the observers are
    const sized = new ResizeObserver(() => setWidth(around.clientWidth)), seen = new IntersectionObserver(([one]) => see(one.isIntersecting), { rootMargin: "400px" });
    sized.observe(around);
    seen.observe(around);
    return () => { sized.disconnect(); seen.disconnect(); };
  }, []);
  const wide = width / columns, cell = (wide - 4) / most;
  useEffect(() => {
    if (!width || !inSight) return;
    const ratio = devicePixelRatio || 1;
    canvas.current.width = width * ratio;
    canvas.current.height = rows * ROW * ratio;
    const pen = canvas.current.getContext("2d");
    pen.scale(ratio, ratio);
    layout.forEach(({ node, cells }, index) => cells.forEach((one, at) => {
      const left = Math.floor(index / rows) * wide + at * cell, top = (index % rows) * ROW;
      draw(pen, { left, top, width: Math.max(1, cell - 1), height: ROW - 2 }, one, colours && holders(node, one), colours, dark);
    }));
  }, [layout, colours, holders, width, inSight, dark]);

  const under = (event) => {
    const column = Math.floor(event.offsetX / wide), index = column * rows + Math.floor(event.offsetY / ROW), found = layout[index];
    const one = found && found.cells[Math.floor((event.offsetX - column * wide) / cell)];
    return one ? `${found.node.id}${one.name && `, ${one.resource} ${one.name}`}: ${percent(one.used)} used${one.unfit ? ", takes nothing new" : ""}${holders(found.node, one).map(({ name }) => `, ${name}`).join("")}` : "";
  };
  const text = `${rack.path.join("/") || rack.name}: ${plural(rack.nodes.length, "node")}, ${number(inUse)} of ${plural(cells.length, most > 1 ? "device" : "cell")} in use`;
  return html`<section class=${`rack ${isChosen ? "chosen" : ""}`}><h4><button class="link" aria-expanded=${isChosen} onClick=${onChoice}>${rack.name}</button> <span class="dim small">${rack.above} ${number(inUse)}/${number(cells.length)}</span></h4>
    <div><canvas ref=${canvas} role="img" aria-label=${text} style=${`width:${width}px;height:${rows * ROW}px`} onMouseMove=${(event) => onPoint(under(event))} onMouseLeave=${() => onPoint("")} onClick=${onChoice}></canvas></div></section>`;
}

// One cell: by its use as one colour, or what each holder has of it beside each other.
function draw(pen, { left, top, width, height }, cell, holders, colours, dark) {
  pen.fillStyle = shade(colours ? 0 : cell.used, dark);
  pen.fillRect(left, top, width, height);
  let from = left;
  for (const { name, share } of holders || []) {
    const part = Math.min(left + width - from, width * (share || cell.used / holders.length));
    pen.fillStyle = (colours.get(name) || colours.get(OTHERS) || { colour: OTHERS_COLOUR }).colour;
    pen.fillRect(from, top, Math.max(0, part), height);
    from += part;
  }
  if (colours && from < left + width * cell.used - 0.5) { // others use it, or who does is not read yet
    pen.fillStyle = OTHERS_COLOUR;
    pen.fillRect(from, top, left + width * cell.used - from, height);
  }
  if (!cell.unfit) return;
  pen.strokeStyle = dark ? "#ffb27a" : "#9a4600";
  pen.beginPath();
  pen.moveTo(left, top);
  pen.lineTo(left + width, top + height);
  pen.moveTo(left + width, top);
  pen.lineTo(left, top + height);
  pen.stroke();
}

function NodesOfRack({ rm, rack, holders }) {
  const columns = useMemo(() => {
    const names = (node) => [...new Set(cellsOf(node).flatMap((cell) => holders(node, cell).map(({ name }) => name)))];
    return [
      { name: "node", cell: (one) => html`<a href=${link("nodes", rm, one.id)}>${one.id}</a>`, by: (one) => one.id, width: "40%" },
      { name: "in use", cell: (one) => { const cells = cellsOf(one); return `${number(cells.filter((cell) => cell.used > 0).length)} of ${number(cells.length)}`; }, by: (one) => cellsOf(one).filter((cell) => cell.used > 0).length, width: "6rem" },
      { name: "who", cell: (one) => names(one).join(", ") || "nobody", by: (one) => names(one).join() },
      { name: "state", cell: (one) => one.status, by: (one) => one.status, width: "8rem", extra: true },
    ];
  }, [rm, holders]);
  return html`<${List} label=${`Nodes of ${rack.name}`} columns=${columns} rows=${rack.nodes} keyOf=${(one) => one.id} tall=${false} />`;
}

function Waiting({ rm, partitions }) {
  const rows = partitions.flatMap((one) => one.waiting), count = partitions.reduce((sum, one) => sum + one.waiting_count, 0);
  if (!count) return null;
  const wish = (one) => ["required", "preferred", "spread", "slice"].filter((name) => one[name]).map((name) => `${name} ${one[name]}`).join(", ");
  return html`<h3>Groups that wait <span class="dim">${number(count)}</span></h3><ul class="feed">${rows.map((one) => html`<li><time>${time(one.since_ms)}</time>
    <span><a href=${link("applications", rm, one.application)}>${one.application}</a>${one.group && one.group !== one.application && `/${one.group}`}: ${number(one.waiting)} wait${one.placed ? `, ${number(one.placed)} placed` : ""}${one.domain.length ? ` in ${one.domain.join("/")}` : ""}
    <span class="dim"> ${wish(one)}${one.waits_for && one.waits_for.length ? `; ${constraint(one.waits_for[0])}` : ""}${one.avoided && one.avoided.length ? `; others avoid ${one.avoided.join("/")}` : ""}</span></span></li>`)}</ul>`;
}
