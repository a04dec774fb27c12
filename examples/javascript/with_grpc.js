// A resource manager over gRPC: node with_grpc.js grpc://127.0.0.1:3333 STATE_FILE
// docs/grpc.md describes metadata, statuses and guarantees.
"use strict";
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");
const { randomBytes } = require("node:crypto");
const path = require("node:path");
const { PROTO, QUEUES, Cluster, applications, ask, node } = require("./cluster.js");

const RM = "example-js-grpc";

// One of the three streams. With `remuda-acknowledge`, an empty response states that a request is durable.
class Stream {
  constructor(client, method, onCallback) {
    const metadata = new grpc.Metadata();
    metadata.set("remuda-rm", RM);
    metadata.set("remuda-acknowledge", `${randomBytes(8).toString("hex")}:1`);
    this.sent = [];
    this.call = client[method](metadata);
    this.call.on("data", (response) => {
      if (Object.values(response).some((list) => list.length)) onCallback(response);
      else this.sent.shift()();
    });
    this.call.on("error", (error) => {
      if (error.code !== grpc.status.CANCELLED) throw error;
    });
  }

  send(request) {
    return new Promise((durable) => {
      this.sent.push(durable);
      this.call.write({ rmID: RM, ...request });
    });
  }
}

async function main(url, file) {
  const cluster = new Cluster(file);
  const options = { keepCase: true, longs: Number, enums: String, arrays: true };
  const definition = loader.loadSync(path.basename(PROTO), { ...options, includeDirs: [path.dirname(PROTO)] });
  const { Scheduler } = grpc.loadPackageDefinition(definition).si.v1;
  const client = new Scheduler(url.replace("grpc://", ""), grpc.credentials.createInsecure());

  const extraConfig = { resync: cluster.restarted ? "replay" : "report" };
  await new Promise((registered, refused) => {
    const request = { rmID: RM, config: QUEUES, extraConfig };
    client.RegisterResourceManager(request, (error) => (error ? refused(error) : registered()));
  });

  const ignore = () => {};
  const nodes = new Stream(client, "UpdateNode", ignore);
  const apps = new Stream(client, "UpdateApplication", ignore);
  let handled = Promise.resolve(false);
  await new Promise((done, failed) => {
    const allocations = new Stream(client, "UpdateAllocation", (response) => {
      handled = handled.then(() => cluster.handle(response, (request) => allocations.send(request)));
      handled.then((isDone) => isDone && done(), failed);
    });
    const report = async () => {
      await nodes.send({ nodes: [node] });
      await apps.send({ new: applications });
      await allocations.send({ asks: [1, 2, 3, 4].map((one) => ask("batch", `batch-${one}`)) });
    };
    if (!cluster.restarted) report().catch(failed);
  });
  process.exit(0);
}

if (process.argv.length !== 4) {
  console.error("usage: node with_grpc.js grpc://127.0.0.1:3333 STATE_FILE");
  process.exit(1);
}
main(process.argv[2], process.argv[3]).catch((error) => {
  console.error(error.message);
  process.exit(1);
});
