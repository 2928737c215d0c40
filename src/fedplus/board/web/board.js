// The board: what a click does, and what news change.
import { byId, mark } from "./dom.js";
import { keep, restore, state } from "./state.js";
import { connect, disconnect, forget } from "./stream.js";
import * as curves from "./curves.js";
import * as list from "./list.js";
import * as run from "./run.js";

const CONNECTION = { live: "live", lost: "connection lost, trying again" };
const on = {
  connection(now) {
    mark(byId("connection"), CONNECTION[now]);
    byId("connection").dataset.state = now;
  },
  list: () => list.refresh(),
  run(id) {
    if (state.runs.includes(id)) curves.show();
    if (id === state.open) run.show();
  },
};

// Anything that was looked at changed: the address, the stream and the page follow.
function changed() {
  keep();
  connect(on);
  list.refresh();
  curves.show();
}

function choose(id, chosen) {
  state.runs = state.runs.filter((one) => one !== id);
  if (chosen) state.runs.push(id);
  changed();
}

function open(id) {
  if (id !== null) forget(id);
  Object.assign(state, { open: id, party: null });
  changed();
  run.opened();
  if (id !== null && window.innerWidth <= 1000) byId("run-title").scrollIntoView({ block: "start" });
}

function openParty(index) {
  state.party = index;
  forget(state.open);
  changed();
  run.show();
}

restore();
list.start({ choose, open });
run.start({ party: openParty });
byId("show").value = state.show;
byId("show").addEventListener("change", (event) => {
  state.show = event.target.value;
  keep();
  curves.show();
});
byId("clear").addEventListener("click", () => {
  state.runs = [];
  changed();
});
byId("close").addEventListener("click", () => open(null));
// A browser grants a host few connections: pages that nobody sees give theirs back.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) disconnect();
  else connect(on);
});
list.refresh();
curves.show();
run.opened();
connect(on);
