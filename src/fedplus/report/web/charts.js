// Draws Plotly charts with the light or dark theme, the width of their box and an ARIA label.
"use strict";
const Charts = (() => {
  const drawn = new Map(); // element -> {traces, layout}
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const touch = window.matchMedia("(pointer: coarse)"); // On touch screens a drag scrolls the page.
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // COLOURS is the content of colours.json, which the page defines before this script.
  function colour(method, index = 0) {
    const others = COLOURS.others;
    return lighten(COLOURS.methods[method] || others[index % others.length]);
  }

  // In the dark theme, dark colours are mixed with white until they are visible.
  function lighten(hex) {
    if (css("color-scheme") !== "light" && dark.matches) {
      const rgb = parts(hex);
      const light = (0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2]) / 255;
      const white = Math.max(0, (0.36 - light) / (1 - light));
      return "#" + rgb.map((c) => Math.round(c + (255 - c) * white).toString(16).padStart(2, "0")).join("");
    }
    return hex;
  }

  const parts = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));

  function faded(hex, alpha) {
    const [r, g, b] = parts(hex);
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
      legend: { orientation: "h", y: -0.2 }, dragmode: touch.matches ? false : "zoom",
      hoverlabel: { bgcolor: css("--panel"), bordercolor: css("--line"), font: { color: css("--ink") } },
      ...rest, xaxis: axis(xaxis), yaxis: axis(yaxis),
    };
  }

  function show(element) {
    const { traces, layout } = drawn.get(element);
    const now = typeof traces === "function" ? traces() : traces;
    return Plotly.react(element, now, themed(layout), {
      responsive: true, displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d"],
    });
  }

  // Draws or redraws a chart; the label describes it for screen readers. Give traces with colours of
  // the theme as a function, which is called again when the theme changes.
  function draw(element, traces, layout, label) {
    element.setAttribute("role", "img");
    element.setAttribute("aria-label", label);
    drawn.set(element, { traces, layout });
    return show(element);
  }

  // Redraws all charts, with a fixed width in pixels if one is given (for printing).
  function redraw(width) {
    drawn.forEach((chart, element) => {
      chart.layout = { ...chart.layout, width, autosize: width === undefined };
      show(element);
    });
  }

  dark.addEventListener("change", () => drawn.forEach((_, element) => show(element)));
  return { draw, redraw, colour, faded, css };
})();
