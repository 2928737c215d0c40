// The event stream, and the data that it has sent about each run.
import { state } from "./state.js";

const runs = new Map(); // run -> {at, points, parties, party, trouble, row}
let source = null;
let retryTimer = null;

export function runData(run) {
  if (!runs.has(run)) runs.set(run, { at: "", points: [], parties: null, party: [], trouble: "", row: null });
  return runs.get(run);
}

// Requests a run from its first line again, for another party; its curve stays until then.
export function resetRun(run) {
  Object.assign(runData(run), { at: "", party: [] });
}

function addLines(news) {
  const known = runData(news.run);
  if (news.start) Object.assign(known, { points: [], parties: null, party: [] });
  known.points.push(...news.points);
  known.party.push(...(news.party || []));
  if (news.parties) known.parties = news.parties;
  known.at = news.at;
  known.trouble = "";
}

function address() {
  const followed = [...new Set([...state.runs, ...(state.open === null ? [] : [state.open])])];
  const query = new URLSearchParams();
  for (const run of state.runs) query.append("run", run);
  if (state.open !== null) query.set("open", state.open);
  if (state.party !== null) query.set("party", state.party);
  query.set("after", followed.map((run) => runData(run).at).join(","));
  return `/api/events?${query}`;
}

// on: {connection(state), list(), run(id)}
export function connect(on) {
  disconnect();
  const current = new EventSource(address());
  source = current;
  const listen = (name, handle) => current.addEventListener(name, (event) => {
    if (current === source) handle(JSON.parse(event.data));
  });
  current.onopen = () => on.connection("live");
  current.onerror = () => {
    if (current !== source) return;
    on.connection("lost");
    if (current.readyState === EventSource.CLOSED) retryTimer = setTimeout(() => connect(on), 2000);
  };
  listen("runs", (news) => {
    for (const row of news.followed) {
      runData(row.id).row = row;
      on.run(row.id);
    }
    on.list();
  });
  listen("lines", (news) => {
    addLines(news);
    on.run(news.run);
  });
  for (const name of ["damaged", "gone"]) {
    listen(name, (news) => {
      runData(news.run).trouble = news.message;
      runData(news.run).at = "";
      on.run(news.run);
    });
  }
}

export function disconnect() {
  clearTimeout(retryTimer);
  if (source) source.close();
  source = null;
}
