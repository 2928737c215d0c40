// The one stream of events, and what it has told of each run so far.
import { state } from "./state.js";

const told = new Map(); // run -> {at, points, parties, party, trouble, row}
let source = null;
let again = null;

export function about(run) {
  if (!told.has(run)) told.set(run, { at: "", points: [], parties: null, party: [], trouble: "", row: null });
  return told.get(run);
}

// Have a run told from its first line, for another party; until then its curve stays as it is.
export function forget(run) {
  Object.assign(about(run), { at: "", party: [] });
}

function take(news) {
  const known = about(news.run);
  if (news.start) Object.assign(known, { points: [], parties: null, party: [] });
  known.points.push(...news.points);
  known.party.push(...(news.party || []));
  if (news.parties) known.parties = news.parties;
  known.at = news.at;
  known.trouble = "";
}

function address() {
  const runs = [...new Set([...state.runs, ...(state.open === null ? [] : [state.open])])];
  const asked = new URLSearchParams();
  for (const run of state.runs) asked.append("run", run);
  if (state.open !== null) asked.set("open", state.open);
  if (state.party !== null) asked.set("party", state.party);
  asked.set("after", runs.map((run) => about(run).at).join(","));
  return `/api/events?${asked}`;
}

// on: {connection(state), list(), run(id)}
export function connect(on) {
  disconnect();
  const mine = new EventSource(address());
  source = mine;
  const hear = (name, act) => mine.addEventListener(name, (event) => {
    if (mine === source) act(JSON.parse(event.data));
  });
  mine.onopen = () => on.connection("live");
  mine.onerror = () => {
    if (mine !== source) return;
    on.connection("lost");
    if (mine.readyState === EventSource.CLOSED) again = setTimeout(() => connect(on), 2000);
  };
  hear("runs", (news) => {
    for (const row of news.followed) {
      about(row.id).row = row;
      on.run(row.id);
    }
    on.list();
  });
  hear("lines", (news) => {
    take(news);
    on.run(news.run);
  });
  for (const name of ["damaged", "gone"]) {
    hear(name, (news) => {
      about(news.run).trouble = news.message;
      about(news.run).at = "";
      on.run(news.run);
    });
  }
}

export function disconnect() {
  clearTimeout(again);
  if (source) source.close();
  source = null;
}
