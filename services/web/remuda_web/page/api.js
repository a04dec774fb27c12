// Requests to the web service. Knows paths and the token, and nothing of views.

const V1 = "/api/v1";
const UNCHANGED = 304;

export const token = {
  get: () => sessionStorage.getItem("token"),
  set: (value) => sessionStorage.setItem("token", value),
  forget: () => sessionStorage.removeItem("token"),
};

// An answer that is no success. `needsToken`: the service wants to know who asks.
export class Problem extends Error {
  constructor(message, status, said = {}) {
    super(message);
    this.status = status;
    this.said = said; // problem details (RFC 9457)
    this.needsToken = status === 401;
  }
}

const query = (fields) => {
  const given = Object.entries(fields).filter(([, value]) => value !== undefined && value !== "");
  return given.length ? `?${new URLSearchParams(given)}` : "";
};

// The moment that is shown, in ms; 0: now. Queries about the past take it, and durations end there.
let moment = 0;
export const shownAt = () => moment;
export const showAt = (ms) => { moment = ms; };
const OF_PAST = ["queues", "nodes", "applications", "rejections", "allocations", "asks", "usage", "explain", "actions", "stats", "topology", "windows"];
const then = (kind) => (moment && OF_PAST.includes(kind) ? { at: new Date(moment).toISOString() } : {});

const below = (rm) => `${V1}/rms/${encodeURIComponent(rm)}`;

export const paths = {
  me: `${V1}/me`,
  logout: "/logout",
  rms: `${V1}/rms`,
  overview: `${V1}/overview`,
  welcome: `${V1}/welcome`,
  resourceManagers: `${V1}/resource-managers`,
  cores: `${V1}/cores`,
  frontEnds: `${V1}/front-ends`,
  faults: `${V1}/faults`,
  events: (count) => `${V1}/events${query({ count })}`,
  rm: (rm, rest, fields = {}) => `${below(rm)}/${rest}${query({ ...fields, ...then(rest) })}`,
  past: (rm) => `${below(rm)}/past`,
  replays: (rm) => `${below(rm)}/replays`,
  replay: (rm, id) => `${below(rm)}/replays/${encodeURIComponent(id)}`,
  pelotonPools: (cluster) => `${V1}/peloton/${encodeURIComponent(cluster)}/pools`,
  pelotonPreview: (cluster) => `${V1}/peloton/${encodeURIComponent(cluster)}/pools/preview`,
  queueHistory: (rm, partition, queue) => `${below(rm)}/queue-history${query({ partition, queue })}`,
  deviceHistory: (rm, partition) => `${below(rm)}/device-history${query({ partition })}`,
  whatIf: (rm, application, key, partition) => `${below(rm)}/what-if${query({ application, key, partition })}`,
  story: (rm, id, since_ms) => `${below(rm)}/story${query({ id, since_ms })}`,
  preview: (rm) => `${below(rm)}/preview`,
  action: (rm, name) => `${below(rm)}/actions/${name}`,
  configuration: `${V1}/configuration`,
  check: `${V1}/configuration/check`,
  diff: `${V1}/configuration/diff`,
  confirm: `${V1}/configuration/confirm`,
  versions: (rm) => `${V1}/configuration/versions${query({ rm })}`,
  version: (number, rm) => `${V1}/configuration/versions/${number}${query({ rm })}`,
  rollback: (number) => `${V1}/configuration/versions/${number}/rollback`,
};

// The time by the clock of the service: durations until now are wrong by as much as this machine's clock is.
const CLOCK_SKEW_MS = 3000; // less than that may be the way of an answer
let aheadMs = 0;
export const now = () => moment || Date.now() - aheadMs;

function readClock(answer) {
  const at = Date.parse(answer.headers.get("date") || "");
  if (at) aheadMs = Math.abs(Date.now() - at) > CLOCK_SKEW_MS ? Date.now() - at : 0;
}

function headers(more = {}) {
  return token.get() ? { ...more, Authorization: `Bearer ${token.get()}` } : more;
}

// Response of a request. Raises Problem with the reason that the service gives.
async function request(path, options = {}) {
  const answer = await fetch(path, { ...options, headers: headers(options.headers) }).catch((error) => {
    throw error.name === "AbortError" ? error : new Problem("the web service does not answer", 0);
  });
  readClock(answer);
  if (answer.ok || answer.status === UNCHANGED) return answer;
  const said = await answer.json().catch(() => ({}));
  throw new Problem(said.detail || said.message || answer.statusText || `status ${answer.status}`, answer.status, said);
}

// The JSON at a path, with its entity tag: {data, tag}. `known`: what it was before; returned as it is if nothing changed.
// The browser keeps none of it: what is shown is in memory, and the answers of a large cluster would fill its cache.
export async function get(path, known) {
  const answer = await request(path, { cache: "no-store", headers: known && known.tag ? { "If-None-Match": known.tag } : {} });
  return answer.status === UNCHANGED ? known : { data: await answer.json(), tag: answer.headers.get("etag") };
}

export async function post(path, body) {
  const options = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  return (await request(path, options)).json();
}

// Server-sent events, until `signal` is aborted. EventSource sends no token, so the stream is read by hand.
export async function stream(path, signal, received) {
  const answer = await request(path, { signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const data = block.split("\n").filter((line) => line.startsWith("data: ")).map((line) => line.slice(6));
      if (data.length) received(JSON.parse(data.join("\n")));
    }
  }
}
