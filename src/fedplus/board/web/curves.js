// Learning curves of the chosen runs, one over the other.
import { byId, factor, say, scoreTitle } from "./dom.js";
import { draw, plain } from "./plots.js";
import { state } from "./state.js";
import { about } from "./stream.js";

const COLUMN = { mean: 1, worst: 2, global: 3, loss: 4 };
const WORDS = { mean: "mean score", worst: "worst party's score", global: "global model's score", loss: "mean loss" };
const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];

// Two runs of one label and seed are told apart by their paths.
function names(runs) {
  const short = runs.map((run) => {
    const { row } = about(run);
    return row ? `${row.label} · seed ${row.seed ?? "–"}` : run;
  });
  return short.map((name, i) => (short.indexOf(name) === short.lastIndexOf(name) ? name : `${name} · ${runs[i]}`));
}

export function show() {
  const runs = state.runs;
  byId("curves-hint").hidden = runs.length > 0;
  byId("curves").hidden = runs.length === 0;
  byId("clear").disabled = runs.length === 0;
  const troubles = runs.map((run) => about(run).trouble).filter(Boolean);
  say(byId("curves-trouble"), troubles.join(" "));
  if (!runs.length) return;
  const before = new Map(); // How many runs of each method were drawn: they differ by their dashes.
  const called = names(runs);
  const traces = runs.map((run, index) => {
    const { points, row } = about(run);
    const method = row ? row.method : "";
    const nth = before.get(method) || 0;
    before.set(method, nth + 1);
    const times = state.show === "loss" ? 1 : factor(row);
    const y = points.map((point) => point[COLUMN[state.show]]);
    return {
      x: points.map((point) => point[0]),
      y: y.map((value) => (value === null ? null : times * value)),
      name: plain(called[index]),
      hovertext: plain(run), hovertemplate: "%{y:.4g} at round %{x}<br>%{hovertext}",
      type: "scatter", mode: points.length < 3 ? "lines+markers" : "lines",
      line: { color: Charts.colour(method, index), dash: DASHES[nth % DASHES.length], width: 2.2 },
    };
  });
  const titles = new Set(runs.map((run) => about(run).row).filter(Boolean).map(scoreTitle));
  const title = state.show === "loss" ? "loss" : titles.size === 1 ? plain([...titles][0]) : "score";
  const layout = {
    height: 380, uirevision: `${state.show} ${runs.join("\n")}`,
    xaxis: { title: { text: "round" } }, yaxis: { title: { text: title } }, showlegend: true,
  };
  draw(byId("curves"), traces, layout, `Learning curves, ${WORDS[state.show]}, of ${runs.length} runs.`);
}
