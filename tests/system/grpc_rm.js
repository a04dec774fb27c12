// An RM over gRPC in Node, as `grpc_rm.py` is one in Python: it loads the .proto file that it is given.
//
//   node grpc_rm.js PROTO ADDRESS RM_ID NODES ASKS
//
// Registers, reports nodes, submits an application, asks, drains a node, confirms and releases everything. Prints one
// JSON object.
"use strict";
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");
const path = require("node:path");

const [proto, address, rmID, nodeCount, askCount] = process.argv.slice(2).map((one, at) => (at > 2 ? Number(one) : one));

const amounts = (vcore, memory) => ({ resources: { vcore: { value: vcore }, memory: { value: memory } } });
const ask = (allocationKey, maxAllocations, amount) => ({
  applicationID: "app-1", allocationKey, maxAllocations, resourceAsk: amounts(amount, amount),
});
const numbers = (count, from = 0) => Array.from({ length: count - from }, (_, at) => from + at);
const chunks = (items, size) => numbers(Math.ceil(items.length / size)).map((at) => items.slice(at * size, (at + 1) * size));

class Stream {
  constructor(call) {
    this.call = call;
    this.responses = [];
    this.waiting = [];
    call.on("data", (response) => {
      if (this.waiting.length) this.waiting.shift()(response);
      else this.responses.push(response);
    });
    call.on("error", (error) => {
      if (error.code !== grpc.status.CANCELLED) throw error;
    });
  }

  send(request) {
    this.call.write({ rmID, ...request });
  }

  next() {
    if (this.responses.length) return Promise.resolve(this.responses.shift());
    return new Promise((arrived) => this.waiting.push(arrived));
  }
}

async function main() {
  const options = { keepCase: true, longs: Number, enums: String, arrays: true, includeDirs: [path.dirname(proto)] };
  const { Scheduler } = grpc.loadPackageDefinition(loader.loadSync(path.basename(proto), options)).si.v1;
  const client = new Scheduler(address, grpc.credentials.createInsecure());
  await new Promise((registered, refused) => {
    client.RegisterResourceManager({ rmID, version: "1" }, (error) => (error ? refused(error) : registered()));
  });
  const [nodes, applications, allocations] = ["UpdateNode", "UpdateApplication", "UpdateAllocation"].map(
    (method) => new Stream(client[method]()),
  );
  const told = {};

  const create = numbers(nodeCount).map((number) => ({
    nodeID: `n${String(number).padStart(4, "0")}`, action: "CREATE", schedulableResource: amounts(10_000, 10_000),
  }));
  nodes.send({ nodes: create });
  told.nodes = 0;
  while (told.nodes < nodeCount) told.nodes += (await nodes.next()).accepted.length;

  applications.send({ new: [{ applicationID: "app-1", ugi: { user: "alice" }, tags: { namespace: "sandbox" } }] });
  told.applications = (await applications.next()).accepted.map((one) => one.applicationID);

  for (const some of chunks(numbers(askCount), 1_000)) allocations.send({ asks: some.map((one) => ask(`k${one}`, 1, 10)) });
  const placed = new Map();
  while (placed.size < askCount) {
    const response = await allocations.next();
    if (response.rejected.length) throw new Error(`rejected: ${JSON.stringify(response.rejected[0])}`);
    for (const one of response.new) {
      if (placed.has(one.allocationKey)) throw new Error(`allocated twice: ${one.allocationKey}`);
      placed.set(one.allocationKey, one);
    }
  }
  told.allocated = placed.size;
  const byNode = new Map();
  for (const one of placed.values()) byNode.set(one.nodeID, (byNode.get(one.nodeID) || 0) + 1);
  told.by_node = [...byNode.values()].sort((a, b) => a - b);

  nodes.send({ nodes: [{ nodeID: "n0000", action: "DRAIN_NODE" }] });
  const releases = [...placed.values()].map((one) => ({
    applicationID: "app-1", UUID: one.UUID, terminationType: "STOPPED_BY_RM",
  }));
  for (const some of chunks(releases, 1_000)) allocations.send({ releases: { allocationsToRelease: some } });
  const released = new Set();
  while (released.size < askCount) for (const one of (await allocations.next()).released) released.add(one.UUID);
  told.released = released.size;

  allocations.send({ asks: [ask("last", nodeCount - 1, 9_000)] });
  const on = [];
  while (on.length < nodeCount - 1) on.push(...(await allocations.next()).new.map((one) => one.nodeID));
  told.after_drain = on.sort();

  const states = [];
  while (states.slice(-2).join() !== "Completing,Running") { // they come on a stream of their own
    states.push(...(await applications.next()).updated.map((one) => one.state));
  }
  told.states = states;
  console.log(JSON.stringify(told));
  process.exit(0);
}

main().catch((error) => {
  console.error(error.message);
  process.exit(1);
});
