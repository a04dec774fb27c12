// Actions of operators: buttons, a dialog that asks for confirmation and a reason, and what was decided.
import { html, useEffect, useRef, useState } from "./html.js";
import { paths, post, shownAt } from "./api.js";

// An action: {text, path, fields, partition, ask, input}. `ask`: what the dialog says. `input`: {label, field, number,
// first} of a value that the operator types: whether it is a number, and what it is at first.
export const holdQueue = ({ path, partition, held }) => [held
  ? { text: "End the hold", path: "resume-queue", fields: { queue: path }, partition, ask: `New allocations are made again in ${path} and below.` }
  : { text: "Hold", path: "hold-queue", fields: { queue: path }, partition, ask: `Nothing new is allocated or started in ${path} and below.` }];

export const killApplication = ({ id, partition }) =>
  ({ text: "Kill", danger: true, path: "kill-application", fields: { application_id: id }, partition, ask: `The asks of ${id} are withdrawn, and its allocations are released.` });

export const moveApplication = ({ id, partition, queue }) =>
  ({ text: "Move", path: "move-application", fields: { application_id: id }, partition, ask: `${id} leaves ${queue}, with its asks and allocations.`, input: { label: "To the queue", field: "queue" } });

export const releaseAllocation = ({ uuid, key, node, partition }) =>
  ({ text: "Release", danger: true, path: "release-allocation", fields: { uuid }, partition, ask: `The RM is asked to release ${key} on ${node}.` });

export const changePriority = ({ application, key, priority, partition }) =>
  ({ text: "Change priority", path: "change-ask-priority", fields: { application_id: application, allocation_key: key }, partition, ask: `Of ${key}: ${priority} now. Higher ones go first in their queue.`, input: { label: "Priority", field: "priority", number: true, first: priority } });

export const drainNode = ({ id, partition, status }) => (status === "Schedulable"
  ? { text: "Drain", path: "drain-node", fields: { node_id: id }, partition, ask: `Nothing new is allocated on ${id}. What runs there goes on.` }
  : { text: "End draining", path: "undrain-node", fields: { node_id: id }, partition, ask: `${id} takes new allocations again, unless the RM drains it.` });

export function Actions({ rm, actions }) {
  const [chosen, choose] = useState(null);
  const [done, setDone] = useState("");
  const close = (text = "") => { choose(null); setDone(text); };
  if (shownAt()) return null; // nobody acts in the past
  return html`<span class="actions">${actions.map((one) => html`<button class=${one.danger ? "danger" : ""} onClick=${() => choose(one)}>${one.text}</button>`)}
    ${done && html`<span role="status" class="good">${done}</span>`}
    ${chosen && html`<${Confirm} rm=${rm} action=${chosen} onClose=${close} />`}</span>`;
}

function Confirm({ rm, action, onClose }) {
  const box = useRef(null);
  const [refusal, setRefusal] = useState(null);
  const [busy, setBusy] = useState(false);
  useEffect(() => { box.current.showModal(); }, []);
  const confirm = async (event) => {
    event.preventDefault();
    const given = new FormData(event.target);
    const force = Boolean(refusal && refusal.soft);
    const typed = action.input && (action.input.number ? Number(given.get("input")) : given.get("input"));
    const fields = action.input ? { ...action.fields, [action.input.field]: typed } : action.fields;
    setBusy(true);
    try {
      const outcome = await post(paths.action(rm, action.path), { ...fields, options: { reason: given.get("reason"), partition: action.partition, force } });
      if (outcome.outcome === "accepted") onClose(`${action.text}: done`);
      else setRefusal(outcome);
    } catch (error) {
      setRefusal({ outcome: "refused", reason: error.message, soft: error.said && error.said.soft });
    }
    setBusy(false);
  };
  return html`<dialog ref=${box} aria-labelledby="confirm" onClose=${() => onClose()}><form onSubmit=${confirm}>
    <h3 id="confirm">${action.text}</h3><p>${action.ask}</p>
    ${action.input && html`<label>${action.input.label} <input name="input" required autofocus type=${action.input.number ? "number" : "text"} min=${-(2 ** 31)} max=${2 ** 31 - 1} defaultValue=${action.input.first} /></label>`}
    <label>Reason, for the log <input name="reason" maxlength="1000" /></label>
    ${refusal && html`<p class="problem" role="alert">${refusal.outcome}: ${refusal.reason}</p>`}
    <p class="buttons"><button type="button" onClick=${() => box.current.close()}>Cancel</button>
      <button class=${action.danger ? "danger" : "primary"} disabled=${busy}>${refusal && refusal.soft ? `${action.text} all the same` : action.text}</button></p>
  </form></dialog>`;
}
