// The place in the page is the fragment of its address: #VIEW/RM/ITEM?OPTION=VALUE. So a link shows what its sender saw.
import { useEffect, useState } from "./html.js";
import { showAt, shownAt } from "./api.js";

// Views that show what there was at a moment of the past.
export const PAST_VIEWS = ["queues", "applications", "nodes", "users"];

export function here() {
  const [path, query] = location.hash.slice(1).split("?");
  const [view, rm, ...rest] = path.split("/").map(decoded);
  return { view: view || "overview", rm: rm || "", item: rest.join("/"), options: Object.fromEntries(new URLSearchParams(query || "")) };
}

function decoded(part) {
  try { return decodeURIComponent(part); } catch { return part; } // typed by hand
}

// Links lead on in the moment that is shown.
export function link(view, rm, item = "", options = {}) {
  const at = shownAt() ? { at: new Date(shownAt()).toISOString() } : {};
  const query = new URLSearchParams(Object.entries({ ...at, ...options }).filter(([, value]) => value)).toString();
  const path = [view, rm, item].map((part) => encodeURIComponent(part || "")).join("/").replace(/\/+$/, "");
  return `#${path}${query ? `?${query}` : ""}`;
}

// Shows the moment of the address in views that can; before anything is asked for.
export function showMoment({ view, options }) {
  const ms = PAST_VIEWS.includes(view) && options.at ? Date.parse(options.at) : 0;
  showAt(ms || 0);
}

export function go(view, rm, item) {
  location.hash = link(view, rm, item);
}

// The place, with the number of the `visit`: each link that is followed begins a view anew, with the options of the link.
export function usePlace() {
  const [place, set] = useState({ ...here(), visit: 0 });
  useEffect(() => {
    const changed = () => set(({ visit }) => ({ ...here(), visit: visit + 1 }));
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return place;
}

// [value, set] of an option of the view, a text: it is in the address while it is not `first`.
export function useOption(name, first = "") {
  const [value, set] = useState(() => here().options[name] ?? first);
  const choose = (next) => {
    set(next);
    const { view, rm, item, options } = here();
    const others = { ...options, [name]: next === first ? "" : next };
    history.replaceState(null, "", link(view, rm, item, others)); // the view stays as it is, and so does the way back
  };
  return [value, choose];
}
