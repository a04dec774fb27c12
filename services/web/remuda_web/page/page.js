// The web page: what is on top of every view, and the views. Most of them show one resource manager. Each is loaded when it
// is shown first.
import { html, render, useEffect, useState } from "./html.js";
import { answeredAhead } from "./ahead.js";
import { paths } from "./api.js";
import { askRowsAhead, useData } from "./data.js";
import { showUnits } from "./format.js";
import { Login, WhoIsIt } from "./login.js";
import { Choice, State } from "./parts.js";
import { PAST_VIEWS, go, here, link, showMoment, usePlace } from "./place.js";

const VIEWS = ["overview", "queues", "applications", "nodes", "users", "events", "configuration", "system"];
// Views of all resource managers: they are there before there is one.
const OF_ALL = ["events", "configuration", "system"];
// A view of no resource manager of remuda: of the pools of Peloton's.
const POOLS = "pools";
// Lists that are queries of the same name.
const LISTS = ["queues", "applications", "nodes"];
// The other views are loaded so long after what is shown first has come.
const OTHERS_AFTER_MS = 1500;
const UNITS_EVERY_MS = 60000;
const WELCOME = "welcome"; // in place of views that need a resource manager, while there is none

const quietly = () => {}; // a view that is shown says what failed
const loaded = new Map(); // components, by the name of their view
async function load(view) {
  const module = await import(`./views/${view}.js`);
  loaded.set(view, module[view[0].toUpperCase() + view.slice(1)]);
}

const viewOf = (place) => (place.view === POOLS || VIEWS.includes(place.view) ? place.view : "overview");

// The component of a view, once it is here.
function useView(view) {
  const [state, set] = useState({});
  useEffect(() => {
    let over = false;
    if (view && !loaded.has(view)) load(view).then(() => over || set({ view }), (error) => over || set({ view, error }));
    return () => { over = true; };
  }, [view]);
  return { View: loaded.get(view), error: state.view === view ? state.error : undefined };
}

// The slider over the past, once it is here: with the view that shows a moment of it, otherwise behind the first view.
function usePastSlider(at) {
  const [Past, set] = useState();
  useEffect(() => {
    (at ? Promise.resolve() : firstIsHere).then(() => import("./past.js")).then((module) => set(() => module.Past), quietly);
  }, [Boolean(at)]);
  return Past;
}

let last = ""; // the resource manager that was shown last: views of all lead back to it

function Page() {
  const place = usePlace();
  showMoment(place);
  const Past = usePastSlider(place.options.at);
  const { data, error } = useData(paths.rms);
  const rms = data ? data.rms : [], view = viewOf(place);
  const rm = place.rm || (rms.includes(last) ? last : rms[0] || "");
  last = rm;
  const needsRm = view !== POOLS && !OF_ALL.includes(view);
  const isOfOne = needsRm && view !== "overview" && rms.includes(rm);
  const { data: topology } = useData(isOfOne ? paths.rm(rm, "topology", { limit: 1 }) : null, UNITS_EVERY_MS);
  showUnits(isOfOne && topology ? topology.partitions : []);
  const isUnknown = data && place.rm && rms.length > 0 && !rms.includes(place.rm) && needsRm && view !== "overview";
  const { View, error: notLoaded } = useView(data && !rms.length && needsRm ? WELCOME : view);
  useEffect(() => { document.title = [place.item, view, needsRm && view !== "overview" && rm, "remuda"].filter(Boolean).join(" · "); }, [place, view, rm]);
  if (error && error.needsToken) return html`<${Login} refusal=${error} />`;
  const options = view === "overview" ? [["", "all"], ...rms] : rms.includes(rm) || !rm ? rms : [[rm, data ? `${rm} (unknown)` : rm], ...rms];
  return html`<a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.getElementById("main").focus(); }}>To the content</a>
    <header><h1><a href=${link("overview")}>remuda</a></h1>${rms.length + Boolean(rm) > 0 && html`<${Choice} label="RM" value=${view === "overview" ? "" : rm} options=${options} onChoice=${(one) => go(view === "overview" ? "queues" : view, one)} />`}
      <nav aria-label="Views">${VIEWS.map((one) => html`<a href=${link(one, one === "overview" ? "" : rm)} aria-current=${one === view ? "page" : null}>${one}</a>`)}</nav>
      <${WhoIsIt} /></header>
    <main id="main" tabindex="-1">${Past && PAST_VIEWS.includes(view) && !isUnknown && html`<${Past} key=${`past ${rm}`} rm=${data ? rm : ""} />`}<${State} ready=${(data || !needsRm) && (View || isUnknown)} error=${error || notLoaded} />
      ${isUnknown ? html`<h2>${rm}</h2><p class="problem" role="alert">No resource manager ${rm} is registered.</p><p>Registered: ${rms.map((one, index) => html`${index ? ", " : ""}<a href=${link(view, one)}>${one}</a>`)}</p>`
        : (data || !needsRm) && View && html`<${View} key=${`${view} ${rm} ${place.item} ${place.visit}`} rm=${rm} item=${place.item} />`}</main>`;
}

const start = here();
showMoment(start);
const firstView = load(viewOf(start)).catch(quietly);
if (start.rm && LISTS.includes(viewOf(start)) && !start.item) askRowsAhead(paths.rm(start.rm, viewOf(start)));
const firstIsHere = Promise.all([firstView, answeredAhead()]).then(() => new Promise((resolve) => setTimeout(resolve, OTHERS_AFTER_MS)));
render(html`<${Page} />`, document.body);
firstIsHere.then(() => VIEWS.forEach((view) => load(view).catch(quietly)));
