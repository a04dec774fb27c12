// Who uses what, and what limits it: users, groups, and every limit.
import { html, useEffect, useMemo, useState } from "../html.js";
import { paths } from "../api.js";
import { useRows } from "../data.js";
import { amounts, number, owes, pastShare } from "../format.js";
import { List } from "../list.js";
import { Bar, Search, State, Tabs, matching } from "../parts.js";
import { link, useOption } from "../place.js";
import { binding } from "../shares.js";

const NONE = [];
const isUser = (one) => "user" in one;
const nameOf = (one) => (isUser(one) ? one.user : one.group);
const isLimit = (one) => Object.keys(one.max).length > 0 || one.max_applications > 0;

// How much of its limit is used: the highest share over resources and running applications.
function fullness({ used, max, running_applications: running, max_applications: most }) {
  const shares = Object.entries(max).map(([name, bound]) => (bound ? (used[name] || 0) / bound : 1));
  return Math.max(0, ...shares, most ? running / most : 0);
}

export function Users({ rm }) {
  const { rows = NONE, first, error } = useRows(paths.rm(rm, "usage"));
  const shown = { rm, first, error };
  return html`<h2>Users</h2><${Tabs} label="Kinds" tabs=${[
    ["users", () => html`<${UsageList} ...${shown} label="Users" rows=${rows.filter((one) => isUser(one) && one.queue === "root")} />`],
    ["groups", () => html`<${UsageList} ...${shown} label="Groups" rows=${rows.filter((one) => !isUser(one))} queues=${true} />`],
    ["limits", () => html`<${UsageList} ...${shown} label="Limits" rows=${rows.filter(isLimit)} queues=${true} />`],
    ["by queue", () => html`<${UsageList} ...${shown} label="Usage by queue" rows=${rows} queues=${true} />`],
    ["past", () => html`<${Past} rm=${rm} />`],
  ]} />`;
}

// The view of the ledger is loaded when somebody looks at it.
function Past(properties) {
  const [View, set] = useState(null);
  useEffect(() => { import("../ledger.js").then((module) => set(() => module.Past)); }, []);
  return View ? html`<${View} ...${properties} />` : html`<${State} ready=${false} />`;
}

function UsageList({ rm, label, rows, queues = false, first, error }) {
  const [text, search] = useOption("search");
  const limited = rows.some(isLimit), remembered = rows.some((one) => one.fair_share);
  const found = matching(rows, text, (one) => `${nameOf(one)} ${one.queue}`);
  const columns = useMemo(() => [
    { name: "name", cell: (one) => (isUser(one) ? html`<a href=${link("applications", rm, "", { search: one.user })}>${one.user}</a>` : html`${one.group} <span class="dim">group</span>`), by: nameOf, width: limited || queues ? "min(14rem, 32vw)" : "min(20rem, 50vw)" },
    ...(queues ? [{ name: "queue", cell: (one) => html`<a href=${link("queues", rm, `${one.partition} ${one.queue}`)}>${one.queue}</a>`, by: (one) => one.queue }] : []),
    ...(limited ? [{ name: "of its limit", cell: limit, by: fullness }] : []),
    { name: "used", cell: (one) => amounts(one.used), by: (one) => one.used.vcore || 0, extra: limited ? "wide" : true },
    ...(remembered ? [{ name: "past of due", cell: (one) => html`<span title=${`owes ${owes(one.fair_share)}`}>${pastShare(one.fair_share)}</span>`, by: (one) => (one.fair_share ? one.fair_share.share - one.fair_share.target : -Infinity), width: "7.5rem" }] : []),
    { name: "applications", cell: (one) => number(one.applications), by: (one) => one.applications, width: "7.5rem", extra: true },
    { name: "running", cell: (one) => `${number(one.running_applications)}${one.max_applications ? ` of ${number(one.max_applications)}` : ""}`, by: (one) => one.running_applications, width: "6rem" },
  ], [rm, queues, limited, remembered]);
  return html`<${Search} label="Search" text=${text} onText=${search} found=${found.length} of=${rows.length} />
    <${State} ready=${first} error=${error} empty=${first && !found.length && (label === "Groups" ? "None. Groups are counted where a queue limits them." : "None.")} />
    ${found.length > 0 && html`<${List} label=${label} columns=${columns} rows=${found} keyOf=${(one) => `${one.partition} ${isUser(one)} ${nameOf(one)} ${one.queue}`} rowHeight=${38} />`}`;
}

// The resource of a limit that binds first.
function limit(one) {
  if (!Object.keys(one.max).length) return html`<span class="dim">${one.max_applications ? "" : "no limit"}</span>`;
  const [name] = binding({ allocated: one.used }, one.max);
  return html`<${Bar} name=${name} used=${one.used[name]} whole=${one.max[name]} />`;
}
