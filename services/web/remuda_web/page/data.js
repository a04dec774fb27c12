// Data of views: hooks that ask again and again while they are shown and the page is visible.
import { useEffect, useLayoutEffect, useState } from "./html.js";
import { askAhead, askedAhead } from "./ahead.js";
import { get, stream } from "./api.js";

const EVERY_MS = 2000;
// Many pages of rows are asked for less often: no more than a fifth of the time goes into asking.
const REST = 4;
// While many rows are read for the first time.
const SHOWN_EVERY_MS = 500;
const EVENTS_SHOWN = 2000;
const RECONNECT_MS = 2000;

const visible = () => new Promise((resolve) => {
  if (!document.hidden) resolve();
  else document.addEventListener("visibilitychange", resolve, { once: true });
});

// Runs `ask(isOver)` again and again until the view goes; at first before the view is painted, so that data is on its way.
function useRepeated(key, everyMs, ask) {
  useLayoutEffect(() => {
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

const TICK_MS = 5000;

// A number that grows, so that durations until now are written anew though no data has changed.
export function useTick() {
  const [tick, set] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => set((before) => before + 1), TICK_MS);
    return () => clearInterval(timer);
  }, []);
  return tick;
}

// The past stays as it is.
const NEVER_MS = 2 ** 31 - 1;
const often = (path, everyMs) => (path && /[?&]at=/.test(path) ? NEVER_MS : everyMs);

// {data, error} of a path; null: nothing to ask. Unchanged data is the same object.
export function useData(path, everyMs = EVERY_MS) {
  const [state, set] = useState({});
  let known = null;
  useRepeated(path, often(path, everyMs), async (isOver) => {
    try {
      const found = await (askedAhead(path) || get(path, known));
      if (isOver() || found === known) return;
      known = found;
      set({ path, data: found.data });
    } catch (error) {
      known = null;
      if (!isOver()) set((before) => ({ ...(before.path === path ? before : { path }), error }));
    }
  });
  return state.path === path ? state : {};
}

// Where the rows of a page are, and the place of the next one. `few`: of the first page, so that it comes at once; the
// others are as long as a core makes them.
const ROWS = { rows: "rows", next: "next", after: "after", everyMs: EVERY_MS, few: "limit=100" };
const and = (path, more) => (more ? `${path}${path.includes("?") ? "&" : "?"}${more}` : path);

// Asks for the first page of what `useRows` will ask for.
export const askRowsAhead = (path) => askAhead(and(path, ROWS.few));

// Resolved when the browser has painted what was set before.
const painted = () => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));

// {lines, first, more, error} of a story, at most `most` lines. What is known is not asked for again.
export function useStory(path, most) {
  const [state, set] = useState({});
  let lines = [], first, token = "";
  useRepeated(path, EVERY_MS, async (isOver) => {
    try {
      if (!token) lines = []; // nothing was found yet
      while (lines.length < most) {
        const { data } = await get(token ? and(path, `page_token=${encodeURIComponent(token)}`) : path);
        if (isOver()) return;
        const changed = !first || data.lines.length > 0;
        first = first || data;
        lines = [...lines, ...data.lines].slice(0, most);
        token = data.next_page_token || data.resume_token || "";
        if (changed) set({ path, lines, first, more: Boolean(data.next_page_token) });
        if (!data.next_page_token) break;
      }
    } catch (error) {
      [lines, first, token] = [[], undefined, ""];
      if (!isOver()) set((before) => ({ ...(before.path === path ? before : { path }), error }));
    }
  });
  return state.path === path ? state : {};
}

// {rows, first, more, error} of all pages of a query, at most `most` rows. The first page is shown before the others are
// asked for, and these from time to time. `first`: the first page; `more`: there are more rows than these. Rows of a page
// that has not changed are the same objects.
export function useRows(path, most = 100000, names = ROWS) {
  const [state, set] = useState({});
  let known = new Map(); // the pages of the turn before, by path
  useRepeated(path, often(path, names.everyMs), async (isOver) => {
    const rows = [], pages = new Map();
    let at = known.size ? path : and(path, names.few), shownMs = -Infinity, changed = !known.size;
    try {
      for (;;) {
        const page = await (askedAhead(at) || get(at, known.get(at)));
        if (isOver()) return;
        changed = changed || page !== known.get(at);
        pages.set(at, page);
        rows.push(...page.data[names.rows]);
        const after = page.data[names.next], more = Boolean(after) && rows.length < most;
        if (!more) {
          const { data: first } = pages.values().next().value;
          if (changed || pages.size !== known.size) set({ path, rows, first, more: Boolean(after) });
          break;
        }
        if (!known.size && performance.now() - shownMs > SHOWN_EVERY_MS) {
          set({ path, rows: [...rows], first: pages.values().next().value.data, more });
          await painted();
          shownMs = performance.now();
        }
        at = and(path, `${names.after}=${encodeURIComponent(after)}`);
      }
      known = pages;
    } catch (error) {
      known = new Map();
      if (!isOver()) set((before) => ({ ...(before.path === path ? before : { path }), error }));
    }
  });
  return state.path === path ? state : {};
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
