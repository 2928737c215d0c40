// What the page shows, kept in the address so that a reload shows the same.
export const state = {
  search: "", sort: "updated", falling: true, page: 0,
  runs: [], open: null, party: null, show: "mean",
};
export const MOST = 30;

export function restore() {
  const kept = new URLSearchParams(location.hash.slice(1));
  state.search = kept.get("search") || "";
  state.sort = kept.get("sort") || state.sort;
  state.falling = kept.get("order") !== "rising";
  state.page = Number.parseInt(kept.get("page"), 10) || 0;
  state.runs = [...new Set(kept.getAll("run"))].slice(0, MOST);
  state.open = kept.get("open");
  const party = Number.parseInt(kept.get("party"), 10);
  state.party = state.open !== null && party >= 0 ? party : null;
  if (["mean", "worst", "global", "loss"].includes(kept.get("show"))) state.show = kept.get("show");
}

export function keep() {
  const kept = new URLSearchParams();
  if (state.search) kept.set("search", state.search);
  kept.set("sort", state.sort);
  if (!state.falling) kept.set("order", "rising");
  if (state.page) kept.set("page", state.page);
  for (const run of state.runs) kept.append("run", run);
  if (state.open !== null) kept.set("open", state.open);
  if (state.party !== null) kept.set("party", state.party);
  if (state.show !== "mean") kept.set("show", state.show);
  history.replaceState(null, "", `#${kept}`);
}
