// One function per kind of chart: converts the data of report_data.py to Plotly's traces and layout.
"use strict";
const Figures = (() => {
  const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "x", "star", "pentagon", "cross"];
  const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
  // Plotly interprets some HTML in texts, so names are escaped.
  const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const short = (text, most = 18) => plain(text.length > most ? text.slice(0, most - 1) + "…" : text);
  const marked = (names, outliers) => names.map((n) => (outliers.includes(n) ? "◆ " : "") + short(n));

  const logarithmic = (chart) => (chart.log ? { type: "log", dtick: "D2" } : { type: "linear" });

  function lines(chart) {
    const traces = () => chart.lines.flatMap((line) => {
      const colour = Charts.colour(line.colour, line.index);
      const name = short(line.label, 40);
      const drawn = {
        type: "scatter", name, legendgroup: name, x: line.x, y: line.y,
        mode: line.x.length > 30 ? "lines" : "lines+markers",
        line: { color: colour, width: 2, dash: line.colour ? "solid" : DASHES[line.index % DASHES.length] },
        marker: { symbol: SYMBOLS[line.index % SYMBOLS.length], size: 6 },
        hovertemplate: `%{y:.4g} at %{x}<extra>${name}</extra>`,
      };
      return line.spread ? [band(line, colour, name), drawn] : [drawn];
    });
    return [traces, {
      xaxis: { title: { text: chart.x } },
      yaxis: {
        title: { text: chart.y }, type: chart.log ? "log" : "linear",
        ...(chart.log ? { exponentformat: "power", minor: { ticks: "" } } : {}),
      },
      showlegend: true,
    }];
  }

  function band(line, colour, name) {
    const high = line.y.map((y, i) => y + (line.spread[i] || 0));
    const low = line.y.map((y, i) => y - (line.spread[i] || 0));
    return {
      type: "scatter", name: `${name} ± s.d.`, legendgroup: name, showlegend: false, hoverinfo: "skip",
      x: [...line.x, ...[...line.x].reverse()], y: [...high, ...low.reverse()],
      mode: "lines", fill: "toself", fillcolor: Charts.faded(colour, 0.18), line: { width: 0 },
    };
  }

  // Labels every row, or evenly spaced ones if there are more than `most` rows.
  function rowTicks(names, outliers, most = 45) {
    const step = Math.ceil(names.length / most);
    const all = marked(names, outliers);
    const shown = names.map((_, i) => i).filter((i) => i % step === 0);
    return { tickmode: "array", tickvals: shown, ticktext: shown.map((i) => all[i]) };
  }

  // For a logarithmic scale, colours show log10, and the colour bar shows the numbers themselves.
  function scaled(chart) {
    const known = chart.z.flat().filter((z) => z !== null);
    if (!chart.log) return { z: chart.z, bar: {} };
    const [low, high] = [Math.min(...known), Math.max(...known)];
    const ticks = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += 1) {
      ticks.push(...[1, 2, 5].map((n) => n * 10 ** power).filter((t) => t >= low && t <= high));
    }
    return {
      z: chart.z.map((row) => row.map((z) => (z === null ? null : Math.log10(z)))),
      bar: { tickmode: "array", tickvals: ticks.map(Math.log10), ticktext: ticks.map((t) => String(Number(t.toPrecision(1)))) },
    };
  }

  function heat(chart) {
    const { z, bar } = scaled(chart);
    const text = chart.y.map((name) => chart.x.map(() => short(name, 60)));
    const traces = () => [{
      type: "heatmap", x: chart.x, y: chart.y.map((_, i) => i), z, text, customdata: chart.z,
      colorscale: "Viridis", reversescale: chart.reverse, xgap: chart.x.length > 60 ? 0 : 1,
      ygap: chart.y.length > 60 ? 0 : 1,
      colorbar: {
        thickness: 10, outlinewidth: 0, xpad: 4, ...bar, title: { text: chart.unit, side: "right" },
      },
      hovertemplate: "%{text}: %{customdata:.4g} after round %{x}<extra></extra>",
    }];
    return [traces, {
      height: Math.min(1000, Math.max(260, 18 * chart.y.length + 90)),
      xaxis: { title: { text: "round" }, showgrid: false },
      yaxis: { ...rowTicks(chart.y, chart.outliers), showgrid: false, zeroline: false },
    }];
  }

  function dumbbell(chart) {
    const at = chart.names.map((_, i) => i);
    const { personal } = chart.values;
    const from = chart.values[chart.from];
    const sticks = (some, colour, name) => ({
      type: "scatter", mode: "lines", name, hoverinfo: "skip", line: { color: colour, width: 3 },
      x: some.flatMap((i) => [from[i], personal[i], null]), y: some.flatMap((i) => [i, i, null]),
    });
    const looks = {
      local: ["local SGD", "circle-open", "--muted"], global: ["global model", "diamond-open", "--muted"],
      personal: ["personal model", "circle", "--ink"],
    };
    const dots = (key) => ({
      type: "scatter", mode: "markers", name: looks[key][0], x: chart.values[key], y: at,
      marker: { symbol: looks[key][1], size: 9, color: Charts.css(looks[key][2]), line: { width: 2 } },
      text: chart.names.map((name) => short(name, 60)),
      hovertemplate: `%{text}: %{x:.4g}<extra>${looks[key][0]}</extra>`,
    });
    const traces = () => {
      const gains = (i) => chart.gains[i] > 0;
      return [
        sticks(at.filter(gains), Charts.css("--accent"), "gains"),
        sticks(at.filter((i) => !gains(i)), Charts.css("--bad"), "loses"),
        ...["local", "global", "personal"].filter((key) => chart.values[key]).map(dots),
      ];
    };
    return [traces, {
      height: 20 * at.length + 150, showlegend: true,
      xaxis: { title: { text: chart.unit }, ...logarithmic(chart) },
      yaxis: { ...rowTicks(chart.names, chart.outliers, 80), range: [-0.8, at.length - 0.2], zeroline: false },
      legend: { orientation: "h", x: 0, y: 1, yanchor: "bottom" },
    }];
  }

  function spread(chart) {
    const names = { personal: "personal", global: "global", local: "local SGD" };
    const traces = () => chart.boxes.map((box) => {
      const [low, q1, middle, q3, high] = box.fences;
      const colour = Charts.css(box.name === "personal" ? "--accent" : "--muted");
      return {
        type: "box", orientation: "h", name: names[box.name], y: [names[box.name]], x: [box.points],
        lowerfence: [low], q1: [q1], median: [middle], q3: [q3], upperfence: [high],
        boxpoints: "all", jitter: 0.7, pointpos: 0, marker: { color: colour, size: 4, opacity: 0.5 },
        line: { color: colour }, hoverinfo: "x", showlegend: false,
      };
    });
    return [traces, {
      height: 70 * chart.boxes.length + 80, xaxis: { title: { text: chart.unit }, ...logarithmic(chart) },
      yaxis: { autorange: "reversed" },
    }];
  }

  function norms(chart) {
    const grey = () => Charts.faded(Charts.css("--muted"), 0.45);
    const traces = () => {
      const many = chart.lines.filter((line) => line.outlier).length > 6;
      const shown = new Set();
      const first = (group) => !shown.has(group) && Boolean(shown.add(group));
      const bad = Charts.css("--bad");
      const parties = chart.lines.map((line) => ({
        type: "scatter", mode: "lines", x: chart.x, y: line.y,
        ...grouped(line, many, chart.quantiles, first),
        line: line.outlier
          ? { color: many ? Charts.faded(bad, 0.5) : bad, width: many ? 1.2 : 2.5 }
          : { color: grey(), width: 1.2 },
        hovertemplate: `%{y:.4g} after round %{x}<extra>${short(line.name, 60)}</extra>`,
      }));
      return [...ranges(chart), ...parties];
    };
    return [traces, {
      xaxis: { title: { text: "round" } }, yaxis: { title: { text: "‖v<sub>k</sub>‖" }, rangemode: "tozero" }, showlegend: true,
    }];
  }

  // The legend has one entry for all other parties, and one for all outliers if there are many.
  function grouped(line, many, largest, first) {
    const group = line.outlier ? (many ? "outliers" : `◆ ${short(line.name)}`)
      : largest ? "the largest" : "other parties";
    return { name: group, legendgroup: group, showlegend: first(group) };
  }

  function ranges(chart) {
    if (!chart.quantiles) return [];
    const [low, q1, middle, q3, high] = chart.quantiles;
    const colour = Charts.css("--accent");
    const area = (below, above, alpha, name) => ({
      type: "scatter", mode: "lines", line: { width: 0 }, fill: "toself", name, hoverinfo: "skip",
      fillcolor: Charts.faded(colour, alpha), x: [...chart.x, ...[...chart.x].reverse()],
      y: [...above, ...[...below].reverse()],
    });
    return [
      area(low, high, 0.15, "5 to 95 % of all"), area(q1, q3, 0.25, "the middle half"),
      { type: "scatter", mode: "lines", x: chart.x, y: middle, name: "median", line: { color: colour, width: 2 } },
    ];
  }

  const kinds = { lines, heat, dumbbell, spread, norms };
  const draw = (element, chart) => Charts.draw(element, ...kinds[chart.kind](chart), chart.alt_text);
  return { draw };
})();
