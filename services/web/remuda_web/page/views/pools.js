// The tree of pools of Peloton's resource manager. Its amounts are in cores, devices and MB.
import { html, useState } from "../html.js";
import { paths } from "../api.js";
import { useRows } from "../data.js";
import { amount, number } from "../format.js";
import { List } from "../list.js";
import { Badge, Bar, Choice, Search, State, matching } from "../parts.js";
import { PoolForm, PoolsText } from "../pool_forms.js";
import { fullest } from "../shares.js";

const PAGES = { rows: "pools", next: "next", after: "after", everyMs: 2000, few: "" };
const CLUSTER = "default";
// To the units of `format`.
const UNITS = { memory: ["memory", 2 ** 20], disk: ["disk MB", 1] };

const inUnits = (of) => Object.fromEntries(Object.entries(of).map(([kind, value]) => {
  const [name, times] = UNITS[kind] || [kind, 1];
  return [name, value * times];
}));
const plus = (a, b) => Object.fromEntries(Object.keys(a).map((kind) => [kind, a[kind] + b[kind]]));
const listed = (of) => Object.entries(of).filter(([, value]) => value).map(([name, value]) => `${name} ${amount(name, value)}`).join(", ") || "-";

function shown(pool) {
  const of = (field) => inUnits(Object.fromEntries(Object.entries(pool.resources).map(([kind, one]) => [kind, one[field]])));
  const names = pool.path.split("/").filter(Boolean);
  return {
    pool, name: names[names.length - 1] || "root", depth: names.length, order: names.join("\0"),
    reservation: of("reservation"), limit: of("limit"), entitlement: inUnits(pool.entitlement), held: inUnits(pool.allocation),
    demand: inUnits(plus(pool.demand, pool.slack_demand)), waiting: Object.values(pool.queues).reduce((sum, gangs) => sum + gangs, 0),
  };
}

export function Pools({ item }) {
  const cluster = item || CLUSTER;
  const { rows = [], first, more, error } = useRows(paths.pelotonPools(cluster), undefined, PAGES);
  const [text, search] = useState("");
  const [chosen, choose] = useState("");
  const [form, open] = useState(null); // {pool} to change, or {above} of a new one
  const [done, setDone] = useState("");
  const close = (text = "") => { open(null); setDone(text); };
  const all = rows.map(shown).sort((a, b) => (a.order < b.order ? -1 : 1));
  const found = matching(all, text, ({ pool }) => `${pool.path} ${pool.owning_team} ${pool.description}`);
  const of = (some) => listed(chosen ? { [chosen]: some[chosen] } : some);
  const bar = ({ held, limit, reservation }) => {
    const name = chosen || fullest(held, limit).name;
    return html`<${Bar} name=${name} used=${held[name]} whole=${limit[name]} guaranteed=${reservation[name]} />`;
  };
  const columns = [
    { name: "pool", cell: ({ pool, name, depth }) => html`<span class="node" style=${`padding-left:${depth * 0.9}rem`} title=${`${pool.path} ${pool.description}`}>${depth ? html`<button class="link" onClick=${() => open({ pool })}>${name}</button>` : name}
      <button class="link" aria-label=${`New pool below ${pool.path}`} title="New pool below it" onClick=${() => open({ above: depth ? pool.path : "" })}>+</button>
      ${pool.over_cycles > 0 && html`<${Badge} kind="warn">over its entitlement</${Badge}>`}</span>`, width: "min(17rem, 38vw)" },
    { name: "held of limit", cell: bar },
    { name: "entitlement", cell: ({ entitlement }) => of(entitlement), width: "13rem", extra: true },
    { name: "reservation", cell: ({ reservation }) => of(reservation), width: "13rem", extra: "wide" },
    { name: "demand", cell: ({ demand }) => of(demand), width: "13rem", extra: true },
    { name: "tasks", cell: ({ pool }) => number(pool.tasks), width: "5rem" },
    { name: "gangs waiting", cell: ({ waiting }) => number(waiting), width: "7rem", extra: true },
  ];
  const kinds = Object.keys(all.length ? all[0].limit : {});
  return html`<h2>Pools of ${cluster}</h2><${State} ready=${first} error=${error} empty=${first && more && "Further ones are being read."} />
    ${first && html`<div class="controls"><${Search} label="Search pools" text=${text} onText=${search} found=${found.length} of=${all.length} />
      <${Choice} label="Resource" value=${chosen} options=${[["", "the fullest"], ...kinds]} onChoice=${choose} /></div>
    <${List} label="Pools" columns=${columns} rows=${found} keyOf=${({ pool }) => pool.id} rowHeight=${38} />
    <p class="actions">${done && html`<span role="status" class="good">${done}</span>`}</p>
    ${form && html`<${PoolForm} cluster=${cluster} ...${form} onClose=${close} />`}<${PoolsText} cluster=${cluster} />`}`;
}
