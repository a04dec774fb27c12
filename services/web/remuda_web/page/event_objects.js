// The objects that an event record names, as places in the page. Pure.
export const KINDS = ["", "request", "application", "node", "queue", "user and group"];

const NODE_ALLOC = 303;

const amountsIn = ({ resource }) => Object.fromEntries(Object.entries((resource || {}).resources || {}).map(([name, { value }]) => [name, value]));

// An allocation has a record of its application and one of its node, side by side: people see one row, of the
// application, with the `key` and the `node`. A record whose companion is not there stays as it is. Each record has the
// amounts of its resource as `amounts`.
export function allocationsOnce(records) {
  const found = [];
  for (let at = 0; at < records.length; at++) {
    const pair = companions(records[at], records[at + 1]);
    found.push({ ...(pair ? pair[0] : records[at]), amounts: amountsIn(records[at]), key: pair && pair[1].referenceID, node: pair && pair[1].objectID });
    if (pair) at += 1;
  }
  return found;
}

// [that of the application, that of the node], or null.
function companions(one, other) {
  if (!other || one.rmID !== other.rmID || one.timestampNano !== other.timestampNano || one.eventChangeType !== other.eventChangeType) return null;
  const [application, node] = KINDS[one.type] === "application" ? [one, other] : [other, one];
  if (KINDS[application.type] !== "application" || KINDS[node.type] !== "node" || node.eventChangeDetail !== NODE_ALLOC) return null;
  return JSON.stringify(amountsIn(one)) === JSON.stringify(amountsIn(other)) && application.resource ? [application, node] : null;
}

// [view, item] of what `objectID` names, or null: nothing in the page shows it. An ask is shown with its application.
export function objectOf({ type, objectID, referenceID, rmID }) {
  const kind = KINDS[type] || "";
  if (kind === "application") return ["applications", objectID];
  if (kind === "request") return referenceID && referenceID !== objectID ? ["applications", referenceID] : null; // a dead letter has its number twice
  if (kind === "node") return ["nodes", objectID];
  if (kind === "queue") return ["queues", objectID];
  return objectID === rmID ? ["system", ""] : null; // a halt
}

// Likewise of `referenceID`: asks and queues name an application, the others keys of asks and allocations.
export function referenceOf(record) {
  const kind = KINDS[record.type];
  return record.referenceID && (kind === "queue" || (kind === "request" && objectOf(record))) ? ["applications", record.referenceID] : null;
}
