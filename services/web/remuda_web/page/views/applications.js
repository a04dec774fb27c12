// Applications with search, and one application: states, why it waits, its time line, allocations.
import { html, useMemo } from "../html.js";
import { Actions, killApplication, moveApplication } from "../actions.js";
import { now, paths } from "../api.js";
import { useData, useRows, useTick } from "../data.js";
import { amounts, duration, number, plural, time } from "../format.js";
import { List } from "../list.js";
import { Facts, Search, State, StateBadge, Tabs, matching } from "../parts.js";
import { link, useOption } from "../place.js";
import { AllocationList, ApplicationList, NONE, applicationLink } from "./application_lists.js";
import { TimeLine } from "./time_line.js";
import { Waiting } from "./waiting.js";

export function Applications({ rm, item }) {
  if (item) return html`<${Application} rm=${rm} id=${item} />`;
  return html`<h2>Applications</h2><${Tabs} label="Kinds" tabs=${[
    ["applications", () => html`<${ApplicationList} rm=${rm} />`],
    ["asks", () => html`<${AskList} rm=${rm} />`],
    ["rejections", () => html`<${RejectionList} rm=${rm} />`],
  ]} />`;
}

function AskList({ rm }) {
  const { rows = NONE, first, error } = useRows(paths.rm(rm, "asks"));
  const [text, search] = useOption("search");
  const tick = useTick(), reasons = useMemo(() => reasonsOf(rows), [rows]);
  const found = useMemo(() => matching(rows, text, (one) => `${one.application} ${one.key} ${one.queue}`), [rows, text]);
  const columns = useMemo(() => [
    { name: "application", cell: (one) => applicationLink(rm, one.application), by: (one) => one.application },
    { name: "key", cell: (one) => one.key, by: (one) => one.key },
    { name: "waiting", cell: (one) => number(one.pending), by: (one) => one.pending, width: "5.2rem" },
    { name: "resource", cell: (one) => amounts(one.resource), by: (one) => one.resource.vcore || 0, extra: true },
    { name: "priority", cell: (one) => one.priority, by: (one) => one.priority, width: "6rem", extra: true },
    { name: "queue", cell: (one) => one.queue, by: (one) => one.queue, extra: true },
    { name: "waits for", cell: (one) => reasons.get(one), by: (one) => reasons.get(one), extra: true },
    { name: "since", cell: (one) => html`<span title=${time(one.since_ms)}>${duration(now() - one.since_ms)}</span>`, by: (one) => -one.since_ms, width: "7rem" },
  ], [rm, tick, reasons]);
  return html`<${Search} label="Search asks" text=${text} onText=${search} found=${found.length} of=${rows.length} />
    <${State} ready=${first} error=${error} empty=${first && !found.length && "None."} />
    ${found.length > 0 && html`<${List} label="Asks" columns=${columns} rows=${found} keyOf=${(one) => `${one.partition} ${one.application} ${one.key}`} />`}`;
}

// What each ask waits for first. Of equal asks of an application, only the first is reported.
function reasonsOf(asks) {
  let before = null;
  return new Map(asks.map((one) => {
    const like = `${one.partition} ${one.application} ${JSON.stringify(one.resource)}`;
    const reason = one.waits_for ? one.waits_for.filter(Boolean).join(" ") : before && before.like === like ? before.reason : "-";
    before = { like, reason };
    return [one, reason];
  }));
}

function RejectionList({ rm }) {
  const { rows = [], first, error } = useRows(paths.rm(rm, "rejections"));
  const columns = [
    { name: "application", cell: (one) => one.id, by: (one) => one.id, width: "22%" },
    { name: "reason", cell: (one) => one.reason, by: (one) => one.reason },
    { name: "user", cell: (one) => one.user, by: (one) => one.user, width: "8rem", extra: true },
    { name: "at", cell: (one) => time(one.since_ms), by: (one) => one.since_ms, width: "8rem", extra: true },
  ];
  return html`<${State} ready=${first} error=${error} empty=${first && !rows.length && "None."} />
    ${rows.length > 0 && html`<${List} label="Rejections" columns=${columns} rows=${rows} keyOf=${(one) => `${one.partition} ${one.id}`} />`}`;
}

function Application({ rm, id }) {
  const { data, error } = useData(paths.rm(rm, "applications", { application: id }));
  const one = data && data.rows[0];
  return html`<nav class="crumbs" aria-label="Above"><a href=${link("applications", rm)}>applications</a></nav>
    <h2>${id} ${one && html`<${StateBadge} state=${one.state} />`}</h2>
    <${State} ready=${data} error=${error} empty=${data && !one && "There is no such application now; its time line may still show it."} />
    ${one && html`<${Actions} rm=${rm} actions=${[killApplication(one), moveApplication(one)]} />
      <${Facts} of=${[
        ["queue", html`<a href=${link("queues", rm, `${one.partition} ${one.queue}`)}>${one.queue}</a>`], ["user", one.user], ["groups", one.groups.join(", ")],
        ["submitted", time(one.submitted_ms)], ["used", amounts(one.allocated)], ["waiting", one.asks ? `${plural(one.asks, "ask")}: ${amounts(one.pending)}` : ""], ["placeholders", amounts(one.allocated_placeholder)],
        ["task groups", one.task_groups.map((group) => group.name).join(", ")], ["ends", time(one.ends_ms)],
      ]} />`}
    <h3>Time line</h3>${(data || error) && html`<${TimeLine} rm=${rm} id=${id} submittedMs=${one ? one.submitted_ms : 0} />`}
    ${one && html`<h3>Why it waits</h3><${Waiting} rm=${rm} application=${id} />
      <h3>Allocations</h3><${AllocationList} rm=${rm} filter=${{ application: id }} />`}`;
}
