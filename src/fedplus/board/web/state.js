// The selection of the page, stored in the address so that a reload shows the same.
export const state = {
  search: "", sort: "updated", descending: true, page: 0,
  runs: [], open: null, party: null, show: "mean",
};
export const MAX_RUNS = 30;

export function restoreState() {
  const saved = new URLSearchParams(location.hash.slice(1));
  state.search = saved.get("search") || "";
  state.sort = saved.get("sort") || state.sort;
  state.descending = saved.get("order") !== "rising";
  state.page = Number.parseInt(saved.get("page"), 10) || 0;
  state.runs = [...new Set(saved.getAll("run"))].slice(0, MAX_RUNS);
  state.open = saved.get("open");
  const party = Number.parseInt(saved.get("party"), 10);
  state.party = state.open !== null && party >= 0 ? party : null;
  if (["mean", "worst", "global", "loss"].includes(saved.get("show"))) state.show = saved.get("show");
}

export function saveState() {
  const saved = new URLSearchParams();
  if (state.search) saved.set("search", state.search);
  saved.set("sort", state.sort);
  if (!state.descending) saved.set("order", "rising");
  if (state.page) saved.set("page", state.page);
  for (const run of state.runs) saved.append("run", run);
  if (state.open !== null) saved.set("open", state.open);
  if (state.party !== null) saved.set("party", state.party);
  if (state.show !== "mean") saved.set("show", state.show);
  history.replaceState(null, "", `#${saved}`);
}
