// What people have typed and not yet applied: kept while the tab is open, also when they look at another view, load the
// page again or log in. The browser asks before it closes a tab with such text.
const PREFIX = "draft ";
const kept = new Map();

function fromSession() {
  for (const key of Object.keys(sessionStorage).filter((one) => one.startsWith(PREFIX))) {
    try { kept.set(key.slice(PREFIX.length), JSON.parse(sessionStorage.getItem(key))); } catch { sessionStorage.removeItem(key); }
  }
}
fromSession();

addEventListener("beforeunload", (event) => { if (kept.size) event.preventDefault(); });

export const draft = (name) => kept.get(name);

// `what`: a value of JSON; none: there is nothing left to apply.
export function keep(name, what) {
  if (what) kept.set(name, what); else kept.delete(name);
  try {
    if (what) sessionStorage.setItem(PREFIX + name, JSON.stringify(what)); else sessionStorage.removeItem(PREFIX + name);
  } catch { sessionStorage.removeItem(PREFIX + name); } // too large for it: kept until the page is loaded again, of which the browser asks
}
