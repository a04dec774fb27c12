// From the facts of an application's story to bands of time. Pure.

// {tracks: [{name, bands: [{kind, text, from, until, open}]}], from, until}. The first track has the states of the
// application; each other one is an ask with its allocations. Times are milliseconds since 1970.
export function bandsOf(id, lines, nowMs) {
  const states = { name: "state", bands: [] };
  const asks = new Map();
  for (const line of lines) {
    if (line.kind === "ApplicationAccepted") begin(states, "state", "New", line.at_ms);
    else if (line.kind === "ApplicationStateChanged") begin(states, "state", stateIn(line.text), line.at_ms);
    const key = keyIn(id, line.text);
    if (key === null) continue;
    if (!asks.has(key)) asks.set(key, { name: key, bands: [] });
    addFact(asks.get(key), line);
  }
  const ended = lines.length && /^(Completed|Rejected|Failed|Expired)$/.test((states.bands.at(-1) || {}).text);
  const until = ended ? lines.at(-1).at_ms : nowMs;
  const tracks = [states, ...asks.values()].filter((track) => track.bands.length);
  for (const track of tracks) for (const band of track.bands) if (band.open) band.until = until;
  return { tracks, from: lines.length ? lines[0].at_ms : nowMs, until };
}

const stateIn = (text) => (/ is (\w+)/.exec(text) || [, "?"])[1];

// The key of the ask that a sentence speaks of: `app/key waits ...`, `the RM is asked to release app/key, ...`.
function keyIn(id, text) {
  const start = text.startsWith(`${id}/`) ? 0 : text.indexOf(` ${id}/`) + 1;
  if (start === 0 && !text.startsWith(`${id}/`)) return null;
  return text.slice(start + id.length + 1).split(/[ ,:]/, 1)[0];
}

function addFact(track, line) {
  switch (line.kind) {
    case "AskAccepted": return begin(track, "waiting", "waits", line.at_ms);
    case "AskWaiting": return begin(track, "waiting", reasonIn(line.text), line.at_ms);
    case "Allocated": return begin(track, "running", line.text.replace(/^.*? allocated on/, "allocated on"), line.at_ms);
    case "ReleaseRequested": return begin(track, "ending", line.text, line.at_ms);
    case "AllocationReleased": case "AskReleased": case "AskRejected": return end(track, line.at_ms);
  }
}

const reasonIn = (text) => text.replace(/^.*? waits(, with [^:]*)?(: )?/, "") || "waits";

function begin(track, kind, text, atMs) {
  end(track, atMs);
  track.bands.push({ kind, text, from: atMs, until: atMs, open: true });
}

function end(track, atMs) {
  const last = track.bands.at(-1);
  if (last && last.open) Object.assign(last, { until: atMs, open: false });
}
