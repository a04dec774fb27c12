// Data of views: hooks that ask again and again while they are shown and the page is visible.
import { useEffect, useState } from "/page/html.js";
import { get, stream } from "/page/api.js";

const EVERY_MS = 2000;
// Many pages of rows are asked for less often: no more than a fifth of the time goes into asking.
const REST = 4;
const EVENTS_SHOWN = 2000;
const RECONNECT_MS = 2000;

const visible = () => new Promise((resolve) => {
  if (!document.hidden) resolve();
  else document.addEventListener("visibilitychange", resolve, { once: true });
});

// Runs `ask(isOver)` again and again until the view goes.
function useRepeated(key, everyMs, ask) {
  useEffect(() => {
    let over = false, timer;
    const turn = async () => {
      await visible();
      if (over) return;
      const began = performance.now();
      await ask(() => over);
      if (!over) timer = setTimeout(turn, Math.max(everyMs, REST * (performance.now() - began)));
    };
    if (key) turn();
    return () => { over = true; clearTimeout(timer); };
  }, [key]);
}

// {data, error} of a path; null: nothing to ask. Unchanged data is the same object.
export function useData(path) {
  const [state, set] = useState({});
  const shown = state.path === path ? state : {};
  let tag = null;
  useRepeated(path, EVERY_MS, async (isOver) => {
    try {
      const found = await get(path);
      if (isOver() || (found.tag && found.tag === tag)) return;
      tag = found.tag;
      set({ path, data: found.data });
    } catch (error) {
      tag = null;
      if (!isOver()) set((before) => ({ ...(before.path === path ? before : { path }), error }));
    }
  });
  return shown;
}

// Where the rows of a page are, and the place of the next one. `few`: of the first page, so that it comes at once; the
// others are as long as a core makes them.
const ROWS = { rows: "rows", next: "next", after: "after", everyMs: EVERY_MS, few: "limit=100" };
// A story is read from the log, from its beginning.
const LINES = { rows: "lines", next: "next_page_token", after: "page_token", everyMs: 5 * EVERY_MS };

const and = (path, more) => (more ? `${path}${path.includes("?") ? "&" : "?"}${more}` : path);

export const useStory = (path, most) => useRows(path, most, LINES);

// {rows, first, more, error} of all pages of a query, at most `most` rows. The first page is shown before the others
// come. `first`: the first page; `more`: there are more rows than these.
export function useRows(path, most = 100000, names = ROWS) {
  const [state, set] = useState({});
  const shown = state.path === path ? state : {};
  let tags = "";
  useRepeated(path, names.everyMs, async (isOver) => {
    const rows = [], seen = [];
    let after = null, first = null;
    try {
      do {
        const { data, tag } = await get(and(path, after ? `${names.after}=${encodeURIComponent(after)}` : tags ? "" : names.few));
        if (isOver()) return;
        first = first || data;
        rows.push(...data[names.rows]);
        seen.push(tag);
        after = data[names.next];
        if (after && !tags) set({ path, rows: [...rows], first, more: true });
      } while (after && rows.length < most);
      if (tags === seen.join()) return;
      tags = seen.join();
      set({ path, rows, first, more: Boolean(after) });
    } catch (error) {
      tags = "";
      if (!isOver()) set((before) => ({ ...(before.path === path ? before : { path }), error }));
    }
  });
  return shown;
}

// {events, error}: the newest records first, as they come. `order`: their number, from 1.
export function useEvents(path) {
  const [state, set] = useState({ events: [] });
  useEffect(() => {
    const ending = new AbortController();
    let waiting = [], frame = 0, timer, count = 0;
    const show = () => {
      frame = 0;
      const come = waiting.reverse();
      waiting = [];
      set((before) => ({ events: [...come, ...before.events].slice(0, EVENTS_SHOWN) }));
    };
    const follow = async () => {
      try {
        await stream(path, ending.signal, (event) => {
          waiting.push({ ...event, order: (count += 1) });
          frame = frame || requestAnimationFrame(show);
        });
      } catch (error) {
        if (!ending.signal.aborted) set((before) => ({ ...before, error }));
      }
      if (!ending.signal.aborted) timer = setTimeout(follow, RECONNECT_MS);
    };
    follow();
    return () => { ending.abort(); clearTimeout(timer); cancelAnimationFrame(frame); };
  }, [path]);
  return state;
}
