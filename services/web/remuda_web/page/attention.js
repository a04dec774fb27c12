// What needs attention, and what has changed, as sentences. Pure but for the markup.
import { html } from "./html.js";
import { amount, number, plural, time } from "./format.js";
import { link } from "./place.js";

const queueOf = ({ rm, partition, queue }) => html`<a href=${link("queues", rm, `${partition} ${queue}`)}>${queue}</a>`;
const applicationOf = ({ rm, application }) => html`<a href=${link("applications", rm, application)}>${application}</a>`;
const nodeOf = ({ rm, node }) => html`<a href=${link("nodes", rm, node)}>${node}</a>`;
const reasonOf = ({ operator, reason }) => `${operator ? ` by ${operator}` : ""}${reason ? `: ${reason}` : ""}`;
const asks = (count) => `${plural(count, "ask")} ${count === 1 ? "waits" : "wait"}`;

const SENTENCES = {
  halted: (one) => html`is <a href=${link("system", one.rm)}>halted</a>${reasonOf({ operator: one.by, reason: one.reason })}`,
  unanswered: (one) => html`no core answers: ${one.reason}`,
  below_guarantee: (one) => html`${queueOf(one)} has less than is guaranteed to it (${Object.keys(one.guaranteed).map((name) => `${name} ${amount(name, one.allocated[name] || 0)} of ${amount(name, one.guaranteed[name])}`).join(", ")}), and ${asks(one.waiting)}`,
  fits_nowhere: (one) => html`${asks(one.waiting)} in ${queueOf(one)} that no node is large enough for: ${applicationOf(one)}`,
  idle: (one) => html`${one.devices ? plural(one.devices, `whole ${one.resource} device`) : `${one.resource} ${amount(one.resource, one.free)}`} <a href=${link("nodes", one.rm, "", { colour: `use ${one.resource}` })}>idle</a> while ${plural(one.waiting, "ask")} for ${one.resource} ${one.waiting === 1 ? "waits" : "wait"}`,
  not_running: (one) => html`is ${one.state}: nothing is allocated`,
  staged: (one) => html`<a href=${link("configuration", one.rm)}>version ${number(one.version)}</a> of the configuration is staged until ${time(one.until_ms)}`,
  held: (one) => html`${queueOf(one)} is held${reasonOf(one)}`,
  drained: (one) => html`node ${nodeOf(one)} is drained${reasonOf(one)}`,
  dead_letters: (one) => html`${plural(one.count, "dead letter")}: <code>remuda dead-letters ${one.rm}</code>`,
};

// The sentence of an item; "more": of the rows that a core has left out.
export const attention = (one) => (one.more ? html`and ${number(one.more)} more` : SENTENCES[one.kind] ? SENTENCES[one.kind](one) : one.kind);

const ORIGINS = { file: "the file was edited", api: "applied", rm: "brought by the RM", rollback: "rolled back", expired: "not confirmed in time, rolled back" };
const ACTIONS = {
  KillApplication: (one) => html`killed ${application(one)}`, MoveApplication: (one) => html`moved ${application(one)} to ${queueOf(one)}`,
  HoldQueue: (one) => html`held ${queueOf(one)}`, ResumeQueue: (one) => html`ended the hold of ${queueOf(one)}`,
  LendQuota: (one) => html`lent quota of ${queueOf(one)} to ${queueOf({ ...one, queue: one.borrower })}`, EndLoan: (one) => html`ended what ${queueOf(one)} lent to ${queueOf({ ...one, queue: one.borrower })}`,
  DrainNode: (one) => html`drained ${node(one)}`, UndrainNode: (one) => html`ended the draining of ${node(one)}`,
  ChangeAskPriority: (one) => html`gave ${application(one)}/${one.allocation_key} priority ${number(one.priority)}`, ReleaseOneAllocation: (one) => html`released ${one.uuid}`,
};
const application = (one) => applicationOf({ ...one, application: one.application_id });
const node = (one) => nodeOf({ ...one, node: one.node_id });

// The sentence of a version of the configuration, or of an action of an operator.
export function change(one) {
  if (one.kind === "version") {
    const what = one.restores ? `${ORIGINS[one.origin] || one.origin} to ${number(one.restores)}` : ORIGINS[one.origin] || one.origin;
    return html`<a href=${link("configuration", one.rm, `file:${one.version}`)}>version ${number(one.version)}</a> of the configuration: ${what}${one.by ? ` by ${one.by}` : ""}${one.message ? `: ${one.message}` : ""}`;
  }
  const did = ACTIONS[one.action] ? ACTIONS[one.action](one) : one.action;
  return html`${one.operator} ${one.outcome === "accepted" ? "" : "was refused: "}${did}${one.reason ? `: ${one.reason}` : ""}`;
}
