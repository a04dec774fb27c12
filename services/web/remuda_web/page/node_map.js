// A map of nodes: a square each, on a canvas, for any number of nodes. The arrow keys move, Enter opens a node.
import { html, useEffect, useMemo, useRef, useState } from "./html.js";
import { useDark } from "./chart.js";
import { amount, number, percent, plural } from "./format.js";
import { groupsOf } from "./node_colours.js";

const LARGEST = 30, SMALLEST = 5, HEIGHT = 320; // pixels

export function NodeMap({ nodes, colouring, onOpen }) {
  const canvas = useRef(null);
  const [width, setWidth] = useState(0);
  const [at, point] = useState(-1);
  const dark = useDark();
  const groups = useMemo(() => (colouring.isShare ? null : groupsOf(nodes, colouring)), [nodes, colouring]);
  const size = Math.max(SMALLEST, Math.min(LARGEST, Math.floor(Math.sqrt((Math.max(width, 1) * HEIGHT) / Math.max(1, nodes.length)))));
  const perRow = Math.max(1, Math.floor(width / size)), rows = Math.ceil(nodes.length / perRow);

  useEffect(() => {
    const around = canvas.current.parentElement; // the reference may be gone before the observer is
    const seen = new ResizeObserver(() => setWidth(around.clientWidth));
    seen.observe(around);
    return () => seen.disconnect();
  }, []);
  useEffect(() => {
    if (!width) return;
    const ratio = devicePixelRatio || 1;
    canvas.current.width = width * ratio;
    canvas.current.height = rows * size * ratio;
    const pen = canvas.current.getContext("2d");
    pen.scale(ratio, ratio);
    const gap = size > 10 ? 2 : 1;
    nodes.forEach((node, index) => {
      const value = colouring.of(node);
      pen.fillStyle = groups ? groups.get(value).colour : shade(value, dark);
      pen.fillRect((index % perRow) * size, Math.floor(index / perRow) * size, size - gap, size - gap);
    });
  }, [nodes, colouring, width, dark]);

  const under = (event) => {
    const column = Math.floor(event.offsetX / size), index = Math.floor(event.offsetY / size) * perRow + column;
    return column < perRow && index < nodes.length ? index : -1;
  };
  const pressed = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: perRow, ArrowUp: -perRow }[event.key];
    if (event.key === "Enter" && nodes[at]) onOpen(nodes[at]);
    if (!step) return;
    event.preventDefault();
    point(Math.max(0, Math.min(nodes.length - 1, at + step)));
  };
  const shown = nodes[at];
  const text = shown ? `${shown.id}: ${colouring.isShare ? shareText(colouring, shown) : colouring.of(shown)}, ${shown.status}, ${plural(shown.allocations, "allocation")}` : "";
  return html`<div class="map"><canvas ref=${canvas} tabindex="0" role="img" aria-label=${`Map of ${number(nodes.length)} nodes by ${colouring.name}. Arrow keys move, Enter opens a node.`}
      style=${`width:${width}px;height:${rows * size}px`} onMouseMove=${(event) => point(under(event))} onMouseLeave=${() => point(-1)}
      onClick=${(event) => { const index = under(event); if (index >= 0) onOpen(nodes[index]); }} onKeyDown=${pressed}></canvas>
    ${shown && html`<span class="at" style=${`width:${size}px;height:${size}px;transform:translate(${(at % perRow) * size}px,${Math.floor(at / perRow) * size}px)`}></span>`}
    <p class="legend">${groups ? [...groups].slice(0, 12).map(([name, { count, colour }]) => html`<span><span class="key" style=${`background:${colour}`}></span>${name} <span class="dim">${number(count)}</span></span>`)
      : html`<span class="ramp" style=${`background:linear-gradient(to right, ${[0, 0.25, 0.5, 0.75, 1].map((share) => shade(share, dark)).join(", ")})`}></span> 0 to 100 % used${colouring.resource && nodes.some((node) => colouring.of(node) === null) && html`<span><span class="key" style=${`background:${shade(null, dark)}`}></span>no ${colouring.resource}</span>`}`}</p>
    <p class="pointed" role="status">${text}</p></div>`;
}

function shareText({ resource, of }, node) {
  const share = of(node);
  return share === null ? `no ${resource}` : resource ? `${amount(resource, node.capacity[resource] - Math.max(0, node.available[resource] || 0))} of ${resource} ${amount(resource, node.capacity[resource])} used` : `${percent(share)} used`;
}

// Of one hue, away from the background: lightness orders the shares for every eye.
export function shade(share, dark) {
  if (share === null) return dark ? "#23282d" : "#f0f2f4";
  const full = Math.max(0, Math.min(1, share));
  return dark ? `hsl(212, ${35 + 45 * full}%, ${22 + 50 * full}%)` : `hsl(212, ${45 + 35 * full}%, ${91 - 58 * full}%)`;
}
