// The web page: what is on top of every view, and the views. Each view shows one resource manager, and is loaded when it
// is shown first.
import { html, render, useEffect, useState } from "./html.js";
import { paths } from "./api.js";
import { askAhead, useData } from "./data.js";
import { Login, WhoIsIt } from "./login.js";
import { Choice, State } from "./parts.js";
import { go, here, link, usePlace } from "./place.js";

const VIEWS = ["queues", "applications", "nodes", "events", "configuration", "system"];
// A view of no resource manager of remuda: of the pools of Peloton's.
const POOLS = "pools";
// The lists of the first three are queries of the same name.
const LISTS = VIEWS.slice(0, 3);
// The other views are loaded behind the first one.
const OTHERS_AFTER_MS = 1500;

const loaded = new Map(); // components, by the name of their view
async function load(view) {
  const module = await import(`./views/${view}.js`);
  loaded.set(view, module[view[0].toUpperCase() + view.slice(1)]);
}

const viewOf = (place) => (place.view === POOLS || VIEWS.includes(place.view) ? place.view : "queues");

// The component of a view, once it is here.
function useView(view) {
  const [state, set] = useState({});
  useEffect(() => {
    let over = false;
    if (!loaded.has(view)) load(view).then(() => over || set({ view }), (error) => over || set({ view, error }));
    return () => { over = true; };
  }, [view]);
  return { View: loaded.get(view), error: state.view === view ? state.error : undefined };
}

function Page() {
  const place = usePlace();
  const { data, error } = useData(paths.rms);
  const rms = data ? data.rms : [];
  const rm = place.rm || rms[0] || "";
  const view = viewOf(place);
  const { View, error: notLoaded } = useView(view);
  if (error && error.needsToken) return html`<${Login} refusal=${error} />`;
  return html`<a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.getElementById("main").focus(); }}>To the content</a>
    <header><h1>remuda</h1><${Choice} label="RM" value=${rm} options=${rms} onChoice=${(one) => go(view, one)} />
      <nav aria-label="Views">${VIEWS.map((one) => html`<a href=${link(one, rm)} aria-current=${one === view ? "page" : null}>${one}</a>`)}</nav>
      <${WhoIsIt} /></header>
    <main id="main" tabindex="-1"><${State} ready=${data} error=${error || notLoaded} empty=${data && !rms.length && view !== POOLS && "No resource manager is registered."} />
      ${(rm || view === POOLS) && View && html`<${View} key=${`${view} ${rm} ${place.item}`} rm=${rm} item=${place.item} />`}</main>`;
}

const start = here(), quietly = () => {}; // a view that is shown says what failed
load(viewOf(start)).catch(quietly);
if (start.rm && LISTS.includes(viewOf(start)) && !start.item) askAhead(paths.rm(start.rm, viewOf(start)));
render(html`<${Page} />`, document.body);
setTimeout(() => VIEWS.forEach((view) => load(view).catch(quietly)), OTHERS_AFTER_MS);
