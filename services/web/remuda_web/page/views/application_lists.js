// Lists of applications and of allocations, which several views show.
import { html, useMemo } from "../html.js";
import { Actions, releaseAllocation } from "../actions.js";
import { paths } from "../api.js";
import { useRows } from "../data.js";
import { amounts, number, time } from "../format.js";
import { List } from "../list.js";
import { Search, State, StateBadge, matching } from "../parts.js";
import { link, useOption } from "../place.js";

export const NONE = []; // the same one each time, so that nothing is done again for it

export const applicationLink = (rm, id) => html`<a href=${link("applications", rm, id)}>${id}</a>`;

export function ApplicationList({ rm, queue, partition, tall = true }) {
  const { rows = NONE, first, more, error } = useRows(paths.rm(rm, "applications", { queue }));
  const [text, search] = useOption("search");
  const of = useMemo(() => (partition ? rows.filter((one) => one.partition === partition) : rows), [rows, partition]);
  const found = useMemo(() => matching(of, text, (one) => `${one.id} ${one.queue} ${one.user} ${one.state}`), [of, text]);
  const columns = useMemo(() => [
    { name: "application", cell: (one) => applicationLink(rm, one.id), by: (one) => one.id, width: "max(min(15rem, 16vw), min(9rem, 38vw))" },
    { name: "state", cell: (one) => html`<${StateBadge} state=${one.state} />`, by: (one) => one.state, width: "7rem" },
    ...(queue ? [] : [{ name: "queue", cell: (one) => one.queue, by: (one) => one.queue }]),
    { name: "user", cell: (one) => one.user, by: (one) => one.user, width: "7rem", extra: true },
    { name: "used", cell: (one) => amounts(one.allocated), by: (one) => one.allocated.vcore || 0, extra: true },
    { name: "waiting", cell: (one) => (one.asks ? number(one.asks) : "-"), by: (one) => one.asks, width: "5.2rem" },
    { name: "waits for", cell: (one) => (one.asks ? amounts(one.pending) : "-"), by: (one) => one.pending.vcore || 0, extra: true },
    { name: "submitted", cell: (one) => time(one.submitted_ms), by: (one) => one.submitted_ms, width: "6.5rem", extra: true },
  ], [rm, queue]);
  return html`<${Search} label="Search applications" text=${text} onText=${search} found=${found.length} of=${of.length} />
    <${State} ready=${first} error=${error} empty=${first && !found.length && (more ? "None yet, further ones are being read." : "None.")} />
    ${found.length > 0 && html`<${List} label="Applications" columns=${columns} rows=${found} keyOf=${(one) => `${one.partition} ${one.id}`} tall=${tall} />`}`;
}

export function AllocationList({ rm, filter }) {
  const { rows = [], first, error } = useRows(paths.rm(rm, "allocations", filter));
  const columns = useMemo(() => [
    ...(filter.application ? [] : [{ name: "application", cell: (one) => applicationLink(rm, one.application), by: (one) => one.application }]),
    { name: "key", cell: (one) => `${one.key}${one.placeholder ? " (placeholder)" : ""}`, by: (one) => one.key },
    ...(filter.node ? [] : [{ name: "node", cell: (one) => html`<a href=${link("nodes", rm, one.node)}>${one.node}</a>`, by: (one) => one.node }]),
    { name: "resource", cell: (one) => amounts(one.resource), by: (one) => one.resource.vcore || 0, extra: true },
    { name: "since", cell: (one) => time(one.since_ms), by: (one) => one.since_ms, width: "8rem", extra: true },
    { name: "", cell: (one) => html`<${Actions} rm=${rm} actions=${[releaseAllocation(one)]} />`, width: "6rem" },
  ], [rm, filter.application, filter.node]);
  return html`<${State} ready=${first} error=${error} empty=${first && !rows.length && "None."} />
    ${rows.length > 0 && html`<${List} label="Allocations" columns=${columns} rows=${rows} keyOf=${(one) => one.uuid} rowHeight=${38} tall=${false} />`}`;
}
