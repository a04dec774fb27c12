// What is shown in place of data while no resource manager is registered: how to connect one.
import { html, useState } from "../html.js";
import { paths } from "../api.js";
import { useData } from "../data.js";
import { State } from "../parts.js";
import { link } from "../place.js";

const program = (address) => `import asyncio

from remuda_sdk import ResourceManager, application, ask, node

QUEUES = "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: batch}]}]}]"


async def main() -> None:
    async with ResourceManager.connect("${address}", "my-cluster", config=QUEUES) as rm:
        await rm.report_nodes([node("n1", vcore=4000, memory=2**34), node("n2", vcore=4000, memory=2**34)])
        await rm.submit(application("app-1", queue="root.batch", user="alice"))
        await rm.ask([ask("app-1", f"task-{n}", vcore=1000, memory=2**30) for n in range(9)])
        async for callback in rm.callbacks():
            for allocation in getattr(callback, "new", []):
                print(f"{allocation.allocationKey} runs on {allocation.nodeID}")


asyncio.run(main())
`;

export function Welcome() {
  const { data, error } = useData(paths.welcome), fronts = useData(paths.frontEnds);
  if (!data) return html`<h2>Welcome</h2><${State} ready=${data} error=${error} />`;
  const grpc = (fronts.data ? fronts.data.front_ends : []).filter((one) => !one.error).map((one) => `${one.host}:${one.port}`);
  return html`<h2>Welcome</h2>
    <p>The scheduler runs, and no resource manager is registered yet. A resource manager owns nodes and asks for room on them. As soon as one registers, this page shows its queues.</p>
    <${Copied} title="Try it with a simulated resource manager" text=${`remuda load --nats ${data.nats} --rm my-cluster --apps 20 --asks 50 --rate 20 --duration 30s`} />
    <${Copied} title="A resource manager in 20 lines of Python" text=${program(data.nats)} />
    <p class="dim">The last asks wait: two nodes have room for eight. Open one under <em>applications</em> to see why. Other languages connect over ${grpc.length ? `gRPC (${grpc.join(", ")})` : "gRPC"} or NATS (${data.nats}).</p>
    ${data.keys && html`<p class="dim">The servers ask for keys: <code>remuda rm add my-cluster --keys KEYS</code> makes that of a resource manager.</p>`}
    <p>Without <code>config=</code> it gets the queues of the <a href=${link("configuration")}>configuration</a>; what runs is under <a href=${link("system")}>system</a>.</p>`;
}

function Copied({ title, text }) {
  const [done, set] = useState(false);
  const copy = () => navigator.clipboard.writeText(text).then(() => set(true), () => {});
  return html`<section class="copied"><h3>${title} ${navigator.clipboard && html`<button onClick=${copy}>${done ? "Copied" : "Copy"}</button>`}</h3><pre tabindex="0">${text}</pre></section>`;
}
