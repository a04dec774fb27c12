// The objects that an event record names, as places in the page. Pure.
export const KINDS = ["", "request", "application", "node", "queue", "user and group"];

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
