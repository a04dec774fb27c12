// What the cluster runs, on disk: a second run of the program continues where the first one ended.
"use strict";
const fs = require("node:fs");
const path = require("node:path");

const PROTO = process.env.SI_PROTO || path.join(__dirname, "../../proto/si/v1/si.proto");
const QUEUES = fs.readFileSync(path.join(__dirname, "../queues.yaml"), "utf8");

const cores = (number) => ({ resources: { vcore: { value: 1000 * number } } });
const node = { nodeID: "node-1", action: "CREATE", schedulableResource: cores(4) };
const applications = ["batch", "urgent"].map((name) => ({
  applicationID: name, queueName: `root.${name}`, ugi: { user: "alice" },
}));
const ask = (applicationID, allocationKey, urgent = false) => ({
  applicationID, allocationKey, maxAllocations: 1, resourceAsk: cores(1),
  preemptionPolicy: { allowPreemptOther: urgent },
});
const releases = (...allocationsToRelease) => ({ releases: { allocationsToRelease } });

class Cluster {
  constructor(file) {
    this.file = file;
    this.restarted = fs.existsSync(file);
    this.tasks = this.restarted ? JSON.parse(fs.readFileSync(file, "utf8")) : {}; // by UUID; "" once they have ended
  }

  // An AllocationResponse, and `send`, which returns once an AllocationRequest is durable. Returns whether the program
  // is done.
  async handle(response, send) {
    const started = (response.new || []).filter((one) => !(one.UUID in this.tasks)); // repeated ones are known
    for (const one of started) {
      console.log(`start ${one.allocationKey} on ${one.nodeID}`);
      this.tasks[one.UUID] = one.allocationKey;
    }
    for (const release of response.released || []) {
      if (this.tasks[release.UUID]) {
        console.log(`stop ${this.tasks[release.UUID]}: ${release.terminationType}`);
        this.tasks[release.UUID] = "";
      }
      // Requested by the scheduler: confirm it.
      if (release.terminationType !== "STOPPED_BY_RM") await send(releases(release));
    }
    fs.writeFileSync(this.file, JSON.stringify(this.tasks)); // before the callback is acknowledged

    for (const one of started) {
      if (one.allocationKey === "batch-4") await send({ asks: [ask("urgent", "urgent-1", true)] }); // the node is full
      if (one.allocationKey === "urgent-1") { // it is done; the next task starts when this program runs again
        await send(releases({ applicationID: "urgent", UUID: one.UUID, terminationType: "STOPPED_BY_RM" }));
        await send({ asks: [ask("batch", "late-1")] });
      }
    }
    return started.some((one) => ["urgent-1", "late-1"].includes(one.allocationKey));
  }
}

module.exports = { PROTO, QUEUES, Cluster, applications, ask, cores, node, releases };
