// The web page: what is on top of every view, and the table of views. Each view shows one resource manager.
import { html, render } from "/page/html.js";
import { paths } from "/page/api.js";
import { useData } from "/page/data.js";
import { Login, WhoIsIt } from "/page/login.js";
import { Choice, State } from "/page/parts.js";
import { go, link, usePlace } from "/page/place.js";
import { Applications } from "/page/views/applications.js";
import { Configuration } from "/page/views/configuration.js";
import { Events } from "/page/views/events.js";
import { Nodes } from "/page/views/nodes.js";
import { Queues } from "/page/views/queues.js";
import { System } from "/page/views/system.js";

const VIEWS = { queues: Queues, applications: Applications, nodes: Nodes, events: Events, configuration: Configuration, system: System };

function Page() {
  const place = usePlace();
  const { data, error } = useData(paths.rms);
  const rms = data ? data.rms : [];
  const rm = place.rm || rms[0] || "";
  const view = place.view in VIEWS ? place.view : "queues";
  const View = VIEWS[view];
  if (error && error.needsToken) return html`<${Login} refusal=${error} />`;
  return html`<a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.getElementById("main").focus(); }}>To the content</a>
    <header><h1>remuda</h1><${Choice} label="RM" value=${rm} options=${rms} onChoice=${(one) => go(view, one)} />
      <nav aria-label="Views">${Object.keys(VIEWS).map((one) => html`<a href=${link(one, rm)} aria-current=${one === view ? "page" : null}>${one}</a>`)}</nav>
      <${WhoIsIt} /></header>
    <main id="main" tabindex="-1"><${State} ready=${data} error=${error} empty=${data && !rms.length && "No resource manager is registered."} />
      ${rm && html`<${View} key=${`${view} ${rm} ${place.item}`} rm=${rm} item=${place.item} />`}</main>`;
}

render(html`<${Page} />`, document.body);
