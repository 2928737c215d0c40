// The learning curves of the chosen runs, in one chart.
import { byId, scoreFactor, showText, scoreTitle } from "./dom.js";
import { draw, plain } from "./plots.js";
import { state } from "./state.js";
import { runData } from "./stream.js";

const COLUMN = { mean: 1, worst: 2, global: 3, loss: 4 };
const DESCRIPTIONS = { mean: "mean score", worst: "worst party's score", global: "global model's score", loss: "mean loss" };
const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];

// Returns the names of the curves; runs with the same label and seed also get their paths.
function names(runs) {
  const short = runs.map((run) => {
    const { row } = runData(run);
    return row ? `${row.label} · seed ${row.seed ?? "–"}` : run;
  });
  return short.map((name, i) => (short.indexOf(name) === short.lastIndexOf(name) ? name : `${name} · ${runs[i]}`));
}

export function show() {
  const runs = state.runs;
  byId("curves-hint").hidden = runs.length > 0;
  byId("curves").hidden = runs.length === 0;
  byId("clear").disabled = runs.length === 0;
  const troubles = runs.map((run) => runData(run).trouble).filter(Boolean);
  showText(byId("curves-trouble"), troubles.join(" "));
  if (!runs.length) return;
  const runsPerMethod = new Map(); // Runs of the same method differ by the dashes of their lines.
  const curveNames = names(runs);
  const traces = runs.map((run, index) => {
    const { points, row } = runData(run);
    const method = row ? row.method : "";
    const nth = runsPerMethod.get(method) || 0;
    runsPerMethod.set(method, nth + 1);
    const factor = state.show === "loss" ? 1 : scoreFactor(row);
    const y = points.map((point) => point[COLUMN[state.show]]);
    return {
      x: points.map((point) => point[0]),
      y: y.map((value) => (value === null ? null : factor * value)),
      name: plain(curveNames[index]),
      hovertext: plain(run), hovertemplate: "%{y:.4g} at round %{x}<br>%{hovertext}",
      type: "scatter", mode: points.length < 3 ? "lines+markers" : "lines",
      line: { color: Charts.colour(method, index), dash: DASHES[nth % DASHES.length], width: 2.2 },
    };
  });
  const titles = new Set(runs.map((run) => runData(run).row).filter(Boolean).map(scoreTitle));
  const title = state.show === "loss" ? "loss" : titles.size === 1 ? plain([...titles][0]) : "score";
  const layout = {
    height: 380, uirevision: `${state.show} ${runs.join("\n")}`,
    xaxis: { title: { text: "round" } }, yaxis: { title: { text: title } }, showlegend: true,
  };
  draw(byId("curves"), traces, layout, `Learning curves, ${DESCRIPTIONS[state.show]}, of ${runs.length} runs.`);
}
