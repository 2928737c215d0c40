// Draws charts in the next frame; Plotly is loaded with the first chart.
let loading = null;
const pending = new Map(); // element -> [traces, layout, label]

function loadPlotly() {
  loading ||= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = document.body.dataset.plotly;
    script.onload = resolve;
    script.onerror = reject;
    document.head.append(script);
  });
  return loading;
}

export async function draw(box, traces, layout, label) {
  const first = pending.size === 0;
  pending.set(box, [traces, layout, label]);
  if (!first) return;
  try {
    await loadPlotly();
  } catch {
    loading = null; // The connection is lost; the next event draws again.
    pending.clear();
    return;
  }
  requestAnimationFrame(() => {
    for (const [element, chart] of pending) Charts.draw(element, ...chart);
    pending.clear();
  });
}

// Plotly interprets some HTML in names, so names of runs are escaped.
export const plain = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
