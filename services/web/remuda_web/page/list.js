// A table of any number of rows, of which only those in sight are in the document.
import { Component, html, useEffect, useMemo, useRef, useState } from "./html.js";

const SPARE = 8; // rows above and below those in sight
const STEP = 4; // rows by which the window moves, so that not every frame of scrolling renders

// `columns`: {name, cell(row), by(row), width, extra}. `by`: the value that the column is sorted by. `width`: of CSS;
// without one, columns share what is left. `extra`: not shown on narrow screens; "wide": only on wide ones.
// `rowHeight`: in pixels. A row is rendered again only when it or the columns changed, so columns are kept between renders.
export function List({ label, columns, rows, keyOf, rowHeight = 34, tall = true }) {
  const box = useRef(null);
  const [first, setFirst] = useState(0);
  const [height, setHeight] = useState(800);
  const [order, setOrder] = useState({ column: null, down: false });

  useEffect(() => {
    const element = box.current; // the reference may be gone before the observer is
    const seen = new ResizeObserver(() => setHeight(element.clientHeight));
    seen.observe(element);
    return () => seen.disconnect();
  }, []);
  const sorted = useMemo(() => (order.column === null ? rows : inOrder(rows, columns[order.column].by, order.down)), [rows, order]);
  const from = Math.max(0, Math.min(first, sorted.length - 1) - SPARE);
  const until = Math.min(sorted.length, first + STEP + Math.ceil(height / rowHeight) + SPARE);
  const scrolled = () => setFirst(Math.floor(box.current.scrollTop / rowHeight / STEP) * STEP);
  const turn = (column) => setOrder((before) => ({ column, down: before.column === column && !before.down }));

  return html`<div class=${`list ${tall ? "tall" : ""}`} ref=${box} tabindex="0" role="region" aria-label=${label} onScroll=${scrolled}>
    <table aria-rowcount=${sorted.length + 1}>
      <thead><tr>${columns.map((one, index) => html`<th scope="col" class=${classOf(one)} style=${one.width ? `width:${one.width}` : ""}
        aria-sort=${order.column === index ? (order.down ? "descending" : "ascending") : null}>
        ${one.by ? html`<button class="head" onClick=${() => turn(index)}>${one.name}${order.column === index ? (order.down ? " ▾" : " ▴") : ""}</button>` : one.name}</th>`)}</tr></thead>
      <tbody>
        ${from > 0 && html`<tr class="filler" key="above" aria-hidden="true" style=${`height:${from * rowHeight}px`}></tr>`}
        ${sorted.slice(from, until).map((row, index) => html`<${Row} key=${keyOf(row)} row=${row} columns=${columns} index=${from + index} height=${rowHeight} />`)}
        ${until < sorted.length && html`<tr class="filler" key="below" aria-hidden="true" style=${`height:${(sorted.length - until) * rowHeight}px`}></tr>`}
      </tbody></table></div>`;
}

const classOf = ({ extra }) => (extra === "wide" ? "extra wide" : extra ? "extra" : "");

class Row extends Component {
  shouldComponentUpdate({ row, columns, index }) {
    const shown = this.props;
    return columns !== shown.columns || index !== shown.index || (row !== shown.row && JSON.stringify(row) !== JSON.stringify(shown.row));
  }

  render({ row, columns, index, height }) {
    return html`<tr aria-rowindex=${index + 2} style=${`height:${height}px`}>${columns.map((one) => html`<${Cell} column=${one} value=${one.cell(row)} />`)}</tr>`;
  }
}

// Text that is cut off is shown in full under the pointer.
function Cell({ column, value }) {
  return html`<td class=${classOf(column)} title=${typeof value === "string" ? value : null}>${value}</td>`;
}

const NAMES = new Intl.Collator("en", { numeric: true });

function inOrder(rows, by, down) {
  const sign = down ? -1 : 1;
  return rows.map((row) => [by(row), row]).sort(([a], [b]) => sign * (typeof a === "number" ? a - b : NAMES.compare(a, b))).map(([, row]) => row);
}
