// The list of runs: search, sort, pages; the server does all three.
import { byId, element, fill, headings, mark, markSorted, moment, number, say, score, write } from "./dom.js";
import { keep, MOST, state } from "./state.js";

const COLUMNS = [
  { name: "label", title: "Run", words: true },
  { name: "state", title: "State", words: true },
  { name: "mean", title: "Mean" },
  { name: "worst", title: "Worst" },
  { name: "round", title: "Round" },
  { name: "method", title: "Method", words: true },
  { name: "data", title: "Data", words: true },
  { name: "model", title: "Model", words: true },
  { name: "seed", title: "Seed" },
  { name: "updated", title: "Updated" },
];
let asking = false;
let askAgain = false;
let act = null; // {choose(run, on), open(run)}

export function start(actions) {
  act = actions;
  headings(byId("heads"), COLUMNS, sortBy);
  byId("search").value = state.search;
  byId("search").addEventListener("input", (event) => go({ search: event.target.value, page: 0 }));
  byId("previous").addEventListener("click", () => go({ page: state.page - 1 }));
  byId("next").addEventListener("click", () => go({ page: state.page + 1 }));
}

function sortBy(name) {
  const words = COLUMNS.find((column) => column.name === name).words;
  go({ sort: name, falling: state.sort === name ? !state.falling : !words, page: 0 });
}

function go(change) {
  Object.assign(state, change);
  keep();
  refresh();
}

// One question at a time; changes meanwhile make it ask once more.
export async function refresh() {
  askAgain = asking;
  if (asking) return;
  asking = true;
  const asked = new URLSearchParams({
    search: state.search, sort: state.sort, page: state.page,
    order: state.falling ? "falling" : "rising",
  });
  try {
    const answer = await fetch(`/api/runs?${asked}`);
    if (answer.ok) show(await answer.json());
  } catch {
    askAgain = false; // The stream tells that the connection is lost, and calls when it is back.
  } finally {
    asking = false;
  }
  if (askAgain) refresh();
}

function show(found) {
  write(byId("folder"), found.folder);
  markSorted(byId("heads"), state.sort, state.falling);
  const last = found.from + found.runs.length;
  const shown = found.runs.length === 1 ? last : `${found.from + 1}–${last}`;
  const range = found.matching ? `${shown} of ${found.matching}` : "none";
  write(byId("count"), found.matching < found.total ? `${range} (${found.total} in all)` : range);
  if (!askAgain) state.page = found.page;
  byId("previous").parentNode.hidden = found.pages === 1;
  byId("previous").disabled = found.page === 0;
  byId("next").disabled = found.page + 1 >= found.pages;
  fill(byId("runs"), found.runs, (run) => run.id, make, change);
  const hint = found.total
    ? "No run matches all of these words."
    : "No runs in this folder yet. fedplus run writes them; they appear here by themselves.";
  byId("nothing").hidden = found.runs.length > 0;
  write(byId("nothing"), hint);
}

function make(run) {
  const box = element("input", { type: "checkbox" });
  box.addEventListener("change", () => act.choose(run.id, box.checked));
  const name = element("button", { type: "button" });
  name.addEventListener("click", () => act.open(run.id));
  const cells = COLUMNS.map(({ words }) => element("td", { className: words ? "words" : "" }));
  cells[0].append(name, element("small", { textContent: run.id, title: run.id }));
  cells[1].append(element("span", { className: "state" }), element("small", { className: "why" }));
  cells[4].classList.add("bar-of");
  cells[4].append(element("span"), element("i"));
  const row = element("tr", {}, element("td", {}, box), ...cells);
  row.dataset.run = run.id;
  return row;
}

function change(row, run) {
  const [drawn, label, status, mean, worst, round, method, data, model, seed, updated] = row.cells;
  const box = drawn.firstChild;
  box.setAttribute("aria-label", `Draw ${run.label}, ${run.id}`);
  box.checked = state.runs.includes(run.id);
  box.disabled = !box.checked && state.runs.length >= MOST;
  row.classList.toggle("chosen", run.id === state.open);
  write(label.firstChild, run.label);
  mark(status.firstChild, run.state);
  say(status.lastChild, run.message);
  status.title = run.message;
  write(round.firstChild, `${number(run.round)} / ${number(run.rounds)}`);
  const done = run.rounds ? Math.min(1, (run.round || 0) / run.rounds) : 0;
  round.lastChild.hidden = done === 1 || !run.rounds;
  round.lastChild.style.setProperty("--done", `${100 * done}%`);
  write(mean, score(run.mean, run));
  write(worst, score(run.worst, run));
  write(method, run.method);
  write(data, run.data);
  write(model, run.model);
  write(seed, number(run.seed));
  write(updated, moment(run.updated));
  updated.title = run.updated;
}
