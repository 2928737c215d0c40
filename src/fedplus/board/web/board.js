// The entry point of the board: handles clicks, and updates the page after events.
import { byId, showState } from "./dom.js";
import { saveState, restoreState, state } from "./state.js";
import { connect, disconnect, resetRun } from "./stream.js";
import * as curves from "./curves.js";
import * as list from "./list.js";
import * as run from "./run.js";

const CONNECTION = { live: "live", lost: "connection lost, trying again" };
const on = {
  connection(now) {
    showState(byId("connection"), CONNECTION[now]);
    byId("connection").dataset.state = now;
  },
  list: () => list.refresh(),
  run(id) {
    if (state.runs.includes(id)) curves.show();
    if (id === state.open) run.show();
  },
};

// Call this after the selection has changed: updates the address, the event stream and the page.
function applySelection() {
  saveState();
  connect(on);
  list.refresh();
  curves.show();
}

function choose(id, isChosen) {
  state.runs = state.runs.filter((other) => other !== id);
  if (isChosen) state.runs.push(id);
  applySelection();
}

function open(id) {
  if (id !== null) resetRun(id);
  Object.assign(state, { open: id, party: null });
  applySelection();
  run.opened();
  if (id !== null && window.innerWidth <= 1000) byId("run-title").scrollIntoView({ block: "start" });
}

function openParty(index) {
  state.party = index;
  resetRun(state.open);
  applySelection();
  run.show();
}

restoreState();
list.start({ choose, open });
run.start({ party: openParty });
byId("show").value = state.show;
byId("show").addEventListener("change", (event) => {
  state.show = event.target.value;
  saveState();
  curves.show();
});
byId("clear").addEventListener("click", () => {
  state.runs = [];
  applySelection();
});
byId("close").addEventListener("click", () => open(null));
// A browser allows few connections per host, so hidden pages close theirs.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) disconnect();
  else connect(on);
});
list.refresh();
curves.show();
run.opened();
connect(on);
