// The details of the open run and its parties.
import { byId, element, updateRows, addHeadings, showState, markSorted, formatNumber, showText, formatScore, setText } from "./dom.js";
import { state } from "./state.js";
import { runData } from "./stream.js";
import * as party from "./party.js";

const COLUMNS = [
  { name: "party", title: "Party", words: true },
  { name: "personal", title: "Personal" },
  { name: "global", title: "Global" },
  { name: "local", title: "Local" },
  { name: "norm", title: "‖v‖" },
];
const STEP = 100;
const view = { sort: "party", descending: false, search: "", most: STEP };
let parties = null; // parties.json of the open run
let errorMessage = "";
let actions = null; // {party(index)}

export function start(given) {
  actions = given;
  addHeadings(byId("party-heads"), COLUMNS, (name) => {
    view.descending = view.sort === name ? !view.descending : false;
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

// Loads the parties of the open run.
export async function load() {
  const run = state.open;
  if (run === null) return show();
  const response = await fetch(`/api/run?${new URLSearchParams({ run })}`).catch(() => null);
  if (!response || state.open !== run) return undefined;
  const details = await response.json();
  errorMessage = response.ok ? details.trouble : details.error;
  parties = response.ok && Array.isArray(details.parties.names) ? details.parties : null;
  if (response.ok) runData(run).row = details.run;
  return show();
}

export function opened() {
  parties = null;
  errorMessage = "";
  Object.assign(view, { search: "", most: STEP });
  byId("party-search").value = "";
  byId("parties").replaceChildren();
  byId("parties").rowsByKey = undefined;
  show();
  return load();
}

export function show() {
  const run = state.open;
  const known = run === null ? null : runData(run);
  const row = known && known.row;
  byId("run-hint").hidden = run !== null;
  for (const id of ["run-state", "report", "close"]) byId(id).hidden = run === null;
  byId("parties-box").hidden = run === null || !parties;
  setText(byId("run-title"), run === null ? "One run" : row ? row.label : run);
  showText(byId("run-facts"), row ? summary(row) : "");
  const messages = known ? [row ? row.message : "", known.trouble, errorMessage] : [];
  showText(byId("run-trouble"), [...new Set(messages)].filter(Boolean).join(" "));
  if (run !== null) {
    showState(byId("run-state"), known.trouble ? "damaged" : row ? row.state : "opening");
    byId("report").href = `/report/${run === "." ? "" : run.split("/").map(encodeURIComponent).join("/")}`;
    if (parties) showParties(known);
    else if (known.points.length && !errorMessage) loadLater();
  }
  party.show(parties);
}

// A run that has just started writes parties.json a moment later.
let timer = null;
function loadLater() {
  timer ||= setTimeout(() => {
    timer = null;
    if (!parties) load();
  }, 1000);
}

function summary(row) {
  const round = `round ${formatNumber(row.round)} of ${formatNumber(row.rounds)}`;
  return [row.data, row.model, `seed ${formatNumber(row.seed)}`, `${formatNumber(row.parties)} parties`, round, row.id]
    .filter(Boolean).join(" · ");
}

function showParties(known) {
  const last = known.parties || {};
  const outliers = new Set(parties.outliers || []);
  const all = parties.names.map((name, index) => ({
    index, name: String(name), outlier: outliers.has(name), party: index,
    personal: last.personal_score?.[index], global: last.global_score?.[index],
    local: parties.local?.[index], norm: last.v_norm?.[index],
  }));
  const words = view.search.toLowerCase().split(/\s+/).filter(Boolean);
  const text = (item) => `${item.name} ${item.outlier ? "outlier" : ""}`.toLowerCase();
  const found = all.filter((item) => words.every((word) => text(item).includes(word)));
  const sign = view.descending ? -1 : 1;
  const hasValue = (item) => Number.isFinite(item[view.sort]);
  found.sort((a, b) => hasValue(b) - hasValue(a) || (hasValue(a) ? sign * (a[view.sort] - b[view.sort]) : 0));
  markSorted(byId("party-heads"), view.sort, view.descending);
  updateRows(byId("parties"), found.slice(0, view.most), (item) => item.index, make, (tr, item) => change(tr, item, known.row));
  const shown = Math.min(found.length, view.most);
  setText(byId("party-count"), `${shown} of ${all.length}`);
  byId("more").hidden = found.length <= view.most;
}

function make(item) {
  const name = element("button", { type: "button", textContent: item.name });
  name.addEventListener("click", () => actions.party(item.index));
  const first = element("td", { className: "words" }, name);
  if (item.outlier) first.append(element("span", { className: "tag", textContent: "outlier" }));
  return element("tr", {}, first, ...COLUMNS.slice(1).map(() => element("td")));
}

function change(tr, item, row) {
  tr.classList.toggle("chosen", item.index === state.party);
  const [, personal, global, local, norm] = tr.cells;
  setText(personal, formatScore(item.personal, row));
  setText(global, formatScore(item.global, row));
  setText(local, formatScore(item.local, row));
  setText(norm, formatNumber(item.norm));
}
