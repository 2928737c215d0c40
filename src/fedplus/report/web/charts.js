// Plotly in our look: light and dark, the width of its box, a label for screen readers.
"use strict";
const Charts = (() => {
  const drawn = new Map(); // element -> {traces, layout}
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // COLOURS is colours.json, put on the page before this script.
  function colour(method, index = 0) {
    const others = COLOURS.others;
    return COLOURS.methods[method] || others[index % others.length];
  }

  function faded(hex, alpha) {
    const [r, g, b] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
    return `rgba(${r},${g},${b},${alpha})`;
  }

  function axis(given) {
    return {
      gridcolor: css("--line"), linecolor: css("--line"), zerolinecolor: css("--line"),
      automargin: true, ...given, title: { standoff: 8, ...(given || {}).title },
    };
  }

  function themed(layout) {
    const { xaxis, yaxis, ...rest } = layout;
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: css("--font"), color: css("--ink"), size: 13 },
      margin: { l: 56, r: 16, t: 16, b: 48 }, height: 360, hovermode: "closest",
      legend: { orientation: "h", y: -0.2 },
      ...rest, xaxis: axis(xaxis), yaxis: axis(yaxis),
    };
  }

  function show(element) {
    const { traces, layout } = drawn.get(element);
    return Plotly.react(element, traces, themed(layout), {
      responsive: true, displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d"],
    });
  }

  // Draw, or draw anew, and say in words what is to be seen.
  function draw(element, traces, layout, label) {
    element.setAttribute("role", "img");
    element.setAttribute("aria-label", label);
    drawn.set(element, { traces, layout });
    return show(element);
  }

  dark.addEventListener("change", () => drawn.forEach((_, element) => show(element)));
  return { draw, colour, faded, css };
})();
