// What a configuration would do, as a preview on a copy of the state has found it.
import { html } from "./html.js";
import { amount, amounts, number } from "./format.js";

const AMOUNTS = ["max", "guaranteed", "max_resources"];
const RUNNING = "running applications"; // counted, beside resources

// A setting as text, whatever is in it.
export function settingText(name, value) {
  if (value === null || value === undefined || value === "") return "none";
  if (Array.isArray(value)) return value.map((one) => (typeof one === "object" ? `(${settingText("", one)})` : settingText("", one))).join(", ") || "none";
  if (typeof value !== "object") return String(value);
  if (AMOUNTS.includes(name)) return amounts(value, "none");
  return Object.entries(value).filter(([, one]) => settingText("", one) !== "none").map(([key, one]) => `${key.replaceAll("_", " ")} ${settingText(key, one)}`).join(", ") || "none";
}

const changed = (row) => `${row.queue || `partition ${row.partition}`} ${row.change}${Object.entries(row.fields).map(([name, { before, after }], index) =>
  `${index ? "; " : ": "}${name.replaceAll("_", " ")} ${settingText(name, before)} → ${settingText(name, after)}`).join("")}`;
const figure = (resource, value) => (resource === RUNNING ? number(value) : amount(resource, value));
const over = ({ queue, kind, name, resource, ...row }) => `${queue}${name ? `, ${kind} ${name}` : ""}: ${resource} ${figure(resource, row.used)}, may use ${figure(resource, row.max)}, ${figure(resource, row.over)} over${row.over_before ? ` (${figure(resource, row.over_before)} before)` : ""}`;

export function Preview({ found }) {
  if (found.refused) return html`<p class="problem">It would be refused: ${found.refused}</p>`;
  const lists = [
    ["partitions", found.partitions, changed],
    ["queues", found.queues, changed],
    ["over quota", found.over_quota, over],
    ["placed elsewhere", found.placements, (one) => `${one.application} of ${one.user}: ${one.before || "refused"} → ${one.after || `refused, ${one.reason}`}`],
    ["allocations", found.allocations, (one) => `${one.application}/${one.key} on ${one.node}`],
    ["preempted", found.preemptions, (one) => `${one.application}/${one.key} on ${one.node} for ${one.for_application}/${one.for_key}`],
    ["groups that wait", found.groups, (one) => `${one.application}/${one.key}: ${number(one.placed)} of ${number(one.waiting)} placed${one.domain ? ` in ${one.domain}` : ""} (${number(one.placed_without)} without the change)${one.preempted ? `, ${number(one.preempted)} preempted for it` : ""}${one.reason ? `; ${one.reason}` : ""}`],
  ].filter(([name, list]) => list && (list.total || (name !== "partitions" && name !== "groups that wait")));
  return html`<p>The next ${found.passes || ""} ${found.passes === 1 ? "pass" : "passes"}, on a copy of the state. Nothing was changed.</p>
    ${lists.map(([name, list, text]) => html`<details open=${list.total > 0 && list.total < 20}><summary>${name}: ${number(list.total)}${list.without === undefined ? "" : ` (${number(list.without)} without the change)`}</summary>
      <ul>${list.rows.map((row) => html`<li>${text(row)}</li>`)}${list.total > list.rows.length && html`<li class="dim">and ${number(list.total - list.rows.length)} more</li>`}</ul></details>`)}`;
}
