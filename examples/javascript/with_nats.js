// A resource manager over NATS: node with_nats.js nats://127.0.0.1:4222 STATE_FILE
// docs/wire-contract.md describes subjects, headers and guarantees.
"use strict";
const { connect, headers } = require("nats");
const protobuf = require("protobufjs");
const descriptor = require("protobufjs/google/protobuf/descriptor.json");
const { randomUUID } = require("node:crypto");
const { PROTO, QUEUES, Cluster, applications, ask, node } = require("./cluster.js");

const RM = "example-js-nats";

async function main(url, file) {
  const cluster = new Cluster(file);
  protobuf.common("descriptor", descriptor.nested.google.nested.protobuf.nested); // imported by si.proto
  const proto = await protobuf.load(PROTO);
  const type = (name) => proto.lookupType(`si.v1.${name}`);
  const encode = (name, value) => type(name).encode(type(name).fromObject({ rmID: RM, ...value })).finish();

  const client = await connect({ servers: url });
  const extraConfig = { resync: cluster.restarted ? "replay" : "report" };
  const registration = encode("RegisterResourceManagerRequest", { config: QUEUES, extraConfig });
  const reply = await client.request(`si.v1.rm.${RM}.register`, registration, { timeout: 20_000 });
  const refusal = reply.headers?.get("Nats-Service-Error");
  if (refusal) throw new Error(refusal);
  const number = reply.headers.get("Remuda-Registration");

  // Durable when it returns, and stored once.
  const jetstream = client.jetstream();
  const publish = async (kind, name, value) => {
    const header = headers();
    header.set("Nats-Msg-Id", randomUUID());
    header.set("Remuda-Registration", number);
    await jetstream.publish(`si.v1.rm.${RM}.${kind}`, encode(name, value), { headers: header });
  };
  const send = (value) => publish("allocation", "AllocationRequest", value);

  if (!cluster.restarted) {
    await publish("node", "NodeRequest", { nodes: [node] });
    await publish("application", "ApplicationRequest", { new: applications });
    await send({ asks: [1, 2, 3, 4].map((one) => ask("batch", `batch-${one}`)) });
  }

  // The scheduler has created the consumer at the registration.
  const consumer = await jetstream.consumers.get("CALLBACKS", `rm-${RM}`);
  for await (const message of await consumer.consume({ expires: 1_000 })) {
    let done = false;
    if (message.subject.endsWith(".callback.allocation")) {
      const response = type("AllocationResponse");
      done = await cluster.handle(response.toObject(response.decode(message.data), { enums: String }), send);
    }
    await message.ackAck(); // only now: an unacknowledged callback is delivered again
    if (done) break;
  }
  await client.close();
}

if (process.argv.length !== 4) {
  console.error("usage: node with_nats.js nats://127.0.0.1:4222 STATE_FILE");
  process.exit(1);
}
main(process.argv[2], process.argv[3]).catch((error) => {
  console.error(error.message);
  process.exit(1);
});
