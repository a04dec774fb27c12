// A chart of values over time, drawn by uPlot in the colours of the page.
import { html, useEffect, useRef, useState } from "./html.js";

const HEIGHT = 220;
const LEFT = 64;
const DAY_S = 86400;
const LEAST_S = 60; // of time on the axis, of a single sample: uPlot takes a day

// The library comes when the first chart is shown: it is larger than the rest of the page.
let loading;
const load = () => Promise.all([import("./vendor/uplot.js"), style(new URL("./vendor/uplot.css", import.meta.url))]);

function style(href) {
  return new Promise((resolve) => {
    document.head.append(Object.assign(document.createElement("link"), { rel: "stylesheet", href, onload: resolve, onerror: resolve }));
  });
}

function useLibrary() {
  const [library, set] = useState(null);
  useEffect(() => { (loading = loading || load()).then(([module]) => set({ uPlot: module.default })); }, []);
  return library && library.uPlot;
}

// `series`: {name, color (a CSS variable, or a colour), fill, dash, values}; `times`: in seconds; `text(value)`. `most`: the
// end of the axis of values; without one, the largest value.
export function Chart({ label, times, series, text, most }) {
  const box = useRef(null), chart = useRef(null);
  const data = [times, ...series.map((one) => one.values)];
  const dark = useDark();
  const uPlot = useLibrary();
  useEffect(() => {
    if (!uPlot) return undefined;
    const of = (name) => colourOf(box.current, name);
    const axis = { stroke: of("--dim"), grid: { stroke: of("--line"), width: 1 }, ticks: { show: false } };
    chart.current = new uPlot({
      width: box.current.clientWidth, height: HEIGHT, cursor: { y: false },
      scales: { x: { range: (plot, low, high) => (plot.data[0].length === 1 ? [low - LEAST_S, low] : [low, high]) }, y: { range: (_, low, high) => [0, most || Math.max(high, 1) * 1.05] } },
      axes: [{ ...axis, values: (plot, at) => at.map(clockOf(plot.data[0])), space: 90 },
        { ...axis, size: LEFT, values: (_, at) => at.map(text) }],
      series: [{ label: "time", value: (plot, at) => (at ? clockOf(plot.data[0])(at) : "-") },
        ...series.map((one) => ({
          label: one.name, stroke: of(one.color), fill: one.fill ? of(one.color).replace("rgb(", "rgba(").replace(")", ", 0.18)") : undefined, dash: one.dash, width: 2,
          points: { show: false }, value: (_, value) => (value === null || value === undefined ? "-" : text(value)),
        }))],
    }, data, box.current);
    const element = box.current; // the reference may be gone before the observer is
    const seen = new ResizeObserver(() => chart.current.setSize({ width: element.clientWidth, height: HEIGHT }));
    seen.observe(element);
    return () => { seen.disconnect(); chart.current.destroy(); };
  }, [series.map((one) => one.name).join(), dark, label, uPlot]);
  useEffect(() => {
    if (!uPlot) return;
    chart.current.setData(data);
    if (chart.current.cursor.left < 0 && times.length) chart.current.setLegend({ idx: times.length - 1 }); // nothing is pointed at: the newest
  });
  const last = series.map((one) => `${one.name} ${one.values.length ? text(one.values.at(-1) ?? 0) : "-"}`).join(", ");
  return html`<div class="chart" ref=${box} role="img" aria-label=${`${label}: now ${last}`}></div>`;
}

// A time on the axis: of day, and with the day where there are several.
function clockOf(times) {
  const several = times.length > 1 && times.at(-1) - times[0] > DAY_S;
  return (at) => (several ? new Date(at * 1000).toLocaleString("en-GB", { day: "2-digit", month: "2-digit", hour: "2-digit", minute: "2-digit" }) : new Date(at * 1000).toLocaleTimeString("en-GB"));
}

// What a variable of the style sheet is in the scheme of now: `rgb(...)`.
function colourOf(element, variable) {
  element.style.color = variable.startsWith("--") ? `var(${variable})` : variable;
  const found = getComputedStyle(element).color;
  element.style.color = "";
  return found;
}

// Whether the scheme is dark. A canvas keeps its colours, so a change of the scheme draws anew.
export function useDark() {
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  const [dark, set] = useState(scheme.matches);
  useEffect(() => {
    const changed = () => set(scheme.matches);
    scheme.addEventListener("change", changed);
    return () => scheme.removeEventListener("change", changed);
  }, []);
  return dark;
}
