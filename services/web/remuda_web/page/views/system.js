// What runs: resource managers, cores, front ends, halts and faults.
import { html } from "../html.js";
import { paths } from "../api.js";
import { useData } from "../data.js";
import { duration, number, time } from "../format.js";
import { List } from "../list.js";
import { Badge, Facts, State } from "../parts.js";
import { link } from "../place.js";

export function System({ rm }) {
  const managers = useData(paths.resourceManagers), cores = useData(paths.cores), fronts = useData(paths.frontEnds), faults = useData(paths.faults);
  const halted = managers.data ? managers.data.resource_managers.filter((one) => one.halt) : [];
  return html`<h2>System</h2>
    ${halted.map((one) => html`<p class="problem card" role="alert"><strong>${one.rm_id} is halted</strong> since ${time(one.halt.at_ms)} by ${one.halt.by}: ${one.halt.reason}</p>`)}
    <h3>Resource managers</h3><${State} ready=${managers.data} error=${managers.error} empty=${managers.data && !managers.data.resource_managers.length && "None is registered."} />
    ${managers.data && managers.data.resource_managers.length > 0 && html`<${List} label="Resource managers" tall=${false} rows=${managers.data.resource_managers} keyOf=${(one) => one.rm_id} columns=${[
      { name: "RM", cell: (one) => html`<a href=${link("queues", one.rm_id)}>${one.rm_id}</a>`, by: (one) => one.rm_id },
      { name: "state", cell: (one) => html`<${Badge} kind=${one.halt ? "bad" : one.state === "registered" ? "good" : "warn"}>${one.halt ? "halted" : one.state}</${Badge}>`, by: (one) => one.state },
      { name: "configuration", cell: (one) => one.config_source, extra: true }, { name: "version", cell: (one) => one.version, extra: true },
      { name: "policy group", cell: (one) => one.policy_group, extra: true },
    ]} />`}
    ${rm && html`<h3>${rm}</h3><${Totals} rm=${rm} />`}
    <p><a href=${link("pools", rm)}>Pools of Peloton's resource manager</a></p>
    <h3>Cores</h3><${State} ready=${cores.data} error=${cores.error} />
    ${cores.data && html`<${List} label="Cores" tall=${false} keyOf=${(one) => one.instance + one.rm} columns=${[
      { name: "core", cell: (one) => one.instance, by: (one) => one.instance }, { name: "RM", cell: (one) => one.rm, by: (one) => one.rm },
      { name: "does", cell: (one) => (one.error ? html`<span class="problem">${one.error}</span>` : one.leads ? html`<${Badge} kind="good">leads</${Badge}>` : one.rm ? "follows" : "stands by"), by: (one) => `${one.leads}` },
      { name: "commit", cell: (one) => (one.rm ? number(one.log_seq) : "-"), extra: true }, { name: "behind", cell: (one) => (one.leads ? "-" : duration(one.behind_ms)), extra: true },
    ]} rows=${cores.data.cores.flatMap((core) => (core.error || !core.rms.length ? [{ instance: core.instance, rm: "", ...core }] : core.rms.map((one) => ({ instance: core.instance, ...one }))))} />`}
    <h3>gRPC front ends</h3><${State} ready=${fronts.data} error=${fronts.error} empty=${fronts.data && !fronts.data.front_ends.length && "None runs."} />
    ${fronts.data && html`<${Facts} of=${fronts.data.front_ends.map((one) => [one.instance, one.error || `${one.host}:${one.port}, ${number(one.rms)} RMs`])} />`}
    <h3>Faults</h3><${State} ready=${faults.data} error=${faults.error} empty=${faults.data && !faults.data.faults.length && "None on record."} />
    ${faults.data && html`<ul>${faults.data.faults.map((one) => html`<li><strong>${one.rm_id}</strong> ${time(one.at_ms)} ${one.stream} ${one.seq}: ${one.error} <span class="dim">${one.by}</span></li>`)}</ul>`}`;
}

function Totals({ rm }) {
  const { data, error } = useData(paths.rm(rm, "stats"));
  return html`<${State} ready=${data} error=${error} />${data && html`<${Facts} of=${[
    ["state", data.state], ["registration", number(data.registration)], ["nodes", number(data.nodes)], ["applications", number(data.applications)],
    ["allocations", number(data.allocations)], ["allocations ever", number(data.allocations_ever)], ["last commit", `${number(data.log_seq)}, ${time(data.at_ms)}`],
    ["requests read", number(data.request_seq)],
  ]} />`}`;
}
