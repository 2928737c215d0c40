// Draws in the next frame, and brings Plotly only when there is something to draw.
let loading = null;
const waiting = new Map();

function plotly() {
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
  const first = waiting.size === 0;
  waiting.set(box, [traces, layout, label]);
  if (!first) return;
  try {
    await plotly();
  } catch {
    loading = null; // The connection is lost; the next news draw again.
    waiting.clear();
    return;
  }
  requestAnimationFrame(() => {
    for (const [where, what] of waiting) Charts.draw(where, ...what);
    waiting.clear();
  });
}

// Plotly reads a little HTML in names; names of runs are text.
export const plain = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
