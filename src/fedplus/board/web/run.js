// One run: its facts and its parties.
import { byId, element, fill, headings, mark, markSorted, number, say, score, write } from "./dom.js";
import { state } from "./state.js";
import { about } from "./stream.js";
import * as party from "./party.js";

const COLUMNS = [
  { name: "party", title: "Party", words: true },
  { name: "personal", title: "Personal" },
  { name: "global", title: "Global" },
  { name: "local", title: "Local" },
  { name: "norm", title: "‖v‖" },
];
const STEP = 100;
const view = { sort: "party", falling: false, search: "", most: STEP };
let facts = null; // parties.json of the open run
let trouble = "";
let act = null; // {party(index)}

export function start(actions) {
  act = actions;
  headings(byId("party-heads"), COLUMNS, (name) => {
    view.falling = view.sort === name ? !view.falling : false;
    view.sort = name;
    show();
  });
  byId("party-search").addEventListener("input", (event) => {
    view.search = event.target.value;
    show();
  });
  byId("more").addEventListener("click", () => {
    view.most += STEP;
    show();
  });
}

// Ask for the parties of the run that was opened.
export async function load() {
  const run = state.open;
  if (run === null) return show();
  const answer = await fetch(`/api/run?${new URLSearchParams({ run })}`).catch(() => null);
  if (!answer || state.open !== run) return undefined;
  const found = await answer.json();
  trouble = answer.ok ? found.trouble : found.error;
  facts = answer.ok && Array.isArray(found.parties.names) ? found.parties : null;
  if (answer.ok) about(run).row = found.run;
  return show();
}

export function opened() {
  facts = null;
  trouble = "";
  Object.assign(view, { search: "", most: STEP });
  byId("party-search").value = "";
  byId("parties").replaceChildren();
  byId("parties").rowsByKey = undefined;
  show();
  return load();
}

export function show() {
  const run = state.open;
  const known = run === null ? null : about(run);
  const row = known && known.row;
  byId("run-hint").hidden = run !== null;
  for (const id of ["run-state", "report", "close"]) byId(id).hidden = run === null;
  byId("parties-box").hidden = run === null || !facts;
  write(byId("run-title"), run === null ? "One run" : row ? row.label : run);
  say(byId("run-facts"), row ? summary(row) : "");
  const said = row ? row.message : "";
  say(byId("run-trouble"), known ? [...new Set([said, known.trouble, trouble])].filter(Boolean).join(" ") : "");
  if (run !== null) {
    mark(byId("run-state"), known.trouble ? "damaged" : row ? row.state : "opening");
    byId("report").href = `/report/${run === "." ? "" : run.split("/").map(encodeURIComponent).join("/")}`;
    if (facts) showParties(known);
    else if (known.points.length && !trouble) reload();
  }
  party.show(facts);
}

// A run that has just begun writes parties.json a moment later.
let reloading = null;
function reload() {
  reloading ||= setTimeout(() => {
    reloading = null;
    if (!facts) load();
  }, 1000);
}

function summary(row) {
  const round = `round ${number(row.round)} of ${number(row.rounds)}`;
  return [row.data, row.model, `seed ${number(row.seed)}`, `${number(row.parties)} parties`, round, row.id]
    .filter(Boolean).join(" · ");
}

function showParties(known) {
  const last = known.parties || {};
  const outliers = new Set(facts.outliers || []);
  const all = facts.names.map((name, index) => ({
    index, name: String(name), outlier: outliers.has(name), party: index,
    personal: last.personal_score?.[index], global: last.global_score?.[index],
    local: facts.local?.[index], norm: last.v_norm?.[index],
  }));
  const words = view.search.toLowerCase().split(/\s+/).filter(Boolean);
  const text = (one) => `${one.name} ${one.outlier ? "outlier" : ""}`.toLowerCase();
  const found = all.filter((one) => words.every((word) => text(one).includes(word)));
  const sign = view.falling ? -1 : 1;
  const has = (one) => Number.isFinite(one[view.sort]);
  found.sort((a, b) => has(b) - has(a) || (has(a) ? sign * (a[view.sort] - b[view.sort]) : 0));
  markSorted(byId("party-heads"), view.sort, view.falling);
  fill(byId("parties"), found.slice(0, view.most), (one) => one.index, make, (tr, one) => change(tr, one, known.row));
  const shown = Math.min(found.length, view.most);
  write(byId("party-count"), `${shown} of ${all.length}`);
  byId("more").hidden = found.length <= view.most;
}

function make(one) {
  const name = element("button", { type: "button", textContent: one.name });
  name.addEventListener("click", () => act.party(one.index));
  const first = element("td", { className: "words" }, name);
  if (one.outlier) first.append(element("span", { className: "tag", textContent: "outlier" }));
  return element("tr", {}, first, ...COLUMNS.slice(1).map(() => element("td")));
}

function change(tr, one, row) {
  tr.classList.toggle("chosen", one.index === state.party);
  const [, personal, shared, local, norm] = tr.cells;
  write(personal, score(one.personal, row));
  write(shared, score(one.global, row));
  write(local, score(one.local, row));
  write(norm, number(one.norm));
}
