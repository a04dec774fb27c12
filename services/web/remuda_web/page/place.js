// The place in the page is the fragment of its address: #VIEW/RM/ITEM.
import { useEffect, useState } from "./html.js";

export function here() {
  const [view, rm, ...rest] = location.hash.slice(1).split("/").map(decodeURIComponent);
  return { view: view || "queues", rm: rm || "", item: rest.join("/") };
}

export function link(view, rm, item = "") {
  return `#${[view, rm, item].filter(Boolean).map(encodeURIComponent).join("/")}`;
}

export function go(view, rm, item) {
  location.hash = link(view, rm, item);
}

export function usePlace() {
  const [place, set] = useState(here());
  useEffect(() => {
    const changed = () => set(here());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return place;
}
