// The history of one party over the rounds.
import { byId, scoreFactor, scoreTitle, setText } from "./dom.js";
import { draw, plain } from "./plots.js";
import { state } from "./state.js";
import { runData } from "./stream.js";

const [ROUND, PERSONAL, GLOBAL, LOSS, NORM] = [0, 1, 2, 3, 4];

export function show(parties) {
  const name = parties && state.party !== null ? parties.names[state.party] : undefined;
  byId("party-box").hidden = name === undefined;
  if (name === undefined) return;
  setText(byId("party-title"), `Party ${name}`);
  const { party, row } = runData(state.open);
  const factor = scoreFactor(row);
  const method = row ? row.method : "";
  const rounds = party.map((point) => point[ROUND]);
  const line = (column, title, colour, by = 1, dash = "solid") => ({
    x: rounds, y: party.map((point) => (point[column] === null ? null : by * point[column])),
    name: title, type: "scatter", mode: rounds.length < 3 ? "lines+markers" : "lines",
    line: { color: colour, width: 2.2, dash }, hovertemplate: `%{y:.4g} at round %{x}<extra>${title}</extra>`,
  });
  const scores = [
    line(PERSONAL, "personal", Charts.colour(method), factor),
    line(GLOBAL, "global", Charts.css("--muted"), factor, "dash"),
  ];
  const local = parties.local?.[state.party];
  if (Number.isFinite(local) && rounds.length) {
    const ends = [rounds[0], rounds[rounds.length - 1]];
    scores.push({
      x: ends, y: [factor * local, factor * local], name: "local", type: "scatter", mode: "lines",
      line: { color: Charts.css("--muted"), width: 1.5, dash: "dot" },
      hovertemplate: "%{y:.4g} on its own<extra>local</extra>",
    });
  }
  const description = `of party ${name} over ${rounds.length} evaluated rounds.`;
  const title = row ? plain(scoreTitle(row)) : "score";
  plot("party-score", scores, title, 260, true, `Personal, global and local score ${description}`);
  const colour = Charts.css("--accent");
  plot("party-loss", [line(LOSS, "loss", colour)], "loss", 190, false, `Loss ${description}`);
  plot("party-norm", [line(NORM, "‖v‖", colour)], "‖v‖", 190, false, `Norm of the personal part ${description}`, "nonnegative");
}

function plot(id, traces, title, height, showlegend, label, rangemode = "normal") {
  const layout = {
    height, showlegend, uirevision: `${state.open} ${state.party}`,
    xaxis: { title: { text: "round" } }, yaxis: { title: { text: title }, rangemode }, legend: { orientation: "h", y: 1.15 },
  };
  draw(byId(id), traces, layout, label);
}
