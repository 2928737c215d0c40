// The list of runs. The server searches, sorts and splits it into pages.
import { byId, element, updateRows, addHeadings, showState, markSorted, formatTime, formatNumber, showText, formatScore, setText } from "./dom.js";
import { saveState, MAX_RUNS, state } from "./state.js";

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
let isLoading = false;
let loadAgain = false;
let actions = null; // {choose(run, on), open(run)}

export function start(given) {
  actions = given;
  addHeadings(byId("heads"), COLUMNS, sortBy);
  byId("search").value = state.search;
  byId("search").addEventListener("input", (event) => go({ search: event.target.value, page: 0 }));
  byId("previous").addEventListener("click", () => go({ page: state.page - 1 }));
  byId("next").addEventListener("click", () => go({ page: state.page + 1 }));
}

function sortBy(name) {
  const words = COLUMNS.find((column) => column.name === name).words;
  go({ sort: name, descending: state.sort === name ? !state.descending : !words, page: 0 });
}

function go(change) {
  Object.assign(state, change);
  saveState();
  refresh();
}

// Loads the list. Only one request is open at a time; a change in the meantime causes another one.
export async function refresh() {
  loadAgain = isLoading;
  if (isLoading) return;
  isLoading = true;
  const query = new URLSearchParams({
    search: state.search, sort: state.sort, page: state.page,
    order: state.descending ? "falling" : "rising",
  });
  try {
    const response = await fetch(`/api/runs?${query}`);
    if (response.ok) show(await response.json());
  } catch {
    loadAgain = false; // The event stream shows the lost connection, and refreshes the list later.
  } finally {
    isLoading = false;
  }
  if (loadAgain) refresh();
}

function show(page) {
  setText(byId("folder"), page.folder);
  markSorted(byId("heads"), state.sort, state.descending);
  const last = page.from + page.runs.length;
  const shown = page.runs.length === 1 ? last : `${page.from + 1}–${last}`;
  const range = page.matching ? `${shown} of ${page.matching}` : "none";
  setText(byId("count"), page.matching < page.total ? `${range} (${page.total} in all)` : range);
  if (!loadAgain) state.page = page.page;
  byId("previous").parentNode.hidden = page.pages === 1;
  byId("previous").disabled = page.page === 0;
  byId("next").disabled = page.page + 1 >= page.pages;
  updateRows(byId("runs"), page.runs, (run) => run.id, make, change);
  const hint = page.total
    ? "No run matches all of these words."
    : "No runs in this folder yet. fedplus run writes them; they appear here automatically.";
  byId("nothing").hidden = page.runs.length > 0;
  setText(byId("nothing"), hint);
}

function make(run) {
  const box = element("input", { type: "checkbox" });
  box.addEventListener("change", () => actions.choose(run.id, box.checked));
  const name = element("button", { type: "button" });
  name.addEventListener("click", () => actions.open(run.id));
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
  box.disabled = !box.checked && state.runs.length >= MAX_RUNS;
  row.classList.toggle("chosen", run.id === state.open);
  setText(label.firstChild, run.label);
  showState(status.firstChild, run.state);
  showText(status.lastChild, run.message);
  status.title = run.message;
  setText(round.firstChild, `${formatNumber(run.round)} / ${formatNumber(run.rounds)}`);
  const progress = run.rounds ? Math.min(1, (run.round || 0) / run.rounds) : 0;
  round.lastChild.hidden = progress === 1 || !run.rounds;
  round.lastChild.style.setProperty("--done", `${100 * progress}%`);
  setText(mean, formatScore(run.mean, run));
  setText(worst, formatScore(run.worst, run));
  setText(method, run.method);
  setText(data, run.data);
  setText(model, run.model);
  setText(seed, formatNumber(run.seed));
  setText(updated, formatTime(run.updated));
  updated.title = run.updated;
}
